use std::sync::Arc;

use ringfence_ledger::now_ms;

use super::super::Removal;
use super::{HOUR, Yard, new, now};

#[test]
fn everything_is_listed_with_what_is_known() {
    let yard = Yard::new();
    yard.add("one", 2 * HOUR, HOUR);
    yard.shed.put("orphan", HOUR);
    yard.register("lost", HOUR, 0);
    let local = Arc::clone(&yard.keeper).register("local", "local-1", "agent:main").unwrap();

    let (listed, problems) = now(yard.keeper.list(Some("newer"))).unwrap();
    assert!(problems.is_empty());
    let mut seen: Vec<_> = listed
        .iter()
        .map(|kept| (kept.name.as_str(), kept.running, kept.registered, kept.in_use, kept.image_matches))
        .collect();
    seen.sort();
    assert_eq!(
        seen,
        [
            ("local-1", Some(true), true, true, None),
            ("lost", Some(false), true, false, Some(false)),
            ("one", Some(true), true, false, Some(false)),
            ("orphan", Some(true), false, false, Some(false)),
        ]
    );
    let (listed, _) = now(yard.keeper.list(Some("image"))).unwrap();
    assert!(
        listed.iter().filter(|kept| kept.provider == "shed").all(|kept| kept.image_matches == Some(true))
    );

    *yard.shed.down.lock().unwrap() = true;
    let (listed, problems) = now(yard.keeper.list(None)).unwrap();
    assert_eq!((listed.len(), problems.len()), (3, 1), "rows are known without their provider");
    assert!(listed.iter().filter(|kept| kept.provider == "shed").all(|kept| kept.running.is_none()));
    drop(local);
    assert_eq!(yard.registered(), ["lost", "one"], "a row goes with its sandbox");
}

#[test]
fn a_person_removes_what_is_in_use_and_what_nobody_remembers() {
    let yard = Yard::new();
    yard.add("held", HOUR, 0);
    yard.shed.put("orphan", HOUR);
    yard.register("lost", HOUR, 0);
    let _lease = yard.ledger().lease("held", now_ms()).unwrap().unwrap();
    let (listed, _) = now(yard.keeper.list(None)).unwrap();
    for kept in &listed {
        assert_eq!(now(yard.keeper.remove(kept)).unwrap(), Removal::Removed, "{}", kept.name);
    }
    assert!(yard.shed.names().is_empty() && yard.registered().is_empty());
    let held = listed.iter().find(|kept| kept.name == "held").unwrap();
    assert_eq!(now(yard.keeper.remove(held)).unwrap(), Removal::Gone);
}

#[test]
fn what_somebody_is_making_is_not_removed_and_what_fails_stays() {
    let yard = Yard::new();
    yard.add("new", HOUR, 0);
    let (listed, _) = now(yard.keeper.list(None)).unwrap();
    yard.ledger().remove("new", now_ms()).unwrap();
    yard.ledger().reserve(&new("new"), now_ms()).unwrap();
    assert_eq!(now(yard.keeper.remove(&listed[0])).unwrap(), Removal::Busy);

    yard.ledger().ready(&new("new"), now_ms()).unwrap();
    *yard.shed.stuck.lock().unwrap() = Some("new");
    assert_eq!(now(yard.keeper.remove(&listed[0])).unwrap_err().message, "it is stuck");
    let (listed, _) = now(yard.keeper.list(None)).unwrap();
    assert_eq!(listed[0].last_error.as_deref(), Some("it is stuck"));
    *yard.shed.stuck.lock().unwrap() = None;
    assert_eq!(now(yard.keeper.remove(&listed[0])).unwrap(), Removal::Removed);
}

#[test]
fn a_sandbox_that_ends_with_its_process_cannot_be_ended_from_elsewhere() {
    let yard = Yard::new();
    let _row = Arc::clone(&yard.keeper).register("local", "local-1", "shared").unwrap();
    let (listed, _) = now(yard.keeper.list(None)).unwrap();
    let error = now(yard.keeper.remove(&listed[0])).unwrap_err();
    assert!(error.message.contains(&std::process::id().to_string()), "{error}");
    assert_eq!(yard.registered(), ["local-1"]);
}
