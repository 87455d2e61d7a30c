//! The proof: a real sandbox that runs a real command.

use ringfence_fence::CreateOptions;
use ringfence_model::{Error, ExecRequest, ExecResult, Result};

use super::{Check, Choice, Status};
use crate::native::{Native, Streams};

/// A sandbox with nothing configured, in an empty directory.
pub(super) fn fence(options: CreateOptions) -> Check {
    const ID: &str = "fence";
    const TITLE: &str = "a whole fence";
    let failure = match start(options.clone()) {
        Ok(result) => {
            let found = format!("{} ran `true` in {:.0} ms", result.sandbox.adapter, result.duration_ms);
            return Check::new(ID, TITLE, Status::Ok, found).required();
        }
        Err(error) => error.chain(),
    };
    let mut unsupervised = options;
    unsupervised.provider_options = serde_json::json!({ "precision": "off" });
    if start(unsupervised).is_ok() {
        return Check::new(ID, TITLE, Status::Degraded, format!("only without a supervisor: {failure}"))
            .required()
            .costs("refusals are not reported exactly")
            .remedy("ringfence run --precision off …");
    }
    Check::new(ID, TITLE, Status::Missing, failure)
        .required()
        .costs("`ringfence run` refuses to run anything")
        .remedy("put right what is missing above")
}

/// The sandbox of this project and its configuration.
pub(super) fn here(options: Result<CreateOptions>) -> Check {
    const ID: &str = "here";
    const TITLE: &str = "this project";
    let outcome = options.and_then(|options| {
        let place = options.cwd.display().to_string();
        start(options).map(|result| (place, result.sandbox.degraded))
    });
    match outcome {
        Ok((place, degraded)) if degraded.is_empty() => Check::new(ID, TITLE, Status::Ok, place).required(),
        Ok((place, degraded)) => {
            Check::new(ID, TITLE, Status::Degraded, place).required().costs(degraded.join("; "))
        }
        Err(error) => {
            let check = Check::new(ID, TITLE, Status::Missing, error.chain())
                .required()
                .costs("`ringfence run` refuses to run anything here");
            match error.hints.into_iter().next() {
                Some(hint) => check.remedy(hint),
                None => check,
            }
        }
    }
}

fn start(options: CreateOptions) -> Result<ExecResult> {
    let result = Native::prepare(options)?.run(&ExecRequest::argv(["true"]), Streams::Capture, &|_| ())?;
    if result.exit_code == 0 {
        return Ok(result);
    }
    let message = format!("`true` ended with {} inside", result.exit_code);
    Err(Error::new(ringfence_model::ErrorKind::SandboxDenied, message))
}

/// What `ringfence run` does here.
pub(super) fn choose(checks: &[Check], fence: &Check, here: &Check) -> Choice {
    let no = |why| Choice { launcher: None, why };
    if fence.blocks() {
        let mut missing: Vec<String> = checks
            .iter()
            .filter(|check| check.blocks())
            .map(|check| format!("{}: {}", check.title, check.found))
            .collect();
        if missing.is_empty() {
            missing.push(fence.found.clone());
        }
        return no(format!("the native launcher cannot start here; {}", missing.join("; ")));
    }
    if here.blocks() {
        return no(format!("this machine can start a fence, but not for this project: {}", here.found));
    }
    let lost: Vec<&str> =
        checks.iter().chain([fence, here]).filter(|check| is_lost(check)).map(|check| check.title).collect();
    let why = if lost.is_empty() {
        "everything it is made of works here, and it needs no helper".to_owned()
    } else {
        format!("it starts here; not at its best: {}", lost.join(", "))
    };
    Choice { launcher: Some("native"), why }
}

/// Something of the native fence is not all there. Tools of others are no part of it.
fn is_lost(check: &Check) -> bool {
    const NO_PART: [&str; 5] = ["bwrap", "docker", "container", "apparmorUserns", "sandboxExec"];
    matches!(check.status, Status::Degraded | Status::Missing) && !NO_PART.contains(&check.id)
}
