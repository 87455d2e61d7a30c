mod keeping;
mod sweeping;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use ringfence_fence::{BoxFuture, Lasting, LastingSandbox, SandboxStatus};
use ringfence_ledger::{Ledger, NewSandbox, now_ms};
use ringfence_model::{Error, ErrorKind, Result};

use super::Housekeeper;

pub(crate) const HOUR: u64 = 3_600_000;
pub(crate) const DAY: u64 = 24 * HOUR;

/// A provider whose sandboxes are entries of a list, and whose faults can be chosen.
#[derive(Debug, Default)]
pub(crate) struct Shed {
    there: Mutex<BTreeMap<String, LastingSandbox>>,
    /// Every removal that was asked for.
    pub(crate) removals: Mutex<Vec<String>>,
    pub(crate) stuck: Mutex<Option<&'static str>>,
    pub(crate) down: Mutex<bool>,
    /// Removals never end.
    pub(crate) hangs: Mutex<bool>,
}

impl Shed {
    pub(crate) fn put(&self, name: &str, age_ms: u64) {
        let sandbox = LastingSandbox {
            name: name.to_owned(),
            scope_key: format!("agent:main:{name}"),
            image: "image".to_owned(),
            config_hash: "hash".to_owned(),
            created_ms: now_ms() - age_ms,
            status: SandboxStatus::Running,
        };
        self.there.lock().unwrap().insert(name.to_owned(), sandbox);
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.there.lock().unwrap().keys().cloned().collect()
    }
}

impl Lasting for Shed {
    fn provider(&self) -> &str {
        "shed"
    }

    fn find(&self) -> BoxFuture<'_, Result<Vec<LastingSandbox>>> {
        Box::pin(async {
            if *self.down.lock().unwrap() {
                return Err(Error::new(ErrorKind::SandboxNotAvailable, "the shed is closed"));
            }
            Ok(self.there.lock().unwrap().values().cloned().collect())
        })
    }

    fn remove<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.removals.lock().unwrap().push(name.to_owned());
            let hangs = *self.hangs.lock().unwrap();
            if hangs {
                std::future::pending::<()>().await;
            }
            if *self.stuck.lock().unwrap() == Some(name) {
                return Err(Error::new(ErrorKind::Internal, "it is stuck"));
            }
            self.there.lock().unwrap().remove(name);
            Ok(())
        })
    }
}

/// A ledger, a shed and a housekeeper for both.
pub(crate) struct Yard {
    _directory: tempfile::TempDir,
    pub(crate) path: PathBuf,
    pub(crate) shed: Arc<Shed>,
    pub(crate) keeper: Arc<Housekeeper>,
}

impl Yard {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ledger.db");
        let shed = Arc::new(Shed::default());
        let keeper = Arc::new(another(&path, &shed));
        Self { _directory: directory, path, shed, keeper }
    }

    pub(crate) fn ledger(&self) -> Ledger {
        Ledger::open(&self.path).unwrap()
    }

    /// A sandbox that is there and registered, made and last used so long ago.
    pub(crate) fn add(&self, name: &str, age_ms: u64, idle_ms: u64) {
        self.shed.put(name, age_ms);
        self.register(name, age_ms, idle_ms);
    }

    pub(crate) fn register(&self, name: &str, age_ms: u64, idle_ms: u64) {
        let mut ledger = self.ledger();
        ledger.upsert(&new(name), now_ms() - age_ms).unwrap();
        ledger.touch(name, now_ms() - idle_ms).unwrap();
    }

    pub(crate) fn registered(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.ledger().sandboxes(&Default::default()).unwrap().into_iter().map(|row| row.name).collect();
        names.sort();
        names
    }
}

pub(crate) fn another(ledger: &std::path::Path, shed: &Arc<Shed>) -> Housekeeper {
    Housekeeper::open(ledger).unwrap().with(Arc::clone(shed) as Arc<dyn Lasting>)
}

pub(crate) fn new(name: &str) -> NewSandbox {
    NewSandbox {
        name: name.to_owned(),
        provider: "shed".to_owned(),
        session_key: format!("agent:main:{name}"),
        scope: "session".to_owned(),
        image: "image".to_owned(),
        config_hash: "hash".to_owned(),
        ..NewSandbox::default()
    }
}

pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}
