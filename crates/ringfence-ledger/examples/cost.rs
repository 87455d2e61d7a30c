//! What the ledger costs: `cargo run --release -p ringfence-ledger --example cost [directory]`.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring tool for its developers")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringfence_ledger::{ExecutionEnd, ExecutionStart, Ledger, Writer, WriterOptions};
use ringfence_model::{Assurance, Command, ExecResult};

fn main() {
    let directory = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let home = directory.join(format!("ledger-cost-{}", std::process::id()));
    let path = home.join("ledger.db");
    Ledger::open(&path).unwrap();

    // The log is kept as short as the writer keeps it; its average length is half of that.
    let mut cold = Vec::new();
    for round in 0..2000 {
        if round % 250 == 0 {
            let ledger = rusqlite::Connection::open(&path).unwrap();
            ledger.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
        }
        let begun = Instant::now();
        plain(&path);
        cold.push(begun.elapsed());
    }
    show("plain SQLite: cold open, one insert, close", cold);

    let mut spawn = Vec::new();
    let mut start = Vec::new();
    let mut end = Vec::new();
    let mut whole = Vec::new();
    for _ in 0..2000 {
        let t0 = Instant::now();
        let writer =
            Writer::beside(&path, WriterOptions::new(std::sync::Arc::new(ringfence_ledger::Nothing)));
        let t1 = Instant::now();
        let id = writer.start(ExecutionStart::new(Command::Argv(vec!["true".into()])));
        let t2 = Instant::now();
        std::thread::sleep(Duration::from_millis(3)); // the command
        let t3 = Instant::now();
        writer.finish(id, &result());
        writer.close();
        let t4 = Instant::now();
        spawn.push(t1 - t0);
        start.push(t2 - t1);
        end.push(t4 - t3);
        whole.push((t1 - t0) + (t2 - t1) + (t4 - t3));
    }
    show("one command: Writer::beside", spawn);
    show("one command: start()", start);
    show("one command: finish() and close()", end);
    show("one command: all of it on the critical path", whole);

    let writer = Writer::spawn(
        &path,
        WriterOptions {
            capacity: 1 << 20,
            ..WriterOptions::new(std::sync::Arc::new(ringfence_ledger::Nothing))
        },
    );
    writer.flush();
    report("long-lived: start() and end()", 20_000, || {
        let id = writer.start(ExecutionStart::new(Command::Shell("echo hi".to_owned())));
        writer.end(ExecutionEnd::of(id, &result()));
    });
    let begun = Instant::now();
    drop(writer);
    println!("{:<50} {:>8.1} ms", "long-lived: writing those 40,000", begun.elapsed().as_secs_f64() * 1e3);
    std::fs::remove_dir_all(home).unwrap();
}

fn plain(path: &Path) {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
    connection.pragma_update(None, "synchronous", "NORMAL").unwrap();
    let id = ringfence_ledger::ExecutionId::new().to_string();
    connection
        .execute(
            "INSERT INTO executions (id, started_ms, command, owner_pid, owner) VALUES (?1, 1, 'true', 1, '')",
            [id],
        )
        .unwrap();
}

fn result() -> ExecResult {
    ExecResult { duration_ms: 3.0, ..ExecResult::silent(Assurance::unsandboxed()) }
}

fn report(what: &str, times: usize, mut run: impl FnMut()) {
    let mut taken = Vec::with_capacity(times);
    for _ in 0..times {
        let begun = Instant::now();
        run();
        taken.push(begun.elapsed());
    }
    show(what, taken);
}

fn show(what: &str, mut taken: Vec<Duration>) {
    taken.sort_unstable();
    let at = |share: usize| taken[(taken.len() - 1) * share / 1000].as_secs_f64() * 1e6;
    println!("{what:<50} p50 {:>8.1} us   p99 {:>8.1} us   p99.9 {:>8.1} us", at(500), at(990), at(999));
}
