//! Commands in the background. They are judged and recorded like others; nobody is asked about what the fence
//! refuses them.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use ringfence_fence::Jobs;
use ringfence_fence::jobs::{JobInfo, JobOutput, JobState};
use ringfence_gate::Language;
use ringfence_model::{Assurance, Error, ErrorKind, ExecRequest, ExecResult, Result, Stdin};
use serde_json::{Value, json};

use super::args::{self, JobAction, JobSignal};
use super::toolbox::Tools;
use crate::session::SessionEvent;
use crate::session::ToolResult;
use crate::session::{Call, Ran};
use ringfence_fence::block_on as block;

/// How much one read gives at most.
const PIECE: usize = 64 << 10;
/// The longest that a read waits.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a waiting read looks.
const LOOK: Duration = Duration::from_millis(20);

impl Tools {
    pub(crate) fn jobs(&self, call: &mut Call, args: args::Jobs, arguments: &Value) -> Result<ToolResult> {
        if args.action == JobAction::Start {
            return self.start_job(call, args, arguments);
        }
        let id = match (&args.id, args.action) {
            (Some(id), _) => id.as_str(),
            (None, JobAction::List) => "",
            (None, _) => return Err(missing("id")),
        };
        let signal = match (args.action, args.signal) {
            (JobAction::Kill, _) => JobSignal::Kill,
            (JobAction::Signal, None) => return Err(missing("signal")),
            (_, signal) => signal.unwrap_or(JobSignal::Term),
        };
        if args.action == JobAction::Write && args.input.is_none() && !args.close_input {
            return Err(missing("input"));
        }
        if let Err(refused) = self.begin(call) {
            return Ok(*refused);
        }
        let jobs = &*self.workplace.jobs()?;
        match args.action {
            JobAction::Start | JobAction::List => return Ok(self.listed(&block(jobs.list())?)),
            JobAction::Read => return self.read_job(jobs, id, &args),
            JobAction::Write => {
                block(jobs.write(id, args.input.unwrap_or_default().as_bytes()))?;
                if args.close_input {
                    block(jobs.close_input(id))?;
                }
            }
            JobAction::Signal | JobAction::Kill => block(jobs.signal(id, number(signal)))?,
        }
        let now = block(jobs.list())?;
        let job = now.iter().find(|job| job.id == id).map(|job| self.described(job));
        Ok(ToolResult::text("").with("job", job))
    }

    fn start_job(&self, call: &mut Call, args: args::Jobs, arguments: &Value) -> Result<ToolResult> {
        let command = args.command.as_deref().ok_or_else(|| missing("command"))?;
        if command.trim().is_empty() {
            return Err(Error::new(ErrorKind::Validation, "the command is empty"));
        }
        let code = match self.admitted(call, Language::Shell, command, args.escalated, arguments)? {
            Ok(admitted) => admitted.code(),
            Err(refused) => return Ok(*refused),
        };
        let mut request = ExecRequest::shell(code.clone());
        request.timeout_ms = args.timeout_ms;
        request.tty = args.tty;
        let input = args.input.unwrap_or_default();
        // An input that the request has is closed after it.
        if args.close_input {
            request.stdin = Stdin::Bytes(input.clone().into_bytes());
        }
        let recorder = self.shared.core.recorder();
        let started = self.workplace.jobs().and_then(|jobs| {
            let job = block(jobs.start(request))?;
            Ok((jobs, job))
        });
        let (jobs, job) = started.inspect_err(|error| {
            call.execution.iter().for_each(|id| recorder.failed(*id, error));
        })?;
        self.watch(call, &jobs, &job);
        if !args.close_input && !input.is_empty() {
            block(jobs.write(&job.id, input.as_bytes()))?;
        }
        Ok(ToolResult::text(format!("started {}\n", job.id)).with("job", self.described(&job)))
    }

    /// Tells of the end of a job when it comes.
    fn watch(&self, call: &Call, jobs: &Arc<dyn Jobs>, job: &JobInfo) {
        let (jobs, core) = (Arc::clone(jobs), self.shared.core.clone());
        let (call, id, sandbox, started) =
            (call.clone(), job.id.clone(), self.workplace.assurance(), Instant::now());
        let watcher = std::thread::spawn(move || {
            if let Ok(ran) = core.record_job(&call, block(jobs.wait(&id)), sandbox, started) {
                let ExecResult { exit_code, signal, .. } = ran.result;
                core.recorder().emit(SessionEvent::JobEnded { call_id: call.id, job: id, exit_code, signal });
            }
        });
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.retain(|watcher| !watcher.is_finished());
        watchers.push(watcher);
    }

    fn read_job(&self, jobs: &dyn Jobs, id: &str, args: &args::Jobs) -> Result<ToolResult> {
        let most = args.limit.unwrap_or(PIECE).clamp(4, PIECE);
        let deadline = Instant::now() + Duration::from_millis(args.wait_ms).min(PATIENCE);
        let mut output = loop {
            let output = block(jobs.read(id, args.offset, most))?;
            let over = output.job.state != JobState::Running || Instant::now() >= deadline;
            if over || !output.bytes.is_empty() {
                break output;
            }
            std::thread::sleep(LOOK);
        };
        end_at_a_line(&mut output);
        let text = self
            .shared
            .core
            .questions()
            .redact()
            .redact(&String::from_utf8_lossy(&output.bytes))
            .into_owned();
        let ran = self.so_far(&output.job);
        let stderr = if is_last(&output) {
            self.shared.core.recorder().redact().redact(&ran.annotation).into_owned()
        } else {
            String::new()
        };
        let truncated = output.offset > args.offset || output.job.truncated;
        Ok(ToolResult { truncated, stderr, ..ToolResult::text(text) }
            .with("offset", output.offset)
            .with("nextOffset", output.next_offset())
            .with("job", self.described(&output.job)))
    }

    fn listed(&self, jobs: &[JobInfo]) -> ToolResult {
        let redact = self.shared.core.questions().redact();
        let mut text = String::new();
        for job in jobs {
            let state = match job.state {
                JobState::Running => "running".to_owned(),
                JobState::Ended { signal: Some(signal), .. } => format!("ended by signal {signal}"),
                JobState::Ended { exit_code, .. } => format!("ended with {exit_code}"),
            };
            text.push_str(&format!("{}  {state}  {}\n", job.id, redact.redact(&job.command)));
        }
        let jobs: Vec<Value> = jobs.iter().map(|job| self.described(job)).collect();
        ToolResult::text(text).with("jobs", jobs)
    }

    fn described(&self, job: &JobInfo) -> Value {
        let command = self.shared.core.questions().redact().redact(&job.command).into_owned();
        let mut value = json!({
            "id": job.id, "command": command, "state": "running", "outputBytes": job.output_bytes,
        });
        if let JobState::Ended { exit_code, signal } = job.state {
            value["state"] = "ended".into();
            value["exitCode"] = exit_code.into();
            value["signal"] = signal.into();
            value["blocked"] = job.blocked_resource.is_some().into();
            value["timedOut"] = job.timed_out.into();
        }
        let violations = self.so_far(job).result.violations;
        if !violations.is_empty() {
            let redact = self.shared.core.recorder().redact();
            let lines = violations.iter().map(|violation| redact.redact(&violation.one_line()).into_owned());
            value["violations"] = lines.collect::<Vec<_>>().into();
        }
        value
    }

    /// What the configuration lets be told of a job.
    fn so_far(&self, job: &JobInfo) -> Ran {
        self.shared.core.ran(job.result(Assurance::unsandboxed(), Duration::ZERO))
    }
}

/// Leaves the beginning of a line to the next read, where more may come: no character and no secret is cut. A piece
/// without a whole line is given as it is, up to its last whole character.
fn end_at_a_line(output: &mut JobOutput) {
    if is_last(output) {
        return;
    }
    if let Some(newline) = output.bytes.iter().rposition(|byte| *byte == b'\n') {
        output.bytes.truncate(newline + 1);
        return;
    }
    if let Some(chunk) = output.bytes.utf8_chunks().last() {
        // At most three bytes can be the beginning of a character.
        let open = chunk.invalid().len();
        let whole = output.bytes.len() - open;
        if whole > 0 && open > 0 && !chunk.valid().is_empty() {
            output.bytes.truncate(whole);
        }
    }
}

/// No more comes after this.
fn is_last(output: &JobOutput) -> bool {
    output.job.state != JobState::Running && output.next_offset() >= output.job.output_bytes
}

fn missing(field: &str) -> Error {
    Error::new(ErrorKind::Validation, format!("wrong arguments: this action needs `{field}`"))
}

fn number(signal: JobSignal) -> i32 {
    use rustix::process::Signal;
    let signal = match signal {
        JobSignal::Int => Signal::INT,
        JobSignal::Term => Signal::TERM,
        JobSignal::Kill => Signal::KILL,
        JobSignal::Hup => Signal::HUP,
        JobSignal::Quit => Signal::QUIT,
        JobSignal::Stop => Signal::STOP,
        JobSignal::Cont => Signal::CONT,
        JobSignal::Usr1 => Signal::USR1,
        JobSignal::Usr2 => Signal::USR2,
    };
    signal.as_raw()
}
