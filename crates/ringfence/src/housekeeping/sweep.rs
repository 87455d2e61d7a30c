//! Old sandboxes go, forgotten ones are found.

use std::time::Duration;

use ringfence_ledger::{
    Adoption, FoundSandbox, NewSandbox, PrunePolicy, PruneReason, RemovalGuard, Sandbox, SandboxFilter,
    SandboxKind, now_ms,
};
use ringfence_model::config::Prune;
use ringfence_model::{Error, ErrorKind, Result};
use ringfence_workspace::{SessionOptions, Sessions, session_slug};

use super::keeper::Housekeeper;

/// Whether a sweep that follows another one too soon is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Throttle {
    /// At most one every five minutes, of all processes together.
    On,
    /// A person asked for it.
    Off,
}

/// The outcome of a sweep.
#[derive(Debug, Default)]
pub struct Swept {
    /// Another sweep was too short a while ago; nothing was done.
    pub throttled: bool,
    pub removed: Vec<(Sandbox, PruneReason)>,
    /// Kept for the next sweep.
    pub failed: Vec<(Sandbox, Error)>,
    /// They were there, and nobody knew.
    pub adopted: Vec<Sandbox>,
    /// They were registered, and not there.
    pub gone: Vec<Sandbox>,
    /// Directories of sessions that nobody used any more, by name.
    pub workspaces: Vec<String>,
    /// Providers that could not be asked, or are not here.
    pub problems: Vec<Error>,
}

const HOUR: u64 = 3_600_000;

/// The configured ages, in the ledger's words.
fn policy(prune: Prune) -> PrunePolicy {
    PrunePolicy {
        idle_ms: u64::from(prune.idle_hours) * HOUR,
        max_age_ms: u64::from(prune.max_age_days) * 24 * HOUR,
        ..PrunePolicy::default()
    }
}

/// Somebody who has its provider will remove it.
fn without_provider(sandbox: &Sandbox) -> Error {
    let message = format!("{} is due, and its provider {} is not here", sandbox.name, sandbox.provider);
    Error::new(ErrorKind::SandboxNotAvailable, message)
        .hint("start the container engine, or name it in DOCKER_HOST, and prune again")
}

impl Housekeeper {
    /// Removes what is idle or old, and what was left half made or half removed; takes in what nobody remembers; forgets what is
    /// not there. A sandbox in use stays. A sandbox that cannot be removed does not stop the others.
    pub async fn sweep(&self, prune: Prune, throttle: Throttle) -> Result<Swept> {
        let unthrottled = PrunePolicy { throttle_ms: 0, ..policy(prune) };
        let first = match throttle {
            Throttle::On => policy(prune),
            Throttle::Off => unthrottled,
        };
        let mut swept = Swept::default();
        if self.ledger().prune_candidates(&first, now_ms())?.is_none() {
            swept.throttled = true;
            return Ok(swept);
        }
        self.reconcile(&mut swept).await?;
        // Once more: what was taken in may be old.
        let candidates = self.ledger().prune_candidates(&unthrottled, now_ms())?.unwrap_or_default();
        for candidate in candidates {
            let sandbox = candidate.sandbox;
            let Some(lasting) = self.lasting_of(&sandbox.provider) else {
                swept.problems.push(without_provider(&sandbox));
                continue;
            };
            let guard = RemovalGuard::UnlessUsedAfter(sandbox.last_used_at_ms);
            if self.ledger().begin_removal(&sandbox.name, guard, now_ms())?.is_none() {
                continue;
            }
            match self.finish_removal(lasting, &sandbox.name).await {
                Ok(()) => swept.removed.push((sandbox, candidate.reason)),
                Err(error) => swept.failed.push((sandbox, error)),
            }
        }
        self.clean_up_workspaces(prune, &mut swept)?;
        Ok(swept)
    }

    /// Removes directories of sessions in which nothing has changed for as long as a sandbox may be idle. Those of sandboxes
    /// that are still there stay with them.
    fn clean_up_workspaces(&self, prune: Prune, swept: &mut Swept) -> Result<()> {
        let Some(root) = self.workspaces().filter(|root| prune.idle_hours > 0 && root.is_dir()) else {
            return Ok(());
        };
        let rows = self.ledger().sandboxes(&SandboxFilter::default())?;
        let held: Vec<String> = rows.iter().map(|row| session_slug(&row.session_key)).collect();
        let max_idle = Duration::from_millis(policy(prune).idle_ms);
        let sessions = Sessions::open(root, SessionOptions { max_idle, ..SessionOptions::default() });
        let now = i64::try_from(now_ms()).unwrap_or(i64::MAX);
        match sessions.and_then(|sessions| sessions.clean_up(now, &|name| held.iter().any(|it| it == name))) {
            Ok(cleaned) => {
                swept.workspaces = cleaned.removed;
                swept.problems.extend(cleaned.failed.into_iter().map(|(_, error)| error));
            }
            Err(error) => swept.problems.push(error),
        }
        Ok(())
    }

    /// Brings the register in line with what is there.
    async fn reconcile(&self, swept: &mut Swept) -> Result<()> {
        for lasting in self.lasting() {
            let listed_ms = now_ms();
            let found = match lasting.find().await {
                Ok(found) => found,
                // An engine that is down has not lost its containers.
                Err(error) => {
                    swept.problems.push(error);
                    continue;
                }
            };
            let found: Vec<FoundSandbox> = found
                .into_iter()
                .map(|found| FoundSandbox {
                    created_ms: found.created_ms,
                    sandbox: NewSandbox {
                        name: found.name,
                        kind: SandboxKind::Commands,
                        provider: lasting.provider().to_owned(),
                        scope: super::register::scope_name(&found.scope_key).to_owned(),
                        session_key: found.scope_key,
                        image: found.image,
                        config_hash: found.config_hash,
                        cdp_port: None,
                        no_vnc_port: None,
                    },
                })
                .collect();
            let Adoption { adopted, gone } =
                self.ledger().adopt(lasting.provider(), &found, listed_ms, now_ms())?;
            swept.adopted.extend(adopted);
            swept.gone.extend(gone);
        }
        self.forget_ended(swept)
    }

    /// Sandboxes that end with their process are gone when it is.
    fn forget_ended(&self, swept: &mut Swept) -> Result<()> {
        let rows = self.ledger().sandboxes(&SandboxFilter::default())?;
        let ended = rows
            .into_iter()
            .filter(|row| super::register::ends_with_process(&row.provider) && !row.owner_alive);
        for row in ended {
            if self.ledger().remove(&row.name, now_ms())? {
                swept.gone.push(row);
            }
        }
        Ok(())
    }
}
