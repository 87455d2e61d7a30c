//! The ledger's register of sandboxes, for containers: who makes one, who uses it, and which ones are ours.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ringfence_fence::{BoxFuture, Lasting, LastingSandbox, SandboxStatus};
use ringfence_ledger::{Lease, Ledger, NewSandbox, Reservation, SandboxKind, SandboxState, now_ms};
use ringfence_model::Result;
use ringfence_model::config::Scope;

use crate::engine::{Endpoint, Engine};
use crate::lifecycle::{Making, Records};
use crate::options::ContainerSpec;
use crate::options::identity::{
    LABEL_CONFIG_HASH, LABEL_CREATED, LABEL_REGISTRY, LABEL_SESSION_KEY, registry_mark, scope_of,
};
use crate::provider::KIND;

/// The register in one ledger.
#[derive(Debug)]
pub struct Register(Mutex<Ledger>);

impl Register {
    pub fn open(ledger: &Path) -> Result<Self> {
        Ok(Self(Mutex::new(Ledger::open(ledger)?)))
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds a container against pruning as long as the value lives.
    pub(crate) fn hold(self: &Arc<Self>, container: &str) -> Result<Option<Held>> {
        let lease = self.ledger().lease(container, now_ms())?;
        Ok(lease.map(|lease| Held { register: Arc::clone(self), lease }))
    }
}

/// Proof that a container is in use.
#[derive(Debug)]
pub(crate) struct Held {
    register: Arc<Register>,
    lease: Lease,
}

impl Drop for Held {
    fn drop(&mut self) {
        // A lease of a process that is gone does not count.
        let _ = self.register.ledger().end_lease(&self.lease, now_ms());
    }
}

fn row(spec: &ContainerSpec, scope_key: &str, hash: &str) -> NewSandbox {
    let scope = match scope_of(scope_key) {
        Scope::Session => "session",
        Scope::Agent => "agent",
        Scope::Shared => "shared",
    };
    NewSandbox {
        name: spec.name.clone(),
        kind: SandboxKind::Commands,
        provider: KIND.to_owned(),
        session_key: scope_key.to_owned(),
        scope: scope.to_owned(),
        image: spec.image.clone(),
        config_hash: hash.to_owned(),
        ..NewSandbox::default()
    }
}

impl Records for Register {
    fn last_used_ms(&self, container: &str) -> Result<Option<u64>> {
        // What somebody holds is being used, however long ago its last command was.
        let row = self.ledger().sandbox(container)?;
        Ok(row.map(|row| if row.in_use { now_ms() } else { row.last_used_at_ms }))
    }

    fn config_hash(&self, container: &str) -> Result<Option<String>> {
        let row = self.ledger().sandbox(container)?;
        Ok(row.map(|row| row.config_hash).filter(|hash| !hash.is_empty()))
    }

    fn reserve(&self, spec: &ContainerSpec, scope_key: &str) -> Result<Making> {
        let reserved = self.ledger().reserve(&row(spec, scope_key, &spec.config_hash), now_ms())?;
        Ok(match reserved {
            Reservation::Reserved { .. } => Making::Ours,
            // The container was looked for and is not there: what the row says is out of date.
            Reservation::Ready(_) => {
                self.ledger().remove(&spec.name, now_ms())?;
                self.ledger().reserve(&row(spec, scope_key, &spec.config_hash), now_ms())?;
                Making::Ours
            }
            Reservation::Busy(_) => Making::Anothers,
        })
    }

    fn ready(&self, spec: &ContainerSpec, scope_key: &str, hash: &str) -> Result<()> {
        self.ledger().upsert(&row(spec, scope_key, hash), now_ms()).map(drop)
    }

    fn removed(&self, container: &str) -> Result<()> {
        self.ledger().remove(container, now_ms()).map(drop)
    }

    fn is_half_made(&self, container: &str) -> Result<bool> {
        let row = self.ledger().sandbox(container)?;
        Ok(row.is_some_and(|row| row.state == SandboxState::Reserved && !row.owner_alive))
    }

    fn abandoned(&self, container: &str) {
        // A row that cannot be written now is that of a process that is gone one day.
        let _ = self.ledger().abandon(container);
    }
}

/// Finds and removes the containers of one register.
#[derive(Debug)]
pub struct Containers {
    endpoint: Endpoint,
    mark: String,
    engine: tokio::sync::Mutex<Option<Engine>>,
}

impl Containers {
    #[must_use]
    pub fn of(endpoint: Endpoint, ledger: &Path) -> Self {
        Self { endpoint, mark: registry_mark(ledger), engine: tokio::sync::Mutex::default() }
    }

    async fn engine(&self) -> Result<Engine> {
        let mut engine = self.engine.lock().await;
        if let Some(engine) = &*engine
            && self.endpoint.check().is_ok()
        {
            return Ok(engine.clone());
        }
        let fresh = Engine::connect(self.endpoint.clone()).await?;
        *engine = Some(fresh.clone());
        Ok(fresh)
    }
}

impl Lasting for Containers {
    fn provider(&self) -> &str {
        KIND
    }

    fn find(&self) -> BoxFuture<'_, Result<Vec<LastingSandbox>>> {
        Box::pin(async move {
            let found = self.engine().await?.list(LABEL_REGISTRY, &self.mark).await?;
            let sandboxes = found.into_iter().map(|mut found| LastingSandbox {
                name: found.name,
                scope_key: found.labels.remove(LABEL_SESSION_KEY).unwrap_or_default(),
                image: found.image,
                config_hash: found.labels.remove(LABEL_CONFIG_HASH).unwrap_or_default(),
                created_ms: found.labels.get(LABEL_CREATED).and_then(|text| text.parse().ok()).unwrap_or(0),
                status: if found.running { SandboxStatus::Running } else { SandboxStatus::Stopped },
            });
            Ok(sandboxes.collect())
        })
    }

    fn remove<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { self.engine().await?.remove(name).await })
    }
}
