//! Disks that are full, read-only, damaged or locked: told once, never in the way.

use std::time::{Duration, Instant};

use ringfence_ledger::{ExecutionFilter, Ledger, Writer, WriterOptions};
use ringfence_model::ErrorKind;

use crate::child;
use crate::sample::{Home, Problems, result, shell};

/// Records three commands, the way a program does that must not care.
fn record(path: &std::path::Path) -> Vec<String> {
    let problems = Problems::default();
    let recorder = Writer::spawn(path, problems.options());
    for _ in 0..3 {
        let id = recorder.start(shell("true"));
        recorder.finish(id, &result(0));
        recorder.flush();
    }
    drop(recorder);
    problems.told()
}

#[test]
fn a_place_that_cannot_be_written_is_told_once() {
    let told = record(std::path::Path::new("/proc/no-such-place/ledger.db"));
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("cannot make the ledger /proc/no-such-place/ledger.db"), "{told:?}");
}

#[test]
fn a_damaged_file_is_told_once_and_left_as_it_is() {
    let home = Home::new();
    std::fs::create_dir_all(home.path().parent().unwrap()).unwrap();
    let nonsense = b"this is not a database, however long it may be. ".repeat(200);
    std::fs::write(home.path(), &nonsense).unwrap();
    let told = record(&home.path());
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("is damaged"), "{told:?}");
    assert_eq!(std::fs::read(home.path()).unwrap(), nonsense);
    let error = Ledger::open(&home.path()).unwrap_err();
    assert!(error.hints[0].contains(".damaged"), "{:?}", error.hints);
}

#[test]
fn damage_in_the_middle_is_told_once() {
    let home = Home::new();
    drop(home.open());
    drop(rusqlite::Connection::open(home.path()).unwrap().query_row(
        "PRAGMA wal_checkpoint(TRUNCATE)",
        [],
        |_| Ok(()),
    ));
    let mut bytes = std::fs::read(home.path()).unwrap();
    let length = bytes.len();
    bytes[4096..length].fill(0xAA);
    std::fs::write(home.path(), bytes).unwrap();
    let told = record(&home.path());
    assert_eq!(told.len(), 1, "{told:?}");
}

#[test]
fn a_newer_file_is_told_once_and_left_as_it_is() {
    let home = Home::new();
    drop(home.open());
    rusqlite::Connection::open(home.path()).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let told = record(&home.path());
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("schema 99"), "{told:?}");
    assert_eq!(Ledger::open(&home.path()).unwrap_err().kind, ErrorKind::Unsupported);
    assert_eq!(Ledger::open_read_only(&home.path()).unwrap_err().kind, ErrorKind::Unsupported);
}

#[test]
fn a_link_or_directory_in_its_place_is_refused() {
    let home = Home::new();
    let directory = home.directory.path();
    std::fs::write(directory.join("target"), "").unwrap();
    std::os::unix::fs::symlink(directory.join("target"), directory.join("link.db")).unwrap();
    std::fs::create_dir(directory.join("dir.db")).unwrap();
    for name in ["link.db", "dir.db"] {
        let told = record(&directory.join(name));
        assert!(told.len() == 1 && told[0].contains("not an ordinary file"), "{told:?}");
    }
    assert_eq!(std::fs::read(directory.join("target")).unwrap(), b"");
}

#[test]
fn a_locked_file_holds_nobody_up_for_long_and_records_wait_for_it() {
    let home = Home::new();
    drop(home.open());
    let blocker = rusqlite::Connection::open(home.path()).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let problems = Problems::default();
    let options = WriterOptions { busy: Duration::from_millis(50), ..problems.options() };
    let recorder = Writer::spawn(&home.path(), options);
    let begun = Instant::now();
    let id = recorder.start(shell("true"));
    recorder.finish(id, &result(0));
    recorder.flush();
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert!(problems.told()[0].contains("locked by another process"), "{:?}", problems.told());
    blocker.execute_batch("COMMIT").unwrap();
    drop(recorder);
    assert_eq!(home.open().executions(&ExecutionFilter::default()).unwrap().len(), 1);
    assert_eq!(problems.told().len(), 1);
}

/// Runs the part `record` where `prepare` (shell text, `$1` the directory) shaped a private mount
/// namespace. None where this machine lets nobody have one.
fn in_private_mounts(home: &Home, prepare: &str) -> Option<Vec<String>> {
    let directory = home.path().parent().unwrap().to_owned();
    std::fs::create_dir_all(&directory).unwrap();
    let script = format!("set -e; {prepare}; shift; exec \"$@\"");
    let place = directory.to_str().unwrap();
    let wrapper = ["unshare", "-Urm", "sh", "-c", &script, "sh", place];
    let output = child::command(&wrapper, "record x", &home.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let why = format!("{text} {}", String::from_utf8_lossy(&output.stderr));
        ringfence_testing::lacks("private-mounts", &why);
        return None;
    }
    Some(text.lines().filter(|line| line.starts_with("told")).map(str::to_owned).collect())
}

#[test]
fn a_full_disk_is_told_once() {
    let home = Home::new();
    let prepare = "mount -t tmpfs -o size=200k none \"$1\"";
    if let Some(told) = in_private_mounts(&home, prepare) {
        assert!(told[0].matches("no space left").count() == 1, "{told:?}");
    }
}

#[test]
fn a_read_only_disk_is_told_once() {
    let home = Home::new();
    drop(home.open());
    let prepare = "mount --bind \"$1\" \"$1\"; mount -o remount,ro,bind \"$1\"";
    if let Some(told) = in_private_mounts(&home, prepare) {
        assert!(told[0].contains("cannot be opened for writing") && !told[0].contains("\", \""), "{told:?}");
    }
}
