//! Several processes at once, and processes that are killed.

use std::io::{BufRead, BufReader};

use ringfence_ledger::{ExecutionFilter, Ledger, Reservation, SandboxFilter, SandboxState, Status};

use crate::child;
use crate::sample::{Home, sandbox};

#[test]
fn processes_write_at_once_and_lose_nothing() {
    let home = Home::new();
    let children: Vec<_> =
        (0..4).map(|_| child::command(&[], "write 200", &home.path()).spawn().unwrap()).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let executions = home.open().executions(&ExecutionFilter::default()).unwrap();
    assert_eq!(executions.len(), 800);
    assert!(executions.iter().all(|execution| execution.status == Status::Finished));
}

#[test]
fn a_killed_process_leaves_an_interrupted_execution() {
    let home = Home::new();
    let mut child = child::command(&[], "start-and-hang", &home.path()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "started"));
    let status = || home.open().executions(&ExecutionFilter::default()).unwrap()[0].status;
    assert_eq!(status(), Status::Running);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(status(), Status::Interrupted);
}

#[test]
fn of_two_processes_exactly_one_makes_each_sandbox() {
    let home = Home::new();
    let children: Vec<_> =
        (0..4).map(|_| child::command(&[], "race 60", &home.path()).spawn().unwrap()).collect();
    let mut won = 0;
    for child in children {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        let line = text.lines().find_map(|line| line.strip_prefix("won ")).unwrap().to_owned();
        won += line.parse::<u32>().unwrap();
    }
    assert_eq!(won, 60);
    let all = home.open().sandboxes(&SandboxFilter::default()).unwrap();
    assert_eq!(all.len(), 60 + 4 * 60, "no update was lost");
    assert!(all.iter().all(|sandbox| sandbox.state == SandboxState::Ready));
}

#[test]
fn a_reservation_of_a_dead_process_is_taken_over_with_a_warning() {
    let home = Home::new();
    assert!(child::command(&[], "reserve-and-die x", &home.path()).output().unwrap().status.success());
    let mut ledger = home.open();
    match ledger.reserve(&sandbox("x"), 2).unwrap() {
        Reservation::Reserved { leftover: Some(leftover) } => {
            assert_eq!(leftover.state, SandboxState::Reserved);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lease_of_a_dead_process_holds_nothing() {
    let home = Home::new();
    let mut ledger: Ledger = home.open();
    ledger.upsert(&sandbox("x"), 1).unwrap();
    assert!(child::command(&[], "lease-and-die x", &home.path()).output().unwrap().status.success());
    assert!(!ledger.sandbox("x").unwrap().unwrap().in_use);
}
