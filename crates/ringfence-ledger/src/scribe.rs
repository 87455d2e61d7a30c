//! The hand that writes records, and what it does when it cannot.
//!
//! When the disk is full, read-only, damaged or locked, the first problem is told to the caller once,
//! records wait as long as there is room for them, and what had to be given up is counted and written
//! down as an event as soon as writing works again.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ringfence_model::{Error, ErrorKind, Violation};
use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use serde_json::json;

use crate::error::explain;
use crate::insert::Row;
use crate::owner::Owner;
use crate::record::{Decided, Event, ExecutionEnd, ExecutionStart, Granted};
use crate::redact::Redact;
use crate::writer::WriterOptions;
use crate::{ExecutionId, insert, store};

/// The kind of the event that says how many records were lost.
pub const RECORDS_LOST: &str = "records_lost";

/// Frames of the log after which it is copied back into the file. The first one to open the file reads
/// the whole log, so a short one keeps opening quick; copying back costs two disk flushes. Where there is
/// no quiet moment for it, SQLite does it inside a commit at twice this length: less than one in a hundred of
/// many short commands pays for it.
pub(crate) const CHECKPOINT_FRAMES: i64 = 80;
/// Pause between two attempts to open a file that could not be opened.
const REOPEN: Duration = Duration::from_secs(1);

pub(crate) enum Job {
    Start(Box<ExecutionStart>),
    End(Box<ExecutionEnd>),
    Violation(Option<ExecutionId>, Box<Violation>),
    Decision(Box<Decided>),
    Grant(Box<Granted>),
    Event(Box<Event>),
    Touch { sandbox: String, time_ms: u64 },
}

pub(crate) struct Scribe {
    path: PathBuf,
    options: WriterOptions,
    owner: Option<Owner>,
    connection: Option<Connection>,
    tried_to_open: Option<Instant>,
    /// Not written yet, oldest first.
    pending: VecDeque<Job>,
    lost: u64,
    told: bool,
}

impl Scribe {
    /// Touches nothing yet, so that starting a writer is quick.
    pub(crate) fn new(path: PathBuf, options: WriterOptions) -> Self {
        Self {
            path,
            options,
            owner: None,
            connection: None,
            tried_to_open: None,
            pending: VecDeque::new(),
            lost: 0,
            told: false,
        }
    }

    pub(crate) fn open(&mut self) {
        if self.connection.is_some() || self.tried_to_open.is_some_and(|tried| tried.elapsed() < REOPEN) {
            return;
        }
        self.tried_to_open = Some(Instant::now());
        match store::connect(&self.path, self.options.busy) {
            Ok(connection) => self.connection = Some(connection),
            Err(error) => self.tell(&error),
        }
    }

    pub(crate) fn close(&mut self) {
        self.connection = None;
    }

    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Writes `jobs` after what is still pending. What cannot be written now stays, as far as there is
    /// room.
    pub(crate) fn write(&mut self, jobs: VecDeque<Job>, lost: u64) {
        self.pending.extend(jobs);
        self.lost += lost;
        if lost > 0 {
            let message = "the ledger cannot keep up with what is recorded: some records are lost";
            self.tell(&Error::new(ErrorKind::ResourceLimitExceeded, message));
        }
        if self.pending.is_empty() && self.lost == 0 {
            return;
        }
        self.open();
        let Some(connection) = &mut self.connection else { return self.give_up_excess() };
        let owner = self.owner.get_or_insert_with(Owner::current);
        match write_all(connection, self.options.redact.as_ref(), owner, &self.pending, self.lost) {
            Ok(()) => {
                self.pending.clear();
                self.lost = 0;
            }
            Err(error) => {
                if !may_pass(&error) {
                    // Something in the records or the file itself; keeping them would not help.
                    self.lost += count(self.pending.len());
                    self.pending.clear();
                }
                self.tell(&explain(&self.path, "record", error));
                self.give_up_excess();
            }
        }
    }

    fn give_up_excess(&mut self) {
        while self.pending.len() > self.options.capacity {
            self.pending.pop_front();
            self.lost += 1;
        }
    }

    /// Parses the statement that the end of a command will need, while the command runs.
    pub(crate) fn prepare_end(&self) {
        if let Some(connection) = &self.connection {
            let _ = connection.prepare_cached(insert::END);
        }
    }

    /// Copies a long log back into the file.
    pub(crate) fn copy_log_back(&mut self) {
        let Some(connection) = &self.connection else { return };
        let frames = connection.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| row.get::<_, i64>(1));
        if frames.is_ok_and(|frames| frames >= CHECKPOINT_FRAMES) {
            // Not being able to is no loss: somebody is reading, and the next one tries again.
            let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        }
    }

    pub(crate) fn tell(&mut self, problem: &Error) {
        if !self.told {
            self.told = true;
            (self.options.on_problem)(problem);
        }
    }
}

fn write_all(
    connection: &mut Connection,
    redact: &dyn Redact,
    owner: &Owner,
    jobs: &VecDeque<Job>,
    lost: u64,
) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if lost > 0 {
        lost_row(lost).insert(&transaction)?;
    }
    for job in jobs {
        Row::of(redact, owner, job).insert(&transaction)?;
    }
    transaction.commit()
}

pub(crate) fn lost_row(count: u64) -> Row {
    Row::Event(Box::new(Event::now(RECORDS_LOST, json!({ "count": count }))))
}

/// Whether the same records may be written later: the trouble is around them, not in them.
fn may_pass(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::ReadOnly
                | ErrorCode::CannotOpen
                | ErrorCode::PermissionDenied
                | ErrorCode::OutOfMemory
        )
    )
}

fn count(records: usize) -> u64 {
    u64::try_from(records).unwrap_or(u64::MAX)
}
