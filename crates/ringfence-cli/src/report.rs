//! Errors and refusals in words.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use ringfence::model::{DenyReason, Error, ErrorKind, ExecResult, Violation, ViolationKind, visible};

/// Ringfence itself failed.
pub(crate) const OWN_FAILURE: u8 = 125;
/// The command line, or the configuration, is wrong.
pub(crate) const MISUSED: u8 = 2;
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;

/// As [`failure`], and one JSON value on standard output in the place of the result that there is not.
pub(crate) fn failure_as_json(error: &Error) -> ExitCode {
    describe(error);
    let code = exit_of(error);
    let result = serde_json::json!({
        "exitCode": code,
        "stdout": "",
        "stderr": "",
        "blocked": false,
        "violations": [],
        "error": { "kind": error.kind, "message": error.chain(), "hints": error.hints },
    });
    // A closed standard output is nobody's problem.
    let _ = writeln!(std::io::stdout(), "{result:#}");
    ExitCode::from(code)
}

/// Prints an error with its causes and hints; gives the exit code that goes with its kind.
pub(crate) fn failure(error: &Error) -> ExitCode {
    describe(error);
    ExitCode::from(exit_of(error))
}

fn exit_of(error: &Error) -> u8 {
    match error.kind {
        ErrorKind::NotFound => NOT_FOUND,
        ErrorKind::SpawnFailed => CANNOT_RUN,
        _ => OWN_FAILURE,
    }
}

/// As [`failure`], for the commands that run nothing: they have no exit code of another program to keep apart.
pub(crate) fn failure_of_inquiry(error: &Error) -> ExitCode {
    describe(error);
    ExitCode::from(match error.kind {
        ErrorKind::InvalidConfig | ErrorKind::ConfigError | ErrorKind::Validation => MISUSED,
        _ => OWN_FAILURE,
    })
}

/// Where a sandbox cannot be made, the machine is often the reason.
fn asks_the_doctor(error: &Error) -> bool {
    let is_about_sandbox = matches!(error.kind, ErrorKind::SandboxDenied | ErrorKind::InitializationFailed);
    is_about_sandbox && !error.hints.iter().any(|hint| hint.contains("ringfence doctor"))
}

fn describe(error: &Error) {
    say(&format!("error: {}", error.chain()));
    for hint in &error.hints {
        say(&format!("  hint: {hint}"));
    }
    if asks_the_doctor(error) {
        say(
            "  hint: `ringfence doctor` says what this machine lets a sandbox do, and what to change (in a container: --launcher landlock)",
        );
    }
}

/// Tells what was stopped, when it matters: the command failed over it, or it is on the deny list.
/// `dropped` are violations that the result does not keep.
pub(crate) fn refusals(result: &ExecResult, dropped: &[Violation]) {
    const MOST: usize = 10;
    let violations = || dropped.iter().chain(&result.violations);
    let is_limit = |violation: &&Violation| violation.kind == ViolationKind::ResourceLimit;
    for violation in violations().filter(is_limit) {
        say(&format!("limit: {}", visible(&violation.message)));
    }
    if !result.runs_later.is_empty() {
        let named: Vec<String> = result.runs_later.iter().take(MOST).map(|path| visible(path)).collect();
        let more = result.runs_later.len() - named.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        say(&format!("these files run later: {}{more}", named.join(", ")));
    }
    for remote in &result.changed_remotes {
        say(&format!("note: {}", visible(remote)));
    }
    // A command that goes on after a refusal may end well, and what was protected was tried all the same.
    let is_worth_telling =
        |violation: &&Violation| result.blocked || violation.reason == Some(DenyReason::Protected);
    let refused: Vec<&Violation> = violations()
        .filter(|violation| violation.blocked && !is_limit(violation))
        .filter(is_worth_telling)
        .collect();
    for violation in refused.iter().take(MOST) {
        say(&format!("blocked: {}", visible(&violation.message)));
    }
    if let Some(more) = refused.len().checked_sub(MOST).filter(|more| *more > 0) {
        say(&format!("blocked: {more} more; see `ringfence violations`"));
    }
}

/// One line on stderr, marked as ringfence's own. A closed stderr is nobody's problem.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "ringfence: {line}");
}

/// The same while a command runs on the person's terminal, which then begins no line by itself.
pub(crate) fn say_on_raw_terminal(line: &str) {
    let end = if std::io::stderr().is_terminal() { "\r\n" } else { "\n" };
    let _ = write!(std::io::stderr(), "ringfence: {line}{end}");
}

pub(crate) fn exit_code(result: &ExecResult) -> ExitCode {
    ExitCode::from(u8::try_from(result.exit_code & 0xff).unwrap_or(1))
}
