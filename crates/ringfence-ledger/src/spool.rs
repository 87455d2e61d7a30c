//! Records that wait beside the ledger, in a file of lines, until somebody opens it.
//!
//! Opening a database takes longer than a short command does, appending a line does not. So a program that runs one
//! command appends. Whoever opens the ledger renames the file, so that it grows no more, writes what it holds in one
//! transaction, and removes it.
//!
//! **Invariant:** a file is appended to only under its lock, and only while it has its name. It is renamed under
//! the lock too, so nothing is appended to it afterwards.
//! **Invariant:** a file is taken in once, whenever the taker dies: that it was is written by the same transaction.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use rustix::fs::FlockOperation;
use uuid::Uuid;

use crate::insert::Row;
use crate::owner::Owner;
use crate::redact::Redact;
use crate::scribe::{Job, lost_row};
use crate::store;

/// From here on it is taken in by the one who appends, for want of another.
const LONG: u64 = 1 << 20;

/// Where records are appended.
pub(crate) struct Spool {
    path: PathBuf,
    redact: Arc<dyn Redact>,
    owner: Option<Owner>,
    file: Option<File>,
    length: u64,
}

impl Spool {
    /// Touches nothing yet.
    pub(crate) fn new(ledger: &Path, redact: Arc<dyn Redact>) -> Self {
        Self { path: waiting(ledger), redact, owner: None, file: None, length: 0 }
    }

    /// Whether it was appended. What is not text as a whole, and what finds no room, has to go elsewhere.
    pub(crate) fn append(&mut self, job: &Job) -> bool {
        let owner = self.owner.get_or_insert_with(Owner::current);
        let row = Row::of(self.redact.as_ref(), owner, job);
        let Ok(mut line) = serde_json::to_vec(&row) else { return false };
        line.push(b'\n');
        self.write(&line).is_ok()
    }

    pub(crate) fn is_long(&self) -> bool {
        self.length >= LONG
    }

    fn write(&mut self, line: &[u8]) -> std::io::Result<()> {
        loop {
            let file = match self.file.take() {
                Some(file) => file,
                None => open(&self.path)?,
            };
            let locked = Locked::new(&file, FlockOperation::LockExclusive)?;
            if !locked.has_name(&self.path) {
                continue;
            }
            let before = file.metadata()?.len();
            let written = (&file).write(line)?;
            if written < line.len() {
                // Half a line would spoil the next one.
                file.set_len(before)?;
                return Err(std::io::ErrorKind::StorageFull.into());
            }
            self.length = before + line.len() as u64;
            drop(locked);
            self.file = Some(file);
            return Ok(());
        }
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    let no_link = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    options.append(true).create(true).mode(0o600).custom_flags(no_link);
    match options.open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            store::make_directory(path)?;
            options.open(path)
        }
        other => other,
    }
}

/// A lock that ends with this.
struct Locked<'a>(&'a File);

impl<'a> Locked<'a> {
    fn new(file: &'a File, how: FlockOperation) -> std::io::Result<Self> {
        loop {
            match rustix::fs::flock(file, how) {
                Err(rustix::io::Errno::INTR) => {}
                other => return other.map(|()| Self(file)).map_err(Into::into),
            }
        }
    }

    /// Whether the file is still the one of that name.
    fn has_name(&self, path: &Path) -> bool {
        let same = |named: std::fs::Metadata| {
            self.0.metadata().is_ok_and(|own| (own.dev(), own.ino()) == (named.dev(), named.ino()))
        };
        path.symlink_metadata().is_ok_and(same)
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let _ = rustix::fs::flock(self.0, FlockOperation::Unlock);
    }
}

fn waiting(ledger: &Path) -> PathBuf {
    let mut name = ledger.as_os_str().to_owned();
    name.push("-spool");
    name.into()
}

/// Whether records of this ledger wait to be taken in.
pub(crate) fn is_waiting(ledger: &Path) -> bool {
    waiting(ledger).symlink_metadata().is_ok() || renamed(ledger).next().is_some()
}

/// Files that somebody has begun to take in: `ledger.db-spool.UUID`.
fn renamed(ledger: &Path) -> impl Iterator<Item = PathBuf> {
    let prefix = waiting(ledger).file_name().map(|name| name.to_string_lossy().into_owned() + ".");
    let entries = ledger.parent().and_then(|parent| parent.read_dir().ok()).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(move |path| {
        let name = path.file_name().map(|name| name.to_string_lossy());
        name.zip(prefix.as_ref()).is_some_and(|(name, prefix)| name.starts_with(prefix.as_str()))
    })
}

/// Writes what waits into the ledger.
pub(crate) fn take_in(connection: &mut Connection, ledger: &Path) -> rusqlite::Result<()> {
    // Who cannot rename it leaves it to somebody who can.
    let _ = rename(&waiting(ledger));
    for path in renamed(ledger) {
        let Ok(file) = File::open(&path) else { continue };
        // Somebody else is at it.
        let Ok(locked) = Locked::new(&file, FlockOperation::NonBlockingLockExclusive) else { continue };
        if locked.has_name(&path) {
            take_in_file(connection, &path, &file)?;
        }
    }
    Ok(())
}

fn rename(path: &Path) -> std::io::Result<()> {
    let file = match File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    let locked = Locked::new(&file, FlockOperation::LockExclusive)?;
    if locked.has_name(path) {
        let mut to = path.as_os_str().to_owned();
        to.push(format!(".{}", Uuid::now_v7()));
        std::fs::rename(path, to)?;
    }
    Ok(())
}

fn take_in_file(connection: &mut Connection, path: &Path, mut file: &File) -> rusqlite::Result<()> {
    let mut bytes = Vec::new();
    if file.read_to_end(&mut bytes).is_err() {
        return Ok(());
    }
    let mark = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let taken =
        transaction.query_row("SELECT 1 FROM settings WHERE name = ?1", [&mark], |_| Ok(())).optional()?;
    if taken.is_none() {
        let mut lost = 0;
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice::<Row>(line) {
                Ok(row) => row.insert(&transaction)?,
                Err(_) => lost += 1,
            }
        }
        if lost > 0 {
            lost_row(lost).insert(&transaction)?;
        }
        transaction.execute("INSERT INTO settings (name, value) VALUES (?1, 1)", [&mark])?;
    }
    transaction.commit()?;
    if std::fs::remove_file(path).is_ok() {
        connection.execute("DELETE FROM settings WHERE name = ?1", [&mark])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Event, ExecutionEnd, ExecutionStart};
    use crate::{ExecutionFilter, Ledger, Nothing, Status, ViolationFilter, Writer, WriterOptions};
    use ringfence_model::Command;

    fn job(kind: &str) -> Job {
        Job::Event(Box::new(Event::now(kind, serde_json::json!({}))))
    }

    fn events(path: &Path) -> i64 {
        let ledger = Ledger::open(path).unwrap();
        ledger.connection.query_row("SELECT count(*) FROM events", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn what_was_appended_is_in_the_ledger_for_whoever_opens_it() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("home/ledger.db");
        let writer = Writer::beside(&path, WriterOptions::new(Arc::new(crate::redact::Nothing)));
        let id = writer.start(ExecutionStart::new(Command::Shell("true".to_owned())));
        assert!(!path.exists(), "no database was opened");
        let status = || {
            let ledger = Ledger::open_read_only(&path).unwrap();
            let found = ledger.executions(&ExecutionFilter::default()).unwrap();
            assert_eq!(ledger.violations(&ViolationFilter::default()).unwrap(), vec![]);
            assert_eq!(found.len(), 1);
            found[0].status
        };
        assert_eq!(status(), Status::Running);
        writer.end(ExecutionEnd::failed(id, "for the test"));
        writer.close();
        assert_eq!(status(), Status::Failed);
        assert!(!is_waiting(&path), "nothing is left beside it");
    }

    #[test]
    fn a_taker_that_died_took_in_all_or_nothing() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("ledger.db");
        let mut spool = Spool::new(&path, Arc::new(Nothing));
        assert!(spool.append(&job("one")) && spool.append(&job("two")));
        // Dead after renaming it.
        rename(&waiting(&path)).unwrap();
        assert!(spool.append(&job("three")), "a new file is begun");
        let left = renamed(&path).next().unwrap();
        let bytes = std::fs::read(&left).unwrap();
        assert_eq!(events(&path), 3);
        // Dead after writing it: the file is there, and so is the note.
        std::fs::write(&left, bytes).unwrap();
        let mark = left.file_name().unwrap().to_string_lossy();
        let connection = Connection::open(&path).unwrap();
        connection.execute("INSERT INTO settings (name, value) VALUES (?1, 1)", [mark]).unwrap();
        assert_eq!(events(&path), 3, "nothing is written twice");
        assert!(!left.exists());
    }

    #[test]
    fn a_broken_line_is_counted_and_spoils_no_other() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("ledger.db");
        let mut spool = Spool::new(&path, Arc::new(Nothing));
        assert!(spool.append(&job("one")));
        let mut file = File::options().append(true).open(waiting(&path)).unwrap();
        file.write_all(b"{\"event\":{\"timeMs\"\n").unwrap();
        assert!(spool.append(&job("two")));
        assert_eq!(events(&path), 3);
        let ledger = Ledger::open(&path).unwrap();
        let lost: String = ledger
            .connection
            .query_row("SELECT body FROM events WHERE kind = ?1", [crate::RECORDS_LOST], |row| row.get(0))
            .unwrap();
        assert_eq!(lost, r#"{"count":1}"#);
    }

    #[test]
    fn nothing_is_lost_between_many_who_append_and_many_who_take_in() {
        const EACH: usize = 200;
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("ledger.db");
        Ledger::open(&path).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut spool = Spool::new(&path, Arc::new(Nothing));
                    for _ in 0..EACH {
                        assert!(spool.append(&job("one")));
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..30 {
                        Ledger::open(&path).unwrap();
                    }
                });
            }
        });
        assert_eq!(events(&path), 4 * EACH as i64);
    }
}
