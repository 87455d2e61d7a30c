//! A fence that cannot hold a call: the command ends first, and is run again only after the answer.

use std::sync::{Arc, Mutex};

use ringfence::fence::CreateOptions;
use ringfence::ledger::Nothing;
use ringfence::local::provider::LocalProvider;
use ringfence::model::config::SafetyConfig;
use ringfence::model::{Decision, ErrorKind};
use ringfence::permission::{Answer, Desk, DeskOptions};
use ringfence::tools::{
    Budget, Extensions, Journal, Languages, LocalTools, ProviderRoom, Room as _, ToolEvent, ToolPolicy,
    Tools, ToolsOptions,
};
use ringfence::workspace::{Workspace, WorkspaceOptions};
use ringfence_gate::{Gate, Options};
use serde_json::json;

use crate::world::{World, person, yes};

/// The tools of `world` over a sandbox that nobody is asked by.
fn without_holding(world: &World, answers: &[Answer]) -> Tools {
    let journal = Arc::new(Journal::new(None, Arc::new(Nothing), None));
    let service = Some(person(answers.to_vec()));
    let desk = Arc::new(Desk::new(DeskOptions { service, ..DeskOptions::default() }, journal));
    let policy = world.setup.policy();
    let options = CreateOptions {
        environment: world.setup.env.clone(),
        provider_options: world.setup.local_options(&[], None).unwrap(),
        ..CreateOptions::new(world.project.clone(), policy.clone())
    };
    let room = ProviderRoom::new(Arc::new(LocalProvider::new()), options);
    assert!(!room.holds_calls());
    Tools::new(ToolsOptions {
        room: Arc::new(room),
        executors: None,
        more: vec![],
        workspace: Workspace::open(&world.project, WorkspaceOptions::default()).unwrap(),
        filesystem: policy.filesystem,
        gate: Gate::new(Options::default()),
        safety: SafetyConfig::default(),
        confirm_from: None,
        desk,
        policy: ToolPolicy::default(),
        languages: Languages::default(),
        extensions: Extensions::default(),
        home: world.home.clone(),
        budget: Budget::UNLIMITED,
    })
}

#[test]
fn a_command_is_run_again_only_after_the_answer_with_exactly_what_was_granted() {
    let Some(world) = World::new(LocalTools::default()) else { return };
    std::fs::write(world.home.join(".ssh/other"), "other\n").unwrap();
    let answers =
        [Answer::deny("later"), yes(Decision::AllowOnce), yes(Decision::AllowSession), yes(Decision::Deny)];
    let tools = without_holding(&world, &answers);
    let asked: Arc<Mutex<usize>> = Arc::default();
    let count = Arc::clone(&asked);
    tools.listen(Arc::new(move |event: &ToolEvent| {
        *count.lock().unwrap() += usize::from(matches!(event, ToolEvent::ApprovalRequested { .. }));
    }));
    let command = json!({ "command": "echo ran >> log; cat ~/.ssh/config" });
    let runs = || world.read("log").lines().count();

    let denied = tools.call("bash", &command);
    assert_eq!(denied.error_kind, Some(ErrorKind::ApprovalDenied), "{denied:?}");
    assert!(denied.stderr.contains("refused: later"));
    assert_eq!(runs(), 1, "a refusal runs nothing again");

    let once = tools.call("bash", &command);
    assert_eq!(once.stdout, "Host treasure\n", "{once:?}");
    assert_eq!(runs(), 3);

    assert_eq!(tools.call("bash", &command).stdout, "Host treasure\n", "asked again: it was once");
    assert_eq!(runs(), 5);
    assert_eq!(tools.call("bash", &command).stdout, "Host treasure\n", "the sandbox has the grant now");
    assert_eq!(runs(), 6);
    assert_eq!(*asked.lock().unwrap(), 3);

    let other = tools.call("bash", &json!({ "command": "cat ~/.ssh/other" }));
    assert!(!other.ok && !other.stdout.contains("other"), "{other:?}");
    tools.dispose();
}
