//! Rows of sandboxes that end with their process.

use std::sync::Arc;

use ringfence_ledger::{Lease, NewSandbox, SandboxKind, now_ms};
use ringfence_model::Result;

use super::keeper::Housekeeper;

/// Whether sandboxes of that provider end with the process that made them.
#[must_use]
pub fn ends_with_process(provider: &str) -> bool {
    provider == "local"
}

/// The word for who shares a sandbox, by its key.
pub(super) fn scope_name(scope_key: &str) -> &'static str {
    match scope_key.strip_prefix("agent:") {
        _ if scope_key == "shared" => "shared",
        Some(agent) if !agent.contains(':') => "agent",
        _ => "session",
    }
}

/// A row that stays as long as this does.
#[derive(Debug)]
pub struct Registered {
    keeper: Arc<Housekeeper>,
    lease: Option<Lease>,
    name: String,
}

impl Housekeeper {
    /// Registers a sandbox of this process until the returned value is dropped.
    pub fn register(self: &Arc<Self>, provider: &str, name: &str, scope_key: &str) -> Result<Registered> {
        let new = NewSandbox {
            name: name.to_owned(),
            kind: SandboxKind::Commands,
            provider: provider.to_owned(),
            session_key: scope_key.to_owned(),
            scope: scope_name(scope_key).to_owned(),
            ..NewSandbox::default()
        };
        let mut ledger = self.ledger();
        ledger.upsert(&new, now_ms())?;
        let lease = ledger.lease(name, now_ms())?;
        drop(ledger);
        Ok(Registered { keeper: Arc::clone(self), lease, name: name.to_owned() })
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut ledger = self.keeper.ledger();
        // A ledger that cannot be written now leaves a row of a process that is gone soon; the next sweep takes it.
        if let Some(lease) = &self.lease {
            let _ = ledger.end_lease(lease, now_ms());
        }
        let _ = ledger.remove(&self.name, now_ms());
    }
}
