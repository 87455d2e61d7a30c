//! Recording without waiting.
//!
//! Recording pushes into a bounded queue and returns; it never waits, not even for a full queue. A thread
//! opens the file as soon as it starts, lets records gather for a moment and writes them in one transaction.
//! Whoever wants to be sure ([`Writer::flush`], [`Writer::close`], dropping) writes the rest itself
//! instead of waking the thread: waking another core costs more than the write.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringfence_model::{Error, ErrorKind, ExecResult, Violation};

use crate::ExecutionId;
use crate::record::{Decided, Event, ExecutionEnd, ExecutionStart, Granted};
use crate::redact::Redact;
use crate::scribe::{Job, Scribe};
use crate::spool::Spool;

/// Silence after which the log is tidied, or a failed write is tried again.
const IDLE: Duration = Duration::from_millis(100);
/// How long records gather. Many short commands share a transaction then, and none of them shares its processor with
/// one.
const GATHER: Duration = Duration::from_millis(5);
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
    /// Told about the first problem, once; on the writer's thread, or inside `flush` and `close`.
    pub on_problem: Box<dyn FnMut(&Error) + Send>,
}

impl WriterOptions {
    /// Everything that is written passes `redact` first: there is no writer without one.
    #[must_use]
    pub fn new(redact: Arc<dyn Redact>) -> Self {
        Self { capacity: 4096, busy: Duration::from_secs(1), redact, on_problem: Box::new(|_| {}) }
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

/// Records without making its caller wait. Dropping it writes what is left.
pub struct Writer {
    shared: Arc<Shared>,
    /// For records that need not be in the ledger itself yet.
    spool: Option<Mutex<Spool>>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

struct Shared {
    /// Locked before `queue` by whoever writes, so that records reach the file in the order of the queue.
    scribe: Mutex<Scribe>,
    queue: Mutex<Queue>,
    wake: Condvar,
    capacity: usize,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Given up because the queue was full.
    lost: u64,
    closed: bool,
}

impl Writer {
    /// Starts the thread, which opens the ledger at `path`. Never fails: problems go to `on_problem`.
    #[must_use]
    pub fn spawn(path: &Path, options: WriterOptions) -> Self {
        let writer = Self { shared: Arc::new(Shared::new(path, options)), spool: None };
        let shared = Arc::clone(&writer.shared);
        let thread = std::thread::Builder::new().name("ledger".to_owned()).stack_size(STACK);
        if let Err(error) = thread.spawn(move || shared.serve()) {
            // Flushing and closing still write, on the caller's thread.
            let problem = Error::new(ErrorKind::Internal, "cannot start the ledger's thread");
            lock(&writer.shared.scribe).tell(&problem.caused_by(error));
        }
        writer
    }

    /// For a program that runs one command, which would be over before the ledger is open. Records are appended to
    /// a file beside it, at once; whoever opens the ledger next takes them in. There is no thread.
    #[must_use]
    pub fn beside(path: &Path, options: WriterOptions) -> Self {
        let spool = Spool::new(path, Arc::clone(&options.redact));
        Self { shared: Arc::new(Shared::new(path, options)), spool: Some(Mutex::new(spool)) }
    }

    /// Remembers that a command is about to run; gives its id back.
    pub fn start(&self, start: ExecutionStart) -> ExecutionId {
        let id = start.id;
        self.push(Job::Start(Box::new(start)));
        id
    }

    /// Remembers what came of it, and each of its violations.
    pub fn finish(&self, id: ExecutionId, result: &ExecResult) {
        for job in end_of(id, result) {
            self.push(job);
        }
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

    /// Returns when everything recorded so far is written, or was given up.
    pub fn flush(&self) {
        self.shared.write_pending();
    }

    /// Writes what is left and ends.
    pub fn close(self) {}

    fn push(&self, job: Job) {
        if self.spool.as_ref().is_some_and(|spool| lock(spool).append(&job)) {
            return;
        }
        let mut queue = lock(&self.shared.queue);
        if queue.jobs.len() >= self.shared.capacity {
            queue.lost += 1;
            return;
        }
        queue.jobs.push_back(job);
        drop(queue);
        self.shared.wake.notify_one();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.write_pending();
        if self.spool.as_ref().is_some_and(|spool| lock(spool).is_long()) {
            lock(&self.shared.scribe).open();
        }
        lock(&self.shared.queue).closed = true;
        // The thread closes the file. Nobody waits for it: everything is written.
        self.shared.wake.notify_one();
    }
}

impl Shared {
    fn new(path: &Path, options: WriterOptions) -> Self {
        let capacity = options.capacity.max(1);
        let scribe = Mutex::new(Scribe::new(path.to_owned(), options));
        Self { scribe, queue: Mutex::default(), wake: Condvar::new(), capacity }
    }

    fn serve(&self) {
        let mut opened = lock(&self.scribe);
        opened.open();
        drop(opened);
        let mut tidy = false;
        loop {
            let queue = lock(&self.queue);
            let empty = |queue: &mut Queue| queue.jobs.is_empty() && !queue.closed;
            let queue = if tidy {
                self.wake
                    .wait_timeout_while(queue, IDLE, empty)
                    .map_or_else(|e| e.into_inner().0, |(queue, _)| queue)
            } else {
                self.wake.wait_while(queue, empty).unwrap_or_else(PoisonError::into_inner)
            };
            let (idle, closed) = (queue.jobs.is_empty(), queue.closed);
            drop(queue);
            if closed {
                return lock(&self.scribe).close();
            }
            if !idle {
                // Asleep, not waiting: nobody who records has to wake this thread meanwhile.
                std::thread::sleep(GATHER);
            }
            let started = self.write_pending();
            let mut scribe = lock(&self.scribe);
            if started {
                scribe.prepare_end();
            }
            if idle {
                // Nothing was recorded for a while. Copying back waits for the disk, and so would a command that
                // ends meanwhile; most commands that end soon have ended by now.
                scribe.copy_log_back();
            }
            tidy = scribe.has_pending() || !idle;
        }
    }

    /// Writes what has gathered. True when a command was started.
    fn write_pending(&self) -> bool {
        let mut scribe = lock(&self.scribe);
        let (jobs, lost) = {
            let mut queue = lock(&self.queue);
            (std::mem::take(&mut queue.jobs), std::mem::take(&mut queue.lost))
        };
        let started = jobs.iter().any(|job| matches!(job, Job::Start(_)));
        scribe.write(jobs, lost);
        started
    }
}

fn end_of(id: ExecutionId, result: &ExecResult) -> impl Iterator<Item = Job> {
    let violation = move |violation: &Violation| Job::Violation(Some(id), Box::new(violation.clone()));
    let end = Job::End(Box::new(ExecutionEnd::of(id, result)));
    result.violations.iter().map(violation).chain(std::iter::once(end))
}

/// A panic elsewhere must not silence the ledger.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
