//! The registry of sandboxes that outlive a command: containers, browsers, pods.
//!
//! ```text
//! (none) ── reserve ──▶ reserved ── ready ──▶ ready ── begin_removal ──▶ removing ── remove ──▶ (none)
//!              ▲            │ cancel                                        │ removal_failed
//!              └────────────┘                          the next sweep tries again
//! ```
//!
//! Each step is one transaction that holds the write lock from its first look, and names the state it
//! expects, so that of two processes exactly one gets through. `reserved` and `removing` belong to a
//! process; when it is gone, the next one takes over and is told that something may be left behind.

use ringfence_model::{Error, ErrorKind, Result};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};

use crate::owner::{self, Owner};
use crate::sql::{from_name, name_of, signed, time_column};
use crate::{ExecutionId, Ledger};

/// What a registered sandbox is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SandboxKind {
    #[default]
    Commands,
    Browser,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SandboxState {
    /// Somebody is making it.
    Reserved,
    Ready,
    /// Somebody is removing it, or failed to.
    Removing,
}

/// A sandbox that is to be registered.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewSandbox {
    /// The provider's own name for it, such as the container's; unique.
    pub name: String,
    pub kind: SandboxKind,
    pub provider: String,
    pub session_key: String,
    pub scope: String,
    pub image: String,
    pub config_hash: String,
    /// Browsers only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cdp_port: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_vnc_port: Option<u16>,
}

/// A registered sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sandbox {
    pub name: String,
    pub kind: SandboxKind,
    pub provider: String,
    pub session_key: String,
    pub scope: String,
    pub created_at_ms: u64,
    pub last_used_at_ms: u64,
    pub image: String,
    pub config_hash: String,
    pub state: SandboxState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cdp_port: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_vnc_port: Option<u16>,
    /// How often removing it failed, and the last reason.
    pub failures: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    pub owner_pid: u32,
    /// Whether that process may still be there.
    pub owner_alive: bool,
    /// A living process holds a lease on it.
    pub in_use: bool,
}

impl Sandbox {
    /// Used less than `window_ms` ago.
    #[must_use]
    pub fn is_hot(&self, now_ms: u64, window_ms: u64) -> bool {
        now_ms.saturating_sub(self.last_used_at_ms) < window_ms
    }
}

/// What came of asking for a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reservation {
    /// It is yours to make. A leftover is what a process that is gone had begun under this name; look
    /// for it and remove it first.
    Reserved { leftover: Option<Box<Sandbox>> },
    /// It is there.
    Ready(Box<Sandbox>),
    /// Another process (or thread) is making or removing it; try again soon.
    Busy(Box<Sandbox>),
}

/// When a removal may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemovalGuard {
    /// A person asked for it.
    Always,
    /// Only if nobody holds it and it was not used after that moment.
    UnlessUsedAfter(u64),
}

/// Which registered sandboxes; everything left open matches all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SandboxFilter {
    pub provider: Option<String>,
    pub session_key: Option<String>,
    pub kind: Option<SandboxKind>,
}

/// Proof that a sandbox is being used; end it with [`Ledger::end_lease`]. One of a process that is gone
/// does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    id: String,
    pub sandbox: String,
}

impl Ledger {
    /// Asks for the right to make a sandbox.
    pub fn reserve(&mut self, new: &NewSandbox, now_ms: u64) -> Result<Reservation> {
        self.change("reserve a sandbox", |transaction| {
            let found = find(transaction, &new.name)?;
            match found {
                Some(sandbox) if sandbox.state == SandboxState::Ready => {
                    Ok(Reservation::Ready(Box::new(sandbox)))
                }
                Some(sandbox) if sandbox.owner_alive => Ok(Reservation::Busy(Box::new(sandbox))),
                leftover => {
                    put(transaction, new, SandboxState::Reserved, now_ms, now_ms)?;
                    Ok(Reservation::Reserved { leftover: leftover.map(Box::new) })
                }
            }
        })
    }

    /// Says that the reserved sandbox now exists. An error when the reservation is no longer ours.
    pub fn ready(&mut self, new: &NewSandbox, now_ms: u64) -> Result<()> {
        let done = self.change("register a sandbox", |transaction| {
            let sql = "UPDATE sandboxes SET state = 'ready', last_used_ms = ?2, changed_ms = ?2, image = ?3,
                config_hash = ?4, cdp_port = ?5, novnc_port = ?6
                WHERE name = ?1 AND state = 'reserved' AND owner = ?7";
            transaction.execute(
                sql,
                params![
                    new.name,
                    signed(now_ms),
                    new.image,
                    new.config_hash,
                    new.cdp_port,
                    new.no_vnc_port,
                    Owner::current().to_string(),
                ],
            )
        })?;
        match done {
            0 => Err(taken(&new.name)),
            _ => Ok(()),
        }
    }

    /// Gives a reservation back: making the sandbox failed and nothing of it is left.
    pub fn cancel(&mut self, name: &str) -> Result<()> {
        self.change("cancel a reservation", |transaction| {
            let sql = "DELETE FROM sandboxes WHERE name = ?1 AND state = 'reserved' AND owner = ?2";
            transaction.execute(sql, (name, Owner::current().to_string())).map(drop)
        })
    }

    /// Leaves a reservation behind that is not carried out: something of it may be there, and whoever comes next is told.
    pub fn abandon(&mut self, name: &str) -> Result<()> {
        self.change("leave a reservation", |transaction| {
            let sql = "UPDATE sandboxes SET owner = '' WHERE name = ?1 AND state = 'reserved' AND owner = ?2";
            transaction.execute(sql, (name, Owner::current().to_string())).map(drop)
        })
    }

    /// Registers a sandbox that exists, or updates its entry; the first creation time and image stay. An error when somebody
    /// else is making or removing it.
    pub fn upsert(&mut self, new: &NewSandbox, now_ms: u64) -> Result<Sandbox> {
        let registered = self.change("register a sandbox", |transaction| {
            if find(transaction, &new.name)?.is_some_and(|row| is_anothers(&row)) {
                return Ok(None);
            }
            let sql = "UPDATE sandboxes SET state = 'ready', session_key = ?2, scope = ?3, config_hash = ?4,
                cdp_port = ?5, novnc_port = ?6, last_used_ms = ?7, changed_ms = ?7 WHERE name = ?1";
            let updated = transaction.execute(
                sql,
                params![
                    new.name,
                    new.session_key,
                    new.scope,
                    new.config_hash,
                    new.cdp_port,
                    new.no_vnc_port,
                    signed(now_ms),
                ],
            )?;
            if updated == 0 {
                put(transaction, new, SandboxState::Ready, now_ms, now_ms)?;
            }
            find(transaction, &new.name)
        })?;
        registered.ok_or_else(|| {
            let message = format!("another process is making or removing the sandbox {}", new.name);
            Error::new(ErrorKind::ConcurrentAccess, message).hint("try again when it is done")
        })
    }

    /// Notes that it is being used. False when it is not ready; a removed one does not come back.
    pub fn touch(&mut self, name: &str, now_ms: u64) -> Result<bool> {
        self.change("note the use of a sandbox", |transaction| touch(transaction, name, now_ms))
    }

    /// Holds it against pruning until the lease ends or this process does. None when it is not ready.
    pub fn lease(&mut self, name: &str, now_ms: u64) -> Result<Option<Lease>> {
        self.change("hold a sandbox", |transaction| {
            if !touch(transaction, name, now_ms)? {
                return Ok(None);
            }
            let lease = Lease { id: ExecutionId::new().to_string(), sandbox: name.to_owned() };
            transaction.execute(
                "INSERT INTO leases (id, sandbox, since_ms, owner) VALUES (?1, ?2, ?3, ?4)",
                params![lease.id, name, signed(now_ms), Owner::current().to_string()],
            )?;
            Ok(Some(lease))
        })
    }

    pub fn end_lease(&mut self, lease: &Lease, now_ms: u64) -> Result<()> {
        self.change("release a sandbox", |transaction| {
            transaction.execute("DELETE FROM leases WHERE id = ?1", [&lease.id])?;
            touch(transaction, &lease.sandbox, now_ms).map(drop)
        })
    }

    /// Takes the right to remove it. None when it is gone, being made or removed by somebody alive, or
    /// protected by the guard.
    pub fn begin_removal(&mut self, name: &str, guard: RemovalGuard, now_ms: u64) -> Result<Option<Sandbox>> {
        self.change("remove a sandbox", |transaction| {
            let Some(sandbox) = find(transaction, name)? else { return Ok(None) };
            let held = sandbox.state != SandboxState::Ready && sandbox.owner_alive;
            let protected = match guard {
                RemovalGuard::Always => false,
                RemovalGuard::UnlessUsedAfter(seen_ms) => sandbox.in_use || sandbox.last_used_at_ms > seen_ms,
            };
            if held || protected {
                return Ok(None);
            }
            let owner = Owner::current();
            transaction.execute(
                "UPDATE sandboxes SET state = 'removing', changed_ms = ?2, owner_pid = ?3, owner = ?4 WHERE name = ?1",
                params![name, signed(now_ms), owner.pid(), owner.to_string()],
            )?;
            Ok(Some(sandbox))
        })
    }

    /// Removing it failed: the entry stays, belongs to nobody, and the next sweep tries again.
    pub fn removal_failed(&mut self, name: &str, why: &str, now_ms: u64) -> Result<()> {
        let why = self.redact.redact(why).into_owned();
        self.change("note a failed removal", |transaction| {
            let sql =
                "UPDATE sandboxes SET failures = failures + 1, last_error = ?2, changed_ms = ?3, owner = ''
                WHERE name = ?1 AND state = 'removing'";
            transaction.execute(sql, (name, &why, signed(now_ms))).map(drop)
        })
    }

    /// Forgets it. False when it was not registered.
    pub fn remove(&mut self, name: &str, now_ms: u64) -> Result<bool> {
        self.change("forget a sandbox", |transaction| forget(transaction, name, now_ms))
    }

    pub fn sandbox(&self, name: &str) -> Result<Option<Sandbox>> {
        find(&self.connection, name).map_err(self.failed("read a sandbox"))
    }

    /// All registered sandboxes, the one used last first.
    pub fn sandboxes(&self, filter: &SandboxFilter) -> Result<Vec<Sandbox>> {
        let mut found = all(&self.connection).map_err(self.failed("read sandboxes"))?;
        found.retain(|sandbox| {
            filter.provider.as_ref().is_none_or(|provider| *provider == sandbox.provider)
                && filter.session_key.as_ref().is_none_or(|key| *key == sandbox.session_key)
                && filter.kind.is_none_or(|kind| kind == sandbox.kind)
        });
        Ok(found)
    }
}

/// Whether somebody alive is at work on it: whoever removes it, or another process that makes it.
fn is_anothers(row: &Sandbox) -> bool {
    match row.state {
        SandboxState::Ready => false,
        SandboxState::Reserved => row.owner_alive && row.owner_pid != std::process::id(),
        SandboxState::Removing => row.owner_alive,
    }
}

fn taken(name: &str) -> Error {
    Error::new(
        ErrorKind::ConcurrentAccess,
        format!(
            "the reservation of sandbox {name} is no longer ours: another process took it over or removed it"
        ),
    )
}

pub(crate) fn touch(connection: &Connection, name: &str, now_ms: u64) -> rusqlite::Result<bool> {
    let sql = "UPDATE sandboxes SET last_used_ms = max(last_used_ms, ?2) WHERE name = ?1 AND state = 'ready'";
    Ok(connection.prepare_cached(sql)?.execute((name, signed(now_ms)))? > 0)
}

pub(crate) fn forget(connection: &Connection, name: &str, now_ms: u64) -> rusqlite::Result<bool> {
    let gone = connection.execute("DELETE FROM sandboxes WHERE name = ?1", [name])? > 0;
    connection.execute("DELETE FROM leases WHERE sandbox = ?1", [name])?;
    connection.execute(
        "INSERT OR REPLACE INTO removed_sandboxes (name, removed_ms) VALUES (?1, ?2)",
        (name, signed(now_ms)),
    )?;
    Ok(gone)
}

pub(crate) fn put(
    connection: &Connection,
    new: &NewSandbox,
    state: SandboxState,
    created_ms: u64,
    now_ms: u64,
) -> rusqlite::Result<()> {
    let owner = Owner::current();
    let sql = "INSERT OR REPLACE INTO sandboxes (name, kind, provider, session_key, scope, created_ms, last_used_ms,
        changed_ms, image, config_hash, state, cdp_port, novnc_port, owner_pid, owner)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
    connection.execute(
        sql,
        params![
            new.name,
            name_of(&new.kind)?,
            new.provider,
            new.session_key,
            new.scope,
            signed(created_ms),
            signed(now_ms),
            new.image,
            new.config_hash,
            name_of(&state)?,
            new.cdp_port,
            new.no_vnc_port,
            owner.pid(),
            owner.to_string(),
        ],
    )?;
    connection.execute("DELETE FROM removed_sandboxes WHERE name = ?1", [&new.name])?;
    Ok(())
}

const SELECT: &str =
    "SELECT name, kind, provider, session_key, scope, created_ms, last_used_ms, image, config_hash,
    state, cdp_port, novnc_port, failures, last_error, owner_pid, owner FROM sandboxes";

pub(crate) fn find(connection: &Connection, name: &str) -> rusqlite::Result<Option<Sandbox>> {
    let found = connection
        .prepare_cached(&format!("{SELECT} WHERE name = ?1"))?
        .query_row([name], read_sandbox)
        .optional()?;
    match found {
        Some(mut sandbox) => {
            sandbox.in_use = lease_holders(connection)?.contains(&sandbox.name);
            Ok(Some(sandbox))
        }
        None => Ok(None),
    }
}

pub(crate) fn all(connection: &Connection) -> rusqlite::Result<Vec<Sandbox>> {
    let held = lease_holders(connection)?;
    let mut statement = connection.prepare_cached(&format!("{SELECT} ORDER BY last_used_ms DESC, name"))?;
    let rows = statement.query_map([], read_sandbox)?;
    rows.map(|row| {
        let mut sandbox = row?;
        sandbox.in_use = held.contains(&sandbox.name);
        Ok(sandbox)
    })
    .collect()
}

/// Names of the sandboxes that a living process holds.
fn lease_holders(connection: &Connection) -> rusqlite::Result<std::collections::BTreeSet<String>> {
    let mut statement = connection.prepare_cached("SELECT sandbox, owner FROM leases")?;
    let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
    let mut held = std::collections::BTreeSet::new();
    for row in rows {
        let (sandbox, holder) = row?;
        if owner::is_alive(&holder) {
            held.insert(sandbox);
        }
    }
    Ok(held)
}

fn read_sandbox(row: &Row<'_>) -> rusqlite::Result<Sandbox> {
    Ok(Sandbox {
        name: row.get(0)?,
        kind: from_name(row, 1)?,
        provider: row.get(2)?,
        session_key: row.get(3)?,
        scope: row.get(4)?,
        created_at_ms: time_column(row, 5)?,
        last_used_at_ms: time_column(row, 6)?,
        image: row.get(7)?,
        config_hash: row.get(8)?,
        state: from_name(row, 9)?,
        cdp_port: row.get(10)?,
        no_vnc_port: row.get(11)?,
        failures: row.get(12)?,
        last_error: row.get(13)?,
        owner_pid: row.get(14)?,
        owner_alive: owner::is_alive(&row.get::<_, String>(15)?),
        in_use: false,
    })
}
