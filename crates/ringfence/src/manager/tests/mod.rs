//! | module | what it shows |
//! |---|---|
//! | `counting` | a provider that counts, waits and fails as it is told |
//! | `accounting` | one sandbox for each scope, under every order of events |
//! | `behaviour` | what is made when, with which policy, and what stays |
//! | `order` | what comes after what, and that a step that fails is the last |
//! | `registering` | what the register knows meanwhile, and that old sandboxes go |
//! | `real` | the same with sandboxes of the operating system |

mod accounting;
mod behaviour;
pub(crate) mod counting;
mod order;
#[cfg(target_os = "linux")]
mod real;
#[cfg(target_os = "linux")]
mod registering;

use std::path::Path;
use std::sync::{Arc, Mutex};

use ringfence_model::config::ConfigFile;
use serde_json::Value;

use super::{Manager, ManagerOptions, built_in};
use crate::setup::Setup;
use counting::Counting;

/// A project, a home, and a manager of counted sandboxes.
struct Room {
    _temp: tempfile::TempDir,
    project: std::path::PathBuf,
    home: std::path::PathBuf,
    provider: Counting,
    manager: Arc<Manager>,
    warnings: Arc<Mutex<Vec<String>>>,
}

fn setup(project: &Path, home: &Path, config: Value) -> Setup {
    let env = [("HOME", home.as_os_str()), ("PATH", std::ffi::OsStr::new("/usr/bin:/bin"))];
    let env = env.map(|(name, value)| (name.into(), value.to_owned())).into();
    let config: ConfigFile = serde_json::from_value(config).unwrap();
    Setup::load(project, env, config, None).unwrap()
}

impl Room {
    fn new(config: Value) -> Self {
        Self::with(config, |_, _| ())
    }

    /// `more` may add to the options, with the path of a ledger.
    fn with(config: Value, more: impl FnOnce(&mut ManagerOptions, &Path)) -> Self {
        let temp = tempfile::Builder::new().prefix("ringfence-manager-").tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let (project, home) = (root.join("project"), root.join("home"));
        for directory in [&project, &home] {
            std::fs::create_dir(directory).unwrap();
        }
        let provider = Counting::default();
        let mut registry = built_in().unwrap();
        let counted = provider.clone();
        registry.register("counting", move || Ok(Arc::new(counted.clone()))).unwrap();
        let setup = setup(&project, &home, config);
        let warnings = Arc::new(Mutex::new(vec![]));
        let heard = Arc::clone(&warnings);
        let mut options =
            ManagerOptions::new(&setup, move |text| heard.lock().unwrap().push(text.to_owned()));
        more(&mut options, &root.join("ledger.db"));
        let manager = Arc::new(Manager::new(setup, registry, options));
        Self { _temp: temp, project, home, provider, manager, warnings }
    }
}
