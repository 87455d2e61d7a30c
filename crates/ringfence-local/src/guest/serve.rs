//! The guest: a local sandbox, used by lines.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringfence_fence::approval::Settled;
use ringfence_fence::{
    Approval, Approver, BoxFuture, CreateOptions, Hooks, Jobs, Question, Sandbox, wait_for,
};
use ringfence_model::LockExt as _;
use ringfence_model::{Decision, Error, ErrorKind, ExecEvent, ExecRequest, Result};
use tokio::sync::oneshot;

use super::job_wire::{JobAnswer, JobCall, size};
use super::meter::{Meter, sacrifice_children};
use super::through_user::{Nobody, Ways};
use super::wire::{Bytes, Failure, Order, Start, VERSION, Word};
use crate::offload::spawn;
use crate::provider::LocalSandbox;
use crate::way_out::Elsewhere;

/// Nothing here is waited for longer; commands have limits of their own.
const FOR_EVER: Duration = Duration::from_secs(u32::MAX as u64);

/// The longest line: a command with all of its input.
const LONGEST: u64 = 1 << 30;

/// Serves until the input ends. `environment` is the guest's own.
pub fn serve(
    input: impl BufRead,
    output: impl Write + Send + 'static,
    environment: BTreeMap<OsString, OsString>,
) -> Result<()> {
    let mut input = Lines { input, line: Vec::new() };
    let mouth = Arc::new(Mouth(Mutex::new(Box::new(output))));
    let start = match input.next()? {
        Some(Order::Start(start)) => *start,
        Some(_) => return Err(mouth.gives_up(Error::new(ErrorKind::Validation, "the first line must start"))),
        None => return Ok(()),
    };
    let guest = match Guest::start(start, environment, Arc::clone(&mouth)) {
        Ok(guest) => Arc::new(guest),
        Err(error) => return Err(mouth.gives_up(error)),
    };
    mouth.say(&Word::Ready { version: VERSION, assurance: guest.sandbox.assurance() });
    while let Some(order) = input.next()? {
        guest.obey(order)?;
    }
    guest.ways.iter().for_each(|ways| ways.is_alone());
    wait_for(guest.sandbox.dispose(), FOR_EVER).unwrap_or(Ok(()))
}

struct Lines<I> {
    input: I,
    line: Vec<u8>,
}

impl<I: BufRead> Lines<I> {
    /// The next line; none at the end of the input.
    fn next(&mut self) -> Result<Option<Order>> {
        use std::io::Read as _;
        self.line.clear();
        let read = (&mut self.input).take(LONGEST).read_until(b'\n', &mut self.line);
        let read =
            read.map_err(|error| Error::new(ErrorKind::Internal, "cannot read an order").caused_by(error))?;
        // Half a line is none: whoever wrote it is gone.
        if read == 0 || self.line.last() != Some(&b'\n') {
            return Ok(None);
        }
        serde_json::from_slice(&self.line)
            .map(Some)
            .map_err(|error| Error::new(ErrorKind::Validation, "not an order").caused_by(error))
    }
}

/// Says one thing at a time.
struct Mouth(Mutex<Box<dyn Write + Send>>);

impl std::fmt::Debug for Mouth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mouth")
    }
}

impl Mouth {
    fn say(&self, word: &Word) {
        let Ok(mut line) = serde_json::to_vec(word) else { return };
        line.push(b'\n');
        let mut out = self.0.locked();
        // Whoever stopped listening has closed the input too.
        let _ = out.write_all(&line).and_then(|()| out.flush());
    }

    fn gives_up(&self, error: Error) -> Error {
        self.say(&Word::Failed { id: None, error: Failure::from(&error) });
        error
    }
}

#[derive(Debug)]
struct Guest {
    sandbox: Arc<dyn Sandbox>,
    mouth: Arc<Mouth>,
    running: Mutex<BTreeMap<u64, Option<String>>>,
    counter: Arc<Counter>,
    /// Where connections are made for the guest.
    ways: Option<Arc<Ways>>,
}

impl Guest {
    fn start(start: Start, mut environment: BTreeMap<OsString, OsString>, mouth: Arc<Mouth>) -> Result<Self> {
        if start.version != VERSION {
            let message = format!(
                "the guest in the sandbox speaks version {VERSION}, whoever uses it {}",
                start.version
            );
            return Err(Error::new(ErrorKind::SandboxNotAvailable, message)
                .hint("make the sandbox again, with the guest of this version"));
        }
        environment.extend(start.environment.into_iter().map(|(name, value)| (name.into(), value.into())));
        let counter = Arc::new(Counter::new(Arc::clone(&mouth)));
        let approval = start.ask.map(|ask| {
            let (asked, settled) = (Arc::clone(&counter), Arc::clone(&counter));
            Approval {
                approver: asked,
                about: ask.about(),
                timeout: Duration::from_millis(ask.timeout_ms),
                on_settled: Arc::new(move |result: &Settled| settled.settled(result)),
            }
        });
        let late = Arc::clone(&mouth);
        let options = CreateOptions {
            cwd: start.cwd,
            policy: start.policy,
            environment,
            provider_options: start.options.into(),
            hooks: Hooks {
                scope_key: None,
                progress: None,
                approval,
                background: Some(Arc::new(move |event| match event {
                    ExecEvent::Stdout(data) => late.say(&Word::Late { stderr: false, data: Bytes(data) }),
                    ExecEvent::Stderr(data) => late.say(&Word::Late { stderr: true, data: Bytes(data) }),
                    _ => (),
                })),
            },
        };
        let out = Arc::clone(&mouth);
        let made = start.connects.then(|| Ways::new(move |word| out.say(&Word::Out { word })));
        let ways = made.transpose().map_err(|errno| {
            Error::new(ErrorKind::InitializationFailed, "cannot carry connections")
                .caused_by(std::io::Error::from(errno))
        })?;
        let elsewhere: Arc<dyn Elsewhere> = match &ways {
            Some(ways) => Arc::clone(ways) as _,
            None => Arc::new(Nobody),
        };
        let sandbox = Arc::new(LocalSandbox::start_in(options, Some(elsewhere))?);
        sacrifice_children();
        Ok(Self { sandbox, mouth, running: Mutex::default(), counter, ways })
    }

    fn obey(self: &Arc<Self>, order: Order) -> Result<()> {
        match order {
            Order::Start(_) => Err(Error::new(ErrorKind::Validation, "it was started already")),
            Order::Run { id, shell, request } => {
                self.running().insert(id, shell.clone());
                let its = Arc::clone(self);
                spawn(move || its.run(id, shell.as_deref(), ExecRequest::from(*request)))
            }
            Order::Cancel { id } => {
                let its = Arc::clone(self);
                spawn(move || its.cancel(id))
            }
            Order::Close { shell } => {
                let its = Arc::clone(self);
                spawn(move || {
                    if let Ok(sandbox) = its.shell(Some(&shell)) {
                        wait_for(sandbox.dispose(), FOR_EVER);
                    }
                })
            }
            Order::Job { id, call } => {
                let its = Arc::clone(self);
                spawn(move || its.job(id, call))
            }
            Order::Answer { question, decision } => {
                self.counter.answer(question, decision);
                Ok(())
            }
            Order::Out { order } => {
                if let Some(ways) = &self.ways {
                    ways.hear(order);
                }
                Ok(())
            }
        }
    }

    fn running(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Option<String>>> {
        self.running.locked()
    }

    fn shell(&self, name: Option<&str>) -> Result<Arc<dyn Sandbox>> {
        let Some(name) = name else { return Ok(Arc::clone(&self.sandbox)) };
        wait_for(self.sandbox.shell(name), FOR_EVER)
            .unwrap_or_else(|| Err(Error::new(ErrorKind::Timeout, "the shell did not start")))
    }

    fn run(&self, id: u64, shell: Option<&str>, request: ExecRequest) {
        let events = |event| match event {
            ExecEvent::Stdout(data) => self.mouth.say(&Word::Stdout { id, data: Bytes(data) }),
            ExecEvent::Stderr(data) => self.mouth.say(&Word::Stderr { id, data: Bytes(data) }),
            ExecEvent::Violation(violation) => self.mouth.say(&Word::Violation { id, violation }),
            _ => (),
        };
        let before = Meter::read();
        if let Some(ways) = &self.ways {
            ways.begins();
        }
        let mut outcome = self.shell(shell).and_then(|shell| {
            wait_for(shell.execute(request, &events), FOR_EVER)
                .unwrap_or_else(|| Err(Error::new(ErrorKind::Timeout, "the command did not end")))
        });
        self.running().remove(&id);
        let news = self.ways.as_ref().map(|ways| ways.settle()).unwrap_or_default();
        for violation in &news {
            events(ExecEvent::Violation(Box::new(violation.clone())));
        }
        if let Ok(result) = &mut outcome {
            result.violations.extend(news);
            result.violations.extend(Meter::read().since(before));
            if result.restarted {
                sacrifice_children();
            }
        }
        match outcome {
            Ok(result) => self.mouth.say(&Word::Result { id, result: Box::new(result) }),
            Err(error) => self.mouth.say(&Word::Failed { id: Some(id), error: Failure::from(&error) }),
        }
    }

    fn job(&self, id: u64, call: JobCall) {
        let never = || Err(Error::new(ErrorKind::Timeout, "the job did not answer"));
        let answer = match self.sandbox.jobs() {
            Some(jobs) => wait_for(Box::pin(about_job(jobs, call)), FOR_EVER).unwrap_or_else(never),
            None => Err(Error::new(ErrorKind::Unsupported, "this sandbox has no jobs")),
        };
        match answer {
            Ok(answer) => self.mouth.say(&Word::Job { id, answer }),
            Err(error) => self.mouth.say(&Word::Failed { id: Some(id), error: Failure::from(&error) }),
        }
    }

    /// What has ended meanwhile is left alone.
    fn cancel(&self, id: u64) {
        let Some(shell) = self.running().get(&id).cloned() else { return };
        if let Ok(shell) = self.shell(shell.as_deref()) {
            wait_for(shell.cancel(), FOR_EVER);
        }
    }
}

async fn about_job(jobs: &dyn Jobs, call: JobCall) -> Result<JobAnswer> {
    Ok(match call {
        JobCall::Start { request } => JobAnswer::Job { job: jobs.start((*request).into()).await?.into() },
        JobCall::List => JobAnswer::Jobs { jobs: jobs.list().await?.into_iter().map(Into::into).collect() },
        JobCall::Read { job, offset, most } => jobs.read(&job, offset, most).await?.into(),
        JobCall::Write { job, data } => jobs.write(&job, &data.0).await.map(|()| JobAnswer::Done)?,
        JobCall::CloseInput { job } => jobs.close_input(&job).await.map(|()| JobAnswer::Done)?,
        JobCall::Signal { job, signal } => jobs.signal(&job, signal).await.map(|()| JobAnswer::Done)?,
        JobCall::Resize { job, rows, columns } => {
            jobs.resize(&job, size(rows, columns)).await.map(|()| JobAnswer::Done)?
        }
        JobCall::Wait { job } => JobAnswer::Job { job: jobs.wait(&job).await?.into() },
    })
}

/// Passes questions on, and answers back.
#[derive(Debug)]
struct Counter {
    mouth: Arc<Mouth>,
    last: AtomicU64,
    waiting: Mutex<BTreeMap<u64, oneshot::Sender<Decision>>>,
    /// Which question was about this, until it is settled.
    asked: Mutex<Vec<(Question, u64)>>,
}

impl Counter {
    fn new(mouth: Arc<Mouth>) -> Self {
        Self { mouth, last: AtomicU64::new(0), waiting: Mutex::default(), asked: Mutex::default() }
    }

    fn answer(&self, question: u64, decision: Decision) {
        let waiting = self.waiting.locked().remove(&question);
        if let Some(waiting) = waiting {
            // The clock may have answered.
            let _ = waiting.send(decision);
        }
    }

    fn settled(&self, settled: &Settled) {
        let mut asked = self.asked.locked();
        // The answer may have changed what the question offers, not what it is about.
        let about = |question: &Question| {
            let violation = &question.violation;
            (violation.operation, violation.resource.clone(), violation.pid, violation.time_ms)
        };
        let its = about(&settled.question);
        let Some(at) = asked.iter().position(|(question, _)| about(question) == its) else { return };
        let (_, question) = asked.swap_remove(at);
        drop(asked);
        self.waiting.locked().remove(&question);
        self.mouth.say(&Word::Settled { question, problem: settled.problem.clone() });
    }
}

impl Approver for Counter {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Decision> {
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        let (tell, told) = oneshot::channel();
        self.waiting.locked().insert(number, tell);
        self.asked.locked().push((question.clone(), number));
        self.mouth.say(&Word::Question {
            question: number,
            violation: Box::new(question.violation.clone()),
            command: question.command.clone(),
            grant: question.grant.clone(),
        });
        Box::pin(async move { told.await.unwrap_or(Decision::Deny) })
    }
}
