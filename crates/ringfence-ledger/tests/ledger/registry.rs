//! The states of a sandbox.

use ringfence_ledger::{RemovalGuard, Reservation, SandboxFilter, SandboxKind, SandboxState};
use ringfence_model::ErrorKind;

use crate::sample::{Home, sandbox};

#[test]
fn a_sandbox_goes_from_reserved_to_ready_to_gone() {
    let home = Home::new();
    let mut ledger = home.open();
    let new = sandbox("x");
    assert_eq!(ledger.reserve(&new, 10).unwrap(), Reservation::Reserved { leftover: None });
    assert!(matches!(ledger.reserve(&new, 11).unwrap(), Reservation::Busy(_)), "this process is alive");
    ledger.ready(&new, 12).unwrap();
    let Reservation::Ready(found) = ledger.reserve(&new, 13).unwrap() else { panic!() };
    assert_eq!((found.created_at_ms, found.last_used_at_ms, found.state), (10, 12, SandboxState::Ready));
    assert!(ledger.touch("x", 20).unwrap());
    assert!(
        ledger.begin_removal("x", RemovalGuard::UnlessUsedAfter(12), 21).unwrap().is_none(),
        "used since"
    );
    assert!(ledger.begin_removal("x", RemovalGuard::UnlessUsedAfter(20), 21).unwrap().is_some());
    assert!(matches!(ledger.reserve(&new, 22).unwrap(), Reservation::Busy(_)));
    assert!(!ledger.touch("x", 23).unwrap());
    assert!(ledger.remove("x", 24).unwrap());
    assert!(!ledger.touch("x", 25).unwrap(), "a removed entry does not come back");
    assert!(ledger.sandbox("x").unwrap().is_none());
    assert_eq!(ledger.reserve(&new, 26).unwrap(), Reservation::Reserved { leftover: None });
}

#[test]
fn an_entry_has_the_documented_fields() {
    let home = Home::new();
    let mut ledger = home.open();
    let mut browser = sandbox("b");
    browser.kind = SandboxKind::Browser;
    browser.cdp_port = Some(9222);
    browser.no_vnc_port = Some(6080);
    let entry = serde_json::to_value(ledger.upsert(&browser, 5).unwrap()).unwrap();
    for (key, want) in [
        ("name", "b"),
        ("sessionKey", "session-of-b"),
        ("image", "ringfence:1"),
        ("configHash", "hash-1"),
        ("kind", "browser"),
        ("state", "ready"),
    ] {
        assert_eq!(entry[key], want, "{key}");
    }
    for (key, want) in [("createdAtMs", 5), ("lastUsedAtMs", 5), ("cdpPort", 9222), ("noVncPort", 6080)] {
        assert_eq!(entry[key], want, "{key}");
    }
}

#[test]
fn upsert_keeps_the_first_creation_time_and_image() {
    let home = Home::new();
    let mut ledger = home.open();
    ledger.upsert(&sandbox("x"), 1).unwrap();
    let mut later = sandbox("x");
    later.image = "ringfence:2".to_owned();
    later.config_hash = "hash-2".to_owned();
    let found = ledger.upsert(&later, 9).unwrap();
    assert_eq!((found.created_at_ms, found.last_used_at_ms), (1, 9));
    assert_eq!((&*found.image, &*found.config_hash), ("ringfence:1", "hash-2"));
}

#[test]
fn what_is_being_removed_does_not_become_ready_again() {
    let home = Home::new();
    let mut ledger = home.open();
    let new = sandbox("x");
    ledger.reserve(&new, 1).unwrap();
    assert_eq!(ledger.upsert(&new, 2).unwrap().state, SandboxState::Ready, "our own reservation");
    ledger.begin_removal("x", RemovalGuard::Always, 3).unwrap().unwrap();
    assert_eq!(ledger.upsert(&new, 4).unwrap_err().kind, ErrorKind::ConcurrentAccess);
    assert_eq!(ledger.sandbox("x").unwrap().unwrap().state, SandboxState::Removing);
    ledger.removal_failed("x", "stuck", 5).unwrap();
    assert_eq!(ledger.upsert(&new, 6).unwrap().state, SandboxState::Ready, "nobody is at it any more");
}

#[test]
fn an_abandoned_reservation_is_a_leftover_for_the_next() {
    let home = Home::new();
    let mut ledger = home.open();
    let new = sandbox("x");
    ledger.reserve(&new, 1).unwrap();
    ledger.abandon("x").unwrap();
    assert!(!ledger.sandbox("x").unwrap().unwrap().owner_alive);
    let Reservation::Reserved { leftover: Some(_) } = ledger.reserve(&new, 2).unwrap() else { panic!() };
    ledger.ready(&new, 3).unwrap();
    ledger.abandon("x").unwrap();
    assert!(ledger.sandbox("x").unwrap().unwrap().owner_alive, "what is ready is nothing to abandon");
}

#[test]
fn a_lost_reservation_cannot_become_ready() {
    let home = Home::new();
    let mut ledger = home.open();
    let new = sandbox("x");
    ledger.reserve(&new, 1).unwrap();
    ledger.cancel("x").unwrap();
    assert!(ledger.sandbox("x").unwrap().is_none());
    assert_eq!(ledger.ready(&new, 2).unwrap_err().kind, ErrorKind::ConcurrentAccess);
}

#[test]
fn a_held_sandbox_is_not_removed_unless_a_person_asks() {
    let home = Home::new();
    let mut ledger = home.open();
    ledger.upsert(&sandbox("x"), 1).unwrap();
    let lease = ledger.lease("x", 2).unwrap().unwrap();
    assert!(ledger.sandbox("x").unwrap().unwrap().in_use);
    assert!(ledger.begin_removal("x", RemovalGuard::UnlessUsedAfter(99), 100).unwrap().is_none());
    ledger.end_lease(&lease, 101).unwrap();
    assert_eq!(ledger.sandbox("x").unwrap().unwrap().last_used_at_ms, 101);
    let lease = ledger.lease("x", 102).unwrap().unwrap();
    assert!(ledger.begin_removal("x", RemovalGuard::Always, 103).unwrap().is_some());
    ledger.end_lease(&lease, 104).unwrap();
    assert!(ledger.lease("x", 105).unwrap().is_none(), "nobody can hold what is being removed");
}

#[test]
fn sandboxes_are_listed_by_last_use_and_filtered() {
    let home = Home::new();
    let mut ledger = home.open();
    let mut other = sandbox("other");
    other.provider = "aio".to_owned();
    ledger.upsert(&sandbox("a"), 1).unwrap();
    ledger.upsert(&other, 2).unwrap();
    ledger.upsert(&sandbox("b"), 3).unwrap();
    let names = |filter| -> Vec<String> {
        ledger.sandboxes(&filter).unwrap().into_iter().map(|sandbox| sandbox.name).collect()
    };
    assert_eq!(names(SandboxFilter::default()), ["b", "other", "a"]);
    assert_eq!(
        names(SandboxFilter { provider: Some("docker".to_owned()), ..Default::default() }),
        ["b", "a"]
    );
    let key = Some("session-of-a".to_owned());
    assert_eq!(names(SandboxFilter { session_key: key, ..Default::default() }), ["a"]);
    assert!(names(SandboxFilter { kind: Some(SandboxKind::Browser), ..Default::default() }).is_empty());
}

#[test]
fn hot_is_strictly_less_than_the_window() {
    let home = Home::new();
    let found = home.open().upsert(&sandbox("x"), 1000).unwrap();
    assert!(found.is_hot(1299, 300));
    assert!(!found.is_hot(1300, 300));
}
