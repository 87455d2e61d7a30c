//! Verdicts on commands and code.

use ringfence_gate::reading::InProcess;
use ringfence_gate::{Decision, Gate, Language, Options, Request};

/// Whatever the bytes, there is a verdict; and what the parser does not read is never allowed.
pub fn gate_judge(data: &[u8]) {
    let Some((&first, rest)) = data.split_first() else { return };
    let language = match first % 4 {
        0 | 1 => Language::Shell,
        2 => Language::Python,
        _ => Language::JavaScript,
    };
    let code = String::from_utf8_lossy(rest).into_owned();
    let unread = language == Language::Shell && ringfence_bash::parse(&code).is_err();
    let gate = Gate::new(Options::default()).reading_code_by(std::sync::Arc::new(InProcess));
    let verdict = gate.judge(&Request::new(language, code, "/home/dev", "/home/dev/project"));
    assert!(!unread || verdict.decision != Decision::Allow);
}
