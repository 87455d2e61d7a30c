//! Asking whoever reads the session.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ringfence::fence::BoxFuture;
use ringfence::fence::approve::{Approver, Question};
use ringfence::gate::{Decision as Judgement, Verdict};
use ringfence::local::approval::{Approval, AskAbout};
use ringfence::model::Decision;
use ringfence::model::config::Ask;
use ringfence::setup::Setup;
use serde_json::{Value, json};

use super::journal::{Journal, Page};
use super::wire::Wire;
use crate::approve;

/// Questions that wait for their answers.
#[derive(Debug)]
pub(crate) struct Counter {
    wire: Arc<Wire>,
    /// None: nobody shall be asked.
    about: Option<AskAbout>,
    timeout: Duration,
    config_file: PathBuf,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    last: u64,
    closed: bool,
    answers: BTreeMap<u64, Sender<Decision>>,
}

impl Counter {
    pub(crate) fn new(setup: &Setup, wire: Arc<Wire>) -> Self {
        let about = match setup.loaded.config.ask {
            Ask::Never => None,
            Ask::DenyOnly => Some(AskAbout::DenyList),
            Ask::On => Some(AskAbout::All),
        };
        Self {
            wire,
            about,
            timeout: Duration::from_millis(setup.loaded.config.safety.approval_timeout_ms),
            config_file: setup.ringfence_home.join("sandbox.json"),
            waiting: Mutex::default(),
        }
    }

    /// For the shell of this name, whose command is on this page.
    pub(crate) fn approval(
        self: &Arc<Self>,
        shell: &str,
        journal: &Arc<Journal>,
        page: &Arc<Page>,
    ) -> Option<Approval> {
        let config_file = self.config_file.clone();
        let (journal, page) = (Arc::clone(journal), Arc::clone(page));
        Some(Approval {
            approver: Arc::new(Clerk { shell: shell.to_owned(), counter: Arc::clone(self) }),
            about: self.about?,
            timeout: self.timeout + Duration::from_secs(5),
            on_settled: Arc::new(move |settled| {
                page.settled(&journal, settled);
                if settled.decision == Decision::AllowPermanent {
                    approve::keep(&config_file, settled);
                }
            }),
        })
    }

    /// Whether somebody waited for this answer.
    pub(crate) fn answer(&self, permission: u64, decision: Decision) -> bool {
        let answer = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).answers.remove(&permission);
        answer.is_some_and(|answer| answer.send(decision).is_ok())
    }

    /// Nobody answers any more: everything that waits is denied.
    pub(crate) fn close(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.closed = true;
        waiting.answers.clear();
    }

    fn ask(&self, shell: &str, question: &Question) -> Decision {
        self.ask_with(json!({
            "shell": shell,
            "command": question.command,
            "type": if question.grant.path.is_absolute() { "filesystem" } else { "network" },
            "resource": question.grant.path,
            "access": question.grant.access,
            "reason": question.violation.message,
            "options": ["allow_once", "allow_session", "allow_permanent", "deny", "abort"],
        }))
    }

    /// Whether a command may run that the gate has doubts about; none when nobody shall be asked.
    pub(crate) fn ask_about_command(&self, shell: &str, code: &str, verdict: &Verdict) -> Option<Decision> {
        self.about?;
        let mut options = vec!["allow_once", "allow_session", "deny", "abort"];
        if verdict.proposal.is_some() {
            options.insert(2, "allow_permanent");
        }
        let asked = verdict.findings.iter().find(|finding| finding.decision == Judgement::Ask);
        Some(self.ask_with(json!({
            "shell": shell,
            "command": code,
            "type": "command",
            "resource": verdict.intent,
            "reason": asked.map(|finding| &finding.message),
            "risk": verdict.risk.level,
            "findings": verdict.findings,
            "proposal": verdict.proposal,
            "options": options,
        })))
    }

    fn ask_with(&self, mut request: Value) -> Decision {
        let (send, receive) = channel();
        let permission = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            if waiting.closed {
                return Decision::Deny;
            }
            waiting.last += 1;
            let permission = waiting.last;
            waiting.answers.insert(permission, send);
            permission
        };
        request["event"] = json!("permission_request");
        request["permission"] = json!(permission);
        self.wire.send(&request);
        let decision = receive.recv_timeout(self.timeout).unwrap_or(Decision::Deny);
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).answers.remove(&permission);
        decision
    }
}

/// Asks for one shell.
#[derive(Debug)]
struct Clerk {
    shell: String,
    counter: Arc<Counter>,
}

impl Approver for Clerk {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Decision> {
        Box::pin(async move { self.counter.ask(&self.shell, question) })
    }
}
