//! Commands in the background.

use std::time::{Duration, Instant};

use ringfence::ledger::Status;
use ringfence::model::ErrorKind;
use ringfence::model::config::Entry;
use ringfence::session::SessionEvent;
use ringfence::tools::{OpenTools, PolicyLayer, Restriction, ToolResult};
use serde_json::{Value, json};

use crate::world::{World, person};

fn jobs(world: &World, arguments: Value) -> ToolResult {
    world.tools.call("jobs", &arguments)
}

fn start(world: &World, command: &str) -> String {
    let started = jobs(world, json!({ "action": "start", "command": command }));
    assert!(started.ok, "{started:?}");
    started.data["job"]["id"].as_str().unwrap().to_owned()
}

/// Reads on until there is `wanted`; all of it.
fn read_until(world: &World, id: &str, wanted: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(60);
    let (mut text, mut offset) = (String::new(), json!(0));
    while !text.contains(wanted) {
        assert!(Instant::now() < deadline, "{wanted:?} did not come: {text:?}");
        let piece = jobs(world, json!({ "action": "read", "id": id, "offset": offset, "waitMs": 5000 }));
        assert!(piece.ok, "{piece:?}");
        text.push_str(&piece.stdout);
        offset = piece.data["nextOffset"].clone();
    }
    text
}

fn until_ended(world: &World, id: &str) -> Value {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let listed = jobs(world, json!({ "action": "list" }));
        let all = listed.data["jobs"].as_array().unwrap().clone();
        let job = all.into_iter().find(|job| job["id"] == id).unwrap();
        if job["state"] == "ended" {
            return job;
        }
        assert!(Instant::now() < deadline, "{job}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_job_goes_on_while_others_run_and_is_read_written_and_ended() {
    let Some(world) = World::asking([]) else { return };
    assert!(world.bash("mkdir sub && cd sub && export NAME=fence").ok);
    world.take();
    let id = start(&world, "echo $NAME in ${PWD##*/}; while read line; do echo \"got $line\"; done; exit 7");
    assert_eq!(world.names(), ["tool_call_requested", "tool_call_started", "tool_call_finished"]);
    assert_eq!(read_until(&world, &id, "\n"), "fence in sub\n", "it begins like the shell");
    assert_eq!(world.bash("echo meanwhile").stdout, "meanwhile\n");
    assert!(jobs(&world, json!({ "action": "write", "id": id, "input": "one\ntwo\n" })).ok);
    assert_eq!(read_until(&world, &id, "two\n"), "fence in sub\ngot one\ngot two\n");
    let end = jobs(&world, json!({ "action": "write", "id": id, "closeInput": true }));
    assert!(end.ok, "{end:?}");
    let job = until_ended(&world, &id);
    assert_eq!((&job["exitCode"], &job["outputBytes"]), (&json!(7), &json!(29)));
    let rest = jobs(&world, json!({ "action": "read", "id": id, "offset": 13 }));
    assert_eq!(rest.stdout, "got one\ngot two\n");

    let endless = start(&world, "echo up; sleep 600");
    read_until(&world, &endless, "up\n");
    assert!(jobs(&world, json!({ "action": "signal", "id": endless, "signal": "TERM" })).ok);
    until_ended(&world, &endless);
    let stubborn = start(&world, "trap '' TERM INT; echo up; while :; do sleep 1; done");
    read_until(&world, &stubborn, "up\n");
    assert!(jobs(&world, json!({ "action": "kill", "id": stubborn })).ok);
    until_ended(&world, &stubborn);
    assert_eq!(jobs(&world, json!({ "action": "list" })).stdout.lines().count(), 3);
}

#[test]
fn its_end_is_told_and_recorded() {
    let Some(world) = World::asking([]) else { return };
    world.take();
    let id = start(&world, "exit 3");
    let deadline = Instant::now() + Duration::from_secs(60);
    let ended = |event: &SessionEvent| matches!(event, SessionEvent::JobEnded { job, exit_code: 3, .. } if *job == id);
    while !world.take().iter().any(ended) {
        assert!(Instant::now() < deadline, "nobody told of the end");
        std::thread::sleep(Duration::from_millis(20));
    }
    let executions = world.ledger().executions(&Default::default()).unwrap();
    assert!(executions.iter().any(|execution| execution.exit_code == Some(3)), "{executions:?}");
    assert!(executions.iter().all(|execution| execution.status != Status::Running), "{executions:?}");
}

#[test]
fn output_comes_in_whole_lines_and_characters() {
    let Some(world) = World::asking([]) else { return };
    let id = start(&world, "printf 'first\\nprompt: '; read x; printf 'ää'; read x");
    read_until(&world, &id, "prompt: ");
    let line = jobs(&world, json!({ "action": "read", "id": id }));
    assert_eq!((line.stdout.as_str(), &line.data["nextOffset"]), ("first\n", &json!(6)));
    let prompt = jobs(&world, json!({ "action": "read", "id": id, "offset": 6 }));
    assert_eq!(prompt.stdout, "prompt: ");
    assert!(jobs(&world, json!({ "action": "write", "id": id, "input": "\n" })).ok);
    read_until(&world, &id, "ää");
    let cut = jobs(&world, json!({ "action": "read", "id": id, "offset": 13, "limit": 4 }));
    assert_eq!(cut.stdout, " ä", "half a character is left to the next read");
    assert_eq!(jobs(&world, json!({ "action": "read", "id": id, "offset": 16 })).stdout, "ä");
}

#[test]
fn a_terminal_for_those_who_want_one() {
    let Some(world) = World::asking([]) else { return };
    let arguments = json!({ "action": "start", "command": "tty -s && echo yes; cat", "tty": true });
    let started = jobs(&world, arguments);
    if started.stderr.contains("terminal") {
        return ringfence_testing::lacks("terminals", &started.stderr);
    }
    let id = started.data["job"]["id"].as_str().unwrap_or_else(|| panic!("{started:?}")).to_owned();
    read_until(&world, &id, "yes\r\n");
    assert!(jobs(&world, json!({ "action": "write", "id": id, "input": "\u{3}" })).ok);
    until_ended(&world, &id);
}

#[test]
fn jobs_are_judged_and_fenced_like_everything() {
    let secret = "hunter2-hunter2";
    let options =
        OpenTools { secrets: vec![secret.to_owned()], service: Some(person([])), ..OpenTools::default() };
    let Some(world) = World::new(options) else { return };
    let refused = jobs(&world, json!({ "action": "start", "command": "rm -rf / --no-preserve-root" }));
    assert_eq!((refused.error_kind, &refused.data["reason"]), (Some(ErrorKind::Permission), &json!("gate")));
    let id = start(&world, &format!("echo {secret}; cat ~/.ssh/config; echo done"));
    let text = read_until(&world, &id, "done\n");
    assert!(!text.contains("treasure") && !text.contains(secret), "{text}");
    until_ended(&world, &id);
    for wrong in [
        json!({ "action": "start" }),
        json!({ "action": "start", "command": " " }),
        json!({ "action": "read" }),
        json!({ "action": "signal", "id": id }),
        json!({ "action": "write", "id": id }),
    ] {
        assert_eq!(jobs(&world, wrong.clone()).error_kind, Some(ErrorKind::Validation), "{wrong}");
    }
    let unknown = jobs(&world, json!({ "action": "read", "id": "job-99" }));
    assert_eq!(unknown.error_kind, Some(ErrorKind::NotFound));
    let restricted = world.tools.restricted(Restriction::of_kind("explore").unwrap()).unwrap();
    let denied = restricted.call("jobs", &json!({ "action": "start", "command": "ls; write a b" }));
    assert_eq!(denied.error_kind, Some(ErrorKind::CommandNotAllowed));
    restricted.dispose();
}

#[test]
fn a_layer_that_denies_processes_denies_jobs() {
    let layer = PolicyLayer::new("agent", vec![], vec![Entry::by_call("process")]);
    let Some(world) = World::new(OpenTools { layers: vec![layer], ..OpenTools::default() }) else { return };
    assert!(world.tools.specs().iter().all(|spec| spec.name != "jobs"));
    let refused = jobs(&world, json!({ "action": "list" }));
    assert_eq!(
        (refused.error_kind, &refused.data["reason"]),
        (Some(ErrorKind::Permission), &json!("tool_policy"))
    );
}
