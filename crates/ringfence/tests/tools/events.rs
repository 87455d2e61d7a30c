//! The events of every kind of call, in their order and with their fields.

use ringfence::model::Decision;
use ringfence::permission::Answer;
use ringfence::session::SessionEvent;
use ringfence::tools::OpenTools;
use serde_json::{Value, json};

use crate::world::{World, yes};

const SECRET: &str = "cat ~/.ssh/config";
const PUSH: &str = "git push --force origin main";

/// The order of the events of one call.
fn order(world: &World, command: &str) -> Vec<&'static str> {
    world.take();
    let _ = world.bash(command);
    world.names()
}

#[test]
fn every_kind_of_call_has_its_order_of_events() {
    let (requested, started, finished) = ("tool_call_requested", "tool_call_started", "tool_call_finished");
    let (asked, decided) = ("approval_requested", "approval_decided");
    let answers = [Decision::AllowOnce, Decision::AllowSession, Decision::Abort].map(yes);
    let Some(world) = World::asking(answers) else { return };
    assert_eq!(order(&world, "echo allowed"), [requested, started, finished]);
    assert_eq!(order(&world, "rm -rf / --no-preserve-root"), [requested, finished], "denied");
    // A fence asks while the command runs.
    assert_eq!(order(&world, SECRET), [requested, started, asked, decided, finished], "asked");
    assert_eq!(order(&world, SECRET), [requested, started, asked, decided, finished], "for the session");
    assert_eq!(order(&world, SECRET), [requested, started, finished], "the grant holds in the fence");
    assert_eq!(order(&world, "  "), [requested, finished], "invalid");
    assert_eq!(order(&world, PUSH), [requested, asked, decided, "run_cancelled", finished], "abort");

    // The gate asks before.
    let Some(world) = World::asking([yes(Decision::AllowSession)]) else { return };
    assert_eq!(order(&world, PUSH), [requested, asked, decided, started, finished]);
    assert_eq!(order(&world, PUSH), [requested, decided, started, finished], "cached");

    let Some(world) = World::new(OpenTools::default()) else { return };
    assert_eq!(order(&world, PUSH), [requested, asked, decided, "run_failed", finished], "no provider");
}

#[test]
fn a_run_that_failed_says_what_led_to_it_and_where_it_is_recorded() {
    let options = OpenTools {
        service: Some(crate::world::person([Answer::deny("no"), Answer::deny("no")])),
        session_key: Some("agent:main:chat".to_owned()),
        ..OpenTools::default()
    };
    let Some(world) = World::new(options) else { return };
    let (_, again) = (world.bash(PUSH), world.bash(PUSH));
    let failed: Vec<Value> = world
        .take()
        .iter()
        .filter(|event| matches!(event, SessionEvent::RunFailed { .. }))
        .map(|event| json!(event))
        .collect();
    let [failed] = failed.as_slice() else { panic!("{failed:?}") };
    assert_eq!((&failed["event"], &failed["errorKind"]), (&json!("run_failed"), &json!("approval_denied")));
    assert_eq!(failed["retryable"], false);
    assert_eq!(failed["message"], again.data["runEnded"]);
    assert_eq!(failed["walLocator"], format!("{}#agent:main:chat", world.setup.ledger_path().display()));
    assert_eq!(failed["details"]["tool"], "bash");
    assert_eq!(failed["details"]["approvalKey"], again.data["approvalKey"]);
    assert!(failed["details"]["callId"].as_str().is_some_and(|id| !id.is_empty()), "{failed}");
}

#[test]
fn a_question_that_was_rejected_or_ran_out_of_time_says_which() {
    let Some(world) = World::asking([Answer::deny("no")]) else { return };
    let rejected = world.bash(PUSH);
    assert_eq!(rejected.data["cause"], "confirmation_rejected", "{rejected:?}");
    let inside = world.bash(SECRET);
    assert_eq!(inside.data["cause"], "confirmation_rejected", "also by the fence: {inside:?}");
    let config = json!({ "safety": { "approvalTimeoutMs": 200 } });
    let silent = ringfence::permission::PendingQuestions::new(|_| ());
    let options = OpenTools { service: Some(std::sync::Arc::new(silent)), ..OpenTools::default() };
    let Some(world) = World::configured(options, config, &[]) else { return };
    for command in [PUSH, SECRET] {
        let late = world.bash(command);
        assert_eq!(late.data["cause"], "confirmation_timeout", "{late:?}");
    }
    let Some(world) = World::new(OpenTools::default()) else { return };
    let nobody = world.bash(PUSH);
    assert_eq!((nobody.data.get("cause"), &nobody.data["reason"]), (None, &json!("no_provider")));
}
