//! An agent that stops at each question.

use std::sync::Arc;

use ringfence::model::{Decision, ErrorKind};
use ringfence::permission::Answer;
use ringfence::tools::steps::Inbox;
use ringfence::tools::{OpenTools, Step, Steps};
use serde_json::json;

use crate::world::World;

#[test]
fn a_step_requires_permission_and_goes_on_with_the_answer() {
    let inbox = Inbox::default();
    let options = OpenTools { service: Some(inbox.service()), ..OpenTools::default() };
    let Some(world) = World::new(options) else { return };
    let steps = Steps::new(world.tools.clone(), inbox);
    assert_eq!(steps.resolve(Answer::new(Decision::AllowOnce)).unwrap_err().kind, ErrorKind::Validation);
    let command = json!({ "command": "echo ran >> log; cat ~/.ssh/config" });

    let step = steps.call("bash", &command).unwrap();
    let wire = json!(step);
    assert_eq!(wire["status"], "requires_permission");
    assert_eq!(wire["permission"]["type"], "sandbox_access");
    assert_eq!(wire["permission"]["command"], "echo ran >> log; cat ~/.ssh/config");
    assert_eq!(steps.call("bash", &command).unwrap_err().kind, ErrorKind::ConcurrentAccess);
    let Step::Finished { result } = steps.resolve(Answer::deny("ask me later")).unwrap() else { panic!() };
    assert!(!result.ok && result.stderr.contains("ask me later"), "{result:?}");

    assert!(matches!(steps.call("bash", &command).unwrap(), Step::RequiresPermission { .. }));
    assert!(steps.waiting().is_some());
    let Step::Finished { result } = steps.resolve(Answer::new(Decision::AllowSession)).unwrap() else {
        panic!()
    };
    assert_eq!(result.stdout, "Host treasure\n", "{result:?}");
    assert_eq!(steps.waiting(), None);
    let Step::Finished { result } = steps.call("bash", &command).unwrap() else { panic!() };
    assert!(result.ok);
    assert_eq!(world.read("log"), "ran\nran\nran\n", "a call that was held is not run again");
    assert!(steps.resolve(Answer::new(Decision::Deny)).is_err());
}

#[test]
fn a_question_of_the_gate_is_a_step_too() {
    let inbox = Inbox::default();
    let service = inbox.service();
    assert_eq!(Arc::strong_count(&service), 2);
    let options = OpenTools { service: Some(service), ..OpenTools::default() };
    let Some(world) = World::new(options) else { return };
    let steps = Steps::new(world.tools.clone(), inbox);
    let step = steps.call("bash", &json!({ "command": "git push --force; touch ran" })).unwrap();
    let Step::RequiresPermission { permission } = step else { panic!("{step:?}") };
    assert!(permission.editable && !world.project.join("ran").exists());
    let Step::Finished { result } = steps.resolve(Answer::edited("touch edited")).unwrap() else { panic!() };
    assert!(result.ok && world.project.join("edited").exists() && !world.project.join("ran").exists());
}
