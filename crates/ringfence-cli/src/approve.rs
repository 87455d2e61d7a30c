//! Asking the person at the terminal during `ringfence run`, and keeping what was decided.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ringfence::config::add_permanent_grant;
use ringfence::fence::approve::Answered;
use ringfence::ledger::{Decided, ExecutionId, Granted, now_ms};
use ringfence::local::approval::{Approval, AskAbout, Settled};
use ringfence::local::prompt::{Pause, TerminalApprover};
use ringfence::model::config::{Ask, PermanentGrant};
use ringfence::model::{Decision, Error, ErrorKind, GrantScope, Result};
use ringfence::setup::Setup;

use crate::args::Run;
use crate::{gate, report};

/// Where questions are asked in this run.
pub(crate) struct Desk {
    pause: Arc<Pause>,
    about: AskAbout,
    timeout: Duration,
    config_file: PathBuf,
    settled: Arc<Mutex<Vec<Settled>>>,
}

impl Desk {
    /// None when nobody can or should be asked: then what is refused is refused.
    pub(crate) fn new(args: &Run, setup: &Setup) -> Result<Option<Self>> {
        let about = match setup.loaded.config.ask {
            Ask::Never => return Ok(None),
            Ask::DenyOnly => AskAbout::DenyList,
            Ask::On => AskAbout::All,
        };
        // A person sits there when errors are shown to one, and can be asked at the terminal.
        if args.json || !std::io::stderr().is_terminal() || !TerminalApprover::available() {
            return Ok(None);
        }
        let pause = Pause::new().map_err(|errno| {
            Error::new(ErrorKind::Internal, "cannot prepare to ask").caused_by(std::io::Error::from(errno))
        })?;
        Ok(Some(Self {
            pause: Arc::new(pause),
            about,
            timeout: Duration::from_millis(setup.loaded.config.safety.approval_timeout_ms),
            config_file: setup.ringfence_home.join("sandbox.json"),
            settled: Arc::default(),
        }))
    }

    pub(crate) fn pause(&self) -> &Pause {
        &self.pause
    }

    /// Asks whether a command may run that the gate has doubts about.
    pub(crate) fn ask_about_command(&self, sentence: &str, proposal: Option<&str>) -> Decision {
        let sentence = match proposal {
            Some(rule) => format!("{sentence} (always: everything like `{rule}`)"),
            None => sentence.to_owned(),
        };
        let terminal = TerminalApprover::new(Arc::clone(&self.pause), self.timeout);
        let decision = terminal.ask_about(&sentence, proposal.is_some());
        let decision = match (decision, proposal) {
            // It was not offered.
            (Decision::AllowPermanent, None) => Decision::AllowOnce,
            (decision, _) => decision,
        };
        if let Some(words) = gate::kept(decision, proposal) {
            report::say(&words);
        }
        decision
    }

    pub(crate) fn approval(&self) -> Approval {
        let (settled, config_file) = (Arc::clone(&self.settled), self.config_file.clone());
        Approval {
            approver: Arc::new(TerminalApprover::new(Arc::clone(&self.pause), self.timeout)),
            about: self.about,
            // The terminal keeps the time itself; this is only a net below it.
            timeout: self.timeout + Duration::from_secs(5),
            on_settled: Arc::new(move |decided| {
                if decided.decision == Decision::AllowPermanent {
                    keep(&config_file, decided);
                }
                settled.lock().unwrap_or_else(PoisonError::into_inner).push(decided.clone());
            }),
        }
    }

    pub(crate) fn settled(self) -> Vec<Settled> {
        std::mem::take(&mut *self.settled.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Writes a permanent grant to the user's own file, and says how to take it back.
pub(crate) fn keep(config_file: &std::path::Path, decided: &Settled) {
    let grant = &decided.question.grant;
    if !grant.path.is_absolute() {
        report::say("a connection is granted for this run only: the sandbox has no network to keep it in\r");
        return;
    }
    let Some(path) = grant.path.to_str() else {
        report::say("warning: a path that is not UTF-8 cannot be granted for good");
        return;
    };
    let permanent =
        PermanentGrant { path: path.to_owned(), access: grant.access, recursive: grant.recursive };
    match add_permanent_grant(config_file, &permanent) {
        Ok(_) => report::say(&format!(
            "granted in {}; take it back with: ringfence grants revoke {path}\r",
            config_file.display()
        )),
        Err(error) => report::say(&format!("warning: the grant was not written: {}\r", error.chain())),
    }
}

/// A decision as the ledger keeps it, and the grant that follows from it.
pub(crate) fn records(execution: ExecutionId, settled: Settled) -> (Decided, Option<Granted>) {
    let Settled { question, decision, answered, problem } = settled;
    let decided = Decided {
        time_ms: now_ms(),
        execution_id: Some(execution),
        decision,
        kind: if question.grant.path.is_absolute() { "filesystem" } else { "network" }.to_owned(),
        resource: question.violation.resource.clone(),
        access: question.violation.access,
        reason: problem.clone().or(Some(question.violation.message)),
        command: Some(question.command),
        key: None,
        by: match answered {
            Answered::ByApprover => "terminal",
            Answered::ByClock => "timeout",
        }
        .to_owned(),
    };
    let scope = match decision {
        Decision::AllowOnce => GrantScope::Once,
        Decision::AllowSession => GrantScope::Session,
        Decision::AllowPermanent => GrantScope::Permanent,
        Decision::Deny | Decision::Abort => return (decided, None),
    };
    if problem.is_some() {
        return (decided, None);
    }
    let mut grant = question.grant;
    grant.scope = scope;
    let mut granted = Granted::new(grant);
    granted.execution_id = Some(execution);
    (decided, Some(granted))
}
