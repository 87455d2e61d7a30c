//! The tools of an agent whose sandbox is a container of a real engine: its files are read and written inside.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::{Arc, Mutex};

use ringfence::model::config::ConfigFile;
use ringfence::model::{Decision, ErrorKind};
use ringfence::permission::{Answer, AutoApprove, Callback};
use ringfence::setup::Setup;
use ringfence::tools::{CodeImage, Language, Languages, OpenTools, ToolResult, Tools};
use ringfence_docker::testing::{BUSYBOX, FULL, TestEngine};
use serde_json::{Value, json};

use super::support::Room;

struct Agent {
    engine: TestEngine,
    room: Room,
    tools: Tools,
}

impl Agent {
    fn new(access: &str, answers: Vec<Answer>) -> Option<Self> {
        let engine = TestEngine::shared()?;
        let room = Room::new();
        // No name is another test's.
        let session = format!("chat-{}", room.home.display());
        let config = json!({
            "provider": "docker", "scope": "session", "workspaceAccess": access,
            "docker": { "image": FULL, "memory": "256M" },
            "providerOptions": { "engine": engine.host() },
        });
        let call: ConfigFile = serde_json::from_value(config).unwrap();
        let env = [("HOME", &room.home), ("RINGFENCE_HOME", &room.ringfence_home)]
            .map(|(name, path)| (name.into(), path.clone().into_os_string()));
        let setup = Arc::new(Setup::load(&room.project, env.into(), call, None).unwrap());
        let answers = Mutex::new(answers.into_iter());
        let service = Callback(move |_: &_| answers.lock().unwrap().next().unwrap_or(Answer::deny("no")));
        let options = OpenTools {
            service: Some(Arc::new(service)),
            stage: Some(Path::new(env!("CARGO_BIN_EXE_ringfence")).to_owned()),
            session_key: Some(session),
            warn: Arc::new(|warning| panic!("{warning}")),
            ..OpenTools::default()
        };
        let tools = options.open(&setup).unwrap();
        Some(Self { engine, room, tools })
    }

    fn call(&self, name: &str, arguments: Value) -> ToolResult {
        self.tools.call(name, &arguments)
    }

    fn done(&self, name: &str, arguments: Value) -> String {
        let result = self.call(name, arguments);
        assert!(result.ok, "{result:?}");
        result.stdout
    }

    fn refused(&self, name: &str, arguments: Value) -> ErrorKind {
        let result = self.call(name, arguments.clone());
        assert!(!result.ok, "{name} {arguments}: {result:?}");
        result.error_kind.unwrap()
    }

    fn bash(&self, command: &str) -> String {
        self.done("bash", json!({ "command": command }))
    }

    fn in_project(&self, path: &str) -> String {
        std::fs::read_to_string(self.room.project.join(path)).unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.tools.dispose();
        let project = format!("label=ringfence.workspace={}", self.room.project.display());
        for filter in [project, format!("label=ringfence.sessionKey=chat-{}", self.room.home.display())] {
            let listed = self.engine.docker(&["ps", "-aq", "--filter", &filter]).output().unwrap();
            for id in String::from_utf8_lossy(&listed.stdout).split_whitespace() {
                self.engine.docker(&["rm", "-f", id]).output().unwrap();
            }
        }
    }
}

#[test]
fn file_tools_work_inside_of_the_container() {
    let Some(agent) = Agent::new("rw", vec![]) else { return };
    // What the host's own paths would not show: a directory that only the container has.
    assert_eq!(
        agent.done("write", json!({ "path": "src/a.rs", "content": "one\ntwo\n" })),
        "created src/a.rs (8 bytes)\n"
    );
    assert_eq!(agent.bash("cat /workspace/src/a.rs"), "one\ntwo\n");
    assert_eq!(agent.in_project("src/a.rs"), "one\ntwo\n");
    assert_eq!(agent.done("read", json!({ "path": "/workspace/src/a.rs", "offset": 2 })), "     2\ttwo\n");
    let by_host = agent.room.project.join("src/a.rs");
    assert!(agent.done("read", json!({ "path": by_host })).contains("one"));
    assert_eq!(
        agent.done("edit", json!({ "path": "@src/a.rs", "old": "two", "new": "three" })),
        "replaced 1 in src/a.rs\n"
    );
    agent.bash("mkdir -p deep/er .git && echo 'needle in three' > deep/er/b && echo needle > .git/c && ln -s src/a.rs link");
    let patch = "*** Begin Patch\n*** Update File: src/a.rs\n*** Move to: src/lib/b.rs\n@@\n one\n-three\n+needle\n\
                 *** Add File: new/c.txt\n+made\n*** Delete File: link\n*** End Patch\n";
    let patched = agent.done("apply_patch", json!({ "patch": patch }));
    assert_eq!(patched, "A new/c.txt\nD link\nR src/a.rs -> src/lib/b.rs\n");
    assert_eq!(agent.bash("cat src/lib/b.rs new/c.txt; ls"), "one\nneedle\nmade\ndeep\nnew\nsrc\n");
    assert_eq!(agent.done("list", json!({ "path": "." })), ".git/\ndeep/\nnew/\nsrc/\n");
    let all = agent.done("list", json!({ "path": "/workspace/deep", "recursive": true }));
    assert_eq!(all, "deep/er/\ndeep/er/b\n");
    let found = agent.done("search", json!({ "path": ".", "text": "NEEDLE", "ignoreCase": true }));
    assert_eq!(found, "deep/er/b:1:needle in three\nsrc/lib/b.rs:2:needle\n");
    assert_eq!(agent.refused("read", json!({ "path": "deep" })), ErrorKind::Validation);
    assert_eq!(agent.refused("read", json!({ "path": "none" })), ErrorKind::NotFound);
    // A patch of which one part fails changes nothing.
    let broken = "*** Begin Patch\n*** Add File: x/y\n+x\n*** Delete File: none\n*** End Patch\n";
    assert_eq!(agent.refused("apply_patch", json!({ "patch": broken })), ErrorKind::NotFound);
    assert_eq!(agent.bash("ls"), "deep\nnew\nsrc\n");
}

#[test]
fn file_tools_lead_out_of_a_container_as_little_as_out_of_the_rules() {
    let once = Answer::new(Decision::AllowOnce);
    let Some(agent) = Agent::new("rw", vec![Answer::deny("no"), Answer::deny("no"), once]) else { return };
    agent.room.write(agent.room.project.join(".env"), "SECRET=1\n");
    agent.room.write(agent.room.home.join("diary"), "dear diary");
    let host = agent.room.home.join("diary");
    for (to, name) in [("/etc", "etc"), ("..", "up"), ("/", "root"), (host.to_str().unwrap(), "diary")] {
        symlink(to, agent.room.project.join(name)).unwrap();
    }
    symlink(".env", agent.room.project.join("harmless")).unwrap();
    for (path, why) in [
        ("etc/passwd", "leads out of its mount"),
        ("up/diary", "leads out of its mount"),
        ("root/etc/passwd", "leads out of its mount"),
        ("diary", "leads out of its mount"),
        ("../diary", "goes up"),
        ("/etc/passwd", "not mounted"),
        ("~/diary", "not mounted"),
    ] {
        for (tool, arguments) in [
            ("read", json!({ "path": path })),
            ("write", json!({ "path": path, "content": "x" })),
            ("edit", json!({ "path": path, "old": "dear", "new": "x" })),
            ("list", json!({ "path": path })),
            ("search", json!({ "path": path, "text": "dear" })),
            (
                "apply_patch",
                json!({ "patch": format!("*** Begin Patch\n*** Delete File: {path}\n*** End Patch\n") }),
            ),
        ] {
            let result = agent.call(tool, arguments);
            assert_eq!(result.error_kind, Some(ErrorKind::Permission), "{tool} {path}: {result:?}");
            assert!(result.stderr.contains(why), "{tool} {path}: {result:?}");
        }
    }
    // The rules are asked about where a path leads, and a person where they say so.
    for path in [".env", "harmless"] {
        assert_eq!(agent.refused("read", json!({ "path": path })), ErrorKind::ApprovalDenied, "{path}");
        agent.tools.begin_run();
    }
    assert_eq!(agent.done("read", json!({ "path": "harmless" })), "     1\tSECRET=1\n", "once");
    assert_eq!(agent.done("search", json!({ "path": ".", "text": "SECRET" })), "", "passed over");
    assert_eq!(agent.refused("read", json!({ "path": "harmless" })), ErrorKind::ApprovalDenied);
    agent.tools.begin_run();
    agent.bash("git init -q . 2>/dev/null; mkdir -p plain");
    for path in [".git/hooks/pre-commit", ".git/config"] {
        let written = agent.refused("write", json!({ "path": path, "content": "#!/bin/sh\n" }));
        assert_eq!(written, ErrorKind::ApprovalDenied, "{path}");
        agent.tools.begin_run();
    }
    assert!(!agent.room.project.join(".git/hooks/pre-commit").exists());
    assert_eq!(std::fs::read_to_string(host).unwrap(), "dear diary");
}

#[test]
fn a_project_that_may_only_be_read_is_only_read_by_the_tools_of_a_container() {
    let Some(agent) = Agent::new("ro", vec![]) else { return };
    agent.room.write(agent.room.project.join("plan"), "plan\n");
    assert_eq!(agent.done("read", json!({ "path": "plan" })), "     1\tplan\n");
    let offered: Vec<&str> = agent.tools.specs().iter().map(|spec| spec.name).collect();
    assert!(!["write", "edit", "apply_patch"].iter().any(|name| offered.contains(name)), "{offered:?}");
    assert_eq!(agent.refused("write", json!({ "path": "plan", "content": "x" })), ErrorKind::Permission);
    assert_eq!(agent.in_project("plan"), "plan\n");
}

#[test]
fn without_access_to_the_project_files_are_the_containers() {
    let Some(agent) = Agent::new("none", vec![]) else { return };
    agent.room.write(agent.room.project.join("plan"), "plan\n");
    agent.done("write", json!({ "path": "mine", "content": "mine\n" }));
    assert_eq!(agent.bash("pwd; cat mine; test -e plan || echo no plan"), "/workspace\nmine\nno plan\n");
    assert!(!agent.room.project.join("mine").exists());
    let elsewhere = json!({ "path": agent.room.project.join("plan") });
    assert_eq!(agent.refused("read", elsewhere), ErrorKind::Permission);
}

#[cfg(feature = "mcp")]
#[tokio::test]
async fn an_mcp_client_whose_provider_is_docker_works_in_a_container() {
    use super::mcp;
    let Some(engine) = TestEngine::shared() else { return };
    let room = Room::new();
    room.configure(&format!(
        r#"{{ "provider": "docker", "docker": {{ "image": "{FULL}", "memory": "256M" }},
              "providerOptions": {{ "engine": "{}" }} }}"#,
        engine.host()
    ));
    let client = mcp::Agent::default().connect(&room).await;
    let written = mcp::call(&client, "write", json!({ "path": "/workspace/a", "content": "hi\n" })).await;
    assert_eq!(written["ok"], true, "{written}");
    let ran = mcp::call(&client, "bash", json!({ "command": "pwd; cat a" })).await;
    assert_eq!(ran["stdout"], "/workspace\nhi\n", "{ran}");
    assert_eq!(ran["data"]["sandbox"]["adapter"], "docker/guest", "{ran}");
    assert_eq!(std::fs::read_to_string(room.project.join("a")).unwrap(), "hi\n");
    client.cancel().await.unwrap();
    let removed = room.run(&["recreate", "--all", "--force"]).expect(0);
    assert!(removed.stdout.starts_with("removed: ringfence-sbx-agent-main"), "{removed:?}");
}

/// The tools of a session in the local fence whose code goes where its risk says.
fn strict(engine: &TestEngine, room: &Room, more: Value, languages: Languages) -> Tools {
    let mut config = json!({ "safety": { "codeSandbox": "strict" } });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let call: ConfigFile = serde_json::from_value(config).unwrap();
    let mut env: ringfence::config::EnvMap = [("HOME", &room.home), ("RINGFENCE_HOME", &room.ringfence_home)]
        .map(|(name, path)| (name.into(), path.clone().into_os_string()))
        .into();
    env.insert("DOCKER_HOST".into(), engine.host().into());
    env.insert("PATH".into(), std::env::var_os("PATH").unwrap());
    let setup = Arc::new(Setup::load(&room.project, env, call, None).unwrap());
    let service = Some(Arc::new(AutoApprove) as _);
    let reader = Some(Arc::new(ringfence::gate::InProcess) as _);
    OpenTools { service, languages, code_reader: reader, ..OpenTools::default() }.open(&setup).unwrap()
}

fn nothing_is_left(engine: &TestEngine, room: &Room) {
    let mark = format!("label=ringfence.workspace={}", room.project.display());
    let left = engine.docker(&["ps", "-aq", "--filter", &mark]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "", "all are removed");
}

/// Safe code stays in the local fence; other code has a container for itself, which is gone afterwards.
#[test]
fn risky_code_has_a_container_of_its_own() {
    let Some(engine) = TestEngine::shared() else { return };
    let room = Room::new();
    let image = json!({ "docker": { "image": FULL, "memory": "256M" } });
    let tools = strict(&engine, &room, image, Languages::default());
    let run = |code: &str| tools.call("run_code", &json!({ "language": "shell", "code": code }));
    let safe = run("pwd");
    assert_eq!(safe.data["sandboxType"], "subprocess", "{safe:?}");
    assert_eq!(safe.stdout.trim_end(), room.project.to_str().unwrap());
    let risky = run("mkdir -p out; mv out made; hostname > made/name; pwd");
    assert_eq!((&risky.data["sandboxType"], risky.ok), (&json!("docker"), true), "{risky:?}");
    assert_eq!(risky.stdout, "/workspace\n");
    assert_eq!(risky.data["filesCreated"], json!(["made/name"]), "{risky:?}");
    let name = std::fs::read_to_string(room.project.join("made/name")).unwrap();
    assert_ne!(name, std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap());
    tools.dispose();
    nothing_is_left(&engine, &room);
}

/// Where nobody chose an image, each language has its own, and its own command.
#[test]
fn code_runs_in_the_image_of_its_language_and_nothing_is_left() {
    let Some(engine) = TestEngine::shared() else { return };
    let room = Room::new();
    let mut languages = Languages::default();
    for (name, image, command) in [
        ("python", FULL, ["python3", "-"]),
        ("shell", BUSYBOX, ["sh", "-s"]),
        ("awk", BUSYBOX, ["awk", "-f-"]),
        ("none", "example/none:1", ["x", "-"]),
    ] {
        let command = command.map(str::to_owned).to_vec();
        let container = Some(CodeImage { image: image.to_owned(), command: command.clone() });
        languages.add(name, Language { command, extension: String::new(), container }).unwrap();
    }
    let tools = strict(&engine, &room, json!({}), languages);
    let run = |language: &str, code: &str, timeout: u64| {
        let arguments =
            json!({ "language": language, "code": code, "timeout": timeout, "sandbox": "docker" });
        tools.call("run_code", &arguments)
    };
    let result = run("python", "import sys; print(6 * 7); open('made', 'w').write('x'); sys.exit(4)", 60);
    assert_eq!((result.stdout.as_str(), result.exit_code), ("42\n", Some(4)), "{result:?}");
    assert_eq!(result.data["sandboxType"], "docker");
    assert!(room.project.join("made").exists());
    let result = run("shell", "x=7; echo $((6 * x)); readlink -f /bin/ls", 60);
    assert_eq!(result.stdout, "42\n/usr/bin/busybox\n", "{result:?}");
    assert_eq!(run("awk", "BEGIN { print 6 * 7 }", 60).stdout, "42\n");
    let late = run("shell", "while :; do :; done", 1);
    assert_eq!(late.error_kind, Some(ErrorKind::Timeout), "{late:?}");
    let none = run("none", "x", 60);
    assert_eq!(none.error_kind, Some(ErrorKind::NotFound), "{none:?}");
    tools.dispose();
    nothing_is_left(&engine, &room);
}

/// Settings in a tree that is made in a container can be made; the project's own stay as they are.
#[test]
fn settings_in_a_tree_made_inside_a_container_are_the_work() {
    let Some(agent) = Agent::new("rw", vec![]) else { return };
    let made = agent.bash("mkdir made && mkdir made/.claude made/.vscode && echo s > made/.claude/settings.json && cat made/.claude/settings.json");
    assert_eq!(made, "s\n");
    assert_eq!(agent.in_project("made/.claude/settings.json"), "s\n");
    let result = agent.call(
        "bash",
        json!({ "command": "mkdir .claude; mkdir -p n/.git/hooks; echo evil > n/.git/hooks/pre-commit" }),
    );
    assert!(!agent.room.project.join(".claude").exists(), "{result:?}");
    assert!(!agent.room.project.join("n/.git/hooks/pre-commit").exists(), "{result:?}");
}
