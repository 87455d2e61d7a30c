//! `ringfence mcp`: the tools for clients of the Model Context Protocol.

mod install;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ringfence::model::{Error, ErrorKind, Result};
use ringfence::permission::FileQuestions;
use ringfence::session::recorder::{Keeping, open_ledger};
use ringfence::setup::Setup;
use ringfence_mcp::{Options, Projects, http, serve};
use serde_json::Map;

use crate::args::{Mcp, McpCommand, Sandbox};
use crate::places::Places;
use crate::{gate, report, run, settings};

/// Shorter tokens could be guessed.
const SHORTEST_TOKEN: usize = 16;

pub(crate) fn mcp(args: Mcp) -> Result<ExitCode> {
    if let Some(McpCommand::Install(args)) = &args.command {
        return install::install(args);
    }
    let mut options = options(args.sandbox, args.session)?;
    let Some(address) = args.http else {
        serve::stdio(options)?;
        return Ok(ExitCode::SUCCESS);
    };
    // A client elsewhere names directories of its own machine: only those below ours mean anything here.
    if let Projects::Roots { otherwise, within } = &mut options.projects {
        *within = Some(otherwise.clone());
    }
    let token = token(args.token_file.as_deref())?;
    let listener = TcpListener::bind(address).map_err(|error| {
        Error::new(ErrorKind::Validation, format!("cannot listen on {address}")).caused_by(error)
    })?;
    let address = listener.local_addr().unwrap_or(address);
    if !address.ip().is_loopback() {
        report::say(
            "warning: others on the network can reach this, and whoever sees the token can use it: it is not encrypted",
        );
    }
    report::say(&format!("listening on http://{address}{}", http::PATH));
    http::http(options, listener, &token, args.idle.map_or(http::IDLE, Duration::from_secs))?;
    Ok(ExitCode::SUCCESS)
}

/// The token from its file, or a new one that is shown.
fn token(file: Option<&Path>) -> Result<String> {
    let Some(file) = file else {
        let token = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
        report::say(&format!("bearer token: {token}"));
        return Ok(token);
    };
    let text = std::fs::read_to_string(file).map_err(|error| {
        Error::new(ErrorKind::Validation, format!("cannot read {}", file.display())).caused_by(error)
    })?;
    let token = text.trim();
    if token.len() < SHORTEST_TOKEN || token.contains(char::is_whitespace) {
        let message = format!("{} has no token of {SHORTEST_TOKEN} characters or more", file.display());
        return Err(Error::new(ErrorKind::Validation, message).hint("openssl rand -hex 32 makes one"));
    }
    Ok(token.to_owned())
}

/// The parts that every session is made from.
fn options(sandbox: Sandbox, session: Option<String>) -> Result<Options> {
    let places = Places::find(sandbox.project.as_deref())?;
    let projects = match &sandbox.project {
        Some(_) => Projects::Fixed(places.project.clone()),
        None => Projects::Roots { otherwise: places.project.clone(), within: None },
    };
    let ledger = open_ledger(&places.ledger_file(), &places.env, Keeping::Thread, |problem| {
        report::say(&format!("warning: {}", problem.chain()));
    });
    Ok(Options {
        projects,
        ledger: Some(ledger),
        file_questions: FileQuestions::new(&places.ringfence_home),
        code_reader: Some(gate::reader()),
        require: sandbox.require.clone(),
        stage: run::stage(),
        warn: Arc::new(|warning| report::say(&format!("warning: {warning}"))),
        session,
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
    let setup = settings::load(&sandbox, Map::new())?;
    settings::say_warnings(&setup, &sandbox);
    settings::unfenced(&setup).iter().for_each(|warning| report::say(&format!("warning: {warning}")));
    Ok(setup)
}
