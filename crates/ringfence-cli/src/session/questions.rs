//! Questions on the wire: asked as lines, answered by lines.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ringfence::fence::BoxFuture;
use ringfence::model::Decision;
use ringfence::permission::{Answer, ApprovalService, PendingQuestions, Permission, PermissionKind};
use serde_json::json;

use super::wire::Wire;

/// Brings questions to whoever reads the session.
#[derive(Debug)]
pub(crate) struct WireQuestions {
    waiting: PendingQuestions,
    known: Arc<Mutex<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    last: u64,
    /// The question's own id, by the number that the wire has for it.
    questions: BTreeMap<u64, String>,
    /// The shell of a call.
    shells: BTreeMap<String, String>,
}

impl WireQuestions {
    pub(crate) fn new(wire: Arc<Wire>) -> Self {
        let known: Arc<Mutex<Known>> = Arc::default();
        let its = Arc::clone(&known);
        let waiting = PendingQuestions::new(move |permission| {
            let (number, shell) = {
                let mut known = lock(&its);
                known.last += 1;
                let number = known.last;
                known.questions.insert(number, permission.id.clone());
                (number, known.shells.get(&permission.call).cloned().unwrap_or_default())
            };
            wire.send(&line(number, &shell, permission));
        });
        Self { waiting, known }
    }

    /// A call belongs to this shell, until [`forget`](Self::forget).
    pub(crate) fn belongs(&self, call: &str, shell: &str) {
        lock(&self.known).shells.insert(call.to_owned(), shell.to_owned());
    }

    pub(crate) fn forget(&self, call: &str) {
        lock(&self.known).shells.remove(call);
    }

    /// Whether somebody waited for this answer.
    pub(crate) fn answer(&self, number: u64, decision: Decision) -> bool {
        let id = lock(&self.known).questions.remove(&number);
        id.is_some_and(|id| self.waiting.answer(&id, Answer::new(decision)))
    }

    /// Nobody answers any more: everything that waits is denied.
    pub(crate) fn close(&self) {
        self.waiting.close();
    }
}

fn line(number: u64, shell: &str, permission: &Permission) -> serde_json::Value {
    let is_path = permission.grant.as_ref().is_some_and(|grant| grant.path.is_absolute());
    let kind = match permission.kind {
        PermissionKind::SandboxAccess if is_path => "filesystem",
        PermissionKind::SandboxAccess => "network",
        PermissionKind::Execution => "command",
        PermissionKind::Tool => "tool",
    };
    let mut line = json!({
        "event": "permission_request",
        "permission": number,
        "shell": shell,
        "command": permission.command,
        "type": kind,
        "resource": permission.resource,
        "reason": permission.reason,
        "options": permission.options,
    });
    let mut add = |name: &str, value: serde_json::Value| {
        if !value.is_null() {
            line[name] = value;
        }
    };
    add("access", json!(permission.access));
    add("program", json!(permission.program));
    add("risk", json!(permission.risk_level));
    add("proposal", json!(permission.proposal));
    line
}

impl ApprovalService for WireQuestions {
    fn ask<'a>(&'a self, permission: &'a Permission) -> BoxFuture<'a, Answer> {
        self.waiting.ask(permission)
    }

    fn name(&self) -> &str {
        "session"
    }
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}
