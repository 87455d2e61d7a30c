//! `ringfence mcp`: the tools for clients of the Model Context Protocol.

mod install;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use ringfence::ledger::{Writer, WriterOptions};
use ringfence::model::{Error, ErrorKind, Result};
use ringfence::permission::Letterbox;
use ringfence::setup::Setup;
use ringfence_mcp::{Options, Projects, serve};
use serde_json::Map;

use crate::args::{Mcp, McpCommand, Sandbox};
use crate::places::Places;
use crate::{gate, report, run};

pub(crate) fn mcp(args: Mcp) -> Result<ExitCode> {
    if let Some(McpCommand::Install(args)) = &args.command {
        return install::install(args);
    }
    serve::stdio(options(args.sandbox)?)?;
    Ok(ExitCode::SUCCESS)
}

/// What every session is made from.
fn options(sandbox: Sandbox) -> Result<Options> {
    let places = Places::find(sandbox.project.as_deref())?;
    let projects = match &sandbox.project {
        Some(_) => Projects::Fixed(places.project.clone()),
        None => Projects::Roots { otherwise: places.project.clone(), within: None },
    };
    let problems = WriterOptions {
        on_problem: Box::new(|problem| report::say(&format!("warning: {}", problem.chain()))),
        ..WriterOptions::default()
    };
    Ok(Options {
        projects,
        ledger: Some(Arc::new(Writer::spawn(&places.ledger_file(), problems))),
        letterbox: Letterbox::new(&places.ringfence_home),
        code_reader: Some(gate::reader()),
        require: sandbox.require.clone(),
        stage: std::env::current_exe().ok(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        load: Arc::new(move |project, more| load(&sandbox, project, more)),
    })
}

/// The configuration of one session. Each loads it anew, so that a change needs no new server.
fn load(sandbox: &Sandbox, project: &Path, more: &[PathBuf]) -> Result<Setup> {
    let mut sandbox = Sandbox { project: Some(project.to_owned()), ..sandbox.clone() };
    for directory in more {
        let text = directory.to_str().ok_or_else(|| {
            Error::new(ErrorKind::Validation, format!("a root is not UTF-8: {}", directory.display()))
        })?;
        sandbox.allow_write.push(text.to_owned());
    }
    let setup = run::load(&sandbox, Map::new())?;
    for warning in &setup.loaded.warnings {
        report::say(&format!("warning: {warning}"));
    }
    Ok(setup)
}
