//! The server of the Model Context Protocol, by the client of its makers.
#![expect(deprecated, reason = "roots are part of every version of the protocol that has sessions")]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult,
    ElicitationAction, ListRootsResult, LoggingMessageNotificationParam, ReadResourceRequestParams, Root,
};
use rmcp::service::{NotificationContext, RequestContext, RunningService};
use rmcp::transport::TokioChildProcess;
use rmcp::{ClientHandler, ErrorData, RoleClient, ServiceExt as _};
use serde_json::{Value, json};

use super::approval::Person;
use super::fence_support::wait_until;
use super::support::Room;

/// A client, and the person who sits there.
#[derive(Clone, Default)]
pub(crate) struct Agent {
    roots: Option<Vec<PathBuf>>,
    /// What the person answers, in turn; none: the client cannot ask.
    answers: Option<Arc<Mutex<Vec<ElicitResult>>>>,
    asked: Arc<Mutex<Vec<String>>>,
    /// What it was told besides results.
    pub(crate) told: Arc<Mutex<Vec<Value>>>,
}

impl ClientHandler for Agent {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        if self.roots.is_some() {
            capabilities.roots = Some(Default::default());
        }
        if self.answers.is_some() {
            capabilities.elicitation = Some(Default::default());
        }
        ClientConfig::new(capabilities, rmcp::model::Implementation::new("tests", "1"))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        let roots = self.roots.iter().flatten().map(|path| Root::new(format!("file://{}", path.display())));
        Ok(ListRootsResult::new(roots.collect()))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        if let ElicitRequestParams::FormElicitationParams { message, .. } = request {
            self.asked.lock().unwrap().push(message);
        }
        Ok(self.answers.as_ref().unwrap().lock().unwrap().remove(0))
    }

    async fn on_logging_message(
        &self,
        message: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.told.lock().unwrap().push(message.data);
    }
}

pub(crate) fn says(word: &str) -> ElicitResult {
    ElicitResult::new(ElicitationAction::Accept).with_content(json!({ "decision": word }))
}

impl Agent {
    pub(crate) fn with_person(answers: Vec<ElicitResult>) -> Self {
        Self { answers: Some(Arc::new(Mutex::new(answers))), ..Self::default() }
    }

    pub(crate) async fn connect(&self, room: &Room) -> RunningService<RoleClient, Self> {
        self.connect_with(room, &[]).await
    }

    pub(crate) async fn connect_with(&self, room: &Room, more: &[&str]) -> RunningService<RoleClient, Self> {
        let program = room.command(&[&["mcp"], more].concat());
        let mut command = tokio::process::Command::new(program.get_program());
        command.args(program.get_args()).current_dir(&room.project).env_clear();
        command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let (transport, _) = TokioChildProcess::builder(command).stderr(Stdio::inherit()).spawn().unwrap();
        self.clone().serve(transport).await.unwrap()
    }
}

pub(crate) fn wish(name: &'static str, arguments: Value) -> CallToolRequestParams {
    let mut wish = CallToolRequestParams::new(name);
    wish.arguments = arguments.as_object().cloned();
    wish
}

/// The structured result.
pub(crate) async fn call(
    client: &RunningService<RoleClient, Agent>,
    name: &'static str,
    arguments: Value,
) -> Value {
    let result = client.call_tool(wish(name, arguments)).await.unwrap();
    result.structured_content.unwrap()
}

fn secret(room: &Room) {
    room.write(room.home.join(".ssh/config"), "Host treasure\n");
}

#[tokio::test]
async fn tools_are_offered_with_schemas_and_do_their_work() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    let client = Agent::default().connect(&room).await;
    let tools = client.list_all_tools().await.unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
    for name in [
        "bash",
        "jobs",
        "run_code",
        "read",
        "write",
        "edit",
        "apply_patch",
        "list",
        "search",
        "sandbox_status",
        "request_permission",
    ] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(!names.contains(&"exit"), "a model does not end the session");
    for tool in &tools {
        assert_eq!(tool.input_schema["type"], "object", "{}", tool.name);
        assert!(tool.output_schema.is_some() && tool.annotations.is_some(), "{}", tool.name);
    }
    let notes =
        |name: &str| tools.iter().find(|tool| tool.name == name).unwrap().annotations.clone().unwrap();
    assert_eq!(notes("read").read_only_hint, Some(true));
    assert_eq!(notes("bash").destructive_hint, Some(true));
    assert_eq!(notes("write").idempotent_hint, Some(true));

    call(&client, "bash", json!({ "command": "mkdir -p sub && cd sub && NAME=ada" })).await;
    let result = call(&client, "bash", json!({ "command": "pwd; echo $NAME" })).await;
    assert_eq!(result["stdout"], format!("{}/sub\nada\n", room.project.display()));
    let result =
        call(&client, "run_code", json!({ "code": "open('made.txt','w').write('x'); print(6*7)" })).await;
    assert_eq!((&result["stdout"], &result["data"]["filesCreated"][0]), (&json!("42\n"), &json!("made.txt")));
    call(&client, "write", json!({ "path": "a.txt", "content": "one\n" })).await;
    call(&client, "edit", json!({ "path": "a.txt", "old": "one", "new": "two" })).await;
    assert_eq!(std::fs::read_to_string(room.project.join("a.txt")).unwrap(), "two\n");
    let result = call(&client, "bash", json!({ "command": "exit 3" })).await;
    assert_eq!((&result["errorKind"], &result["exitCode"]), (&json!("exit_code"), &json!(3)));
    let result = call(&client, "bash", json!({ "command": "sleep 600", "timeoutMs": 300 })).await;
    assert_eq!(result["errorKind"], "timeout");
    let instructions = client.peer_info().and_then(|info| info.instructions.clone()).unwrap_or_default();
    for said in ["project is writable", "home directory and /tmp are private", "no network"] {
        assert!(instructions.contains(said), "{said}: {instructions}");
    }
    let result = call(&client, "sandbox_status", json!({})).await;
    assert_eq!(result["data"]["writable"], json!([room.project]), "{result}");
    assert!(result["stdout"].as_str().unwrap().contains("network none"), "{result}");
    assert_eq!(result["data"]["sandbox"]["active"], true);
    assert_eq!(result["data"]["project"], json!(room.project));
    assert!(client.call_tool(wish("exit", json!({}))).await.is_err());

    let uri = format!("file://{}", room.project.join("a.txt").display());
    let read = client.read_resource(ReadResourceRequestParams::new(uri)).await.unwrap();
    assert_eq!(serde_json::to_value(read).unwrap()["contents"][0]["text"], "two\n");
    let ledger = ReadResourceRequestParams::new("ringfence://session/ledger");
    let ledger = serde_json::to_value(client.read_resource(ledger).await.unwrap()).unwrap();
    assert!(ledger["contents"][0]["text"].as_str().unwrap().contains("echo $NAME"));
    client.cancel().await.unwrap();
}

#[tokio::test]
async fn roots_are_where_a_session_works() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    let (first, second) = (room.home.join("first"), room.home.join("second"));
    for directory in [&first, &second] {
        std::fs::create_dir(directory).unwrap();
    }
    let agent = Agent { roots: Some(vec![first.clone(), second.clone()]), ..Agent::default() };
    let client = agent.connect(&room).await;
    let result =
        call(&client, "bash", json!({ "command": "pwd; echo 1 > here; echo 2 > ../second/there" })).await;
    assert_eq!(
        (&result["ok"], &result["stdout"]),
        (&json!(true), &json!(format!("{}\n", first.display()))),
        "{result}"
    );
    assert!(first.join("here").exists() && second.join("there").exists());
    let text = format!("echo 3 > {}/no", room.project.display());
    let result = call(&client, "bash", json!({ "command": text })).await;
    assert_eq!(result["ok"], false, "what is no root is not writable: {result}");
    assert!(!room.project.join("no").exists());
    client.cancel().await.unwrap();
}

#[tokio::test]
async fn file_tools_work_in_every_root_and_in_nothing_else() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    let (first, second) = (room.home.join("first"), room.home.join("second"));
    for directory in [&first, &second] {
        std::fs::create_dir_all(directory.join("build")).unwrap();
    }
    std::fs::write(second.join(".env"), "KEY=1\n").unwrap();
    let agent = Agent { roots: Some(vec![first.clone(), second.clone()]), ..Agent::with_person(vec![]) };
    let client = agent.connect(&room).await;
    let there = |name: &str| second.join(name).display().to_string();
    let good = async |name, arguments| {
        let result = call(&client, name, arguments).await;
        assert_eq!(result["ok"], true, "{name}: {result}");
        result
    };

    let result = good("write", json!({ "path": there("a.txt"), "content": "one\n" })).await;
    assert_eq!(result["data"]["path"], there("a.txt"));
    good("write", json!({ "path": "a.txt", "content": "in the first\n" })).await;
    assert_eq!(std::fs::read_to_string(second.join("a.txt")).unwrap(), "one\n");
    assert_eq!(std::fs::read_to_string(first.join("a.txt")).unwrap(), "in the first\n");
    good("edit", json!({ "path": there("a.txt"), "old": "one", "new": "two" })).await;
    assert_eq!(good("read", json!({ "path": there("a.txt") })).await["stdout"], "     1\ttwo\n");
    let patch = |one: &str, other: &str| {
        json!({ "patch": format!(
            "*** Begin Patch\n*** Update File: {one}\n@@\n-two\n+three\n*** Add File: {other}\n+new\n*** End Patch"
        ) })
    };
    let result = call(&client, "apply_patch", patch(&there("a.txt"), "b.txt")).await;
    assert_eq!(result["errorKind"], "validation", "whole or not at all, so in one root: {result}");
    assert!(!first.join("b.txt").exists());
    let result = good("apply_patch", patch(&there("a.txt"), &there("b.txt"))).await;
    assert_eq!(result["stdout"], format!("A {}\nM {}\n", there("b.txt"), there("a.txt")));
    let result = good("list", json!({ "path": second })).await;
    assert!(result["stdout"].as_str().unwrap().contains(&there("b.txt")), "{result}");
    let result = good("search", json!({ "path": second, "text": "three" })).await;
    assert_eq!(result["stdout"], format!("{}:1:three\n", there("a.txt")));
    let uri = format!("file://{}", there("a.txt"));
    let read = client.read_resource(ReadResourceRequestParams::new(uri)).await.unwrap();
    assert!(format!("{read:?}").contains("three"), "{read:?}");
    assert_eq!(client.list_all_resource_templates().await.unwrap().len(), 2);
    // What belongs to the project is ordinary work for the gate, too: nobody is there to answer.
    good("bash", json!({ "command": format!("rm -rf {}", there("build")) })).await;
    assert!(!second.join("build").exists());

    for path in [room.project.join("x"), second.join("../project/x"), room.home.join("secondary")] {
        let result = call(&client, "write", json!({ "path": path, "content": "x" })).await;
        assert_eq!(result["data"]["reason"], "path_outside_workspace", "{}: {result}", path.display());
        assert!(!path.exists());
    }
    std::os::unix::fs::symlink(room.home.join(".ssh"), second.join("link")).unwrap();
    let result = call(&client, "write", json!({ "path": there("link/x"), "content": "x" })).await;
    assert_eq!(result["data"]["reason"], "path_outside_workspace", "{result}");
    client.cancel().await.unwrap();

    let silent = Agent { answers: None, ..agent }.connect(&room).await;
    let result = call(&silent, "read", json!({ "path": there(".env") })).await;
    assert_eq!(result["data"]["status"], "requires_permission", "the same rules as in the first: {result}");
    silent.cancel().await.unwrap();
}

#[tokio::test]
async fn the_person_at_the_client_decides() {
    let room = Room::new();
    secret(&room);
    if !room.has_fence() {
        return;
    }
    let decline = ElicitResult::new(ElicitationAction::Decline);
    let agent = Agent::with_person(vec![says("once"), decline, says("session")]);
    let client = agent.connect(&room).await;
    let look = || json!({ "command": "cat ~/.ssh/config" });
    assert_eq!(call(&client, "bash", look()).await["stdout"], "Host treasure\n");
    let refused = call(&client, "bash", look()).await;
    assert_eq!(refused["errorKind"], "approval_denied", "{refused}");
    assert!(!refused["stdout"].as_str().unwrap().contains("treasure"));
    assert_eq!(call(&client, "bash", look()).await["stdout"], "Host treasure\n");
    assert_eq!(call(&client, "bash", look()).await["stdout"], "Host treasure\n", "for the session");
    let asked = agent.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 3, "{asked:?}");
    assert!(asked[0].contains("wants to read") && asked[0].contains(".ssh/config"), "{asked:?}");
    client.cancel().await.unwrap();
}

#[tokio::test]
async fn a_run_that_was_stopped_goes_on_only_if_a_person_says_so() {
    let room = Room::new();
    secret(&room);
    if !room.has_fence() {
        return;
    }
    let dismiss = || ElicitResult::new(ElicitationAction::Cancel);
    let agent = Agent::with_person(vec![dismiss(), says("once"), dismiss(), dismiss()]);
    let client = agent.connect(&room).await;
    let look = || json!({ "command": "cat ~/.ssh/config" });
    let stopped = call(&client, "bash", look()).await;
    assert_eq!(stopped["errorKind"], "cancelled", "{stopped}");
    let result = call(&client, "bash", json!({ "command": "echo on" })).await;
    assert_eq!(result["stdout"], "on\n", "the second answer lets it go on: {result}");
    call(&client, "bash", look()).await;
    for _ in 0..2 {
        let result = call(&client, "bash", json!({ "command": "echo on" })).await;
        assert_eq!(result["data"]["reason"], "run_ended", "{result}");
    }
    assert_eq!(agent.asked.lock().unwrap().len(), 4, "a person who said no is not asked again");
    client.cancel().await.unwrap();
}

/// Without elicitation, the question comes back as a result, and the answer from a terminal.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_waits_for_a_terminal() {
    let room = Room::new();
    secret(&room);
    if !room.has_fence() {
        return;
    }
    let client = Agent::default().connect(&room).await;
    let inside = "mkdir -p ~/.ringfence/questions; echo forged > ~/.ringfence/questions/forged.answer";
    call(&client, "bash", json!({ "command": inside })).await;
    assert!(!room.ringfence_home.join("questions/forged.answer").exists());
    let asked = call(&client, "bash", json!({ "command": "cat ~/.ssh/config" })).await;
    assert_eq!(asked["data"]["status"], "requires_permission", "{asked}");
    let id = asked["data"]["permission"]["id"].as_str().unwrap().to_owned();

    // What the model can send answers nothing.
    for name in ["approve", "resolve", "exit"] {
        let unknown = CallToolRequestParams::new(name);
        assert!(client.call_tool(unknown).await.is_err(), "{name}");
    }
    let busy = call(&client, "bash", json!({ "command": format!("ringfence approve {id}") })).await;
    assert_eq!(busy["errorKind"], "concurrent_access", "{busy}");
    let busy = call(&client, "jobs", json!({ "action": "start", "command": "true" })).await;
    assert_eq!(busy["errorKind"], "concurrent_access", "{busy}");
    assert_eq!(call(&client, "jobs", json!({ "action": "list" })).await["ok"], true);
    let questions = room.ringfence_home.join("questions");
    let answer = questions.join(format!("{id}.answer"));
    let forged = json!({ "path": answer, "content": "{\"decision\":\"allow_once\"}" });
    assert_eq!(call(&client, "write", forged).await["ok"], false);
    let waits = call(&client, "request_permission", json!({ "id": id, "waitSeconds": 2 })).await;
    assert_eq!(waits["data"]["status"], "requires_permission", "{waits}");
    assert!(!answer.exists());
    let ran = room.run(&["approve", &id]);
    assert_ne!(ran.code, 0, "not without a terminal: {ran:?}");

    // With one that waits, nobody has to name it.
    let mut person = Person::at_terminal(&room, &["approve"]);
    person.sees("allow [o]nce");
    person.answers("o");
    assert_eq!(person.leaves().0, 0);
    let result = call(&client, "request_permission", json!({ "id": id })).await;
    assert_eq!(result["stdout"], "Host treasure\n", "{result}");

    let asked = call(&client, "bash", json!({ "command": "cat ~/.ssh/config" })).await;
    let id = asked["data"]["permission"]["id"].as_str().unwrap().to_owned();
    room.run(&["deny", &id, "--message", "not today"]).expect(0);
    let result = call(&client, "request_permission", json!({ "id": id })).await;
    assert_eq!(result["errorKind"], "approval_denied", "{result}");
    assert!(result["stderr"].as_str().unwrap().contains("not today"), "{result}");
    // The question's file is removed by its asker, a moment after the answer.
    let is_empty = || std::fs::read_dir(&questions).unwrap().count() == 0;
    assert!(wait_until(Duration::from_secs(10), is_empty), "nothing is left behind");
    client.cancel().await.unwrap();
}

#[tokio::test]
async fn a_path_can_be_asked_for_ahead_of_time() {
    let room = Room::new();
    secret(&room);
    if !room.has_fence() {
        return;
    }
    let agent = Agent::with_person(vec![says("session"), says("once")]);
    let client = agent.connect(&room).await;
    let path = room.home.join(".ssh/config");
    let wanted = json!({ "path": path, "reason": "to find the host" });
    let result = call(&client, "request_permission", wanted).await;
    assert_eq!(result["ok"], true, "{result}");
    assert!(agent.asked.lock().unwrap()[0].contains("the agent says: to find the host"));
    let result = call(&client, "bash", json!({ "command": "cat ~/.ssh/config" })).await;
    assert_eq!(result["stdout"], "Host treasure\n", "{result}");
    // What was not offered was not allowed.
    let other = room.write(room.home.join(".ssh/other"), "x");
    let result = call(&client, "request_permission", json!({ "path": other })).await;
    assert_eq!(result["errorKind"], "approval_denied", "{result}");
    client.cancel().await.unwrap();
}

/// Waits until a process of this command line is there, or is not.
pub(crate) fn wait_for_process(mark: &str, there: bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let found = std::fs::read_dir("/proc").unwrap().any(|entry| {
            let line = std::fs::read(entry.unwrap().path().join("cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|word| word == mark.as_bytes())
        });
        if found == there {
            return;
        }
        assert!(Instant::now() < deadline, "a process with {mark}: {found}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A number of seconds that no other test sleeps.
pub(crate) fn mark(room: &Path) -> String {
    let number =
        room.to_string_lossy().bytes().fold(7u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte));
    format!("{}", 100_000 + number % 1_000_000_000)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_call_is_really_ended_and_the_shell_stays() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    let client = Agent::default().connect(&room).await;
    call(&client, "bash", json!({ "command": "NAME=ada" })).await;
    let mark = mark(&room.home);
    let slow = client.call_tool_once(wish("bash", json!({ "command": format!("sleep {mark}") })));
    tokio::select! {
        result = slow => panic!("{result:?}"),
        () = async { tokio::task::spawn_blocking({ let mark = mark.clone(); move || wait_for_process(&mark, true) }).await.unwrap() } => {}
    }
    // The future is dropped: the client cancels.
    tokio::task::spawn_blocking(move || wait_for_process(&mark, false)).await.unwrap();
    assert_eq!(call(&client, "bash", json!({ "command": "echo $NAME" })).await["stdout"], "ada\n");
    client.cancel().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_gone_leaves_nothing_behind() {
    let room = Room::new();
    secret(&room);
    if !room.has_fence() {
        return;
    }
    let mark = mark(&room.home);
    let mut server = room.command(&["mcp"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = server.stdin.take().unwrap();
    let start = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } });
    let begun = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let work = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "bash", "arguments": { "command": format!("sleep {mark} & setsid sleep {mark} & sleep {mark}") } } });
    use std::io::Write as _;
    for line in [start, begun, work] {
        writeln!(input, "{line}").unwrap();
    }
    tokio::task::spawn_blocking(move || {
        wait_for_process(&mark, true);
        drop(input);
        server.wait().unwrap();
        wait_for_process(&mark, false);
    })
    .await
    .unwrap();
}

#[test]
fn installing_keeps_what_is_there() {
    let room = Room::new();
    let file = room.write(room.home.join(".cursor/mcp.json"), "{\n  // mine\n  \"x\": 1\n}\n");
    let printed = room.run(&["mcp", "install", "--client", "cursor", "--print"]).expect(0).stdout;
    assert!(!std::fs::read_to_string(&file).unwrap().contains("ringfence"), "--print writes nothing");
    room.run(&["mcp", "install", "--client", "cursor"]).expect(0);
    let written = std::fs::read_to_string(&file).unwrap();
    assert_eq!(written, printed);
    assert!(written.contains("// mine") && written.contains("\"ringfence\""), "{written}");
    room.run(&["mcp", "install", "--client", "codex"]).expect(0);
    assert!(
        std::fs::read_to_string(room.home.join(".codex/config.toml"))
            .unwrap()
            .contains("[mcp_servers.ringfence]")
    );
    room.write(room.home.join(".gemini/settings.json"), "{ broken");
    room.run(&["mcp", "install", "--client", "gemini"]).expect(2);
}
