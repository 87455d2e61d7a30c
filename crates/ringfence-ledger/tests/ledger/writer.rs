//! Recording never waits and never loses silently.

use std::time::{Duration, Instant};

use ringfence_ledger::{ExecutionFilter, RECORDS_LOST, Status, Writer, WriterOptions};

use crate::sample::{Home, Problems, result, shell, writer};

#[test]
fn flush_makes_everything_visible() {
    let home = Home::new();
    let recorder = writer(&home);
    for _ in 0..1000 {
        recorder.start(shell("true"));
    }
    recorder.flush();
    assert_eq!(home.open().executions(&ExecutionFilter::default()).unwrap().len(), 1000);
}

#[test]
fn the_thread_writes_without_being_asked() {
    let home = Home::new();
    let recorder = writer(&home);
    recorder.start(shell("true"));
    let deadline = Instant::now() + Duration::from_secs(30);
    while home.open().executions(&ExecutionFilter::default()).unwrap().is_empty() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn closing_with_the_result_writes_start_and_end() {
    let home = Home::new();
    let recorder = writer(&home);
    let id = recorder.start(shell("true"));
    recorder.finish(id, &result(0));
    recorder.close();
    assert_eq!(home.open().execution(id).unwrap().unwrap().status, Status::Finished);
}

#[test]
fn many_threads_share_one_writer() {
    let home = Home::new();
    let recorder = writer(&home);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let id = recorder.start(shell("true"));
                    recorder.finish(id, &result(0));
                }
            });
        }
    });
    drop(recorder);
    let executions = home.open().executions(&ExecutionFilter::default()).unwrap();
    assert_eq!(executions.len(), 800);
    assert!(executions.iter().all(|execution| execution.status == Status::Finished));
}

#[test]
fn a_full_queue_costs_records_not_time_and_the_loss_is_written_down() {
    let home = Home::new();
    drop(home.open());
    let blocker = rusqlite::Connection::open(home.path()).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let problems = Problems::default();
    let options = WriterOptions { capacity: 10, busy: Duration::from_millis(50), ..problems.options() };
    let recorder = Writer::spawn(&home.path(), options);
    let begun = Instant::now();
    for _ in 0..1000 {
        recorder.start(shell("true"));
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    blocker.execute_batch("COMMIT").unwrap();
    recorder.flush();
    let ledger = home.open();
    let kept = ledger.executions(&ExecutionFilter::default()).unwrap().len();
    let events = ledger.events(None, None).unwrap();
    let lost: u64 = events
        .iter()
        .filter(|event| event.kind == RECORDS_LOST)
        .map(|event| event.body["count"].as_u64().unwrap())
        .sum();
    assert_eq!(u64::try_from(kept).unwrap() + lost, 1000);
    assert!(lost > 0);
    assert_eq!(problems.told().len(), 1, "{:?}", problems.told());
}

#[test]
fn a_long_log_is_copied_back() {
    let home = Home::new();
    let recorder = writer(&home);
    for _ in 0..2000 {
        recorder.start(shell(&"x".repeat(2000)));
        recorder.flush();
    }
    std::thread::sleep(Duration::from_millis(300));
    recorder.start(shell("last"));
    recorder.flush();
    let log = std::fs::metadata(home.path().with_file_name("ledger.db-wal")).unwrap().len();
    assert!(log < 8 << 20, "the log has {log} bytes");
}
