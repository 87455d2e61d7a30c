//! What is offered, what comes back, and where a line goes.

use std::sync::Arc;
use std::time::Duration;

use ringfence::model::config::Entry;
use ringfence::model::{Decision, Error, ErrorKind, Result};
use ringfence::session::SessionEvent;
use ringfence::tools::{
    Budget, Effect, Extension, Extensions, OpenTools, PolicyLayer, Restriction, ToolResult,
};
use ringfence_gate::risk::Risk;
use serde_json::{Value, json};

use crate::world::{World, person, yes};

#[test]
fn an_allowed_call_has_its_events_and_its_sandbox() {
    let Some(world) = World::asking([]) else { return };
    let result = world.bash("cd /usr; export X=1; echo out; echo err >&2");
    assert_eq!(
        (result.stdout.as_str(), result.stderr.as_str(), result.exit_code),
        ("out\n", "err\n", Some(0))
    );
    assert_eq!(result.data["sandbox"]["requested"], "restricted");
    assert_eq!(result.data["sandbox"]["effective"], "restricted");
    assert_eq!(result.data["sandbox"]["active"], true);
    assert!(result.data["sandbox"]["adapter"].as_str().unwrap().starts_with("local/"));
    assert_eq!(world.names(), ["tool_call_requested", "tool_call_started", "tool_call_finished"]);
    assert_eq!(world.bash("echo $X $PWD").stdout, "1 /usr\n");
    let streamed = world
        .take()
        .iter()
        .any(|event| matches!(event, SessionEvent::Output { data, .. } if data == "1 /usr\n"));
    assert!(streamed);
    let failed = world.bash("exit 3");
    assert_eq!((failed.error_kind, failed.exit_code), (Some(ErrorKind::ExitCode), Some(3)));
    assert_eq!(failed.data["restarted"], true);
    let missing = world.bash("no-such-program");
    assert_eq!(missing.data["failure"]["class"], "command_not_found");
    let executions = world.ledger().executions(&Default::default()).unwrap();
    assert!(executions.len() >= 4, "{executions:?}");
}

#[test]
fn wrong_calls_run_nothing() {
    let Some(world) = World::asking([]) else { return };
    let kind = |name: &str, arguments: serde_json::Value| world.tools.call(name, &arguments).error_kind;
    let invalid = Some(ErrorKind::Validation);
    assert_eq!(kind("bash", json!({})), invalid);
    assert_eq!(kind("bash", json!({ "command": "  " })), invalid);
    assert_eq!(kind("bash", json!({ "command": "ls", "extra": 1 })), invalid);
    assert_eq!(kind("bash", json!({ "command": "ls", "sandbox": "none" })), invalid);
    assert_eq!(kind("bash", json!({ "command": "true", "sandbox": "Restricted" })), None);
    assert_eq!(kind("nonsense", json!({})), Some(ErrorKind::NotFound));
    assert_eq!(world.tools.call_text("bash", "{").error_kind, invalid);
    world.take();
    assert_eq!(world.tools.call_text("bash", "{").error_kind, invalid);
    assert_eq!(world.names(), ["tool_call_requested", "tool_call_finished"]);
    let result = world.tools.call("bash", &json!({ "command": 7 }));
    assert!(result.stderr.contains("`command`"), "{result:?}");
}

#[test]
fn agent_commands_are_served_on_the_host_and_everything_else_inside() {
    let Some(world) = World::asking([]) else { return };
    let written = world.bash("write deep/a.txt \"one\\ntwo\"");
    assert!(written.ok && !written.data.contains_key("sandbox"), "{written:?}");
    assert_eq!(world.read("deep/a.txt"), "one\ntwo");
    assert_eq!(world.bash("read deep/a.txt --offset 2").stdout, "     2\ttwo\n");
    assert!(world.bash("edit deep/a.txt two TWO").ok);
    assert!(world.bash("write s.sh <<'EOF'\necho $1\nEOF").ok);
    assert_eq!(world.bash("bash s.sh given").stdout, "given\n", "a script stays a script");
    let inner = world.bash("bash cat deep/a.txt");
    assert_eq!(inner.stdout, "one\nTWO", "{inner:?}");
    assert_eq!(inner.data["sandbox"]["active"], true);
    assert_eq!(world.bash("read x < s.sh; echo \"$x\"").stdout, "echo $1\n", "bash's own read");
    assert_eq!(world.bash("write a b && rm s.sh").error_kind, Some(ErrorKind::Validation));
    assert!(world.project.join("s.sh").exists());
    for (command, words) in
        [("read nothing.txt", "no such file"), ("read deep", "directory"), ("read", "usage")]
    {
        let result = world.bash(command);
        assert!(!result.ok && result.stderr.contains(words), "{command}: {result:?}");
    }
    let again = world.tools.call("bash", &json!({ "command": "pwd", "restart": true }));
    assert_eq!(again.stdout.trim_end(), world.project.to_str().unwrap());
}

#[derive(Debug)]
struct Server;

impl Extension for Server {
    fn run(&self, line: &str) -> Result<ToolResult> {
        if line.contains("fail") {
            return Err(Error::new(ErrorKind::Unknown, "the server failed"));
        }
        Ok(ToolResult::text(format!("served {line}\n")))
    }
}

#[test]
fn extension_lines_go_to_their_handlers_and_are_asked_about() {
    let mut extensions = Extensions::default();
    extensions.register("mcp:", || Ok(Arc::new(Server) as _)).unwrap();
    extensions.register("broken:", || Err(Error::new(ErrorKind::Internal, "cannot be made"))).unwrap();
    let options = OpenTools {
        service: Some(person([yes(Decision::AllowOnce), yes(Decision::Deny), yes(Decision::AllowOnce)])),
        extensions,
        ..OpenTools::default()
    };
    let config = json!({ "safety": { "tool_allowlist": ["mcp:docs:find", "broken:x"], "tool_denylist": ["mcp:docs:wipe"] } });
    let Some(world) = World::configured(options, config, &[]) else { return };
    assert_eq!(world.bash("mcp:docs:find rust").stdout, "served mcp:docs:find rust\n");
    assert!(world.questions().is_empty(), "on the allow list");
    assert_eq!(world.bash("mcp:docs:wipe").error_kind, Some(ErrorKind::Permission));
    assert!(world.bash("mcp:docs:other").ok);
    assert_eq!(world.questions().len(), 1);
    assert_eq!(world.bash("mcp:docs:third").error_kind, Some(ErrorKind::ApprovalDenied));
    let failed = world.bash("mcp:docs:find fail");
    assert_eq!((failed.exit_code, failed.stderr.as_str()), (Some(1), "the server failed"));
    let broken = world.bash("broken:x");
    assert_eq!(
        (broken.error_kind, &broken.data["reason"]),
        (Some(ErrorKind::Permission), &json!("safety")),
        "what cannot be looked up is refused: {broken:?}"
    );
    assert!(broken.stderr.contains("cannot be made"), "{broken:?}");
    assert_eq!(world.bash("skill:x:y").error_kind, Some(ErrorKind::NotFound), "nothing is registered for it");
}

#[test]
fn a_sub_agent_has_fewer_tools_and_a_sandbox_of_its_own() {
    let Some(world) = World::asking([]) else { return };
    let explorer = world.tools.restricted(Restriction::of_kind("explore").unwrap()).unwrap();
    let names: Vec<_> = explorer.specs().iter().map(|spec| spec.name).collect();
    assert!(
        !names.contains(&"write") && !names.contains(&"apply_patch") && names.contains(&"bash"),
        "{names:?}"
    );
    for command in ["write a b", "echo hi; write a b", "sh -c 'touch made; edit a b c'", "task:more"] {
        let result = explorer.call("bash", &json!({ "command": command }));
        assert_eq!(result.error_kind, Some(ErrorKind::CommandNotAllowed), "{command}: {result:?}");
    }
    let denied = explorer.call("write", &json!({ "path": "a", "content": "b" }));
    assert_eq!(denied.error_kind, Some(ErrorKind::Permission));
    assert_eq!(std::fs::read_dir(&world.project).unwrap().count(), 0, "nothing ran");
    assert!(explorer.call("bash", &json!({ "command": "X=theirs; cd /" })).ok);
    assert_eq!(world.bash("echo [$X]").stdout, "[]\n");
    let deeper = explorer.restricted(Restriction::new(["ls"])).unwrap();
    for command in ["ls", "write a b"] {
        assert!(!deeper.call("bash", &json!({ "command": command })).ok, "restrictions add up: {command}");
    }
    explorer.dispose();
}

#[test]
fn a_read_only_workspace_offers_no_writing_tool_and_its_shell_cannot_write() {
    let options = OpenTools::default();
    let config = json!({ "ask": "never", "workspaceAccess": "ro" });
    let Some(world) = World::configured(options, config, &[]) else { return };
    world.write("a.txt", "there\n");
    let names: Vec<_> = world.tools.specs().iter().map(|spec| spec.name).collect();
    assert_eq!(names, ["bash", "run_code", "jobs", "read", "list", "search", "exit"]);
    assert_eq!(
        world.tools.call("write", &json!({ "path": "b", "content": "" })).error_kind,
        Some(ErrorKind::Permission)
    );
    assert_eq!(world.bash("write b c").error_kind, Some(ErrorKind::Permission));
    assert_eq!(world.bash("cat a.txt").stdout, "there\n");
    let blocked = world.bash("echo x > b");
    assert_eq!(blocked.error_kind, Some(ErrorKind::SandboxBlocked), "{blocked:?}");
    assert!(!world.project.join("b").exists());
}

#[test]
fn policy_layers_decide_what_is_offered() {
    let layer = PolicyLayer::new("agent", vec![Entry::by_call("group:fs"), Entry::by_call("bash")], vec![]);
    let options = OpenTools { layers: vec![layer], ..OpenTools::default() };
    let Some(world) = World::configured(options, json!({ "tools": { "deny": ["edit"] } }), &[]) else {
        return;
    };
    let names: Vec<_> = world.tools.specs().iter().map(|spec| spec.name).collect();
    assert_eq!(names, ["bash", "read", "write", "apply_patch", "list", "search"]);
    let result = world.tools.call("edit", &json!({ "path": "a", "old": "b", "new": "c" }));
    assert_eq!(
        (result.error_kind, &result.data["reason"]),
        (Some(ErrorKind::Permission), &json!("tool_policy"))
    );
    assert!(result.stderr.contains("tools.deny"), "{result:?}");
    assert_eq!(world.bash("edit a b c").error_kind, Some(ErrorKind::Permission), "not as a command either");
}

#[test]
fn a_budget_ends_the_run_and_refused_calls_are_free() {
    let budget = Budget { steps: Some(3), wall: Some(Duration::from_secs(3600)) };
    let options = OpenTools { budget: Some(budget), ..OpenTools::default() };
    // The trial of the world is the first step.
    let Some(world) = World::configured(options, json!({ "ask": "never" }), &[]) else { return };
    for _ in 0..5 {
        assert_eq!(world.bash("rm -rf /etc").error_kind, Some(ErrorKind::Permission));
    }
    assert!(world.bash("true").ok && world.bash("true").ok);
    assert_eq!(world.bash("true").error_kind, Some(ErrorKind::ResourceLimitExceeded));
    assert_eq!(world.tools.usage()["bash"], 3);
    world.tools.begin_run();
    let done = world.tools.call("exit", &json!({ "message": "all done" }));
    assert!(done.ok && done.stdout == "all done");
    assert_eq!(world.bash("true").error_kind, Some(ErrorKind::Cancelled));
}

#[test]
fn the_configuration_bounds_a_run() {
    // The trial of the world is the first step.
    for (tools, last) in [(json!({ "maxSteps": 2 }), "true"), (json!({ "maxSeconds": 1 }), "sleep 1.1")] {
        let config = json!({ "tools": tools });
        let Some(world) = World::configured(OpenTools::default(), config.clone(), &[]) else { return };
        let _ = world.bash(last);
        let refused = world.bash("true").error_kind;
        assert_eq!(refused, Some(ErrorKind::ResourceLimitExceeded), "{config}");
    }
}

#[test]
fn schemas_accept_what_the_tools_accept() {
    for (tool, good, bad) in [
        ("bash", json!({ "command": "ls", "timeoutMs": 5 }), json!({ "cmd": "ls" })),
        ("run_code", json!({ "code": "1" }), json!({ "code": "1", "timeout": 301 })),
        ("jobs", json!({ "action": "start", "command": "ls" }), json!({ "action": "stop" })),
        ("jobs", json!({ "action": "signal", "id": "job-1", "signal": "TERM" }), json!({ "signal": "TERM" })),
        ("read", json!({ "path": "a", "limit": 3 }), json!({ "limit": 3 })),
        ("write", json!({ "path": "a", "content": "" }), json!({ "path": "a" })),
        ("edit", json!({ "path": "a", "old": "b", "new": "c" }), json!({ "path": "a", "old": "b" })),
        ("apply_patch", json!({ "patch": "x" }), json!({})),
        ("list", json!({}), json!({ "depth": 3 })),
        ("search", json!({ "text": "x" }), json!({ "path": "x" })),
        ("exit", json!({}), json!({ "code": 1 })),
    ] {
        let spec = ringfence::tools::catalogue::find(tool).unwrap();
        let schema = jsonschema::validator_for(&json!(spec.input_schema)).unwrap();
        assert!(schema.is_valid(&good), "{tool} {good}");
        assert!(!schema.is_valid(&bad), "{tool} {bad}");
    }
}

#[test]
fn a_running_command_can_be_cancelled() {
    let Some(world) = World::asking([]) else { return };
    let tools = world.tools.clone();
    let call = std::thread::spawn(move || tools.call("bash", &json!({ "command": "echo on; sleep 300" })));
    while !world.take().iter().any(|event| matches!(event, SessionEvent::Output { .. })) {
        std::thread::sleep(Duration::from_millis(5));
    }
    world.tools.cancel();
    let result = call.join().unwrap();
    assert!(!result.ok, "{result:?}");
    assert!(world.bash("true").ok);
}

#[test]
fn the_gate_knows_where_the_shell_is() {
    let Some(world) = World::asking([]) else { return };
    world.write("deep/x/keep", "");
    assert!(world.bash("cd deep").ok);
    world.take();
    // From here `..` is still the project; from the project it would be outside.
    assert!(world.bash("rm -rf ../deep/x").ok);
    assert!(!world.project.join("deep/x").exists());
    assert!(world.questions().is_empty());
}

#[test]
fn what_the_gate_refuses_is_recorded_with_what_was_violated() {
    let Some(world) = World::asking([]) else { return };
    let refused = world.bash("rm -rf / --no-preserve-root");
    assert_eq!(refused.data["reason"], "gate");
    let ledger = world.ledger();
    let executions = ledger.executions(&Default::default()).unwrap();
    let refused = executions.iter().find(|execution| execution.blocked).unwrap();
    assert_eq!(refused.exit_code, Some(126), "what its caller saw");
    let violations = ledger.violations(&Default::default()).unwrap();
    assert!(violations.iter().any(|kept| kept.execution_id == Some(refused.id)), "{violations:?}");
}

#[test]
fn everything_that_runs_something_passes_the_same_gate_into_the_same_fence() {
    let Some(world) = World::asking([]) else { return };
    let ways = |command: &str| {
        [
            ("bash", json!({ "command": command })),
            ("bash", json!({ "command": format!("bash {command}") })),
            ("run_code", json!({ "language": "shell", "code": command })),
            ("jobs", json!({ "action": "start", "command": command })),
            ("jobs", json!({ "action": "start", "command": command, "tty": true })),
        ]
    };
    for (tool, arguments) in ways("touch ran; rm -rf / --no-preserve-root") {
        let result = world.tools.call(tool, &arguments);
        assert_eq!(result.error_kind, Some(ErrorKind::Permission), "{tool} {arguments}: {result:?}");
        assert_eq!(result.data["reason"], "gate", "{tool} {arguments}");
    }
    assert!(!world.project.join("ran").exists());
    // The gate cannot know what a file will say.
    world.write("look.sh", "cat $HOME/.s*/config; echo looked");
    for (tool, arguments) in ways("sh look.sh") {
        world.tools.begin_run();
        let mut result = world.tools.call(tool, &arguments);
        if let Some(id) = result.data.get("job").map(|job| job["id"].clone()) {
            let mut text = String::new();
            while !text.contains("looked") {
                let read = json!({ "action": "read", "id": id, "waitMs": 30000, "offset": text.len() });
                let more = world.tools.call("jobs", &read);
                assert!(more.ok && !more.stdout.is_empty(), "{more:?}");
                text.push_str(&more.stdout);
            }
            result.stdout = text;
        }
        assert!(result.stdout.contains("looked"), "{tool} {arguments}: {result:?}");
        assert!(!result.stdout.contains("treasure"), "{tool} {arguments}: {result:?}");
    }
}

#[test]
fn a_call_says_beforehand_what_it_is_and_how_risky() {
    let Some(world) = World::asking([]) else { return };
    let of = |name: &str, arguments: Value| world.tools.prospect(name, &arguments).unwrap();
    let safe = of("bash", json!({ "command": "ls" }));
    assert_eq!((safe.category, safe.risk), (Effect::Executes, Risk::Safe));
    for (command, want) in
        [("ls", "shell_safe"), ("mv a b", "shell_write"), ("rm -rf / --no-preserve-root", "shell_dangerous")]
    {
        assert_eq!(json!(of("bash", json!({ "command": command })))["shell"], want, "{command}");
    }
    let long = format!("echo {}", "x".repeat(300));
    let shown = of("bash", json!({ "command": long })).confirmation;
    assert!(shown.starts_with(&format!("`{}…` wants to run", &long[..200])), "{shown}");
    let risky = of("run_code", json!({ "language": "python", "code": "import os; os.system('id')" }));
    assert_eq!((risky.category, risky.risk), (Effect::Executes, Risk::Critical));
    assert!(risky.confirmation.contains("wants to run"), "{risky:?}");
    let write = of("write", json!({ "path": "a", "content": "x" }));
    assert_eq!((write.category, write.risk), (Effect::Writes, Risk::Medium));
    assert_eq!(of("read", json!({ "path": "a" })).risk, Risk::Safe);
    assert_eq!(world.tools.prospect("none", &json!({})).unwrap_err().kind, ErrorKind::NotFound);
    assert!(world.names().is_empty(), "nothing was called");
}
