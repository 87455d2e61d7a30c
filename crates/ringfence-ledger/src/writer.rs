//! The thread that writes.
//!
//! Recording pushes into a bounded queue and returns; it never waits, not even for a full queue. The
//! thread opens the file as soon as it starts, takes whatever has gathered and writes it in one
//! transaction. When the disk is full, read-only, damaged or locked, the first problem is told to the
//! caller once, records wait as long as there is room for them, and what had to be given up is counted
//! and written down as an event as soon as writing works again.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringfence_model::{Error, ErrorKind, ExecResult, Violation};
use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use serde_json::json;

use crate::error::explain;
use crate::owner::Owner;
use crate::record::{Decided, Event, ExecutionEnd, ExecutionStart, Granted};
use crate::redact::{Nothing, Redact};
use crate::{ExecutionId, insert, registry, store};

/// The kind of the event that says how many records were lost.
pub const RECORDS_LOST: &str = "records_lost";

/// Records in one transaction.
const BATCH: usize = 512;
/// Log frames after which the log is copied back into the file while a command runs.
const CHECKPOINT_FRAMES: i64 = 1000;
/// Silence after which a pending copy or a failed write is tried.
const IDLE: Duration = Duration::from_millis(100);
/// Pause between two attempts to open a file that could not be opened.
const REOPEN: Duration = Duration::from_secs(1);
/// SQLite needs some tens of kilobytes.
const STACK: usize = 512 * 1024;

/// How a [`Writer`] works.
pub struct WriterOptions {
    /// Records that may wait; further ones are given up.
    pub capacity: usize,
    /// How long one attempt waits for another process's write. The end of the program can be held up by
    /// this much when the file is locked, so it is short.
    pub busy: Duration,
    pub redact: Arc<dyn Redact>,
    /// Told about the first problem, once, on the writer's thread.
    pub on_problem: Box<dyn FnMut(&Error) + Send>,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            capacity: 4096,
            busy: Duration::from_secs(1),
            redact: Arc::new(Nothing),
            on_problem: Box::new(|_| {}),
        }
    }
}

impl std::fmt::Debug for WriterOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriterOptions")
            .field("capacity", &self.capacity)
            .field("busy", &self.busy)
            .finish_non_exhaustive()
    }
}

enum Job {
    Start(Box<ExecutionStart>),
    End(Box<ExecutionEnd>),
    Violation(Option<ExecutionId>, Box<Violation>),
    Decision(Box<Decided>),
    Grant(Box<Granted>),
    Event(Box<Event>),
    Touch { sandbox: String, time_ms: u64 },
    Flush(SyncSender<()>),
}

/// Records without making its caller wait. Dropping it writes what is left and joins the thread.
#[derive(Debug)]
pub struct Writer {
    queue: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
    /// Given up because the queue was full; the thread turns the count into an event.
    overflow: Arc<AtomicU64>,
}

impl Writer {
    /// Starts the thread, which opens the ledger at `path`. Never fails: problems go to `on_problem`.
    #[must_use]
    pub fn spawn(path: &Path, options: WriterOptions) -> Self {
        let (queue, jobs) = mpsc::sync_channel(options.capacity.max(1));
        let overflow = Arc::new(AtomicU64::new(0));
        let scribe_overflow = Arc::clone(&overflow);
        let path = path.to_owned();
        // The options move into the thread, or come back for the report when there is none.
        let shared = Arc::new(std::sync::Mutex::new(Some(options)));
        let for_thread = Arc::clone(&shared);
        let spawned =
            std::thread::Builder::new().name("ledger".to_owned()).stack_size(STACK).spawn(move || {
                if let Some(options) = take(&for_thread) {
                    Scribe::new(path, options, scribe_overflow).run(&jobs);
                }
            });
        match spawned {
            Ok(thread) => Self { queue: Some(queue), thread: Some(thread), overflow },
            Err(error) => {
                if let Some(mut options) = take(&shared) {
                    let problem = Error::new(ErrorKind::Internal, "cannot start the ledger's thread");
                    (options.on_problem)(&problem.caused_by(error));
                }
                Self { queue: None, thread: None, overflow }
            }
        }
    }

    /// Remembers that a command is about to run; gives its id back.
    pub fn start(&self, start: ExecutionStart) -> ExecutionId {
        let id = start.id;
        self.push(Job::Start(Box::new(start)));
        id
    }

    /// Remembers what came of it, and each of its violations.
    pub fn finish(&self, id: ExecutionId, result: &ExecResult) {
        for violation in &result.violations {
            self.violation(Some(id), violation.clone());
        }
        self.end(ExecutionEnd::of(id, result));
    }

    /// Remembers the end of an execution; its violations are recorded on their own.
    pub fn end(&self, end: ExecutionEnd) {
        self.push(Job::End(Box::new(end)));
    }

    /// Remembers a refusal; one that came before any execution has none.
    pub fn violation(&self, execution: Option<ExecutionId>, violation: Violation) {
        self.push(Job::Violation(execution, Box::new(violation)));
    }

    pub fn decision(&self, decided: Decided) {
        self.push(Job::Decision(Box::new(decided)));
    }

    pub fn grant(&self, granted: Granted) {
        self.push(Job::Grant(Box::new(granted)));
    }

    pub fn event(&self, event: Event) {
        self.push(Job::Event(Box::new(event)));
    }

    /// Notes that a registered sandbox is being used. Brings no removed sandbox back.
    pub fn touch(&self, sandbox: impl Into<String>, time_ms: u64) {
        self.push(Job::Touch { sandbox: sandbox.into(), time_ms });
    }

    /// Waits until everything recorded so far is written, or was given up.
    pub fn flush(&self) {
        let Some(queue) = &self.queue else { return };
        let (written, wait) = mpsc::sync_channel(1);
        if queue.send(Job::Flush(written)).is_ok() {
            // An error means the thread is gone; then there is nothing to wait for.
            let _ = wait.recv();
        }
    }

    fn push(&self, job: Job) {
        let Some(queue) = &self.queue else { return };
        match queue.try_send(job) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.overflow.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            // A panic there has nothing to do with the caller.
            let _ = thread.join();
        }
    }
}

fn take(shared: &std::sync::Mutex<Option<WriterOptions>>) -> Option<WriterOptions> {
    shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
}

/// The thread's own state.
struct Scribe {
    path: PathBuf,
    options: WriterOptions,
    owner: Owner,
    connection: Option<Connection>,
    tried_to_open: Option<Instant>,
    /// Not written yet, oldest first.
    pending: VecDeque<Job>,
    lost: u64,
    overflow: Arc<AtomicU64>,
    told: bool,
    /// Something was written since the log was last looked at.
    log_grew: bool,
}

impl Scribe {
    fn new(path: PathBuf, options: WriterOptions, overflow: Arc<AtomicU64>) -> Self {
        let mut scribe = Self {
            path,
            options,
            owner: Owner::current(),
            connection: None,
            tried_to_open: None,
            pending: VecDeque::new(),
            lost: 0,
            overflow,
            told: false,
            log_grew: false,
        };
        scribe.open();
        scribe
    }

    fn run(&mut self, jobs: &Receiver<Job>) {
        loop {
            let waiting = self.log_grew || !self.pending.is_empty();
            let next = if waiting {
                jobs.recv_timeout(IDLE)
            } else {
                jobs.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            match next {
                Ok(first) => self.take_in(first, jobs),
                Err(RecvTimeoutError::Timeout) => {
                    self.write();
                    self.copy_log_back();
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.tried_to_open = None;
        self.write();
    }

    fn take_in(&mut self, first: Job, jobs: &Receiver<Job>) {
        let mut flushed = Vec::new();
        let mut starts = false;
        for job in std::iter::once(first).chain(jobs.try_iter().take(BATCH)) {
            match job {
                Job::Flush(written) => flushed.push(written),
                job => {
                    starts |= matches!(job, Job::Start(_));
                    self.pending.push_back(job);
                }
            }
        }
        self.write();
        for written in flushed {
            let _ = written.send(());
        }
        if starts {
            // The command runs now, so this is the time that costs nobody anything.
            self.copy_log_back();
        }
    }

    fn open(&mut self) {
        if self.tried_to_open.is_some_and(|tried| tried.elapsed() < REOPEN) {
            return;
        }
        self.tried_to_open = Some(Instant::now());
        match store::connect(&self.path, self.options.busy) {
            Ok(connection) => {
                // The log is copied back here, at a time of our choosing, not inside some commit.
                let _ = connection.pragma_update(None, "wal_autocheckpoint", 0);
                self.connection = Some(connection);
            }
            Err(error) => self.tell(&error),
        }
    }

    /// Writes what is pending. What cannot be written now stays, as far as there is room.
    fn write(&mut self) {
        self.lost += self.overflow.swap(0, Ordering::Relaxed);
        if self.lost > 0 && !self.told {
            self.tell(&Error::new(
                ErrorKind::ResourceLimitExceeded,
                "the ledger cannot keep up: records are lost",
            ));
        }
        if self.pending.is_empty() && self.lost == 0 {
            return;
        }
        if self.connection.is_none() {
            self.open();
        }
        let outcome = match &mut self.connection {
            Some(connection) => {
                write_all(connection, &self.options.redact, &self.owner, &self.pending, self.lost)
            }
            None => return self.give_up_excess(),
        };
        match outcome {
            Ok(()) => {
                self.pending.clear();
                self.lost = 0;
                self.log_grew = true;
            }
            Err(error) => {
                let hopeless = !may_pass(&error);
                self.tell(&explain(&self.path, "record", error));
                if hopeless {
                    // Something in these records themselves; keeping them would block all later ones.
                    self.lost += count(self.pending.len());
                    self.pending.clear();
                }
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

    /// Copies a long log back into the file, so that opening it stays quick.
    fn copy_log_back(&mut self) {
        self.log_grew = false;
        let Some(connection) = &self.connection else { return };
        let frames = connection.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| row.get::<_, i64>(1));
        if frames.is_ok_and(|frames| frames >= CHECKPOINT_FRAMES) {
            // Not being able to is no loss: somebody is reading, and the next one tries again.
            let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        }
    }

    fn tell(&mut self, problem: &Error) {
        if !self.told {
            self.told = true;
            (self.options.on_problem)(problem);
        }
    }
}

fn write_all(
    connection: &mut Connection,
    redact: &Arc<dyn Redact>,
    owner: &Owner,
    jobs: &VecDeque<Job>,
    lost: u64,
) -> rusqlite::Result<()> {
    let redact = redact.as_ref();
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if lost > 0 {
        insert::event(&transaction, redact, &Event::now(RECORDS_LOST, json!({ "count": lost })))?;
    }
    for job in jobs {
        match job {
            Job::Start(start) => insert::start(&transaction, redact, owner, start)?,
            Job::End(end) => insert::end(&transaction, redact, end)?,
            Job::Violation(execution, violation) => {
                insert::violation(&transaction, redact, *execution, violation)?;
            }
            Job::Decision(decided) => insert::decision(&transaction, redact, decided)?,
            Job::Grant(granted) => insert::grant(&transaction, granted)?,
            Job::Event(event) => insert::event(&transaction, redact, event)?,
            Job::Touch { sandbox, time_ms } => {
                registry::touch(&transaction, sandbox, *time_ms)?;
            }
            Job::Flush(_) => {}
        }
    }
    transaction.commit()
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
