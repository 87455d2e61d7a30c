//! Who hears what happens: subscribers now, the ledger for later.

use std::sync::{Arc, Mutex, PoisonError};

use ringfence_ledger::{
    Decided, Event, ExecutionEnd, ExecutionId, ExecutionStart, Granted, Redact, Writer, now_ms,
};
use ringfence_model::{Command, Decision, Error, ExecResult, GrantScope, Violation};

use super::event::ToolEvent;
use crate::permission::{Answer, Permission, PermissionKind};

/// Hears events, on the thread on which they happen.
pub type Listener = Arc<dyn Fn(&ToolEvent) + Send + Sync>;

/// One call of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallRef {
    pub id: String,
    pub tool: String,
    pub execution: Option<ExecutionId>,
}

/// Tells listeners and the ledger.
pub struct Journal {
    listeners: Mutex<Vec<Listener>>,
    ledger: Option<Arc<Writer>>,
    redact: Arc<dyn Redact>,
    session_key: Option<String>,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("session_key", &self.session_key).finish_non_exhaustive()
    }
}

impl Journal {
    /// `redact` removes known secrets from everything that leaves here.
    #[must_use]
    pub fn new(ledger: Option<Arc<Writer>>, redact: Arc<dyn Redact>, session_key: Option<String>) -> Self {
        Self { listeners: Mutex::default(), ledger, redact, session_key }
    }

    /// The session whose calls these are, where it has a name.
    #[must_use]
    pub fn session(&self) -> Option<&str> {
        self.session_key.as_deref()
    }

    pub fn listen(&self, listener: Listener) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(listener);
    }

    #[must_use]
    pub fn redact(&self) -> &dyn Redact {
        &*self.redact
    }

    pub(crate) fn emit(&self, event: ToolEvent) {
        if let (Some(ledger), Some(body)) = (&self.ledger, event.record()) {
            ledger.event(Event::now(event.name(), body));
        }
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for listener in listeners {
            listener(&event);
        }
    }

    /// Remembers an answer, and the grant that follows from it.
    pub(crate) fn decided(&self, permission: &Permission, call: &CallRef, answer: &Answer, by: &str) {
        let Some(ledger) = &self.ledger else { return };
        let kind = match permission.kind {
            PermissionKind::SandboxAccess
                if permission.grant.as_ref().is_some_and(|g| g.path.is_absolute()) =>
            {
                "filesystem"
            }
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
        let scope = match answer.decision {
            Decision::AllowOnce => GrantScope::Once,
            Decision::AllowSession => GrantScope::Session,
            Decision::AllowPermanent => GrantScope::Permanent,
            Decision::Deny | Decision::Abort => return,
        };
        if let Some(grant) = &permission.grant {
            let mut granted = Granted::new(ringfence_model::Grant { scope, ..grant.clone() });
            granted.session_key.clone_from(&self.session_key);
            granted.execution_id = call.execution;
            ledger.grant(granted);
        }
    }

    /// A command is about to run in the fence.
    pub(crate) fn starts(&self, command: &str, cwd: &std::path::Path) -> ExecutionId {
        let mut start = ExecutionStart::new(Command::Shell(self.redact.redact(command).into_owned()));
        start.cwd = Some(cwd.to_owned());
        start.project = Some(cwd.to_owned());
        start.session_key.clone_from(&self.session_key);
        let id = start.id;
        if let Some(ledger) = &self.ledger {
            ledger.start(start);
        }
        id
    }

    /// Something was refused before anything ran.
    pub(crate) fn refused(&self, violation: Violation) {
        if let Some(ledger) = &self.ledger {
            ledger.violation(None, violation);
        }
    }

    /// What began in the background has ended.
    pub(crate) fn ended(&self, end: ExecutionEnd) {
        if let Some(ledger) = &self.ledger {
            ledger.end(end);
        }
    }

    pub(crate) fn ends(&self, id: ExecutionId, outcome: &Result<ExecResult, Error>) {
        let Some(ledger) = &self.ledger else { return };
        match outcome {
            Ok(result) => ledger.finish(id, result),
            Err(error) => ledger.end(ExecutionEnd::failed(id, error.chain())),
        }
    }
}
