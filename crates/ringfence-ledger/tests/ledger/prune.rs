//! Old sandboxes and orphans.

use ringfence_ledger::{FoundSandbox, Ledger, PrunePolicy, PruneReason, RemovalGuard, SandboxFilter};

use crate::child;
use crate::sample::{Home, sandbox};

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;

fn candidates(ledger: &mut Ledger, policy: PrunePolicy, now: u64) -> Vec<(String, PruneReason)> {
    let policy = PrunePolicy { throttle_ms: 0, ..policy };
    let found = ledger.prune_candidates(&policy, now).unwrap().unwrap();
    found.into_iter().map(|candidate| (candidate.sandbox.name, candidate.reason)).collect()
}

#[test]
fn idle_over_a_day_and_age_over_a_week_may_go() {
    let home = Home::new();
    let mut ledger = home.open();
    let now = 100 * DAY;
    for (name, created, used) in [
        ("fresh", now - HOUR, now - HOUR),
        ("idle", now - 2 * DAY, now - DAY - 1),
        ("at-the-limit", now - 2 * DAY, now - DAY),
        ("aged", now - 7 * DAY - 1, now - 1),
    ] {
        ledger.upsert(&sandbox(name), created).unwrap();
        ledger.touch(name, used).unwrap();
    }
    let default = PrunePolicy::default();
    let expect = |pairs: &[(&str, PruneReason)]| -> Vec<(String, PruneReason)> {
        pairs.iter().map(|(name, reason)| ((*name).to_owned(), *reason)).collect()
    };
    assert_eq!(
        candidates(&mut ledger, default, now),
        expect(&[("aged", PruneReason::Age), ("idle", PruneReason::Idle)])
    );
    let no_idle = PrunePolicy { idle_ms: 0, ..default };
    assert_eq!(candidates(&mut ledger, no_idle, now), expect(&[("aged", PruneReason::Age)]));
    let never = PrunePolicy { idle_ms: 0, max_age_ms: 0, ..default };
    assert_eq!(candidates(&mut ledger, never, now), expect(&[]));
}

#[test]
fn a_sweep_happens_at_most_every_five_minutes_for_all_processes_together() {
    let home = Home::new();
    let (mut one, mut two) = (home.open(), home.open());
    let policy = PrunePolicy::default();
    assert!(one.prune_candidates(&policy, 10 * DAY).unwrap().is_some());
    assert!(two.prune_candidates(&policy, 10 * DAY + 299_999).unwrap().is_none());
    assert!(two.prune_candidates(&policy, 10 * DAY + 300_000).unwrap().is_some());
    assert!(one.prune_candidates(&policy, 5 * DAY).unwrap().is_some(), "a clock set back does not stop it");
}

#[test]
fn one_in_use_is_never_pruned() {
    let home = Home::new();
    let mut ledger = home.open();
    ledger.upsert(&sandbox("x"), 1).unwrap();
    let lease = ledger.lease("x", 2).unwrap().unwrap();
    assert!(candidates(&mut ledger, PrunePolicy::default(), 30 * DAY).is_empty());
    ledger.end_lease(&lease, 3).unwrap();
    assert_eq!(candidates(&mut ledger, PrunePolicy::default(), 30 * DAY).len(), 1);
}

#[test]
fn a_failed_removal_is_kept_for_the_next_sweep() {
    let home = Home::new();
    let mut ledger = home.open();
    ledger.upsert(&sandbox("x"), 1).unwrap();
    ledger.begin_removal("x", RemovalGuard::UnlessUsedAfter(1), 2).unwrap().unwrap();
    assert!(candidates(&mut ledger, PrunePolicy::default(), 30 * DAY).is_empty(), "we are at it");
    ledger.removal_failed("x", "engine does not answer", 3).unwrap();
    let found = ledger.sandbox("x").unwrap().unwrap();
    assert_eq!((found.failures, found.last_error.as_deref()), (1, Some("engine does not answer")));
    assert_eq!(
        candidates(&mut ledger, PrunePolicy::default(), 4),
        [("x".to_owned(), PruneReason::Leftover)],
        "at once, however young it is"
    );
    assert!(ledger.begin_removal("x", RemovalGuard::UnlessUsedAfter(1), 5).unwrap().is_some());
}

#[test]
fn a_half_made_sandbox_of_a_dead_process_is_a_leftover() {
    let home = Home::new();
    assert!(child::command(&[], "reserve-and-die x", &home.path()).output().unwrap().status.success());
    let mut ledger = home.open();
    assert_eq!(candidates(&mut ledger, PrunePolicy::default(), 2), [("x".to_owned(), PruneReason::Leftover)]);
}

fn found(name: &str) -> FoundSandbox {
    FoundSandbox { sandbox: sandbox(name), created_ms: 7 }
}

#[test]
fn orphans_are_adopted_and_ghosts_forgotten() {
    let home = Home::new();
    let mut ledger = home.open();
    ledger.upsert(&sandbox("known"), 10).unwrap();
    ledger.upsert(&sandbox("ghost"), 10).unwrap();
    ledger.reserve(&sandbox("being-made"), 10).unwrap();
    let mut elsewhere = sandbox("elsewhere");
    elsewhere.provider = "aio".to_owned();
    ledger.upsert(&elsewhere, 10).unwrap();

    let adoption = ledger.adopt("docker", &[found("known"), found("orphan")], 20, 21).unwrap();
    let names = |sandboxes: &[ringfence_ledger::Sandbox]| -> Vec<String> {
        sandboxes.iter().map(|sandbox| sandbox.name.clone()).collect()
    };
    assert_eq!(names(&adoption.adopted), ["orphan"]);
    assert_eq!(adoption.adopted[0].created_at_ms, 7);
    assert_eq!(names(&adoption.gone), ["ghost"]);
    let mut left = names(&ledger.sandboxes(&SandboxFilter::default()).unwrap());
    left.sort();
    assert_eq!(left, ["being-made", "elsewhere", "known", "orphan"]);
}

#[test]
fn what_changed_after_the_listing_is_left_alone() {
    let home = Home::new();
    let mut ledger = home.open();
    ledger.upsert(&sandbox("removed-since"), 10).unwrap();
    ledger.remove("removed-since", 30).unwrap();
    ledger.upsert(&sandbox("made-since"), 30).unwrap();
    let adoption = ledger.adopt("docker", &[found("removed-since")], 20, 40).unwrap();
    assert_eq!(adoption, ringfence_ledger::Adoption::default());
    assert!(ledger.sandbox("made-since").unwrap().is_some());
}
