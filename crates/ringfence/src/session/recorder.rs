//! The recorder: listeners hear what happens now, the ledger keeps it for later.
//!
//! Known secrets are removed from everything that leaves here.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ringfence_gate::Verdict;
use ringfence_ledger::{
    Decided, Event, ExecutionEnd, ExecutionId, ExecutionStart, Granted, Redact, Writer, WriterOptions, now_ms,
};
use ringfence_model::{Command, Error, ExecResult, Grant, GrantScope, LockExt as _, Violation};
use serde_json::json;

use super::event::SessionEvent;
use crate::config::EnvMap;
use crate::permission::{Answer, Permission, PermissionKind};
use crate::setup::{Setup, secrets_of};

/// The kind of the events in which the ledger keeps verdicts.
pub const GATE_EVENT: &str = "gate";

/// Hears events, on the thread on which they happen.
pub type Listener = Arc<dyn Fn(&SessionEvent) + Send + Sync>;

/// One call: a command of a person, or of an agent's tool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Call {
    /// Unique.
    pub id: String,
    /// The name of the tool that was called, or `run` or `session`.
    pub tool: String,
    /// Its row in the ledger, once it has one.
    pub execution: Option<ExecutionId>,
}

impl Call {
    /// A call with an id of its own.
    #[must_use]
    pub fn new(tool: &str) -> Self {
        Self { id: uuid::Uuid::now_v7().simple().to_string(), tool: tool.to_owned(), execution: None }
    }
}

/// When records must be in the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeping {
    /// A thread writes them while the program goes on.
    Thread,
    /// A program that runs one command appends them to a file beside the ledger, which is faster.
    Beside,
}

/// Opens the ledger at `path` for writing. Secrets of the caller's environment never reach it; a ledger that cannot be
/// written is told once and stops nothing.
#[must_use]
pub fn open_ledger(
    path: &Path,
    environment: &EnvMap,
    keeping: Keeping,
    on_problem: impl FnMut(&Error) + Send + 'static,
) -> Arc<Writer> {
    let options = WriterOptions {
        on_problem: Box::new(on_problem),
        ..WriterOptions::new(secrets_of(environment, &[]))
    };
    Arc::new(match keeping {
        Keeping::Thread => Writer::spawn(path, options),
        Keeping::Beside => Writer::beside(path, options),
    })
}

/// Tells listeners and the ledger.
pub struct Recorder {
    listeners: Mutex<Vec<Listener>>,
    ledger: Option<Arc<Writer>>,
    /// What was granted for the session, which ends with this.
    granted: Mutex<Vec<Granted>>,
    redact: Arc<dyn Redact>,
    session_key: Option<String>,
    project: PathBuf,
    ledger_path: PathBuf,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("session_key", &self.session_key).finish_non_exhaustive()
    }
}

impl Recorder {
    /// `secrets` are removed besides the values of the caller's variables that are named like secrets.
    #[must_use]
    pub fn new(
        setup: &Setup,
        ledger: Option<Arc<Writer>>,
        secrets: &[String],
        session_key: Option<String>,
    ) -> Self {
        let redact = setup.secrets(secrets);
        let (project, ledger_path) = (setup.project.clone(), setup.ledger_path());
        Self {
            listeners: Mutex::default(),
            ledger,
            granted: Mutex::default(),
            redact,
            session_key,
            project,
            ledger_path,
        }
    }

    /// Where all of it is kept, with the session's name there; none where nothing is.
    pub(crate) fn locator(&self) -> Option<String> {
        self.ledger.as_ref()?;
        let path = self.ledger_path.display();
        Some(self.session_key.as_ref().map_or_else(|| path.to_string(), |key| format!("{path}#{key}")))
    }

    /// The session whose calls these are, where it has a name.
    #[must_use]
    pub fn session(&self) -> Option<&str> {
        self.session_key.as_deref()
    }

    /// Hears every event from now on.
    pub fn listen(&self, listener: Listener) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(listener);
    }

    /// Removes known secrets from a text.
    #[must_use]
    pub fn redact(&self) -> &dyn Redact {
        &*self.redact
    }

    /// Waits until all of it is written.
    pub fn flush(&self) {
        if let Some(ledger) = &self.ledger {
            ledger.flush();
        }
    }

    pub(crate) fn emit(&self, event: SessionEvent) {
        if let (Some(ledger), Some(body)) = (&self.ledger, event.without_output()) {
            ledger.event(Event::now(event.name(), body));
        }
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for listener in listeners {
            listener(&event);
        }
    }

    /// Something is wanted; whether it may run is not known yet.
    pub(crate) fn start(&self, command: &Command, cwd: Option<PathBuf>) -> ExecutionId {
        let mut start = ExecutionStart::new(match command {
            Command::Shell(text) => Command::Shell(self.redact.redact(text).into_owned()),
            Command::Argv(words) => {
                let word = |word: &std::ffi::OsString| match word.to_str() {
                    Some(text) => self.redact.redact(text).into_owned().into(),
                    None => word.clone(),
                };
                Command::Argv(words.iter().map(word).collect())
            }
        });
        start.cwd = cwd.or_else(|| Some(self.project.clone()));
        start.project = Some(self.project.clone());
        start.session_key.clone_from(&self.session_key);
        let id = start.id;
        if let Some(ledger) = &self.ledger {
            ledger.start(start);
        }
        id
    }

    /// What came of it.
    pub(crate) fn finish(&self, id: ExecutionId, result: &ExecResult) {
        let Some(ledger) = &self.ledger else { return };
        for violation in &result.violations {
            ledger.violation(Some(id), self.clean(violation));
        }
        for connection in &result.connections {
            ledger.violation(Some(id), self.clean(&Violation::connected(connection.clone())));
        }
        ledger.end(ExecutionEnd::of(id, result));
    }

    /// It was refused and never ran.
    pub(crate) fn never_ran(&self, id: ExecutionId, result: &ExecResult, why: &str) {
        let Some(ledger) = &self.ledger else { return };
        for violation in &result.violations {
            ledger.violation(Some(id), self.clean(violation));
        }
        let why = self.redact.redact(why).into_owned();
        let exit_code = Some(result.exit_code);
        ledger.end(ExecutionEnd { blocked: true, exit_code, ..ExecutionEnd::failed(id, why) });
    }

    /// It could not be run, or not to its end.
    pub(crate) fn failed(&self, id: ExecutionId, error: &Error) {
        if let Some(ledger) = &self.ledger {
            ledger.end(ExecutionEnd::failed(id, self.redact.redact(&error.chain()).into_owned()));
        }
    }

    /// Something was refused that is no command.
    pub(crate) fn refused(&self, violation: &Violation) {
        if let Some(ledger) = &self.ledger {
            ledger.violation(None, self.clean(violation));
        }
    }

    /// The gate's verdict, what followed in a word, and the execution it is about.
    pub(crate) fn judged(&self, id: ExecutionId, verdict: Option<&Verdict>, outcome: &str) {
        let Some(ledger) = &self.ledger else { return };
        let body = match verdict {
            None => json!({ "outcome": outcome }),
            Some(verdict) => json!({
                "verdict": verdict.decision,
                "risk": verdict.risk.level,
                "outcome": outcome,
                "findings": verdict.findings,
            }),
        };
        ledger.event(Event { execution_id: Some(id), ..Event::now(GATE_EVENT, body) });
    }

    /// Remembers an answer, and the grant that follows from it.
    pub(crate) fn decided(&self, permission: &Permission, call: &Call, answer: &Answer, by: &str) {
        let Some(ledger) = &self.ledger else { return };
        let is_path = permission.grant.as_ref().is_some_and(|grant| grant.path.is_absolute());
        let kind = match permission.kind {
            PermissionKind::SandboxAccess if is_path => "filesystem",
            PermissionKind::SandboxAccess => "network",
            PermissionKind::Execution => "command",
            PermissionKind::Tool => "tool",
        };
        ledger.decision(Decided {
            time_ms: now_ms(),
            execution_id: call.execution,
            decision: answer.decision,
            kind: kind.to_owned(),
            resource: permission.resource.clone(),
            access: permission.access,
            reason: Some(permission.reason.clone()),
            command: permission.command.clone(),
            key: Some(permission.key.clone()),
            by: by.to_owned(),
        });
        if !answer.decision.allows() {
            return;
        }
        let scope = answer.decision.scope();
        if let Some(grant) = &permission.grant {
            let mut granted = Granted::new(Grant { scope, ..grant.clone() });
            granted.session_key.clone_from(&self.session_key);
            granted.execution_id = call.execution;
            if scope == GrantScope::Session {
                self.granted.locked().push(granted.clone());
            }
            ledger.grant(granted);
        }
    }

    fn clean(&self, violation: &Violation) -> Violation {
        let clean = |text: &String| self.redact.redact(text).into_owned();
        Violation {
            resource: clean(&violation.resource),
            message: clean(&violation.message),
            argv: violation.argv.iter().map(clean).collect(),
            ..violation.clone()
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let Some(ledger) = &self.ledger else { return };
        for granted in self.granted.locked().drain(..) {
            ledger.grant(Granted { revoked_ms: Some(now_ms()), ..granted });
        }
    }
}
