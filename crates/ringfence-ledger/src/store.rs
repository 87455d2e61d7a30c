//! Opening the file.

use std::io::ErrorKind as IoKind;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ringfence_model::{Error, ErrorKind, Result};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::error::{explain, is_busy};
use crate::migrate;
use crate::redact::{Nothing, Redact};
use crate::scribe::CHECKPOINT_FRAMES;
use crate::spool;

/// How long a synchronous caller waits for another process's write.
const BUSY: Duration = Duration::from_secs(5);

/// An open ledger: queries, grants, the sandbox registry.
pub struct Ledger {
    pub(crate) connection: Connection,
    pub(crate) path: PathBuf,
    pub(crate) redact: Arc<dyn Redact>,
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ledger").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Ledger {
    /// Opens the ledger at `path`, making it (0600, in a directory of 0700) when it is missing.
    pub fn open(path: &Path) -> Result<Self> {
        let connection = connect(path, BUSY)?;
        Ok(Self { connection, path: path.to_owned(), redact: Arc::new(Nothing) })
    }

    /// Opens an existing ledger for reading, also on a disk that cannot be written.
    pub fn open_read_only(path: &Path) -> Result<Self> {
        if !path.exists() && !spool::is_waiting(path) {
            return Err(Error::new(ErrorKind::NotFound, format!("there is no ledger at {}", path.display())));
        }
        if spool::is_waiting(path) {
            // What cannot be taken in, because nothing can be written here, stays where it is.
            drop(connect(path, BUSY));
        }
        let connection = connect_read_only(path).map_err(|error| explain(path, "open", error))?;
        let found = migrate::version(&connection).map_err(|error| explain(path, "read", error))?;
        if found > migrate::latest() {
            return Err(migrate::newer(path, found, migrate::MIGRATIONS.len()));
        }
        if found < migrate::latest() {
            let message = format!("the ledger {} has the older schema {found}", path.display());
            return Err(Error::new(ErrorKind::Unsupported, message).hint("open it once for writing"));
        }
        Ok(Self { connection, path: path.to_owned(), redact: Arc::new(Nothing) })
    }

    /// Keeps what `redact` removes out of what this handle writes.
    #[must_use]
    pub fn with_redact(mut self, redact: Arc<dyn Redact>) -> Self {
        self.redact = redact;
        self
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn failed(&self, doing: &str) -> impl Fn(rusqlite::Error) -> Error {
        move |error| explain(&self.path, doing, error)
    }

    /// Runs `change` holding the write lock from its first read on, so that nothing can come between
    /// what it saw and what it wrote.
    pub(crate) fn change<T>(
        &mut self,
        doing: &str,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let path = &self.path;
        let failed = |error| explain(path, doing, error);
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let outcome = change(&transaction).map_err(failed)?;
        transaction.commit().map_err(failed)?;
        Ok(outcome)
    }
}

/// Opens for writing with the newest schema.
pub(crate) fn connect(path: &Path, busy: Duration) -> Result<Connection> {
    make_file(path)?;
    let opened = |error| explain(path, "open", error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(opened)?;
    connection.busy_timeout(busy).map_err(opened)?;
    // The last one out does not tidy up: copying the log back costs two disk flushes, and every short
    // command would be the last one out.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(opened)?;
    // With a write-ahead log, NORMAL can lose the last moments in a power cut, never consistency.
    connection.pragma_update(None, "synchronous", "NORMAL").map_err(opened)?;
    connection.pragma_update(None, "wal_autocheckpoint", 2 * CHECKPOINT_FRAMES).map_err(opened)?;
    let found = migrate::version(&connection).map_err(opened)?;
    if found != migrate::latest() {
        // The journal mode is kept in the file: only a file that is not ready yet needs to be told.
        use_write_ahead_log(&connection, busy).map_err(opened)?;
        migrate::migrate(&mut connection, path)?;
    }
    spool::take_in(&mut connection, path).map_err(|error| explain(path, "record", error))?;
    Ok(connection)
}

/// SQLite answers "busy" at once, without waiting, when two processes turn the log on together.
fn use_write_ahead_log(connection: &Connection, patience: Duration) -> rusqlite::Result<()> {
    let pause = Duration::from_millis(5);
    let mut waited = Duration::ZERO;
    loop {
        match connection.pragma_update(None, "journal_mode", "WAL") {
            Err(error) if is_busy(&error) && waited < patience => {
                std::thread::sleep(pause);
                waited += pause;
            }
            outcome => return outcome,
        }
    }
}

fn connect_read_only(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    match migrate::version(&connection) {
        // A log needs shared memory beside it; where that cannot be made, nobody else writes either.
        Err(error)
            if matches!(
                error.sqlite_error_code(),
                Some(rusqlite::ErrorCode::CannotOpen | rusqlite::ErrorCode::ReadOnly)
            ) =>
        {
            Connection::open_with_flags(immutable_uri(path), flags | OpenFlags::SQLITE_OPEN_URI)
        }
        Err(error) => Err(error),
        Ok(_) => Ok(connection),
    }
}

fn immutable_uri(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let mut uri = String::from("file:");
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => uri.push(char::from(byte)),
            _ => uri.push_str(&format!("%{byte:02x}")),
        }
    }
    uri + "?immutable=1"
}

/// Makes the directory of a file, for nobody else.
pub(crate) fn make_directory(path: &Path) -> std::io::Result<()> {
    match path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        Some(directory) => std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory),
        None => Ok(()),
    }
}

/// Makes the directory and the empty file with their modes, before SQLite can make them with wider ones;
/// the log and its index take the file's mode.
fn make_file(path: &Path) -> Result<()> {
    // Closing *any* descriptor of a file drops all locks its process has on it, SQLite's included. So an
    // existing ledger is never opened here, and a new one only while no other thread can be opening it.
    static MAKING: Mutex<()> = Mutex::new(());
    let _alone = MAKING.lock().unwrap_or_else(PoisonError::into_inner);

    let cannot = |error: std::io::Error| {
        let kind = match error.kind() {
            IoKind::StorageFull | IoKind::QuotaExceeded => ErrorKind::ResourceLimitExceeded,
            _ => ErrorKind::Permission,
        };
        Error::new(kind, format!("cannot make the ledger {}", path.display())).caused_by(error)
    };
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => {
            if found.permissions().mode() & 0o077 != 0 {
                // Best effort: on a read-only disk nobody new gets in either.
                let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600));
            }
            Ok(())
        }
        Ok(_) => {
            let message = format!("the ledger {} is not an ordinary file", path.display());
            Err(Error::new(ErrorKind::Permission, message).hint("move it away; a new one is made by itself"))
        }
        Err(error) if error.kind() == IoKind::NotFound => {
            make_directory(path).map_err(cannot)?;
            match std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
                Err(error) if error.kind() != IoKind::AlreadyExists => Err(cannot(error)),
                _ => Ok(()),
            }
        }
        Err(error) => Err(cannot(error)),
    }
}
