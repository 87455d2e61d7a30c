//! Which sandboxes are old, and what the provider has that the registry does not.

use std::collections::BTreeMap;

use ringfence_model::Result;
use rusqlite::{OptionalExtension, Transaction};
use serde::{Deserialize, Serialize};

use crate::registry::{self, NewSandbox, Sandbox, SandboxState};
use crate::sql::{signed, time_column};
use crate::{Ledger, owner};

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// How long the name of a removed sandbox is remembered: longer than any listing takes.
const REMEMBER_REMOVED: u64 = DAY;

/// When a sandbox is old. Zero switches a test off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PrunePolicy {
    /// Not used for longer than this.
    pub idle_ms: u64,
    /// Made longer ago than this.
    pub max_age_ms: u64,
    /// Between two sweeps of all processes together.
    pub throttle_ms: u64,
}

impl Default for PrunePolicy {
    fn default() -> Self {
        Self { idle_ms: DAY, max_age_ms: 7 * DAY, throttle_ms: 5 * MINUTE }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PruneReason {
    Idle,
    Age,
    /// The process that was making or removing it is gone, or failed to remove it.
    Leftover,
}

/// A sandbox that may go. Claim it with [`Ledger::begin_removal`] and the last use seen here, so that one
/// that is used in between stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PruneCandidate {
    pub sandbox: Sandbox,
    pub reason: PruneReason,
}

/// What a provider really has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSandbox {
    pub sandbox: NewSandbox,
    pub created_ms: u64,
}

/// What reconciling the registry with a provider changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Adoption {
    /// There, but unknown until now.
    pub adopted: Vec<Sandbox>,
    /// Known, but no longer there; forgotten.
    pub gone: Vec<Sandbox>,
}

const LAST_PRUNE: &str = "last_prune_ms";

impl Ledger {
    /// The sandboxes that may go. None when another sweep, of whatever process, was too short a while
    /// ago; asking counts as a sweep.
    pub fn prune_candidates(
        &mut self,
        policy: &PrunePolicy,
        now_ms: u64,
    ) -> Result<Option<Vec<PruneCandidate>>> {
        self.change("look for old sandboxes", |transaction| {
            let last = transaction
                .query_row("SELECT value FROM settings WHERE name = ?1", [LAST_PRUNE], |row| {
                    time_column(row, 0)
                })
                .optional()?;
            // A clock that was set back must not stop pruning for years.
            if last.is_some_and(|last| last <= now_ms && now_ms - last < policy.throttle_ms) {
                return Ok(None);
            }
            transaction.execute(
                "INSERT OR REPLACE INTO settings (name, value) VALUES (?1, ?2)",
                (LAST_PRUNE, signed(now_ms)),
            )?;
            tidy(transaction, now_ms)?;
            let candidates = registry::all(transaction)?.into_iter().filter_map(|sandbox| {
                let reason = policy.reason(&sandbox, now_ms)?;
                Some(PruneCandidate { sandbox, reason })
            });
            Ok(Some(candidates.collect()))
        })
    }

    /// Brings the registry in line with what `provider` really has, as listed at `listed_ms`. What was
    /// made or removed since then, or is being made or removed now, is left alone.
    pub fn adopt(
        &mut self,
        provider: &str,
        found: &[FoundSandbox],
        listed_ms: u64,
        now_ms: u64,
    ) -> Result<Adoption> {
        self.change("adopt sandboxes", |transaction| {
            let known: BTreeMap<String, Sandbox> = registry::all(transaction)?
                .into_iter()
                .filter(|sandbox| sandbox.provider == provider)
                .map(|sandbox| (sandbox.name.clone(), sandbox))
                .collect();
            let mut adoption = Adoption::default();
            for found in found {
                let name = &found.sandbox.name;
                if known.contains_key(name) || removed_since(transaction, name, listed_ms)? {
                    continue;
                }
                registry::put(transaction, &found.sandbox, SandboxState::Ready, found.created_ms, now_ms)?;
                adoption.adopted.extend(registry::find(transaction, name)?);
            }
            for (name, sandbox) in known {
                let there = found.iter().any(|found| found.sandbox.name == name);
                let busy = sandbox.state != SandboxState::Ready && sandbox.owner_alive;
                if there || busy || changed_since(transaction, &name, listed_ms)? {
                    continue;
                }
                registry::forget(transaction, &name, now_ms)?;
                adoption.gone.push(sandbox);
            }
            Ok(adoption)
        })
    }
}

impl PrunePolicy {
    fn reason(&self, sandbox: &Sandbox, now_ms: u64) -> Option<PruneReason> {
        let longer = |since: u64, limit: u64| limit > 0 && now_ms.saturating_sub(since) > limit;
        match sandbox.state {
            SandboxState::Reserved | SandboxState::Removing => {
                (!sandbox.owner_alive).then_some(PruneReason::Leftover)
            }
            SandboxState::Ready if sandbox.in_use => None,
            SandboxState::Ready if longer(sandbox.last_used_at_ms, self.idle_ms) => Some(PruneReason::Idle),
            SandboxState::Ready if longer(sandbox.created_at_ms, self.max_age_ms) => Some(PruneReason::Age),
            SandboxState::Ready => None,
        }
    }
}

/// Drops leases of processes that are gone and names removed long ago.
fn tidy(transaction: &Transaction<'_>, now_ms: u64) -> rusqlite::Result<()> {
    let before = signed(now_ms.saturating_sub(REMEMBER_REMOVED));
    transaction.execute("DELETE FROM removed_sandboxes WHERE removed_ms < ?1", [before])?;
    let mut statement = transaction.prepare("SELECT id, owner FROM leases")?;
    let leases: Vec<(String, String)> =
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<rusqlite::Result<_>>()?;
    for (id, holder) in leases {
        if !owner::is_alive(&holder) {
            transaction.execute("DELETE FROM leases WHERE id = ?1", [id])?;
        }
    }
    Ok(())
}

fn removed_since(transaction: &Transaction<'_>, name: &str, listed_ms: u64) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM removed_sandboxes WHERE name = ?1 AND removed_ms >= ?2)";
    transaction.query_row(sql, (name, signed(listed_ms)), |row| row.get(0))
}

fn changed_since(transaction: &Transaction<'_>, name: &str, listed_ms: u64) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM sandboxes WHERE name = ?1 AND changed_ms >= ?2)";
    transaction.query_row(sql, (name, signed(listed_ms)), |row| row.get(0))
}
