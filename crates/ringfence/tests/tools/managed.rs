//! The tools in the sandbox that a manager gives to a session.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringfence::fence::{Provider, wait_for};
use ringfence::local::provider::LocalProvider;
use ringfence::manager::built_in;
use ringfence::model::config::ConfigFile;
use ringfence::model::{Decision, ErrorKind};
use ringfence::permission::Answer;
use ringfence::session::SessionEvent;
use ringfence::setup::Setup;
use ringfence::tools::{OpenTools, Restriction, Tools};
use serde_json::{Value, json};

use crate::world::{person, yes};

struct Managed {
    _temp: tempfile::TempDir,
    home: PathBuf,
    project: PathBuf,
    tools: Tools,
    provider: Arc<LocalProvider>,
    warnings: Arc<Mutex<Vec<String>>>,
    asked: Arc<Mutex<usize>>,
}

impl Managed {
    /// None where no fence can start.
    fn new(config: Value, session: &str, answers: &[Answer]) -> Option<Self> {
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path().canonicalize().unwrap().join("home");
        let project = home.join("project");
        std::fs::create_dir_all(&project).unwrap();
        std::fs::create_dir_all(home.join(".ssh")).unwrap();
        std::fs::write(home.join(".ssh/config"), "Host treasure\n").unwrap();
        let env = BTreeMap::from([
            ("HOME".into(), home.clone().into_os_string()),
            ("PATH".into(), std::env::var_os("PATH").unwrap()),
        ]);
        let call: ConfigFile = serde_json::from_value(config).unwrap();
        let setup = Arc::new(Setup::load(&project, env, call, None).unwrap());
        let provider = Arc::new(LocalProvider::new());
        let mut registry = built_in().unwrap();
        let its = Arc::clone(&provider);
        registry.register("mine", move || Ok(Arc::clone(&its) as Arc<dyn Provider>)).unwrap();
        let warnings: Arc<Mutex<Vec<String>>> = Arc::default();
        let told = Arc::clone(&warnings);
        let options = OpenTools {
            service: Some(person(answers.to_vec())),
            registry: Some(registry),
            session_key: Some(session.to_owned()),
            warn: Arc::new(move |text: &str| told.lock().unwrap().push(text.to_owned())),
            ..OpenTools::default()
        };
        let tools = options.open(&setup).unwrap();
        let asked: Arc<Mutex<usize>> = Arc::default();
        let count = Arc::clone(&asked);
        tools.listen(Arc::new(move |event: &SessionEvent| {
            *count.lock().unwrap() += usize::from(matches!(event, SessionEvent::ApprovalRequested { .. }));
        }));
        let trial = tools.call("bash", &json!({ "command": "true" }));
        if trial.error_kind == Some(ErrorKind::SandboxDenied) {
            ringfence_testing::lacks(ringfence_testing::FENCE, &trial.stderr);
            return None;
        }
        assert!(trial.ok, "{trial:?}");
        Some(Self { _temp: temp, home, project, tools, provider, warnings, asked })
    }

    fn bash(&self, command: &str) -> ringfence::tools::ToolResult {
        self.tools.call("bash", &json!({ "command": command }))
    }

    fn live(&self) -> usize {
        wait_for(self.provider.list(), Duration::from_secs(60)).unwrap().unwrap().len()
    }
}

#[test]
fn commands_go_to_the_managers_sandbox_and_dispose_shuts_it_down() {
    let answers = [yes(Decision::AllowOnce), Answer::deny("enough")];
    let Some(room) = Managed::new(json!({ "provider": "mine", "workspaceAccess": "rw" }), "chat-7", &answers)
    else {
        return;
    };
    assert!(room.bash("mkdir -p sub && cd sub && export A=1").ok);
    let result = room.bash("echo $A ${PWD##*/}");
    assert_eq!((result.stdout.as_str(), &result.data["sandbox"]["active"]), ("1 sub\n", &json!(true)));
    assert_eq!(room.live(), 1, "one sandbox, made by the configured provider");
    let code =
        room.tools.call("run_code", &json!({ "language": "shell", "code": "cat /proc/self/mountinfo" }));
    assert_eq!((code.ok, &code.data["sandbox"]["active"]), (true, &json!(true)), "{code:?}");
    assert_eq!(code.stdout, room.bash("cat /proc/self/mountinfo").stdout, "code runs in it too");
    assert_eq!(room.live(), 1);
    let treasure = room.bash("cat ~/.ssh/config");
    assert_eq!(treasure.stdout, "Host treasure\n", "{treasure:?}");
    let refused = room.bash("cat ~/.ssh/config");
    assert_eq!(refused.error_kind, Some(ErrorKind::ApprovalDenied), "{refused:?}");
    assert_eq!(room.bash("echo $A").stdout, "1\n", "the shell was held, not replaced");
    let job = room.tools.call("jobs", &json!({ "action": "start", "command": "echo $A in ${PWD##*/}" }));
    let read = json!({ "action": "read", "id": job.data["job"]["id"], "waitMs": 30000 });
    assert_eq!(room.tools.call("jobs", &read).stdout, "1 in sub\n");
    let other = room.tools.restricted(Restriction::new(["task:"])).unwrap();
    assert_eq!(other.call("bash", &json!({ "command": "echo a${A}b" })).stdout, "ab\n");
    assert_eq!(room.live(), 2, "a sub-agent has a manager of its own");
    other.dispose();
    assert_eq!(room.live(), 1);
    room.tools.dispose();
    assert_eq!(room.live(), 0);
    assert!(room.warnings.lock().unwrap().is_empty());
}

#[test]
fn without_access_to_the_project_there_is_a_workspace_of_its_own() {
    let Some(room) = Managed::new(json!({ "workspaceAccess": "none" }), "chat-8", &[]) else { return };
    std::fs::write(room.project.join("plan.txt"), "plan\n").unwrap();
    let written = room.tools.call("write", &json!({ "path": "a.txt", "content": "mine\n" }));
    assert!(written.ok, "{written:?}");
    assert_eq!(room.bash("cat a.txt").stdout, "mine\n", "files and commands are in one place");
    let place = room.bash("pwd").stdout;
    assert!(place.starts_with(room.home.join(".ringfence").to_str().unwrap()), "{place}");
    assert!(!room.project.join("a.txt").exists());
    room.tools.dispose();
}

#[test]
fn a_workspace_of_its_own_has_a_quota() {
    let Some(room) = Managed::new(json!({ "workspaceAccess": "none" }), "chat-8b", &[]) else { return };
    let place = PathBuf::from(room.bash("pwd").stdout.trim_end());
    // As large as it may be, without taking room on the disk.
    let large = std::fs::File::create(place.join("large")).unwrap();
    large.set_len((1024 << 20) - 500).unwrap();
    let full = room.tools.call("write", &json!({ "path": "b.txt", "content": "x".repeat(1000) }));
    assert_eq!(full.error_kind, Some(ErrorKind::ResourceLimitExceeded), "{full:?}");
    assert!(full.stderr.contains("its limit is 1073741824"), "{full:?}");
    assert!(!place.join("b.txt").exists());
    room.tools.dispose();
}

#[test]
fn a_project_that_may_only_be_read_is_only_read() {
    let Some(room) = Managed::new(json!({ "workspaceAccess": "ro" }), "chat-9", &[]) else { return };
    std::fs::write(room.project.join("plan.txt"), "plan\n").unwrap();
    assert_eq!(room.bash("cat plan.txt").stdout, "plan\n");
    assert!(!room.bash("echo x > b.txt").ok);
    assert!(!room.project.join("b.txt").exists());
    assert!(room.tools.specs().iter().all(|spec| spec.name != "write"));
    room.tools.dispose();
}

#[test]
fn without_a_fence_there_is_a_warning_and_a_person_is_asked_before() {
    for config in [json!({ "enabled": false }), json!({ "sessions": "off" })] {
        let answers = [Answer::deny("no"), Answer::deny("no")];
        let room = Managed::new(config.clone(), "chat-10", &answers).unwrap();
        let result = room.bash("echo out");
        assert_eq!((result.stdout.as_str(), &result.data["sandbox"]["active"]), ("out\n", &json!(false)));
        assert_eq!(room.warnings.lock().unwrap().len(), 1, "{config}");
        let refused = room.bash("cat ~/.ssh/config");
        assert_eq!(refused.error_kind, Some(ErrorKind::ApprovalDenied), "{config}: {refused:?}");
        assert_eq!(*room.asked.lock().unwrap(), 1, "there is no fence to leave it to");
        assert_eq!((refused.stdout.as_str(), refused.exit_code), ("", None), "nothing ran");
        let job = room.tools.call("jobs", &json!({ "action": "start", "command": "true" }));
        assert_eq!(job.error_kind, Some(ErrorKind::Unsupported), "{job:?}");
        room.tools.dispose();
    }
}

#[test]
fn a_sandbox_that_cannot_be_made_is_a_failed_call_that_says_why() {
    let temp = tempfile::tempdir().unwrap();
    let project = temp.path().canonicalize().unwrap();
    let env = BTreeMap::from([
        ("HOME".into(), project.clone().into_os_string()),
        ("PATH".into(), std::env::var_os("PATH").unwrap()),
    ]);
    let config = json!({ "os": { "mode": "bubblewrap", "bubblewrap": { "bwrapPath": "/no/bwrap" } } });
    let setup = Arc::new(Setup::load(&project, env, serde_json::from_value(config).unwrap(), None).unwrap());
    let tools = OpenTools::default().open(&setup).unwrap();
    for command in ["touch ran", "bash touch ran"] {
        let result = tools.call("bash", &json!({ "command": command }));
        assert_eq!((result.ok, result.error_kind), (false, Some(ErrorKind::SandboxDenied)), "{result:?}");
        assert_eq!(result.exit_code, None, "nothing ran");
        assert!(result.stderr.contains("/no/bwrap cannot be executed"), "{result:?}");
    }
    assert!(!project.join("ran").exists());
    tools.dispose();
}
