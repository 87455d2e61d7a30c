//! The background commands of a session, and its commands on terminals.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ringfence::fence::jobs::{JobInfo, JobState, TerminalSize};
use ringfence::local::shell::JobOptions;
use ringfence::model::{Assurance, Error, ErrorKind, ExecEvent, ExecResult, Result};
use serde_json::{Value, json};

use super::place::{AllJobs, Kept, Place, block};
use super::wire::{Job, Order, Wire, text_or_base64};

/// How long a command on a terminal that was cancelled may take before it is killed.
const GRACE: Duration = Duration::from_millis(200);
/// How often is looked for what a terminal elsewhere says.
const GLANCE: Duration = Duration::from_millis(20);
const TERM: i32 = 15;
const KILL: i32 = 9;
/// As much output as one line has at most, unless it asks for less.
const MOST: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Yard {
    jobs: AllJobs,
    wire: Arc<Wire>,
    /// Which job a running command on a terminal is.
    terminals: Mutex<BTreeMap<String, String>>,
}

impl Yard {
    pub(crate) fn new(place: &Place, wire: Arc<Wire>) -> Self {
        Self { jobs: place.jobs(), wire, terminals: Mutex::default() }
    }

    /// Starts it in the background, and says so.
    pub(crate) fn start(&self, job: &Job, shell: &Kept) -> Result<JobInfo> {
        let started = match (&self.jobs, shell) {
            (AllJobs::Local(jobs), Kept::Local(shell)) => {
                let options = JobOptions { like: Some(shell), size: job.size, output: None };
                jobs.start(&job.request, &options)?
            }
            (AllJobs::Local(_), Kept::Other(sandbox)) | (AllJobs::Other(sandbox), _) => {
                let started = block(AllJobs::of(&**sandbox)?.start(job.request.clone()))?;
                if let Some(size) = job.size {
                    self.jobs.resize(&started.id, size)?;
                }
                started
            }
        };
        self.wire.send(&json!({ "id": job.id, "event": "job", "job": described(&started) }));
        Ok(started)
    }

    /// Waits for the end of a job, and says so.
    pub(crate) fn until_end(&self, id: &Value, job: &JobInfo, sandbox: Assurance) -> Result<ExecResult> {
        let started = Instant::now();
        let ended = self.jobs.wait(&job.id)?;
        self.wire.send(&json!({ "id": id, "event": "job", "job": described(&ended) }));
        self.result(&ended, started, sandbox)
    }

    /// Runs it on a terminal to its end.
    pub(crate) fn run(&self, job: &Job, shell: &Kept, name: &str) -> Result<ExecResult> {
        let started = Instant::now();
        let key = job.id.to_string();
        let ended = match (&self.jobs, shell) {
            (AllJobs::Local(jobs), Kept::Local(shell)) => {
                let (wire, id, name) = (Arc::clone(&self.wire), job.id.clone(), name.to_owned());
                let output = Arc::new(move |event| wire.event(&id, &name, &event));
                let options = JobOptions { like: Some(shell), size: job.size, output: Some(output) };
                let its = jobs.start(&job.request, &options)?.id;
                self.terminals().insert(key.clone(), its.clone());
                jobs.wait(&its)
            }
            (AllJobs::Local(_), Kept::Other(sandbox)) | (AllJobs::Other(sandbox), _) => {
                let its = block(AllJobs::of(&**sandbox)?.start(job.request.clone()))?.id;
                self.terminals().insert(key.clone(), its.clone());
                job.size.map_or(Ok(()), |size| self.jobs.resize(&its, size)).and_then(|()| {
                    self.pass_on(&its, &mut |bytes| self.wire.event(&job.id, name, &ExecEvent::Stdout(bytes)))
                })
            }
        };
        self.terminals().remove(&key);
        self.result(&ended?, started, shell.assurance())
    }

    /// Tells what a job writes until it has ended.
    fn pass_on(&self, id: &str, tell: &mut dyn FnMut(Vec<u8>)) -> Result<JobInfo> {
        let mut offset = 0;
        loop {
            let piece = self.jobs.read(id, offset, MOST)?;
            offset = piece.next_offset();
            let ended = piece.job.state != JobState::Running;
            match (piece.bytes.is_empty(), ended) {
                (false, _) => tell(piece.bytes),
                (true, true) => return Ok(piece.job),
                (true, false) => std::thread::sleep(GLANCE),
            }
        }
    }

    fn result(&self, job: &JobInfo, started: Instant, sandbox: Assurance) -> Result<ExecResult> {
        let kept = self.jobs.read(&job.id, 0, usize::MAX)?;
        let (exit_code, signal) = match job.state {
            JobState::Ended { exit_code, signal } => (exit_code, signal),
            JobState::Running => (-1, None),
        };
        Ok(ExecResult {
            stdout: kept.bytes,
            exit_code,
            signal,
            timed_out: exit_code == 124,
            truncated: kept.offset > 0,
            duration_ms: started.elapsed().as_secs_f64() * 1000.0,
            ..ExecResult::silent(sandbox)
        })
    }

    /// Ends the command on a terminal of this id, if there is one.
    pub(crate) fn cancel(self: &Arc<Self>, id: &Value) {
        let Some(job) = self.terminals().get(&id.to_string()).cloned() else { return };
        let _ = self.jobs.signal(&job, TERM);
        let its = Arc::clone(self);
        std::thread::spawn(move || {
            std::thread::sleep(GRACE);
            let _ = its.jobs.signal(&job, KILL);
        });
    }

    /// Does what a line wants of a job, and answers.
    pub(crate) fn order(&self, id: &Value, order: &Order) {
        if let Err(error) = self.carry_out(id, order) {
            self.wire.failed(id, error.kind, &error.chain());
        }
    }

    fn carry_out(&self, id: &Value, order: &Order) -> Result<()> {
        if order.list {
            let jobs: Vec<Value> = self.jobs.list()?.iter().map(described).collect();
            self.wire.send(&json!({ "id": id, "event": "jobs", "jobs": jobs }));
            return Ok(());
        }
        let job =
            match &order.job {
                Some(job) => job.clone(),
                None => self.terminals().get(&id.to_string()).cloned().ok_or_else(|| {
                    Error::new(ErrorKind::NotFound, "no command of this id is on a terminal")
                })?,
            };
        if let Some(input) = &order.input {
            self.jobs.write(&job, input.as_bytes())?;
        }
        if order.close_input {
            self.jobs.close_input(&job)?;
        }
        if let Some(size) = order.resize {
            self.jobs.resize(&job, size)?;
        }
        if let Some(signal) = order.signal {
            self.jobs.signal(&job, signal)?;
        }
        if order.job.is_none() {
            // Its output comes by itself.
            return Ok(());
        }
        let piece = self.jobs.read(&job, order.offset.unwrap_or(u64::MAX / 2), order.max.unwrap_or(MOST))?;
        let mut line = json!({ "id": id, "event": "job", "job": described(&piece.job) });
        if order.offset.is_some() {
            line["offset"] = json!(piece.offset);
            line["nextOffset"] = json!(piece.next_offset());
            line["data"] = text_or_base64(&piece.bytes);
        }
        self.wire.send(&line);
        Ok(())
    }

    fn terminals(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        self.terminals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn described(job: &JobInfo) -> Value {
    let mut line = json!({ "id": job.id, "command": job.command, "outputBytes": job.output_bytes });
    match job.state {
        JobState::Running => line["state"] = json!("running"),
        JobState::Ended { exit_code, signal } => {
            line["state"] = json!("ended");
            line["exitCode"] = json!(exit_code);
            line["signal"] = json!(signal);
        }
    }
    line
}

/// What a person's terminal would have.
pub(crate) fn size(rows: Option<u16>, columns: Option<u16>) -> Option<TerminalSize> {
    (rows.is_some() || columns.is_some())
        .then(|| TerminalSize { rows: rows.unwrap_or(24), columns: columns.unwrap_or(80) })
}
