//! Commands that go on in the background while others run.

use std::time::Duration;

pub use ringfence_model::TerminalSize;
use ringfence_model::{Assurance, ExecRequest, ExecResult, Result, Violation};

use crate::BoxFuture;

/// How a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// It has not ended.
    Running,
    /// It has ended.
    Ended {
        /// 128 and the number of the signal when one ended it.
        exit_code: i32,
        /// The signal that ended it, if one did.
        signal: Option<i32>,
    },
}

/// A job as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobInfo {
    /// The name that other calls know it by.
    pub id: String,
    /// As it was given.
    pub command: String,
    /// Whether it runs.
    pub state: JobState,
    /// How much it has written so far, kept or not.
    pub output_bytes: u64,
    /// Not all of that is kept.
    pub truncated: bool,
    /// It was ended at its time limit.
    pub timed_out: bool,
    /// What the fence refused it so far, and at its end the limits that it reached.
    pub violations: Vec<Violation>,
    /// The resource whose refusal makes it a blocked one, once it has ended.
    pub blocked_resource: Option<String>,
}

impl JobInfo {
    /// One that runs and was refused nothing, to be filled in.
    #[must_use]
    pub fn running(id: String, command: String) -> Self {
        Self {
            id,
            command,
            state: JobState::Running,
            output_bytes: 0,
            truncated: false,
            timed_out: false,
            violations: vec![],
            blocked_resource: None,
        }
    }

    /// As the result of a command, without what it wrote.
    #[must_use]
    pub fn result(&self, sandbox: Assurance, lasted: Duration) -> ExecResult {
        let (exit_code, signal) = match self.state {
            JobState::Running => (-1, None),
            JobState::Ended { exit_code, signal } => (exit_code, signal),
        };
        let resource = self.blocked_resource.as_ref();
        let blocking = self.violations.iter().rev().find(|violation| Some(&violation.resource) == resource);
        ExecResult {
            exit_code,
            signal,
            blocked: resource.is_some(),
            blocked_reason: blocking.map(|violation| violation.message.clone()),
            blocked_resource: resource.cloned(),
            violations: self.violations.clone(),
            timed_out: self.timed_out,
            truncated: self.truncated,
            duration_ms: lasted.as_secs_f64() * 1000.0,
            ..ExecResult::silent(sandbox)
        }
    }
}

/// A piece of what a job wrote, stdout and stderr in the order of their arrival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobOutput {
    /// Where the piece begins: later than asked for when what came before is no longer kept.
    pub offset: u64,
    /// The piece itself.
    pub bytes: Vec<u8>,
    /// The job as it stood when the piece was read.
    pub job: JobInfo,
}

impl JobOutput {
    /// Where to read on.
    #[must_use]
    pub fn next_offset(&self) -> u64 {
        self.offset.saturating_add(u64::try_from(self.bytes.len()).unwrap_or(u64::MAX))
    }
}

/// The background commands of one sandbox. They end with it. One with `tty` has a terminal of its own.
pub trait Jobs: Send + Sync + std::fmt::Debug {
    /// Starts a command and returns at once.
    fn start(&self, request: ExecRequest) -> BoxFuture<'_, Result<JobInfo>>;

    /// Those that run, and those that ended and were not forgotten.
    fn list(&self) -> BoxFuture<'_, Result<Vec<JobInfo>>>;

    /// At most `most` bytes of output from `offset` on; nothing when there is no more yet.
    fn read<'a>(&'a self, id: &'a str, offset: u64, most: usize) -> BoxFuture<'a, Result<JobOutput>>;

    /// Writes to its standard input.
    fn write<'a>(&'a self, id: &'a str, bytes: &'a [u8]) -> BoxFuture<'a, Result<()>>;

    /// Says that no more input comes.
    fn close_input<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<()>>;

    /// Sends a signal to all its processes.
    fn signal<'a>(&'a self, id: &'a str, signal: i32) -> BoxFuture<'a, Result<()>>;

    /// Tells its terminal how large it is; an error for one without.
    fn resize<'a>(&'a self, id: &'a str, size: TerminalSize) -> BoxFuture<'a, Result<()>>;

    /// Waits for its end.
    fn wait<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<JobInfo>>;

    /// Tells what it writes as it comes, until it has ended. For a thread of one's own: it is held meanwhile.
    fn follow<'a>(&'a self, id: &'a str, tell: OutputSink<'a>) -> BoxFuture<'a, Result<JobInfo>> {
        Box::pin(async move {
            let mut offset = 0;
            loop {
                let piece = self.read(id, offset, PIECE).await?;
                offset = piece.next_offset();
                match (piece.bytes.is_empty(), piece.job.state) {
                    (false, _) => tell(piece.bytes),
                    (true, JobState::Ended { .. }) => return Ok(piece.job),
                    (true, JobState::Running) => std::thread::sleep(GLANCE),
                }
            }
        })
    }
}

/// Hears what a job writes.
pub type OutputSink<'a> = &'a (dyn Fn(Vec<u8>) + Send + Sync);

/// How often is looked for what a job wrote, where it does not tell by itself.
const GLANCE: Duration = Duration::from_millis(20);
/// As much output as is told at once.
const PIECE: usize = 1 << 20;
