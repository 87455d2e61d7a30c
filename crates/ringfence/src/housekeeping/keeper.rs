//! Listing and removing.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ringfence_fence::{Lasting, LastingSandbox, SandboxStatus};
use ringfence_ledger::{Ledger, RemovalGuard, Sandbox, SandboxFilter, now_ms};
use ringfence_model::{Error, ErrorKind, Result};
use serde::Serialize;

use super::register::ends_with_process;
use crate::containers;
use crate::manager::workspace_root;
use crate::setup::Setup;

/// A sandbox that is registered, or found without being so.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Kept {
    pub name: String,
    pub provider: String,
    pub session_key: String,
    pub image: String,
    /// Whether it is made from the image that is configured now; none when it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_matches: Option<bool>,
    pub config_hash: String,
    /// None: its provider could not be asked.
    pub running: Option<bool>,
    pub in_use: bool,
    pub created_at_ms: u64,
    pub last_used_at_ms: u64,
    /// False for one that its provider has and nobody remembers; the next sweep takes it in.
    pub registered: bool,
    /// Its row, with everything that is known.
    #[serde(skip)]
    pub row: Option<Sandbox>,
    /// Why it could not be removed the last time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// The outcome of removing one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removal {
    Removed,
    /// It was not there any more.
    Gone,
    /// Another process is making or removing it.
    Busy,
}

/// Keeps the register and the sandboxes in it.
#[derive(Debug)]
pub struct Housekeeper {
    ledger: Mutex<Ledger>,
    lasting: Vec<Arc<dyn Lasting>>,
    /// Where sessions have directories of their own.
    workspaces: Option<PathBuf>,
}

impl Housekeeper {
    /// Opens the register in that ledger.
    pub fn open(ledger: &Path) -> Result<Self> {
        Ok(Self { ledger: Mutex::new(Ledger::open(ledger)?), lasting: vec![], workspaces: None })
    }

    /// For everything that a configuration makes: containers, where there is an engine, and directories of sessions.
    pub fn of(setup: &Setup) -> Result<Self> {
        let (config, ledger) = (&setup.loaded.config, setup.ledger_path());
        let root = workspace_root(config, &setup.home, &setup.ringfence_home)?;
        let keeper = Self::open(&ledger)?.with_workspaces(root);
        Ok(containers::looked_after(keeper, &ledger, &setup.env, &config.provider_options))
    }

    /// Looks after the sandboxes of one more provider.
    #[must_use]
    pub fn with(mut self, lasting: Arc<dyn Lasting>) -> Self {
        self.lasting.push(lasting);
        self
    }

    /// Looks after the directories of sessions below that one too.
    #[must_use]
    pub fn with_workspaces(mut self, root: PathBuf) -> Self {
        self.workspaces = Some(root);
        self
    }

    pub(super) fn workspaces(&self) -> Option<&Path> {
        self.workspaces.as_deref()
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lasting(&self) -> &[Arc<dyn Lasting>] {
        &self.lasting
    }

    pub(super) fn lasting_of(&self, provider: &str) -> Option<&Arc<dyn Lasting>> {
        self.lasting.iter().find(|lasting| lasting.provider() == provider)
    }

    /// All sandboxes, the one used last first, and what went wrong in asking their providers. `image` is what is configured now.
    pub async fn list(&self, image: Option<&str>) -> Result<(Vec<Kept>, Vec<Error>)> {
        let rows = self.ledger().sandboxes(&SandboxFilter::default())?;
        let mut problems = Vec::new();
        let mut found: Vec<(String, Option<Vec<LastingSandbox>>)> = Vec::new();
        for lasting in &self.lasting {
            let provider = lasting.provider().to_owned();
            match lasting.find().await {
                Ok(sandboxes) => found.push((provider, Some(sandboxes))),
                Err(error) => {
                    problems.push(error);
                    found.push((provider, None));
                }
            }
        }
        let mut kept: Vec<Kept> = rows.into_iter().map(|row| registered(row, &found, image)).collect();
        for (provider, sandboxes) in &found {
            for sandbox in sandboxes.iter().flatten() {
                if !kept.iter().any(|kept| kept.name == sandbox.name) {
                    kept.push(unregistered(provider, sandbox, image));
                }
            }
        }
        Ok((kept, problems))
    }

    /// Removes one because a person says so, also when it is in use.
    pub async fn remove(&self, kept: &Kept) -> Result<Removal> {
        let Some(lasting) = self.lasting_of(&kept.provider) else {
            return self.remove_row(kept);
        };
        if !kept.registered {
            lasting.remove(&kept.name).await?;
            return Ok(Removal::Removed);
        }
        let begun = self.ledger().begin_removal(&kept.name, RemovalGuard::Always, now_ms())?;
        if begun.is_none() {
            let still = self.ledger().sandbox(&kept.name)?;
            return Ok(if still.is_some() { Removal::Busy } else { Removal::Gone });
        }
        self.finish_removal(lasting, &kept.name).await.map(|()| Removal::Removed)
    }

    /// Removes what `begin_removal` has given to us: the sandbox first, then its row.
    pub(super) async fn finish_removal(&self, lasting: &Arc<dyn Lasting>, name: &str) -> Result<()> {
        let unfinished = Unfinished { keeper: self, name };
        let removed = lasting.remove(name).await;
        std::mem::forget(unfinished);
        match removed {
            Ok(()) => self.ledger().remove(name, now_ms()).map(drop),
            Err(error) => {
                self.ledger().removal_failed(name, &error.chain(), now_ms())?;
                Err(error)
            }
        }
    }

    /// A sandbox that ends with its process cannot be ended from here.
    fn remove_row(&self, kept: &Kept) -> Result<Removal> {
        if kept.running == Some(false) {
            let gone = self.ledger().remove(&kept.name, now_ms())?;
            return Ok(if gone { Removal::Removed } else { Removal::Gone });
        }
        let message = match &kept.row {
            Some(row) if ends_with_process(&kept.provider) => {
                format!("the sandbox {} ends with the process {} that made it", kept.name, row.owner_pid)
            }
            _ => format!("the provider {} of {} is not here", kept.provider, kept.name),
        };
        Err(Error::new(ErrorKind::Unsupported, message))
    }
}

/// A removal that is given up in the middle is left to the next sweep, and not to the end of this process.
struct Unfinished<'a> {
    keeper: &'a Housekeeper,
    name: &'a str,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let _ = self.keeper.ledger().removal_failed(
            self.name,
            "the removal was given up in the middle",
            now_ms(),
        );
    }
}

fn matches(image: &str, configured: Option<&str>) -> Option<bool> {
    configured.filter(|_| !image.is_empty()).map(|configured| configured == image)
}

fn registered(row: Sandbox, found: &[(String, Option<Vec<LastingSandbox>>)], image: Option<&str>) -> Kept {
    let running = match found.iter().find(|(provider, _)| *provider == row.provider) {
        // A sandbox that ends with its process runs as long as that.
        None if ends_with_process(&row.provider) => Some(row.owner_alive),
        None | Some((_, None)) => None,
        Some((_, Some(sandboxes))) => Some(
            sandboxes.iter().any(|found| found.name == row.name && found.status == SandboxStatus::Running),
        ),
    };
    Kept {
        name: row.name.clone(),
        provider: row.provider.clone(),
        session_key: row.session_key.clone(),
        image: row.image.clone(),
        image_matches: matches(&row.image, image),
        config_hash: row.config_hash.clone(),
        running,
        in_use: row.in_use,
        created_at_ms: row.created_at_ms,
        last_used_at_ms: row.last_used_at_ms,
        registered: true,
        last_error: row.last_error.clone(),
        row: Some(row),
    }
}

fn unregistered(provider: &str, found: &LastingSandbox, image: Option<&str>) -> Kept {
    Kept {
        name: found.name.clone(),
        provider: provider.to_owned(),
        session_key: found.scope_key.clone(),
        image: found.image.clone(),
        image_matches: matches(&found.image, image),
        config_hash: found.config_hash.clone(),
        running: Some(found.status == SandboxStatus::Running),
        in_use: false,
        created_at_ms: found.created_ms,
        last_used_at_ms: found.created_ms,
        registered: false,
        row: None,
        last_error: None,
    }
}
