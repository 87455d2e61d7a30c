//! Limits: size, depth, work and stack.

use ringfence_bash::{ErrorKind, MAX_BYTES, MAX_DEPTH, Options, parse, parse_counting, parse_with};

/// What is nested, as opening and closing text.
const NESTED: &[(&str, &str)] = &[
    ("(", ")"),
    ("((", "))"),
    ("( ", ")"),
    ("$(", ")"),
    ("$((", "))"),
    ("\"$(", ")\""),
    ("`", "`"),
    ("${x:-", "}"),
    ("\"${x:-", "}\""),
    ("{ ", ";}"),
    ("{a,", "}"),
    ("{", ",a}"),
    ("[", "]"),
    ("a[", "]=1"),
    ("${a[", "]}"),
    ("<(", ")"),
    ("a=(", ")"),
    ("if ", "; then :; fi"),
    ("while ", "; do :; done"),
    ("case x in x) ", ";; esac"),
    ("[[ (", ") ]]"),
    ("! ", ""),
    ("f() { ", ";}"),
    ("coproc ", ""),
    ("coproc $(", ")"),
    ("$[", "]"),
    ("@(", ")"),
    ("\"", "\""),
    ("'", "'"),
    ("cat <<E\n$(", ")\nE\n"),
    ("$(cat <<E\n", "\nE\n)"),
    ("(( $(", ") ))"),
    ("${x#", "}"),
    ("((a);", ")"),
    ("$((a);", ")"),
    ("time ", ""),
    ("a && ", ""),
    ("a | ", ""),
    ("elif ", ""),
    ("{a[$(", ")]}>x"),
    ("a[x $(", ")] y"),
    ("x=$(", ")"),
    ("\\`", "\\`"),
    ("${ ", "; }"),
    (">$(", ")"),
    ("<<<$(", ")"),
    ("declare x=($(", "))"),
    ("[[ a =~ (", ") ]]"),
    ("<<$(", ")"),
    ("<<-E\n", "\nE\n"),
    ("\\\n", ""),
    ("#\n", ""),
    ("<<E ", ""),
    ("$(( ' ", " ' ))"),
];

const MOST_STEPS_PER_BYTE: u64 = 64;

fn nest(open: &str, close: &str, times: usize) -> String {
    format!("{}a{}", open.repeat(times), close.repeat(times))
}

/// Runs `work` on a thread with the stack that Rust gives threads by default.
fn on_small_stack<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap().join().unwrap()
}

#[test]
fn deep_nesting_ends_in_an_error_not_in_a_crash() {
    on_small_stack(|| {
        for (open, close) in NESTED {
            for times in [1, 2, 8, 20, 30, 40, 62, 63, 64, 65, 100, 1_000, 5_000] {
                // The tree is walked and dropped here as well.
                if let Ok(script) = parse(&nest(open, close, times)) {
                    let _ = script.simple_commands().len() + script.unsupported().len();
                }
            }
        }
    });
}

#[test]
fn mixed_nesting_at_the_limit_fits_the_stack() {
    on_small_stack(|| {
        let mut deepest = 0;
        for (open, close) in NESTED {
            for (open2, close2) in NESTED {
                for times in (8..=MAX_DEPTH / 2).rev() {
                    let text = nest(&format!("{open}{open2}"), &format!("{close2}{close}"), times);
                    if let Ok(script) = parse(&text) {
                        deepest = deepest.max(times);
                        let _ = script.clone().simple_commands().len();
                        break;
                    }
                }
            }
        }
        assert!(deepest > 8);
    });
}

#[test]
fn work_is_linear_in_the_length() {
    for (open, close) in NESTED {
        for times in [16, 60, 1_000, 8_000] {
            let mut text = nest(open, close, times);
            text.truncate(MAX_BYTES);
            check_steps(&text, &format!("{open}…{close} nested {times} times"));
        }
        // Repeated side by side, whole and cut off.
        let unit = format!("{open}a{close} ");
        check_steps(&unit.repeat(MAX_BYTES / unit.len()), &unit);
        check_steps(&open.repeat(MAX_BYTES / open.len()), open);
        let filled = format!("{}{}", nest(open, close, 15), " a".repeat(20_000));
        check_steps(&filled, &unit);
        let stuffed = format!("{}{}{}", open.repeat(15), "a ".repeat(20_000), close.repeat(15));
        check_steps(&stuffed, &unit);
    }
    for byte in b' '..=b'~' {
        check_steps(&char::from(byte).to_string().repeat(MAX_BYTES), &char::from(byte).to_string());
    }
}

/// A byte is looked at a few times, and once or twice more for each here-document or
/// backquote around it; so, with the depth limited, a bounded number of times.
fn check_steps(text: &str, what: &str) {
    let (result, steps) = parse_counting(text.as_bytes(), &Options::default());
    let most = MOST_STEPS_PER_BYTE * (text.len() as u64 + 16);
    assert!(steps <= most, "{what}: {steps} steps for {} bytes", text.len());
    assert_ne!(result.err().map(|error| error.kind()), Some(ErrorKind::TooMuchWork), "{what}");
}

#[test]
fn a_mebibyte_of_parentheses_is_refused_at_once() {
    for open in ["(", "$(", "((", "${", "{ ", "a=("] {
        let text = open.repeat((1 << 20) / open.len());
        let (result, steps) = parse_counting(text.as_bytes(), &Options::default());
        assert_eq!(result.unwrap_err().kind(), ErrorKind::TooLarge);
        assert_eq!(steps, 0);
        let error = parse(&text[..MAX_BYTES]).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::TooDeep | ErrorKind::Unterminated | ErrorKind::Syntax),
            "{error}"
        );
    }
}

#[test]
fn size_is_limited() {
    let text = "a".repeat(MAX_BYTES);
    assert!(parse(&text).is_ok());
    assert_eq!(parse(&format!("{text}b")).unwrap_err().kind(), ErrorKind::TooLarge);
    let options = Options { max_bytes: 4, ..Options::default() };
    assert_eq!(parse_with(b"abcde", &options).unwrap_err().kind(), ErrorKind::TooLarge);
}

#[test]
fn depth_is_limited() {
    assert!(parse(&nest("(", ")", 1)).is_ok());
    assert!(parse(&nest("( ", ")", MAX_DEPTH)).is_ok());
    let error = parse(&nest("( ", ")", MAX_DEPTH + 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooDeep);
    assert!(parse(&nest("$(", ")", MAX_DEPTH - 1)).is_ok());
    let options = Options { max_depth: 3, ..Options::default() };
    assert_eq!(parse_with(b"( ( ( ( a ) ) ) )", &options).unwrap_err().kind(), ErrorKind::TooDeep);
}

#[test]
fn bytes_that_hide_things_are_refused() {
    assert_eq!(parse("ls\0rm").unwrap_err().kind(), ErrorKind::Nul);
    assert_eq!(parse("ls\r\nrm").unwrap_err().kind(), ErrorKind::CarriageReturn);
    assert_eq!(parse("cat <<'E'\na\r\nE").unwrap_err().kind(), ErrorKind::CarriageReturn);
    assert_eq!(parse_with(b"ls \xff", &Options::default()).unwrap_err().kind(), ErrorKind::NotUtf8);
}
