//! Sandboxes of other providers than `local`: made for one command or one session, and gone with it.

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use ringfence::containers;
use ringfence::fence::{Approval, CreateOptions, Hooks, Provider, wait_for};
use ringfence::manager::built_in;
use ringfence::model::config::WorkspaceAccess;
use ringfence::model::{Error, ErrorKind, ExecEvent, ExecRequest, ExecResult, Result, Stdin};
use ringfence::setup::Setup;
use serde_json::Value;

use crate::report;

/// A command may take as long as it likes; its own limit ends it.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// What becomes of the output while the command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// Kept for the result.
    Kept,
    /// Passed on as it comes, and not kept.
    Passed,
}

pub(crate) fn run(
    setup: &Setup,
    required: &[String],
    request: &ExecRequest,
    approval: Option<Approval>,
    output: Output,
) -> Result<ExecResult> {
    let hooks =
        Hooks { approval, progress: Some(Arc::new(|line: &str| report::say(line))), ..Hooks::default() };
    let (provider, options) = prepare(setup, required, hooks)?;
    let request = ExecRequest { stdin: input()?, ..request.clone() };
    let pass_on = |event| match event {
        ExecEvent::Stdout(bytes) => drop(std::io::stdout().lock().write_all(&bytes)),
        ExecEvent::Stderr(bytes) => drop(std::io::stderr().lock().write_all(&bytes)),
        _ => (),
    };
    let work = async {
        let sandbox = provider.create(options).await.map_err(not_the_commands)?;
        let outcome = match output {
            Output::Kept => sandbox.execute(request, &|_| ()).await,
            Output::Passed => sandbox.execute(request, &pass_on).await,
        };
        provider.destroy(sandbox.id()).await?;
        outcome
    };
    let mut result = wait_for(Box::pin(work), FOR_EVER)
        .unwrap_or_else(|| Err(Error::new(ErrorKind::Timeout, "the command did not end")))?;
    if output == Output::Passed {
        // What was passed on is not shown twice.
        result.stdout.clear();
        result.stderr.clear();
    }
    Ok(result)
}

/// A sandbox that goes with whoever holds it, for sessions.
#[cfg(target_os = "linux")]
pub(crate) fn make(
    setup: &Setup,
    required: &[String],
    hooks: Hooks,
) -> Result<Arc<dyn ringfence::fence::Sandbox>> {
    let (provider, options) = prepare(setup, required, hooks)?;
    wait_for(provider.create(options), FOR_EVER)
        .unwrap_or_else(|| Err(Error::new(ErrorKind::Timeout, "the sandbox was not made")))
        .map_err(not_the_commands)
}

fn prepare(setup: &Setup, required: &[String], hooks: Hooks) -> Result<(Arc<dyn Provider>, CreateOptions)> {
    let kind = &setup.loaded.config.provider;
    if !required.is_empty() {
        let message = format!("--require names layers of the provider local, not of {kind}");
        return Err(Error::new(ErrorKind::Validation, message));
    }
    let provider = built_in()?.get(kind).map_err(not_the_commands)?;
    let options = CreateOptions {
        cwd: setup.project.clone(),
        policy: setup.policy(),
        environment: setup.env.clone(),
        provider_options: options(setup)?.into(),
        hooks,
    };
    Ok((provider, options))
}

/// A provider or an image that is not there is no command that is not there, which has an exit code of its own.
fn not_the_commands(error: Error) -> Error {
    match error.kind {
        ErrorKind::NotFound => Error { kind: ErrorKind::InitializationFailed, ..error },
        _ => error,
    }
}

fn options(setup: &Setup) -> Result<Value> {
    let config = &setup.loaded.config;
    if config.provider != containers::KIND {
        return Ok(Value::Object(config.provider_options.clone()));
    }
    let access = config.workspace_access.unwrap_or(WorkspaceAccess::Rw);
    if access == WorkspaceAccess::None {
        let message = "workspaceAccess is none, and this command works in the project itself";
        return Err(Error::new(ErrorKind::InvalidConfig, message)
            .hint("set it to rw or ro; sessions of agents get a directory of their own with none"));
    }
    Ok(containers::options(setup, access, std::env::current_exe().ok().as_deref()))
}

/// All of standard input, unless a person would have to type it.
fn input() -> Result<Stdin> {
    let mut stdin = std::io::stdin();
    if stdin.is_terminal() {
        return Ok(Stdin::Empty);
    }
    let mut bytes = Vec::new();
    stdin
        .read_to_end(&mut bytes)
        .map_err(|error| Error::new(ErrorKind::Internal, "cannot read standard input").caused_by(error))?;
    Ok(Stdin::Bytes(bytes))
}
