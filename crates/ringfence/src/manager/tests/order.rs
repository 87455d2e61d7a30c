//! Whether, by which provider, what is old goes, where, and only then the sandbox; a step that fails is the last.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use ringfence_fence::{
    BoxFuture, CreateOptions, Lasting, LastingSandbox, Provider, Sandbox, SandboxInfo, wait_for,
};
use ringfence_model::{Error, ErrorKind, Result};
use serde_json::{Value, json};

use super::setup;
use crate::housekeeping::Housekeeper;
use crate::manager::{Manager, ManagerOptions, built_in};

/// Writes down what happens, and whether the workspace was there then.
#[derive(Debug, Clone, Default)]
struct Diary(Arc<Mutex<Vec<(&'static str, bool)>>>, PathBuf);

impl Diary {
    fn note(&self, what: &'static str) {
        self.0.lock().unwrap().push((what, self.1.exists()));
    }

    fn read(&self) -> Vec<(&'static str, bool)> {
        self.0.lock().unwrap().clone()
    }
}

impl Lasting for Diary {
    fn provider(&self) -> &str {
        "diary"
    }

    fn find(&self) -> BoxFuture<'_, Result<Vec<LastingSandbox>>> {
        self.note("prune");
        Box::pin(std::future::ready(Ok(vec![])))
    }

    fn remove<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Nothing is made; it is enough that it was asked for.
impl Provider for Diary {
    fn kind(&self) -> &str {
        "diary"
    }

    fn create(&self, options: CreateOptions) -> BoxFuture<'_, Result<Arc<dyn Sandbox>>> {
        assert_eq!(options.cwd, self.1, "the workspace that was made for it");
        self.note("container");
        Box::pin(std::future::ready(Err(Error::new(ErrorKind::InitializationFailed, "as far as it goes"))))
    }

    fn destroy<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<SandboxInfo>>> {
        Box::pin(std::future::ready(Ok(vec![])))
    }
}

/// The events when a session wants its sandbox, and the error; `root` is where workspaces are.
fn ask(config: Value, root: impl FnOnce(&std::path::Path)) -> (Vec<(&'static str, bool)>, Option<ErrorKind>) {
    let temp = tempfile::Builder::new().prefix("ringfence-order-").tempdir().unwrap();
    let top = temp.path().canonicalize().unwrap();
    let (project, home) = (top.join("project"), top.join("home"));
    for directory in [&project, &home] {
        std::fs::create_dir(directory).unwrap();
    }
    let workspaces = top.join("workspaces");
    root(&workspaces);
    let mut all = json!({ "scope": "shared", "workspaceAccess": "none", "workspaceRoot": workspaces });
    for (key, value) in config.as_object().unwrap() {
        all[key] = value.clone();
    }
    let setup = setup(&project, &home, all);
    let diary = Diary(Arc::default(), workspaces);
    let mut registry = built_in().unwrap();
    let its = diary.clone();
    registry.register("diary", move || Ok(Arc::new(its.clone()))).unwrap();
    let mut options = ManagerOptions::new(&setup, |_| ());
    let keeper = Housekeeper::open(&top.join("ledger.db")).unwrap();
    options.housekeeper = Some(Arc::new(keeper.with(Arc::new(diary.clone()))));
    let manager = Manager::new(setup, registry, options);
    let asked = Box::pin(async { manager.context("agent:main:a").await.map(|context| context.is_some()) });
    let outcome = wait_for(asked, std::time::Duration::from_secs(60)).unwrap();
    assert_ne!(outcome.as_ref().ok(), Some(&true), "nothing is made here");
    (diary.read(), outcome.err().map(|error| error.kind))
}

#[test]
fn status_configuration_pruning_workspace_container() {
    let nothing = |_: &std::path::Path| ();
    let whole = [("prune", false), ("container", true)];
    let (happened, error) = ask(json!({ "provider": "diary" }), nothing);
    assert_eq!((happened.as_slice(), error), (&whole[..], Some(ErrorKind::InitializationFailed)));
    // A session that is not sandboxed gets as far as that, whatever the configuration says about the provider.
    assert_eq!(ask(json!({ "provider": "nonsense", "sessions": "off" }), nothing), (vec![], None));
    // A configuration that cannot be used stops before anything is removed or made.
    assert_eq!(ask(json!({ "provider": "nonsense" }), nothing), (vec![], Some(ErrorKind::NotFound)));
    // A workspace that cannot be made stops before the container; what is old is gone already.
    let (happened, error) =
        ask(json!({ "provider": "diary" }), |root| std::fs::write(root, "no directory").unwrap());
    assert_eq!(happened, [("prune", true)]);
    assert!(error.is_some());
}
