//! Nothing that is thrown at the gate makes it fail, hang or allow what it cannot read.

use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use ringfence_gate::reading::InProcess;
use ringfence_gate::{Decision, Gate, Language, Options, Request};
use ringfence_model::Filesystem;

fn judge(language: Language, code: &str) -> Decision {
    let gate = Gate::new(Options::default()).reading_code_by(Arc::new(InProcess));
    gate.judge(&Request::new(language, code, "/home/dev", "/home/dev/project").within(Filesystem::default()))
        .decision
}

fn within(limit: Duration, code: &str) -> Decision {
    let start = Instant::now();
    let decision = judge(Language::Shell, code);
    let took = start.elapsed();
    assert!(
        took < limit,
        "took {took:?} for {} bytes: {:?}…",
        code.len(),
        code.chars().take(40).collect::<String>()
    );
    decision
}

#[test]
fn a_mebibyte_of_parentheses_ends_quickly_with_a_question() {
    for open in ["(", "$(", "{ ", "((", "<(", "\"$(", "${x:-"] {
        let code = open.repeat((1 << 20) / open.len());
        assert_eq!(within(Duration::from_secs(10), &code), Decision::Ask, "{open}");
    }
    for language in [Language::Python, Language::JavaScript] {
        assert_eq!(judge(language, &"(".repeat(1 << 20)), Decision::Ask);
        assert_eq!(judge(language, &"(".repeat(20_000)), Decision::Ask);
    }
}

#[test]
fn what_multiplies_is_cut_off_and_asked_about() {
    let limit = Duration::from_secs(30);
    let mut doubling = String::from("f0() { echo; }\n");
    for i in 1..40 {
        doubling += &format!("f{i}() {{ f{0}; f{0}; }}\n", i - 1);
    }
    within(limit, &(doubling + "f39"));
    let loops = (0..12).map(|i| format!("for a{i} in 1 2 3 4 5 6 7 8; do ")).collect::<String>()
        + "x; "
        + &"done; ".repeat(12);
    assert_ne!(within(limit, &loops), Decision::Deny);
    within(limit, &"{a,b}".repeat(500));
    within(limit, &("x=a; ".to_owned() + &"x=$x$x; ".repeat(64) + "echo $x"));
    within(limit, &"a | ".repeat(5000));
    within(limit, &("echo a".to_owned() + &" | cat".repeat(2000)));
    within(limit, &"echo x; ".repeat(8000));
    within(limit, &("cat ".to_owned() + &"a*".repeat(30_000)));
    let mut nested = "sudo id".to_owned();
    for _ in 0..6 {
        nested = format!("bash -c {}", quote(&nested));
    }
    assert_eq!(within(limit, &nested), Decision::Deny);
    let deeper = format!("eval {}", quote("eval \"$0\"").repeat(40));
    assert_ne!(within(limit, &deeper), Decision::Allow);
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[test]
fn the_gate_keeps_nothing_between_requests() {
    let gate = Gate::new(Options::default()).reading_code_by(Arc::new(InProcess));
    let first = gate.judge(&Request::shell("X=/; f() { rm -rf $X; }", "/home/dev", "/home/dev/project"));
    assert_eq!(first.decision, Decision::Deny);
    for _ in 0..200 {
        let verdict = gate.judge(&Request::shell("f", "/home/dev", "/home/dev/project"));
        assert_eq!(verdict.decision, Decision::Allow);
        assert!(verdict.findings.is_empty());
    }
}

/// Pieces that are put together at random.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("rm -rf ".to_owned()),
        Just("/".to_owned()),
        Just("$x".to_owned()),
        Just("\"".to_owned()),
        Just("'".to_owned()),
        Just("$(".to_owned()),
        Just(")".to_owned()),
        Just("; ".to_owned()),
        Just(" | ".to_owned()),
        Just("sh -c ".to_owned()),
        Just("find . -exec ".to_owned()),
        Just("xargs ".to_owned()),
        Just("{a,b}".to_owned()),
        Just("[".to_owned()),
        Just("]".to_owned()),
        Just("*".to_owned()),
        Just("env -S ".to_owned()),
        Just("git -c ".to_owned()),
        Just("x=".to_owned()),
        Just("eval ".to_owned()),
        Just("\n".to_owned()),
        Just("<<E\n".to_owned()),
        Just("E\n".to_owned()),
        Just("for x in ".to_owned()),
        Just("do ".to_owned()),
        Just("done ".to_owned()),
        Just("f() { ".to_owned()),
        Just("; }".to_owned()),
        Just("python3 -c ".to_owned()),
        Just("~".to_owned()),
        Just("-".to_owned()),
        Just("--".to_owned()),
        Just("=".to_owned()),
        Just("é".to_owned()),
        Just("\u{202e}".to_owned()),
        "\\PC{0,6}".prop_map(|text| text),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn shell_texts_never_break_it(pieces in prop::collection::vec(piece(), 0..14)) {
        judge(Language::Shell, &pieces.concat());
    }

    #[test]
    fn arbitrary_texts_never_break_it(text in "\\PC{0,80}|[\\x00-\\x7f]{0,80}") {
        for language in [Language::Shell, Language::Python, Language::JavaScript, Language::Other("perl"), Language::Unknown] {
            judge(language, &text);
        }
    }

    #[test]
    fn a_denied_command_is_found_anywhere(before in "zz[a-z]{0,6}", after in "zz[a-z]{0,6}") {
        for text in [
            format!("{before}; sudo {after}"), format!("{before} && sudo {after}"), format!("{before} | sudo {after}"), format!("echo $(sudo {after})"),
            format!("if {before}; then sudo {after}; fi"), format!("({before}; sudo {after})"), format!("bash -c 'sudo {after}'"), format!("{before}x=1 sudo {after}"),
        ] {
            prop_assert_eq!(judge(Language::Shell, &text), Decision::Deny, "{}", text);
        }
    }
}
