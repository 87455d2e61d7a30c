//! The shells of one sandbox: commands in turn, and a new shell when the old one is gone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringfence_fence::{Background, EventSink};
use ringfence_local::limit_violations;
use ringfence_model::{
    Assurance, Error, ErrorKind, ExecEvent, ExecRequest, ExecResult, Result, Stdin, Violation,
};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;

use super::live::{Heard, Live, Place, Report, Whose};
use super::script;
use super::turn::{End, Stopped, Turn, Turned, event};
use crate::engine::Task;

/// Events that wait for their reader; then the command waits.
const UNREAD: usize = 64;
/// How long the watchman or an idle shell may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// What ends well within this has reached no limit of the container.
const SHORT: Duration = Duration::from_millis(100);
/// How long the shells of a sandbox may take to end.
const END: Duration = Duration::from_secs(30);

/// Shells in one container, with nothing but `sh` inside.
pub(crate) struct Shells {
    shared: Arc<Shared>,
    by_name: Mutex<BTreeMap<Option<String>, Served>>,
}

struct Shared {
    place: Place,
    background: Option<Background>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Why nothing runs here any more.
    ended: Option<String>,
}

impl std::fmt::Debug for Shells {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shells").field("container", &self.shared.place.container).finish_non_exhaustive()
    }
}

/// A shell and the task that serves it.
struct Served {
    queue: mpsc::UnboundedSender<Job>,
    current: Arc<Mutex<Option<Arc<Notify>>>>,
    task: Task<()>,
}

struct Job {
    request: ExecRequest,
    cancel: Arc<Notify>,
    tell: mpsc::Sender<ExecEvent>,
    answer: oneshot::Sender<Result<ExecResult>>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn late(&self, event: ExecEvent) {
        if let Some(background) = &self.background {
            background(event);
        }
    }
}

impl Shells {
    /// Starts the main shell, so that what is wrong is known before the first command.
    pub(crate) async fn open(place: Place, background: Option<Background>) -> Result<Self> {
        let live = Live::start(&place).await?;
        let shared = Arc::new(Shared { place, background, state: Mutex::default() });
        let main = Served::new(&shared, Some(live));
        Ok(Self { shared, by_name: Mutex::new(BTreeMap::from([(None, main)])) })
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.shared.state().ended.is_none()
    }

    /// Runs a command in a shell, when it is its turn. When nobody waits for it any more, it is ended.
    pub(crate) async fn execute(
        &self,
        shell: Option<&str>,
        request: ExecRequest,
        assurance: Assurance,
        events: EventSink<'_>,
    ) -> Result<ExecResult> {
        if let Some(why) = &self.shared.state().ended {
            return Err(Error::new(ErrorKind::SandboxNotAvailable, format!("{why}; nothing ran")));
        }
        let (tell, mut told) = mpsc::channel(UNREAD);
        let (answer, mut answered) = oneshot::channel();
        let job = Job { request, cancel: Arc::default(), tell, answer };
        let queue = self.served(shell);
        queue.send(job).map_err(|_| gone())?;
        let result = loop {
            tokio::select! {
                biased;
                event = told.recv() => match event {
                    Some(event) => events(event),
                    None => break (&mut answered).await,
                },
                result = &mut answered => {
                    while let Ok(event) = told.try_recv() {
                        events(event);
                    }
                    break result;
                }
            }
        };
        let result = result.map_err(|_| gone())?;
        Ok(ExecResult { sandbox: assurance, ..result? })
    }

    fn served(&self, shell: Option<&str>) -> mpsc::UnboundedSender<Job> {
        let mut by_name = self.by_name();
        let served =
            by_name.entry(shell.map(str::to_owned)).or_insert_with(|| Served::new(&self.shared, None));
        served.queue.clone()
    }

    fn by_name(&self) -> MutexGuard<'_, BTreeMap<Option<String>, Served>> {
        self.by_name.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the command that runs in a shell, if one does.
    pub(crate) fn cancel(&self, shell: Option<&str>) {
        let current = self
            .by_name()
            .get(&shell.map(str::to_owned))
            .and_then(|served| served.current.lock().unwrap_or_else(PoisonError::into_inner).clone());
        if let Some(current) = current {
            current.notify_one();
        }
    }

    /// Ends a shell and what it runs.
    pub(crate) fn close_shell(&self, name: &str) {
        self.cancel(Some(name));
        if let Some(served) = self.by_name().remove(&Some(name.to_owned())) {
            let engine = self.shared.place.engine.clone();
            // It ends by itself, in its own time, once nobody can ask it for anything.
            let Served { queue, task, .. } = served;
            drop(queue);
            engine.detach(async move { drop(tokio::time::timeout(END, task).await) });
        }
    }

    /// Ends everything that runs in any shell, and waits for that.
    pub(crate) async fn close(&self) {
        self.shared.state().ended.get_or_insert_with(|| "the sandbox was closed".to_owned());
        let all = std::mem::take(&mut *self.by_name());
        let mut tasks = Vec::new();
        for (_, Served { queue, current, task }) in all {
            if let Some(current) = &*current.lock().unwrap_or_else(PoisonError::into_inner) {
                current.notify_one();
            }
            drop(queue);
            tasks.push(task);
        }
        let ending = async move {
            for task in tasks {
                let _ = task.await;
            }
        };
        let engine = &self.shared.place.engine;
        let _ = engine.spawn(async move { tokio::time::timeout(END, ending).await }).await;
    }
}

impl Served {
    fn new(shared: &Arc<Shared>, live: Option<Live>) -> Self {
        let (queue, jobs) = mpsc::unbounded_channel();
        let current = Arc::default();
        let steward =
            Steward { shared: Arc::clone(shared), live, replaced: false, current: Arc::clone(&current) };
        Self { queue, current, task: shared.place.engine.spawn(steward.serve(jobs)) }
    }
}

/// Serves one shell.
struct Steward {
    shared: Arc<Shared>,
    live: Option<Live>,
    /// A shell that was in use is gone, and its next command is told so.
    replaced: bool,
    current: Arc<Mutex<Option<Arc<Notify>>>>,
}

impl Steward {
    async fn serve(mut self, mut jobs: mpsc::UnboundedReceiver<Job>) {
        loop {
            let job = tokio::select! {
                job = jobs.recv() => job,
                heard = hear(&mut self.live) => {
                    self.between_commands(heard).await;
                    continue;
                }
            };
            let Some(job) = job else { break };
            *self.current() = Some(Arc::clone(&job.cancel));
            let Job { request, cancel, tell, answer } = job;
            let result = if tell.is_closed() || self.shared.state().ended.is_some() {
                Err(gone())
            } else {
                self.run(&request, &cancel, &tell).await
            };
            *self.current() = None;
            drop(tell);
            let _ = answer.send(result);
        }
        if let Some(live) = self.live.take() {
            live.end().await;
        }
    }

    fn current(&self) -> MutexGuard<'_, Option<Arc<Notify>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What comes between commands is of jobs that a command left behind, or the end of the shell.
    async fn between_commands(&mut self, heard: Option<Heard>) {
        match (heard, &self.live) {
            (Some(Heard::Output(index, bytes)), _) => self.shared.late(event(index, bytes)),
            (Some(heard), Some(live)) if !live.is_over(&heard) => {}
            _ => self.replace().await,
        }
    }

    /// Gives up the shell that is there, with all it started.
    async fn replace(&mut self) {
        if let Some(live) = self.live.take() {
            live.end().await;
            self.replaced = true;
        }
    }

    async fn run(
        &mut self,
        request: &ExecRequest,
        cancel: &Notify,
        tell: &mpsc::Sender<ExecEvent>,
    ) -> Result<ExecResult> {
        let text = script::text(request)?;
        let input = match &request.stdin {
            Stdin::Empty => None,
            Stdin::Bytes(bytes) => Some(bytes.as_slice()),
            Stdin::Inherit => {
                let message = "a command of a shell cannot have the caller's input";
                return Err(Error::new(ErrorKind::Validation, message));
            }
        };
        let place = &self.shared.place;
        let file = format!("{}/.ringfence-{}", place.scratch, script::nonce());
        let lines = script::request(&text, input, &file)?;
        let started = Instant::now();
        let timeout = match (request.timeout_ms, place.limits.timeout_ms) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let deadline = timeout.and_then(|limit| started.checked_add(Duration::from_millis(limit)));
        let cap = Some(place.limits.kept_output());
        let mut live = match self.live.take() {
            Some(live) => live,
            None => self.start().await?,
        };
        if let Some(cwd) = &request.cwd {
            let visit = format!("({})", script::change_to(cwd)?);
            match quiet(&mut live, &visit, deadline, cancel).await {
                Quiet::Done => {}
                Quiet::Refused(why) => {
                    self.live = Some(live);
                    let message = format!("{}: {why}", super::NO_SUCH_PLACE);
                    return Err(Error::new(ErrorKind::Validation, message));
                }
                Quiet::Broken => {
                    self.live = Some(live);
                    self.replace().await;
                    let message = "the shell ended before the command began; nothing ran";
                    return Err(Error::new(ErrorKind::SandboxNotAvailable, message));
                }
            }
        }
        let mut turned = Turn { live: &mut live, lines: &lines, deadline, cap, cancel, tell }.run().await;
        if matches!(turned.end, End::Gone(_)) && !turned.began {
            // The shell had ended before: nothing of the command has run.
            self.live = Some(live);
            self.replace().await;
            live = self.start().await?;
            turned = Turn { live: &mut live, lines: &lines, deadline, cap, cancel, tell }.run().await;
        }
        let exec = live.exec.clone();
        let limits = match turned.end {
            End::Reported(0) if turned.stopped.is_none() && started.elapsed() < SHORT => vec![],
            End::Lost(_) => vec![],
            _ => self.metered(&mut live).await,
        };
        // A signal to leave the command may have come when it had left it; when the shell has done nothing once more, it can't be on
        // its way to the next one.
        let fit = match (&turned.end, turned.stopped) {
            _ if !turned.whole => false,
            (End::Reported(_) | End::NoInput, None) => true,
            (End::Reported(_), Some(_)) => {
                matches!(quiet(&mut live, ":", None, &Notify::new()).await, Quiet::Done)
            }
            _ => false,
        };
        let lost = std::mem::take(&mut self.replaced);
        if fit {
            self.live = Some(live);
        } else {
            live.end().await;
        }
        for event in &turned.late {
            self.shared.late(event.clone());
        }
        let mut result = self.result(turned, lost || !fit, &exec, started).await?;
        result.violations.extend(limits);
        Ok(result)
    }

    /// A new shell; one that does not start ends the sandbox.
    async fn start(&mut self) -> Result<Live> {
        let started = Live::start(&self.shared.place).await;
        started.map_err(|error| {
            let why = "the container has no shell any more".to_owned();
            self.shared.state().ended.get_or_insert(why);
            let kind = ErrorKind::SandboxNotAvailable;
            Error::new(kind, "the container has no shell any more; nothing ran").caused_by(error)
        })
    }

    async fn result(
        &self,
        turned: Turned,
        restarted: bool,
        exec: &str,
        started: Instant,
    ) -> Result<ExecResult> {
        let Turned { end, stopped, outputs: [stdout, stderr], .. } = turned;
        let status = match end {
            End::Reported(status) | End::Gone(status) => status,
            End::Spoiled => 128 + 9,
            End::NoInput => {
                let message = format!(
                    "the command's input could not be put into {} of the container; it did not run",
                    self.shared.place.scratch
                );
                return Err(Error::new(ErrorKind::ResourceLimitExceeded, message).hint(
                    "give docker.tmpfs a directory with room, or put the input in a file of the workspace",
                ));
            }
            End::Lost(why) => self.status_of_lost(why, exec).await?,
        };
        let exit_code = match stopped {
            Some(Stopped::Timeout) => 124,
            Some(Stopped::Cancel) => 128 + 15,
            None => status,
        };
        let timed_out = stopped == Some(Stopped::Timeout);
        let signal = (stopped == Some(Stopped::Cancel)).then_some(15);
        let lasted = started.elapsed();
        let reached = limit_violations::End { timed_out, signal, exit_code, cpu_us: None, lasted };
        let violations = limit_violations::by_one_process(
            &self.shared.place.limits,
            &reached,
            &[stdout.cut(), stderr.cut()],
        );
        Ok(ExecResult {
            truncated: stdout.truncated() || stderr.truncated(),
            stdout: stdout.finish(),
            stderr: stderr.finish(),
            exit_code,
            signal,
            violations,
            timed_out,
            restarted,
            duration_ms: started.elapsed().as_secs_f64() * 1000.0,
            // Whoever asked says under which fence it ran.
            ..ExecResult::silent(Assurance::unsandboxed())
        })
    }

    /// The engine knows how a shell ended that could not say so itself.
    async fn status_of_lost(&self, why: Option<String>, exec: &str) -> Result<i32> {
        let unknown = |why: String| {
            let message = format!(
                "the connection to the container was lost ({why}) while the command ran; it may have done some of its work"
            );
            Error::new(ErrorKind::Unknown, message).hint("look at what it did before it is run again")
        };
        match why {
            Some(why) => Err(unknown(why)),
            None => match self.shared.place.engine.exit_code(exec).await {
                Ok(code) => Ok(code),
                Err(error) => {
                    let why = "the container engine does not answer".to_owned();
                    self.shared.state().ended.get_or_insert(why);
                    Err(unknown(error.chain()))
                }
            },
        }
    }

    /// Which limits of the container were reached since the last look.
    async fn metered(&self, live: &mut Live) -> Vec<Violation> {
        live.ask_meter();
        let now = loop {
            match tokio::time::timeout(PATIENCE, live.heard.recv()).await {
                Ok(Some(Heard::Report(Report::Meter { killed, refused }))) => break (killed, refused),
                Ok(Some(Heard::Output(index, bytes))) => self.shared.late(event(index, bytes)),
                Ok(Some(Heard::Report(_) | Heard::Over(Whose::Shell, _))) => {}
                Ok(Some(Heard::Over(Whose::Watchman, _)) | None) | Err(_) => return vec![],
            }
        };
        let before = std::mem::replace(&mut live.meter, now);
        limit_violations::of_the_container(now.0.saturating_sub(before.0), now.1.saturating_sub(before.1))
    }
}

/// The next thing that a shell says; never, without one. Whoever stops waiting has missed nothing.
async fn hear(live: &mut Option<Live>) -> Option<Heard> {
    match live {
        Some(live) => live.heard.recv().await,
        None => std::future::pending().await,
    }
}

/// What came of something of ours.
enum Quiet {
    Done,
    Refused(String),
    /// The shell is of no use any more.
    Broken,
}

/// Lets the shell do something of ours.
async fn quiet(live: &mut Live, text: &str, deadline: Option<Instant>, cancel: &Notify) -> Quiet {
    let Ok(lines) = script::request(text, None, "") else { return Quiet::Broken };
    let deadline = deadline.unwrap_or_else(|| Instant::now() + PATIENCE);
    let (tell, mut told) = mpsc::channel(UNREAD);
    let turn = Turn { live, lines: &lines, deadline: Some(deadline), cap: Some(4096), cancel, tell: &tell };
    let listen = async { while told.recv().await.is_some() {} };
    let turned = tokio::select! {
        turned = turn.run() => turned,
        () = listen => return Quiet::Broken,
    };
    let [_, stderr] = turned.outputs;
    match (turned.end, turned.stopped) {
        (End::Reported(0), None) => Quiet::Done,
        (End::Reported(_), None) => {
            Quiet::Refused(String::from_utf8_lossy(&stderr.finish()).trim_end().to_owned())
        }
        _ => Quiet::Broken,
    }
}

fn gone() -> Error {
    Error::new(ErrorKind::SandboxNotAvailable, "the sandbox was closed; nothing ran")
}
