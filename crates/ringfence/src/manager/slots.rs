//! One sandbox for each key, never two.
//!
//! Everybody who needs a key's sandbox waits in its slot's queue; the first one makes it. A slot that was emptied for good
//! is retired: whoever still waits in it goes back and finds, or makes, its successor.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ringfence_fence::{Granted, Provider, Sandbox};
use ringfence_model::{Grant, Result};

use super::place::Place;
use crate::housekeeping::Registered;

/// A sandbox, who made it, and what it holds on to.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) sandbox: Arc<dyn Sandbox>,
    pub(super) provider: Arc<dyn Provider>,
    /// The place where it works; this keeps it from clean-up.
    pub(super) place: Arc<Place>,
    /// Its row in the register, which goes with the last of these.
    pub(super) _registered: Option<Arc<Registered>>,
}

impl Held {
    pub(super) async fn destroy(&self) -> Result<()> {
        let destroyed = self.provider.destroy(self.sandbox.id()).await;
        // A provider that does not know it any more has left it to itself.
        self.sandbox.dispose().await?;
        destroyed
    }
}

#[derive(Debug, Default)]
struct Room {
    held: Option<Held>,
    /// Its destruction was begun; whoever comes next ends it.
    doomed: bool,
    retired: bool,
}

impl Room {
    fn living(&self) -> Option<&Held> {
        self.held.as_ref().filter(|held| !self.doomed && held.sandbox.is_alive())
    }

    /// Destroys what is held. Given up in the middle, or failed, it is still held, and tried again.
    async fn empty(&mut self) -> Result<()> {
        if let Some(held) = &self.held {
            self.doomed = true;
            held.destroy().await?;
        }
        self.held = None;
        self.doomed = false;
        Ok(())
    }

    async fn fill(&mut self, making: impl Future<Output = Result<Held>>) -> Result<Held> {
        self.empty().await?;
        let held = making.await?;
        self.held = Some(held.clone());
        Ok(held)
    }
}

/// The belongings of one key, whichever sandbox it has at the moment.
#[derive(Debug, Default)]
pub(super) struct Slot {
    room: tokio::sync::Mutex<Room>,
    grants: Mutex<Vec<Grant>>,
}

impl Slot {
    pub(super) fn grants(&self) -> Vec<Grant> {
        self.locked().clone()
    }

    /// False when it was there already.
    pub(super) fn keep(&self, grant: Grant) -> bool {
        let mut grants = self.locked();
        let new = !grants.contains(&grant);
        if new {
            grants.push(grant);
        }
        new
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Grant>> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: Mutex<BTreeMap<String, Arc<Slot>>>,
}

impl Slots {
    fn locked(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn slot(&self, key: &str) -> Arc<Slot> {
        Arc::clone(self.locked().entry(key.to_owned()).or_default())
    }

    /// Grants of the key, if anybody ever asked for it.
    pub(super) fn grants(&self, key: &str) -> Vec<Grant> {
        self.locked().get(key).map(|slot| slot.grants()).unwrap_or_default()
    }

    /// The key's sandbox, made by `make` when there is none that lives.
    pub(super) async fn get<F>(&self, key: &str, make: impl Fn(Arc<Slot>) -> F) -> Result<Held>
    where
        F: Future<Output = Result<Held>>,
    {
        loop {
            let slot = self.slot(key);
            let mut room = slot.room.lock().await;
            if room.retired {
                continue;
            }
            if let Some(held) = room.living() {
                return Ok(held.clone());
            }
            return room.fill(make(Arc::clone(&slot))).await;
        }
    }

    /// Forgets the key's sandbox if it still is this one, and destroys it.
    pub(super) async fn discard(&self, key: &str, sandbox: &Arc<dyn Sandbox>) {
        let slot = self.slot(key);
        let mut room = slot.room.lock().await;
        // The next caller who needs one destroys it first.
        room.doomed |= room.held.as_ref().is_some_and(|held| Arc::ptr_eq(&held.sandbox, sandbox));
    }

    /// Keeps a grant for the key; a sandbox that cannot take it in is rebuilt with it.
    pub(super) async fn grant<F>(&self, key: &str, grant: Grant, make: impl Fn(Arc<Slot>) -> F) -> Result<()>
    where
        F: Future<Output = Result<Held>>,
    {
        loop {
            let slot = self.slot(key);
            let mut room = slot.room.lock().await;
            if room.retired {
                continue;
            }
            if !slot.keep(grant.clone()) {
                return Ok(());
            }
            let Some(held) = room.living() else { return Ok(()) };
            if held.sandbox.grant(&grant).await? == Granted::Now {
                return Ok(());
            }
            // Should this be given up in the middle, the next one is made with the grant all the same.
            room.doomed = true;
            return room.fill(make(Arc::clone(&slot))).await.map(drop);
        }
    }

    /// Puts a new sandbox in the place of the key's, if it has one.
    pub(super) async fn rebuild<F>(&self, key: &str, make: impl Fn(Arc<Slot>) -> F) -> Result<()>
    where
        F: Future<Output = Result<Held>>,
    {
        let slot = self.slot(key);
        let mut room = slot.room.lock().await;
        if room.held.is_none() || room.retired {
            return Ok(());
        }
        room.doomed = true;
        room.fill(make(Arc::clone(&slot))).await.map(drop)
    }

    /// Destroys the key's sandbox and forgets what was granted.
    pub(super) async fn remove(&self, key: &str) -> Result<()> {
        let slot = self.locked().get(key).cloned();
        let Some(slot) = slot else { return Ok(()) };
        let mut room = slot.room.lock().await;
        if !room.retired {
            room.empty().await?;
            // Nobody finds a successor before the old one is gone.
            room.retired = true;
            self.locked().remove(key);
        }
        Ok(())
    }

    /// Destroys everything; the first error, after all were tried.
    pub(super) async fn clear(&self) -> Result<()> {
        let mut outcome = Ok(());
        for key in self.keys() {
            outcome = outcome.and(self.remove(&key).await);
        }
        outcome
    }

    /// Keys that have a slot.
    pub(super) fn keys(&self) -> Vec<String> {
        self.locked().keys().cloned().collect()
    }
}
