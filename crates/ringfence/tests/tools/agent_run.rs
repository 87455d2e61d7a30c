//! The scripted run of the examples, as it is shipped.

use std::sync::{Arc, Mutex};

use ringfence::model::Decision;
use ringfence::session::{Reason, SessionEvent};

use crate::world::World;

#[expect(dead_code, reason = "the example's own entry and printing are not used here")]
#[path = "../../examples/agent/main.rs"]
mod agent;

#[test]
fn the_scripted_agent_is_asked_allowed_and_denied() {
    if World::asking([]).is_none() {
        return;
    }
    let events: Arc<Mutex<Vec<SessionEvent>>> = Arc::default();
    let kept = Arc::clone(&events);
    let listener = Arc::new(move |event: &SessionEvent| kept.lock().unwrap().push(event.clone()));
    agent::play(Arc::new(ringfence::gate::InProcess), listener).unwrap();
    let events = events.lock().unwrap();
    let decided: Vec<(Decision, Reason)> = events
        .iter()
        .filter_map(|event| match event {
            SessionEvent::ApprovalDecided { decision, reason, .. } => Some((*decision, *reason)),
            _ => None,
        })
        .collect();
    let by_person = |decision| (decision, Reason::Provider);
    assert_eq!(
        decided,
        [
            by_person(Decision::AllowOnce),
            by_person(Decision::AllowSession),
            by_person(Decision::AllowPermanent),
            by_person(Decision::Deny),
            by_person(Decision::Deny),
            by_person(Decision::Deny),
        ]
    );
    let count = |name: &str| events.iter().filter(|event| event.name() == name).count();
    assert_eq!((count("approval_requested"), count("run_failed")), (6, 1));
    assert_eq!(count("tool_call_requested"), count("tool_call_finished"));
}
