//! Settings that an agent meets through the Model Context Protocol.
#![expect(deprecated, reason = "logging is part of every version of the protocol that has sessions")]

use std::time::{Duration, Instant};

use rmcp::model::{ElicitResult, ElicitationAction, LoggingLevel, SetLevelRequestParams};
use serde_json::{Value, json};

use super::mcp::{Agent, call, says};
use super::support::Room;

fn shell(code: &str) -> Value {
    json!({ "language": "shell", "code": code })
}

#[tokio::test]
async fn where_code_must_go_into_a_container_and_there_is_none_it_does_not_run() {
    let mut room = Room::new();
    if !room.has_fence() {
        return;
    }
    room.env.push(("DOCKER_HOST".to_owned(), format!("unix://{}", room.home.join("none.sock").display())));
    let code = shell("mkdir made; mv made ran");
    for word in ["strict", "permissive"] {
        room.configure(&format!(r#"{{ "safety": {{ "codeSandbox": "{word}" }} }}"#));
        let client = Agent::with_person(vec![says("once"), says("once")]).connect(&room).await;
        let safe = call(&client, "run_code", shell("pwd")).await;
        assert_eq!(
            (&safe["ok"], &safe["data"]["sandboxType"]),
            (&json!(true), &json!("subprocess")),
            "{safe}"
        );
        let refused = call(&client, "run_code", code.clone()).await;
        assert_eq!(refused["errorKind"], "sandbox_not_available", "{refused}");
        assert!(refused["stderr"].as_str().unwrap().contains("none.sock"), "it says why: {refused}");
        assert!(!room.project.join("ran").exists() && !room.project.join("made").exists());
        client.cancel().await.unwrap();
    }
    room.configure("{}");
    let client = Agent::with_person(vec![says("once")]).connect(&room).await;
    let ran = call(&client, "run_code", code).await;
    assert_eq!((&ran["ok"], room.project.join("ran").exists()), (&json!(true), true), "{ran}");
    client.cancel().await.unwrap();
}

#[tokio::test]
async fn a_run_ends_with_its_budget_and_refused_calls_cost_nothing() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    room.configure(r#"{ "tools": { "maxSteps": 40 } }"#);
    room.write(".ringfence/sandbox.json", r#"{ "tools": { "maxSteps": 2, "maxSeconds": 1800 } }"#);
    let client = Agent::default().connect(&room).await;
    let echo = json!({ "command": "echo on" });
    for _ in 0..3 {
        let refused = call(&client, "bash", json!({ "command": "rm -rf /etc" })).await;
        assert_eq!(refused["errorKind"], "permission", "{refused}");
    }
    assert_eq!(call(&client, "bash", echo.clone()).await["ok"], true);
    assert_eq!(call(&client, "read", json!({ "path": ".ringfence/sandbox.json" })).await["ok"], true);
    let over = call(&client, "bash", echo.clone()).await;
    assert_eq!(
        (&over["errorKind"], &over["data"]["reason"]),
        (&json!("resource_limit_exceeded"), &json!("budget"))
    );
    assert_eq!(over["data"]["runEnded"], "the run has done its 2 steps");
    client.cancel().await.unwrap();

    room.write(".ringfence/sandbox.json", r#"{ "tools": { "maxSeconds": 1 } }"#);
    let client = Agent::default().connect(&room).await;
    assert_eq!(call(&client, "bash", echo.clone()).await["ok"], true);
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let over = call(&client, "bash", echo).await;
    assert_eq!(over["data"]["runEnded"], "the run has taken its 1 seconds", "{over}");
    client.cancel().await.unwrap();
}

#[tokio::test]
async fn a_client_that_wants_to_hears_every_step_of_a_call() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    let agent = Agent::with_person(vec![ElicitResult::new(ElicitationAction::Decline)]);
    let client = agent.connect(&room).await;
    let steps = ["tool_call_requested", "tool_call_started", "tool_call_finished"];
    let told = || agent.told.lock().unwrap().clone();
    call(&client, "bash", json!({ "command": "echo quiet" })).await;
    assert!(told().is_empty(), "{:?}", told());
    client.set_level(SetLevelRequestParams::new(LoggingLevel::Debug)).await.unwrap();
    call(&client, "bash", json!({ "command": "echo heard" })).await;
    call(&client, "bash", json!({ "command": "git push --force origin main" })).await;
    let asked = ["tool_call_requested", "approval_requested", "approval_decided", "tool_call_finished"];
    let want: Vec<&str> = steps.into_iter().chain(asked).collect();
    let deadline = Instant::now() + Duration::from_secs(30);
    while told().len() < want.len() && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let told = told();
    let names: Vec<&str> = told.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(names, want);
    assert_eq!(told[0]["arguments"]["command"], "echo heard");
    assert_eq!(told[2]["result"]["stdout"], json!({ "bytes": 6 }), "output is in the result already");
    client.cancel().await.unwrap();
}

#[tokio::test]
async fn a_server_works_in_the_session_that_it_is_given() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    room.configure(r#"{ "sessions": "non-main", "workspaceAccess": "none", "scope": "session" }"#);
    let pwd = json!({ "command": "pwd; echo x >> kept; wc -l < kept" });
    let mut places = vec![];
    for lines in 1..=2 {
        let client = Agent::default().connect_with(&room, &["--session", "agent:work:chat"]).await;
        let ran = call(&client, "bash", pwd.clone()).await;
        let text = ran["stdout"].as_str().unwrap();
        assert!(text.ends_with(&format!("\n{lines}\n")), "{ran}");
        assert_eq!(ran["data"]["sandbox"]["active"], true);
        places.push(text.lines().next().unwrap().to_owned());
        client.cancel().await.unwrap();
    }
    assert_eq!(places[0], places[1]);
    let told = room.run(&["explain", "--session", "agent:work:chat", "--json"]).expect(0).json();
    assert_eq!(told["workspaceDir"], places[0].as_str());
    let client = Agent::default().connect_with(&room, &["--session", "agent:work:main"]).await;
    let main = call(&client, "bash", json!({ "command": "pwd" })).await;
    assert_eq!(main["data"]["sandbox"]["active"], false, "the main session is not fenced in: {main}");
    assert_eq!(main["stdout"].as_str().unwrap().trim_end(), room.project.to_str().unwrap());
    client.cancel().await.unwrap();
}

#[tokio::test]
async fn lists_of_commands_hold_for_agents_too() {
    let room = Room::new();
    room.configure(r#"{ "blockedCommands": ["uname"] }"#);
    let client = Agent::default().connect(&room).await;
    for (tool, arguments) in [
        ("bash", json!({ "command": "uname -s" })),
        ("jobs", json!({ "action": "start", "command": "uname -s" })),
    ] {
        let refused = call(&client, tool, arguments).await;
        assert_eq!(refused["data"]["reason"], "gate", "{tool}: {refused}");
    }
    client.cancel().await.unwrap();
    room.configure(r#"{ "allowedCommands": ["ls"] }"#);
    let client = Agent::default().connect(&room).await;
    assert_eq!(call(&client, "bash", json!({ "command": "ls" })).await["ok"], true);
    assert_eq!(call(&client, "bash", json!({ "command": "id -u" })).await["ok"], false);
    client.cancel().await.unwrap();
}

#[tokio::test]
async fn refusals_of_file_tools_and_of_the_tool_policy_are_remembered() {
    let room = Room::new();
    room.write(".env", "TOKEN=1\n");
    room.write(".git/hooks/other", "");
    room.configure(r#"{ "ask": "never", "tools": { "deny": ["search"] } }"#);
    let client = Agent::default().connect(&room).await;
    for (tool, arguments) in [
        ("read", json!({ "path": ".env" })),
        ("write", json!({ "path": ".git/hooks/x", "content": "" })),
        ("read", json!({ "path": "../../../x" })),
        ("search", json!({ "text": "x" })),
    ] {
        assert_eq!(call(&client, tool, arguments).await["ok"], false);
    }
    client.cancel().await.unwrap();
    let ran = room.run(&["violations", "--jsonl"]);
    let rows = ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut resources: Vec<String> =
        rows.map(|row| row["violation"]["resource"].as_str().unwrap().to_owned()).collect();
    resources.sort_unstable();
    let outside = room.project.ancestors().nth(3).unwrap().join("x");
    let mut want = [room.project.join(".env"), room.project.join(".git/hooks/x"), outside]
        .map(|path| path.display().to_string())
        .to_vec();
    want.push("search".to_owned());
    want.sort_unstable();
    assert_eq!(resources, want, "{}", ran.stdout);
}
