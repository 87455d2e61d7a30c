//! The background commands of a session, and its commands on terminals.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringfence::fence::block_on;
use ringfence::fence::jobs::{JobInfo, JobState, Jobs, TerminalSize};
use ringfence::model::{Assurance, Error, ErrorKind, ExecEvent, ExecRequest, ExecResult, Result};
use ringfence::session::{Call, Core, Shell, Workplace};
use serde_json::{Value, json};

use super::wire::{Job, Order, Wire, text_or_base64};

/// How long a command on a terminal that was cancelled may take before it is killed.
const GRACE: Duration = Duration::from_millis(200);
/// How often is looked whether the end of a job was heard.
const GLANCE: Duration = Duration::from_millis(2);
const TERM: i32 = 15;
const KILL: i32 = 9;
/// As much output as one line has at most, unless it asks for less.
const MOST: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct SessionJobs {
    core: Core,
    place: Arc<dyn Workplace>,
    wire: Arc<Wire>,
    /// Which job a running command on a terminal is.
    terminals: Mutex<BTreeMap<String, String>>,
    /// The threads that wait for the ends of those in the background.
    watchers: Mutex<Vec<JoinHandle<()>>>,
}

impl SessionJobs {
    pub(crate) fn new(core: &Core, place: Arc<dyn Workplace>, wire: Arc<Wire>) -> Self {
        Self { core: core.clone(), place, wire, terminals: Mutex::default(), watchers: Mutex::default() }
    }

    /// Starts an admitted command, and says so. One on a terminal that is not in the background is followed to its end;
    /// of others the ledger, and whoever reads, hear when they end.
    pub(crate) fn run(
        self: &Arc<Self>,
        call: &Call,
        job: &Job,
        request: ExecRequest,
        shell: &Shell,
        name: &str,
    ) -> Result<Option<ExecResult>> {
        let (started, assurance) = (Instant::now(), shell.assurance());
        let begun = shell.jobs().and_then(|jobs| {
            let info = block_on(jobs.start(request))?;
            Ok((jobs, info))
        });
        let (jobs, info) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                let failed = self.core.job_ended(call, Err(error), assurance, started);
                return failed.map(|_| None);
            }
        };
        if job.background {
            self.wire.send(&json!({ "id": job.id, "event": "job", "job": self.described(&info) }));
            let (its, call, id) = (Arc::clone(self), call.clone(), job.id.clone());
            let watcher = std::thread::spawn(move || {
                let ended = block_on(jobs.wait(&info.id));
                if let Ok(ended) = &ended {
                    its.wire.send(&json!({ "id": id, "event": "job", "job": its.described(ended) }));
                }
                let _ = its.core.job_ended(&call, ended, assurance, started);
            });
            self.watchers().push(watcher);
            return Ok(None);
        }
        let key = job.id.to_string();
        self.terminals().insert(key.clone(), info.id.clone());
        let tell = |bytes| self.wire.event(&job.id, name, &ExecEvent::Stdout(bytes));
        let ended = block_on(jobs.follow(&info.id, &tell));
        self.terminals().remove(&key);
        let kept = block_on(jobs.read(&info.id, 0, usize::MAX));
        let ran = self.core.job_ended(call, ended, assurance, started)?;
        Ok(Some(ExecResult { stdout: kept?.bytes, ..ran.result }))
    }

    fn jobs(&self) -> Result<Arc<dyn Jobs>> {
        self.place.jobs()
    }

    /// Ends the command on a terminal of this id, if there is one.
    pub(crate) fn cancel(self: &Arc<Self>, id: &Value) {
        let Some(job) = self.terminals().get(&id.to_string()).cloned() else { return };
        let Ok(jobs) = self.jobs() else { return };
        let _ = block_on(jobs.signal(&job, TERM));
        std::thread::spawn(move || {
            std::thread::sleep(GRACE);
            let _ = block_on(jobs.signal(&job, KILL));
        });
    }

    /// Does what a line wants of a job, and answers.
    pub(crate) fn order(&self, id: &Value, order: &Order) {
        if let Err(error) = self.carry_out(id, order) {
            self.wire.failed(id, error.kind, &error.chain());
        }
    }

    fn carry_out(&self, id: &Value, order: &Order) -> Result<()> {
        let jobs = self.jobs()?;
        if order.list {
            let jobs: Vec<Value> = block_on(jobs.list())?.iter().map(|job| self.described(job)).collect();
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
            block_on(jobs.write(&job, input.as_bytes()))?;
        }
        if order.close_input {
            block_on(jobs.close_input(&job))?;
        }
        if let Some(size) = order.resize {
            block_on(jobs.resize(&job, size))?;
        }
        if let Some(signal) = order.signal {
            block_on(jobs.signal(&job, signal))?;
        }
        if order.job.is_none() {
            // Its output comes by itself.
            return Ok(());
        }
        let piece =
            block_on(jobs.read(&job, order.offset.unwrap_or(u64::MAX / 2), order.max.unwrap_or(MOST)))?;
        let mut line = json!({ "id": id, "event": "job", "job": self.described(&piece.job) });
        if order.offset.is_some() {
            line["offset"] = json!(piece.offset);
            line["nextOffset"] = json!(piece.next_offset());
            line["data"] = text_or_base64(&piece.bytes);
        }
        self.wire.send(&line);
        Ok(())
    }

    /// Hears how the jobs of a sandbox that is gone have ended.
    pub(crate) fn finish(&self) {
        let deadline = Instant::now() + GRACE;
        while self.watchers().iter().any(|watcher| !watcher.is_finished()) && Instant::now() < deadline {
            std::thread::sleep(GLANCE);
        }
    }

    fn watchers(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn described(&self, job: &JobInfo) -> Value {
        let mut line = json!({ "id": job.id, "command": job.command, "outputBytes": job.output_bytes });
        match job.state {
            JobState::Running => line["state"] = json!("running"),
            JobState::Ended { exit_code, signal } => {
                line["state"] = json!("ended");
                line["exitCode"] = json!(exit_code);
                line["signal"] = json!(signal);
                line["blocked"] = json!(job.blocked_resource.is_some());
                line["timedOut"] = json!(job.timed_out);
            }
        }
        let told = self.core.ran(job.result(Assurance::unsandboxed(), Duration::ZERO));
        if !told.result.violations.is_empty() {
            line["violations"] = json!(told.result.violations);
        }
        line
    }

    fn terminals(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.terminals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The size that was asked for, filled up with that of a usual terminal.
pub(crate) fn size(rows: Option<u16>, columns: Option<u16>) -> Option<TerminalSize> {
    (rows.is_some() || columns.is_some())
        .then(|| TerminalSize { rows: rows.unwrap_or(24), columns: columns.unwrap_or(80) })
}
