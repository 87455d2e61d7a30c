//! Expectations against what happened.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ringfence_model::{ExecResult, Operation, Result, ViolationKind};

use super::case::{Case, Exit, Expect};
use super::place::Place;

type Verdict = std::result::Result<(), String>;

pub(super) fn check(
    case: &Case,
    place: &Place,
    before: &BTreeSet<PathBuf>,
    result: &Result<ExecResult>,
) -> Verdict {
    let result = match (result, case.exit) {
        (Err(error), Exit::Refused(words)) if error.chain().contains(words) => return Ok(()),
        (Err(error), _) => return Err(format!("did not run: {}", error.chain())),
        (Ok(_), Exit::Refused(words)) => return Err(format!("ran, but should be refused: {words}")),
        (Ok(result), _) => result,
    };
    let context = || {
        format!(
            "exit {}, stdout {:?}, stderr {:?}, violations {:?}",
            result.exit_code,
            short(&result.stdout),
            short(&result.stderr),
            result.violations.iter().map(|violation| violation.message.as_str()).collect::<Vec<_>>()
        )
    };
    if !result.sandbox.active {
        return Err("the result says that no fence was active".to_owned());
    }
    let exit_holds = match case.exit {
        Exit::Is(code) => result.exit_code == code,
        Exit::NotZero => result.exit_code != 0,
        Exit::Any | Exit::Refused(_) => true,
    };
    if !exit_holds {
        return Err(format!("wanted {:?}: {}", case.exit, context()));
    }
    for expectation in &case.expectations {
        one(expectation, place, before, result)
            .map_err(|problem| format!("{problem} ({expectation:?}): {}", context()))?;
    }
    Ok(())
}

fn short(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().take(400).collect()
}

fn one(expectation: &Expect, place: &Place, before: &BTreeSet<PathBuf>, result: &ExecResult) -> Verdict {
    let has = |bytes: &[u8], text: &str| String::from_utf8_lossy(bytes).contains(&place.fill(text));
    let holds = |holds: bool, problem: &str| if holds { Ok(()) } else { Err(problem.to_owned()) };
    match expectation {
        Expect::Stdout(want) => {
            holds(&result.stdout == want || filled(place, want) == result.stdout, "stdout")
        }
        Expect::StdoutHas(text) => holds(has(&result.stdout, text), "stdout lacks it"),
        Expect::StdoutLacks(text) => holds(!has(&result.stdout, text), "stdout has it"),
        Expect::Stderr(want) => holds(&result.stderr == want, "stderr"),
        Expect::StderrHas(text) => holds(has(&result.stderr, text), "stderr lacks it"),
        Expect::Blocked(resource) => {
            let resource = place.fill(resource);
            let right = result.blocked && result.blocked_resource.as_deref() == Some(resource.as_str());
            holds(right, &format!("not blocked for {resource}, but {:?}", result.blocked_resource))
        }
        Expect::NotBlocked => holds(!result.blocked, "blocked"),
        Expect::Violation(operation, resource) => {
            let resource = place.fill(resource);
            let found = result.violations.iter().any(|violation| {
                violation.operation == *operation && violation.resource == resource && violation.certain
            });
            holds(found, "no such violation")
        }
        Expect::NoViolation => holds(result.violations.is_empty(), "a violation"),
        Expect::TimedOut => holds(result.timed_out, "not timed out"),
        Expect::Truncated => holds(result.truncated, "not truncated"),
        Expect::Limit(name) => {
            let found = result.violations.iter().any(|violation| {
                violation.kind == ViolationKind::ResourceLimit
                    && violation.operation == Operation::Limit
                    && violation.resource.contains(name)
            });
            holds(found, "the limit is not reported")
        }
        Expect::HostHas(path, content) => {
            let found = std::fs::read(place.path(path)).unwrap_or_default();
            holds(found == place.fill(content).as_bytes(), "the host's file differs")
        }
        Expect::HostLacks(path) => holds(place.path(path).symlink_metadata().is_err(), "the host has it"),
        Expect::NoNewNames => {
            let after = place.listing();
            let changed: Vec<&PathBuf> = before.symmetric_difference(&after).collect();
            holds(changed.is_empty(), &format!("names came or went: {changed:?}"))
        }
        Expect::VictimLives => holds(place.victim_lives(), "the host's process is gone"),
        Expect::ListenerUntouched => holds(place.listener_untouched(), "the host's listener was reached"),
        Expect::MarkerGone => marker_gone(place),
    }
}

fn filled(place: &Place, bytes: &[u8]) -> Vec<u8> {
    std::str::from_utf8(bytes).map_or_else(|_| bytes.to_vec(), |text| place.fill(text).into_bytes())
}

/// Killed processes take a moment to disappear; one that is still there after a second was not killed.
fn marker_gone(place: &Place) -> Verdict {
    let deadline = Instant::now() + Duration::from_secs(1);
    loop {
        let left = place.marked_processes();
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("processes are left: {left:?}"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
