//! The proof: a real sandbox that runs a real command.

use ringfence_fence::CreateOptions;
use ringfence_model::config::{LocalOptions, Precision};
use ringfence_model::{Assurance, Degradation, Error, ErrorKind, ExecRequest, ExecResult, Result};

use super::{Check, Choice, Status};
use crate::platform::Platform;
use crate::{Fence, Streams};

/// The launcher that promises everything that the system has.
fn best() -> &'static str {
    Platform::this().map_or("none", Platform::launcher)
}

/// A sandbox that was tried.
#[derive(Debug)]
pub(super) struct Tried {
    pub(super) check: Check,
    /// Who built it; none when nobody could.
    pub(super) launcher: Option<String>,
}

/// A sandbox with nothing configured, in an empty directory.
pub(super) fn fence(options: CreateOptions) -> Tried {
    let check = |status, found: String| Check::new("fence", "a whole fence", status, found).required();
    let failure = match start(options.clone()) {
        Ok(result) => {
            let Assurance { adapter, degraded, .. } = &result.sandbox;
            let found = format!("{adapter} ran `true` in {:.0} ms", result.duration_ms);
            let launcher = launcher_of(adapter);
            let check = if launcher == best() {
                check(Status::Ok, found)
            } else {
                check(Status::Degraded, found)
                    .costs(in_words(degraded))
                    .remedy(format!("put right what is missing above, for the launcher {}", best()))
            };
            return Tried { check, launcher: Some(launcher) };
        }
        Err(error) => error.chain(),
    };
    let mut unsupervised = options;
    let local = LocalOptions { precision: Precision::Off, ..LocalOptions::default() };
    unsupervised.provider_options = local.into();
    match start(unsupervised) {
        Ok(result) => Tried {
            check: check(Status::Degraded, format!("only without a supervisor: {failure}"))
                .costs("refusals are not reported exactly")
                .remedy("ringfence run --precision off …"),
            launcher: Some(launcher_of(&result.sandbox.adapter)),
        },
        Err(_) => Tried {
            check: check(Status::Missing, failure)
                .costs("`ringfence run` refuses to run anything")
                .remedy("put right what is missing above"),
            launcher: None,
        },
    }
}

/// The sandbox of this project and its configuration.
pub(super) fn here(options: Result<CreateOptions>) -> Tried {
    let check = |status, found: String| Check::new("here", "this project", status, found).required();
    let outcome = options.and_then(|options| {
        let place = options.cwd.display().to_string();
        start(options).map(|result| (place, result.sandbox))
    });
    match outcome {
        Ok((place, Assurance { adapter, degraded, .. })) => {
            let check = if degraded.is_empty() {
                check(Status::Ok, place)
            } else {
                check(Status::Degraded, place).costs(in_words(&degraded))
            };
            Tried { check, launcher: Some(launcher_of(&adapter)) }
        }
        Err(error) => {
            let check =
                check(Status::Missing, error.chain()).costs("`ringfence run` refuses to run anything here");
            let hint = error.hints.into_iter().next();
            let remedy = hint.unwrap_or_else(|| "put right what is missing above".to_owned());
            Tried { check: check.remedy(remedy), launcher: None }
        }
    }
}

fn start(options: CreateOptions) -> Result<ExecResult> {
    let result = Fence::prepare(options)?.run(&ExecRequest::argv(["true"]), Streams::Capture, &|_| ())?;
    if result.exit_code == 0 {
        return Ok(result);
    }
    let message = format!("`true` ended with {} inside", result.exit_code);
    Err(Error::new(ErrorKind::SandboxDenied, message))
}

/// `native` of `local/native`.
fn launcher_of(adapter: &str) -> String {
    adapter.rsplit('/').next().unwrap_or(adapter).to_owned()
}

/// What `ringfence run` does here: exactly what was just tried for this project.
pub(super) fn choose(checks: &[Check], fence: &Tried, here: &Tried) -> Choice {
    let Some(launcher) = here.launcher.clone() else {
        if fence.launcher.is_some() {
            let why =
                format!("this machine can start a fence, but not for this project: {}", here.check.found);
            return Choice { launcher: None, why };
        }
        let why = blocking(checks).unwrap_or_else(|| fence.check.found.clone());
        return Choice { launcher: None, why: format!("no launcher can start here; {why}") };
    };
    let lost: Vec<&str> = checks
        .iter()
        .chain([&fence.check, &here.check])
        .filter(|check| is_lost(check))
        .map(|check| check.title)
        .collect();
    let why = if launcher != best() {
        let because = blocking(checks).unwrap_or_else(|| "it was asked for".to_owned());
        format!("the strongest that starts here; {because}")
    } else if lost.is_empty() {
        "everything it is made of works here, and it needs no helper".to_owned()
    } else {
        format!("it starts here; not at its best: {}", lost.join(", "))
    };
    Choice { launcher: Some(launcher), why }
}

/// What stands in the way of the best launcher: the first such, on which the others usually follow.
fn blocking(checks: &[Check]) -> Option<String> {
    let first = checks.iter().find(|check| check.blocks())?;
    Some(format!("{}: {}", first.title, first.found))
}

/// Something of the native fence is not all there. Tools of others are no part of it.
fn is_lost(check: &Check) -> bool {
    const NO_PART: [&str; 5] = ["bwrap", "docker", "container", "apparmorUserns", "sandboxExec"];
    matches!(check.status, Status::Degraded | Status::Missing) && !NO_PART.contains(&check.id)
}

fn in_words(degraded: &[Degradation]) -> String {
    degraded.iter().map(|lost| lost.text.as_str()).collect::<Vec<_>>().join("; ")
}
