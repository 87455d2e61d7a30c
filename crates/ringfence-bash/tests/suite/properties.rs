//! Properties over generated texts.

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use ringfence_bash::{Extglob, Options, parse_with};

use super::{bash, spans};

/// Pieces that mean something to a shell, to be strung together.
const PIECES: &[&str] = &[
    "a",
    "b",
    "id",
    "x=1",
    "x=",
    "a[1]=",
    "a[$x]",
    "a+=(",
    "1",
    "2",
    "-p",
    "--",
    "\\",
    "\\\n",
    "\n",
    "\n",
    " ",
    " ",
    " ",
    " ",
    ";",
    "; ",
    ";;",
    ";&",
    ";;&",
    "&",
    "&&",
    "||",
    "|",
    "|&",
    "!",
    "! ",
    "(",
    ")",
    "( ",
    " )",
    "((",
    "))",
    "{ ",
    "}",
    "; }",
    "{a,b}",
    "{fd}",
    "{",
    "$",
    "$x",
    "${x}",
    "${x:-",
    "${x#",
    "${x/a/",
    "${a[",
    "]}",
    "${#x}",
    "${!x}",
    "${ ",
    "$(",
    "$((",
    "$[",
    "]",
    "[",
    "`",
    "\\`",
    "'",
    "\"",
    "$'",
    "$\"",
    "\\'",
    "\\\"",
    "'a'",
    "\"b\"",
    "'",
    "\"",
    "<",
    ">",
    ">>",
    "<<E\n",
    "<<'E'\n",
    "<<-E\n",
    "\nE\n",
    "E",
    "<<<",
    "<(",
    ">(",
    "<&",
    ">&",
    ">&-",
    "&>",
    "&>>",
    ">|",
    "<>",
    "2>",
    "#",
    " #c\n",
    "*",
    "?",
    "~",
    "=",
    ":",
    ",",
    "..",
    "@(",
    "!(",
    "+",
    "-",
    "if ",
    "then ",
    "elif ",
    "else ",
    "fi",
    "fi;",
    "for ",
    "for x in ",
    "in ",
    "do ",
    "done",
    "done;",
    "while ",
    "until ",
    "case ",
    "case x in ",
    "esac",
    "a) ",
    "a|b) ",
    "select x in ",
    "function ",
    "f() ",
    "f()",
    "[[ ",
    " ]]",
    "==",
    "=~",
    " -f ",
    " -eq ",
    " < ",
    "time ",
    "coproc ",
    "coproc N ",
    "declare ",
    "declare -a x=(",
    "eval ",
    "export ",
    "é",
];

/// Texts that hold together more often than pieces at random.
const FRAMES: &[(&str, &str)] = &[
    ("", ""),
    ("$(", ")"),
    ("\"", "\""),
    ("`", "`"),
    ("${x:-", "}"),
    ("\"${x:-", "}\""),
    ("$((", "))"),
    ("((", "))"),
    ("(", ")"),
    ("{ ", "; }"),
    ("if ", "; then a; fi"),
    ("while a; do ", "; done"),
    ("case x in a) ", ";; esac"),
    ("[[ ", " ]]"),
    ("x=(", ")"),
    ("<(", ")"),
    ("cat <<E\n", "\nE\n"),
    ("$(cat <<E\n", "\nE\n)"),
    ("f() { ", "; }"),
    ("a ", ""),
    ("echo ", ""),
    ("x=", " b"),
    (">", " a"),
    ("for x in ", "; do a; done"),
    ("coproc ", ""),
    ("time ", ""),
    ("[[ a =~ ", " ]]"),
    ("${a[", "]}"),
    ("a[", "]=1"),
    ("$[", "]"),
    ("{", ",b}"),
    ("\"${x#", "}\""),
    ("declare x=(", ")"),
];

fn soup() -> impl Strategy<Value = String> {
    let piece = proptest::sample::select(PIECES);
    let base = proptest::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat());
    base.prop_recursive(4, 64, 4, |inner| {
        let frame = proptest::sample::select(FRAMES);
        let framed = (frame, inner.clone()).prop_map(|((open, close), text)| format!("{open}{text}{close}"));
        let joined = (inner.clone(), proptest::sample::select(PIECES), inner);
        prop_oneof![3 => framed, 1 => joined.prop_map(|(a, piece, b)| format!("{a}{piece}{b}"))]
    })
}

/// How many cases are tried; more with `RINGFENCE_BASH_CASES`.
fn cases(usual: u32) -> ProptestConfig {
    let cases =
        std::env::var("RINGFENCE_BASH_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(usual);
    // Each failure is kept as a seed that is tried first from then on, and is to be committed with what mends it.
    let seeds = FileFailurePersistence::Direct("tests/data/properties.seeds");
    ProptestConfig {
        cases,
        failure_persistence: Some(Box::new(seeds)),
        max_shrink_iters: 4_000,
        ..ProptestConfig::default()
    }
}

fn check_sound(bytes: &[u8]) -> Result<(), TestCaseError> {
    for extglob in [Extglob::Off, Extglob::FollowShopt, Extglob::On] {
        let options = Options { extglob, ..Options::default() };
        match (parse_with(bytes, &options), std::str::from_utf8(bytes)) {
            (Ok(script), Ok(source)) => {
                let wrong = spans::wrong(source, &script);
                prop_assert!(wrong.is_empty(), "{wrong:#?}");
            }
            (Ok(_), Err(_)) => prop_assert!(false, "bytes that are not UTF-8 were accepted"),
            (Err(error), _) => {
                prop_assert!(error.span().start <= error.span().end);
                prop_assert!(error.span().end as usize <= bytes.len());
                prop_assert!(!error.message().is_empty());
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        check_sound(&bytes)?;
    }

    #[test]
    fn arbitrary_text_does_no_harm(text in "[ -~\n\t]{0,60}") {
        check_sound(text.as_bytes())?;
    }

    #[test]
    fn shell_pieces_do_no_harm(text in soup()) {
        check_sound(text.as_bytes())?;
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn what_we_accept_bash_accepts(text in soup()) {
        let options = Options { extglob: Extglob::Off, ..Options::default() };
        if parse_with(text.as_bytes(), &options).is_ok_and(|script| script.unsupported().is_empty()) {
            let theirs = bash::accepts(text.as_bytes());
            prop_assert!(theirs != Some(false), "bash refuses {text:?}");
        }
    }
}
