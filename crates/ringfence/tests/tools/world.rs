//! A home, a project, tools, and a person with a list of answers.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use ringfence::ledger::{Ledger, Writer};
use ringfence::model::config::ConfigFile;
use ringfence::model::{Decision, ErrorKind};
use ringfence::permission::{Answer, ApprovalService, Callback, Permission};
use ringfence::session::SessionEvent;
use ringfence::session::recorder::{Keeping, open_ledger};
use ringfence::setup::Setup;
use ringfence::tools::{OpenTools, ToolResult, Tools};
use serde_json::{Value, json};

pub(crate) struct World {
    _temp: tempfile::TempDir,
    pub(crate) home: PathBuf,
    pub(crate) project: PathBuf,
    pub(crate) setup: Arc<Setup>,
    pub(crate) tools: Tools,
    events: Arc<Mutex<Vec<SessionEvent>>>,
    ledger: Arc<Writer>,
}

impl World {
    /// None where no fence can start.
    pub(crate) fn new(options: OpenTools) -> Option<Self> {
        Self::configured(options, json!({}), &[])
    }

    pub(crate) fn configured(mut options: OpenTools, config: Value, env: &[(&str, &str)]) -> Option<Self> {
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path().canonicalize().unwrap().join("home");
        let project = home.join("project");
        std::fs::create_dir_all(&project).unwrap();
        std::fs::create_dir_all(home.join(".ssh")).unwrap();
        std::fs::write(home.join(".ssh/config"), "Host treasure\n").unwrap();
        let mut caller: BTreeMap<_, _> = BTreeMap::from([("HOME".into(), home.clone().into_os_string())]);
        caller.insert("PATH".into(), std::env::var_os("PATH").unwrap());
        caller.extend(env.iter().map(|(name, value)| ((*name).into(), (*value).into())));
        let call: ConfigFile = serde_json::from_value(config).unwrap();
        let setup = Arc::new(Setup::load(&project, caller, call, None).unwrap());
        let ledger = open_ledger(&setup.ledger_path(), &setup.env, Keeping::Thread, |_| ());
        options.ledger = Some(Arc::clone(&ledger));
        options.code_reader.get_or_insert_with(|| Arc::new(ringfence::gate::InProcess));
        let tools = options.open(&setup).unwrap();
        let trial = tools.call("bash", &json!({ "command": "true" }));
        if trial.error_kind == Some(ErrorKind::SandboxDenied) {
            ringfence_testing::lacks(ringfence_testing::FENCE, &trial.stderr);
            return None;
        }
        assert!(trial.ok, "{trial:?}");
        let events: Arc<Mutex<Vec<SessionEvent>>> = Arc::default();
        let kept = Arc::clone(&events);
        tools.listen(Arc::new(move |event: &SessionEvent| kept.lock().unwrap().push(event.clone())));
        Some(Self { _temp: temp, home, project, setup, tools, events, ledger })
    }

    /// With a person who gives these answers, then only refuses.
    pub(crate) fn asking(answers: impl IntoIterator<Item = Answer>) -> Option<Self> {
        Self::new(OpenTools { service: Some(person(answers)), ..OpenTools::default() })
    }

    pub(crate) fn bash(&self, command: &str) -> ToolResult {
        self.tools.call("bash", &json!({ "command": command }))
    }

    pub(crate) fn write(&self, path: &str, content: &str) {
        let path = self.project.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.project.join(path)).unwrap()
    }

    /// The names of the events since the last look; output is left out.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.take().iter().map(SessionEvent::name).filter(|name| *name != "output").collect()
    }

    pub(crate) fn take(&self) -> Vec<SessionEvent> {
        std::mem::take(&mut *self.events.lock().unwrap())
    }

    pub(crate) fn questions(&self) -> Vec<Permission> {
        let asked = |event: &SessionEvent| match event {
            SessionEvent::ApprovalRequested { permission, .. } => Some((**permission).clone()),
            _ => None,
        };
        self.take().iter().filter_map(asked).collect()
    }

    /// What was recorded so far.
    pub(crate) fn ledger(&self) -> Ledger {
        self.ledger.flush();
        Ledger::open(&self.setup.ledger_path()).unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.tools.dispose();
    }
}

pub(crate) fn person(answers: impl IntoIterator<Item = Answer>) -> Arc<dyn ApprovalService> {
    let answers: Mutex<VecDeque<Answer>> = Mutex::new(answers.into_iter().collect());
    Arc::new(Callback(move |_: &Permission| {
        answers.lock().unwrap().pop_front().unwrap_or_else(|| Answer::deny("not expected"))
    }))
}

pub(crate) fn yes(decision: Decision) -> Answer {
    Answer::new(decision)
}
