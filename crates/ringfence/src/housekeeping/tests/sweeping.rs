use std::sync::Arc;

use ringfence_ledger::{PruneReason, Reservation, now_ms};
use ringfence_model::config::Prune;
use ringfence_workspace::{Mode, SessionOptions, Sessions, Workspace, session_slug};

use super::super::{Swept, Throttle};
use super::{DAY, HOUR, Yard, another, new, now};

fn sweep(yard: &Yard) -> Swept {
    now(yard.keeper.sweep(Prune::default(), Throttle::Off)).unwrap()
}

fn names(of: &[(ringfence_ledger::Sandbox, PruneReason)]) -> Vec<(&str, PruneReason)> {
    let mut names: Vec<_> = of.iter().map(|(sandbox, reason)| (sandbox.name.as_str(), *reason)).collect();
    names.sort_by_key(|(name, _)| *name);
    names
}

#[test]
fn what_is_idle_or_old_goes_and_nothing_else() {
    let yard = Yard::new();
    yard.add("fresh", HOUR, 0);
    yard.add("idle", 2 * DAY, 25 * HOUR);
    yard.add("old", 8 * DAY, HOUR);
    yard.add("held", 30 * DAY, 29 * DAY);
    let _lease = yard.ledger().lease("held", now_ms() - 29 * DAY).unwrap().unwrap();
    let swept = sweep(&yard);
    assert_eq!(names(&swept.removed), [("idle", PruneReason::Idle), ("old", PruneReason::Age)]);
    assert_eq!(yard.shed.names(), ["fresh", "held"]);
    assert_eq!(yard.registered(), ["fresh", "held"]);
}

#[test]
fn zero_switches_an_age_off() {
    let yard = Yard::new();
    yard.add("ancient", 900 * DAY, 800 * DAY);
    let never = Prune { idle_hours: 0, max_age_days: 0 };
    assert!(now(yard.keeper.sweep(never, Throttle::Off)).unwrap().removed.is_empty());
    let by_age = Prune { idle_hours: 0, max_age_days: 7 };
    let swept = now(yard.keeper.sweep(by_age, Throttle::Off)).unwrap();
    assert_eq!(names(&swept.removed), [("ancient", PruneReason::Age)]);
}

#[test]
fn what_cannot_be_removed_stays_for_the_next_sweep_and_stops_nothing() {
    let yard = Yard::new();
    yard.add("a", 8 * DAY, HOUR);
    yard.add("stuck", 8 * DAY, HOUR);
    yard.add("z", 8 * DAY, HOUR);
    *yard.shed.stuck.lock().unwrap() = Some("stuck");
    let swept = sweep(&yard);
    assert_eq!(swept.removed.len(), 2);
    assert_eq!(swept.failed.len(), 1);
    assert_eq!((yard.registered(), yard.shed.names()), (vec!["stuck".to_owned()], vec!["stuck".to_owned()]));
    let (listed, _) = now(yard.keeper.list(None)).unwrap();
    assert_eq!(listed[0].last_error.as_deref(), Some("it is stuck"));

    *yard.shed.stuck.lock().unwrap() = None;
    assert_eq!(names(&sweep(&yard).removed), [("stuck", PruneReason::Leftover)]);
    assert!(yard.registered().is_empty() && yard.shed.names().is_empty());
}

#[test]
fn a_sweep_that_is_given_up_leaves_the_rest_to_the_next() {
    let yard = Yard::new();
    yard.add("old", 8 * DAY, HOUR);
    *yard.shed.hangs.lock().unwrap() = true;
    let mut sweeping = Box::pin(yard.keeper.sweep(Prune::default(), Throttle::Off));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(sweeping.as_mut().poll(&mut context).is_pending());
    drop(sweeping);
    *yard.shed.hangs.lock().unwrap() = false;
    assert_eq!(names(&sweep(&yard).removed), [("old", PruneReason::Leftover)]);
    assert!(yard.registered().is_empty() && yard.shed.names().is_empty());
}

#[test]
fn what_nobody_remembers_is_taken_in_or_removed_and_what_is_not_there_is_forgotten() {
    let yard = Yard::new();
    yard.shed.put("orphan", HOUR);
    yard.shed.put("old orphan", 8 * DAY);
    yard.register("lost", HOUR, HOUR);
    let swept = sweep(&yard);
    let adopted: Vec<_> =
        swept.adopted.iter().map(|row| (row.name.as_str(), row.session_key.as_str())).collect();
    assert_eq!(adopted, [("old orphan", "agent:main:old orphan"), ("orphan", "agent:main:orphan")]);
    assert_eq!(names(&swept.removed), [("old orphan", PruneReason::Age)]);
    assert_eq!(swept.gone.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["lost"]);
    assert_eq!(yard.registered(), ["orphan"]);
    assert_eq!(yard.shed.names(), ["orphan"]);
}

#[test]
fn a_provider_that_does_not_answer_loses_nothing() {
    let yard = Yard::new();
    yard.add("kept", HOUR, HOUR);
    *yard.shed.down.lock().unwrap() = true;
    let swept = sweep(&yard);
    assert_eq!((swept.problems.len(), swept.gone.len()), (1, 0));
    assert_eq!(yard.registered(), ["kept"]);
}

#[test]
fn what_is_due_and_has_no_provider_here_stays_and_is_told() {
    let yard = Yard::new();
    yard.add("old", 8 * DAY, HOUR);
    let alone = super::super::Housekeeper::open(&yard.path).unwrap();
    let swept = now(alone.sweep(Prune::default(), Throttle::Off)).unwrap();
    assert!(swept.removed.is_empty());
    assert!(swept.problems[0].message.contains("its provider shed is not here"), "{:?}", swept.problems);
    assert_eq!(yard.registered(), ["old"]);
    let (listed, _) = now(alone.list(None)).unwrap();
    assert_eq!(listed[0].running, None, "nobody here knows");
}

#[test]
fn sweeps_of_all_processes_keep_their_distance() {
    let yard = Yard::new();
    let other = another(&yard.path, &yard.shed);
    let prune = Prune::default();
    assert!(!now(yard.keeper.sweep(prune, Throttle::On)).unwrap().throttled);
    yard.add("idle", 3 * DAY, 2 * DAY);
    for keeper in [&*yard.keeper, &other] {
        assert!(now(keeper.sweep(prune, Throttle::On)).unwrap().throttled);
    }
    assert_eq!(yard.shed.names(), ["idle"]);
    assert_eq!(
        now(other.sweep(prune, Throttle::Off)).unwrap().removed.len(),
        1,
        "a person may ask at any time"
    );
}

#[test]
fn two_that_sweep_at_once_remove_each_sandbox_once() {
    let yard = Yard::new();
    for at in 0..40 {
        yard.add(&format!("box-{at:02}"), 8 * DAY, HOUR);
    }
    let sweepers: Vec<_> = (0..4)
        .map(|_| {
            let keeper = another(&yard.path, &yard.shed);
            std::thread::spawn(move || {
                now(keeper.sweep(Prune::default(), Throttle::Off)).unwrap().removed.len()
            })
        })
        .collect();
    let removed: usize = sweepers.into_iter().map(|sweeper| sweeper.join().unwrap()).sum();
    let mut removals = yard.shed.removals.lock().unwrap().clone();
    removals.sort();
    removals.dedup();
    assert_eq!((removed, removals.len(), yard.shed.removals.lock().unwrap().len()), (40, 40, 40));
    assert!(yard.registered().is_empty());
}

#[test]
fn what_is_being_made_is_left_alone() {
    let yard = Yard::new();
    yard.shed.put("new", 0);
    let reserved = yard.ledger().reserve(&new("new"), now_ms() - 9 * DAY).unwrap();
    assert!(matches!(reserved, Reservation::Reserved { leftover: None }));
    let swept = sweep(&yard);
    assert!(swept.removed.is_empty() && swept.adopted.is_empty() && swept.gone.is_empty());
    assert_eq!(yard.registered(), ["new"]);
}

#[test]
fn rows_of_a_process_that_is_gone_are_forgotten() {
    let yard = Yard::new();
    let row = Arc::clone(&yard.keeper).register("local", "local-1", "agent:main").unwrap();
    // As after `kill -9`: the row is there, its owner is not.
    std::mem::forget(row);
    let changed = give_to_nobody(&yard.path);
    assert_eq!(changed, 1);
    assert_eq!(sweep(&yard).gone.len(), 1);
    assert!(yard.registered().is_empty());
}

/// Gives all rows to a process that cannot be there.
fn give_to_nobody(path: &std::path::Path) -> usize {
    let said = std::process::Command::new("sqlite3")
        .arg(path)
        .arg("UPDATE sandboxes SET owner = ''; SELECT changes();")
        .output()
        .unwrap();
    String::from_utf8(said.stdout).unwrap().trim().parse().unwrap()
}

#[test]
fn directories_of_sessions_go_when_nobody_used_them_and_no_sandbox_works_in_them() {
    let yard = Yard::new();
    let root = yard.path.with_file_name("sandboxes");
    let sessions = Sessions::open(&root, SessionOptions::default()).unwrap();
    let keys = ["agent:main:idle", "agent:main:kept", "agent:main:open", "agent:main:fresh"];
    let mut open: Vec<Workspace> =
        keys.iter().map(|key| sessions.session(key, Mode::ReadWrite).unwrap()).collect();
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(25 * 3600);
    for workspace in &open[..3] {
        backdate(workspace.host_path(), old);
    }
    yard.add("kept", 2 * DAY, HOUR);
    open.retain(|workspace| workspace.host_path().ends_with(session_slug("agent:main:open")));
    let keeper = another(&yard.path, &yard.shed).with_workspaces(root.clone());
    let never = Prune { idle_hours: 0, ..Prune::default() };
    assert!(now(keeper.sweep(never, Throttle::Off)).unwrap().workspaces.is_empty());
    let swept = now(keeper.sweep(Prune::default(), Throttle::Off)).unwrap();
    assert_eq!(swept.workspaces, [session_slug("agent:main:idle")]);
    for (key, stays) in keys.into_iter().zip([false, true, true, true]) {
        assert_eq!(root.join(session_slug(key)).exists(), stays, "{key}");
    }
}

/// As if nobody had changed anything there since.
fn backdate(path: &std::path::Path, time: std::time::SystemTime) {
    for entry in std::fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            backdate(&entry.path(), time);
        } else {
            std::fs::File::options().write(true).open(entry.path()).unwrap().set_modified(time).unwrap();
        }
    }
    std::fs::File::open(path).unwrap().set_modified(time).unwrap();
}
