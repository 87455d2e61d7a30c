//! A shell: commands in turn, and a new bash when the old one is gone.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ringfence_fence::{Background, EventSink, Ticket};
use ringfence_model::LockExt as _;
use ringfence_model::{
    Assurance, Command, Error, ErrorKind, ExecRequest, ExecResult, Result, Stdin, Usage, shell_word,
};

use crate::approval::Approval;
use crate::fence::{HeldSandbox, LocalFence};
use crate::limit_violations;
use crate::shell::asking::Desk;
use crate::shell::driver;
use crate::shell::live::{self, Home, Live};
use crate::shell::watch::{End, Stopped, Watch, Watched};
use crate::verdict::blocking;
use crate::wake::Wake;

/// Less than the start of a program takes.
const AT_ONCE: Duration = Duration::from_micros(300);

/// How a shell is started.
#[derive(Clone)]
pub struct ShellOptions {
    /// Added to the sandbox's environment.
    pub env: BTreeMap<String, String>,
    /// Who is asked about refusals; none: nobody.
    pub approval: Option<Approval>,
    pub background: Background,
}

impl Default for ShellOptions {
    fn default() -> Self {
        Self { env: BTreeMap::new(), approval: None, background: Arc::new(|_| ()) }
    }
}

impl std::fmt::Debug for ShellOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShellOptions")
            .field("env", &self.env)
            .field("approval", &self.approval)
            .finish_non_exhaustive()
    }
}

/// A sandbox that several shells share. It is built when the first of them starts, and again when it is gone.
#[derive(Debug, Clone)]
pub struct SharedSandbox(pub(crate) Arc<HeldSandbox>);

impl SharedSandbox {
    /// `env` is added to the environment of all shells in it.
    #[must_use]
    pub fn new(fence: Arc<LocalFence>, env: &BTreeMap<String, String>) -> Self {
        let request = live::request(&fence, env);
        Self(Arc::new(HeldSandbox::new(fence, request)))
    }

    /// Ends everything inside. Shells that are used again build it anew.
    pub fn close(&self) {
        self.0.close();
    }
}

/// What others may do while a command runs.
#[derive(Debug)]
pub(crate) struct Control {
    disposed: AtomicBool,
    current: Mutex<Option<Ticket>>,
    pub(crate) wake: Arc<Wake>,
}

impl Control {
    /// Ends the command that runs, if one does.
    pub(crate) fn cancel(&self) {
        if let Some(ticket) = &*self.current() {
            ticket.cancel();
        }
    }

    /// Whether a command that was cancelled still runs.
    pub(crate) fn is_ending(&self) -> bool {
        self.current().as_ref().is_some_and(Ticket::is_cancelled)
    }

    /// Whether the command shall end.
    pub(crate) fn wants_end(&self, ticket: &Ticket) -> bool {
        ticket.is_cancelled() || self.disposed.load(Ordering::Acquire)
    }

    fn current(&self) -> MutexGuard<'_, Option<Ticket>> {
        self.current.locked()
    }
}

/// One bash in one sandbox. Commands from several threads wait for each other.
#[derive(Debug)]
pub struct Shell {
    home: Home,
    options: ShellOptions,
    control: Arc<Control>,
    desk: Option<Arc<Desk>>,
    live: Mutex<Option<Live>>,
}

impl Shell {
    /// Starts bash in a sandbox of its own.
    pub fn start(fence: Arc<LocalFence>, options: ShellOptions) -> Result<Self> {
        let request = live::request(&fence, &options.env);
        Self::start_at(Home::Own(fence, request), options)
    }

    /// Starts bash in a sandbox that it shares with others: the same files, processes and limits, but a directory,
    /// variables and commands of its own. What it starts ends with it. The environment is the sandbox's: that of the
    /// options must be empty.
    pub fn start_in(sandbox: &SharedSandbox, options: ShellOptions) -> Result<Self> {
        if !options.env.is_empty() {
            return Err(refused("shells that share a sandbox share its environment"));
        }
        Self::start_at(Home::Shared(Arc::clone(&sandbox.0)), options)
    }

    fn start_at(home: Home, options: ShellOptions) -> Result<Self> {
        let wake = Wake::new().map_err(|errno| {
            Error::new(ErrorKind::SpawnFailed, "cannot prepare a shell")
                .caused_by(std::io::Error::from(errno))
        })?;
        let control = Arc::new(Control {
            disposed: AtomicBool::new(false),
            current: Mutex::default(),
            wake: Arc::new(wake),
        });
        let desk =
            options.approval.clone().map(|approval| Arc::new(Desk::new(approval, Arc::clone(&control))));
        let live = Live::start(&home, desk.as_ref(), live::Streams::Nothing)?;
        Ok(Self { home, options, control, desk, live: Mutex::new(Some(live)) })
    }

    /// Runs a command and waits for its end. Bash keeps its state from one to the next; where it had to be
    /// replaced, the result says so. A command that may have run is never run again.
    pub fn execute(&self, request: &ExecRequest, events: EventSink<'_>) -> Result<ExecResult> {
        self.execute_as(&Ticket::new(), request, events)
    }

    /// As [`execute`](Self::execute), for a command that can be cancelled by its ticket at any time, also
    /// while it waits for others.
    pub fn execute_as(
        &self,
        ticket: &Ticket,
        request: &ExecRequest,
        events: EventSink<'_>,
    ) -> Result<ExecResult> {
        let command = text(request)?;
        let input = match &request.stdin {
            Stdin::Empty => None,
            Stdin::Bytes(bytes) => Some(bytes.as_slice()),
            Stdin::Inherit => return Err(refused("a command of a shell cannot have the caller's input")),
        };
        let mut slot = self.lock();
        let nonce = nonce()?;
        let request_bytes = driver::request(&nonce, &command, input)?;
        let wake = Arc::clone(&self.control.wake);
        ticket.wakes(Arc::new(move || wake.wake()));
        *self.control.current() = Some(ticket.clone());
        let result = self.take_turn(&mut slot, ticket, &command, &nonce, request_bytes, request, events);
        *self.control.current() = None;
        result
    }

    #[expect(clippy::too_many_arguments, reason = "one command, taken apart")]
    fn take_turn(
        &self,
        slot: &mut Option<Live>,
        ticket: &Ticket,
        command: &str,
        nonce: &str,
        bytes: driver::Request,
        request: &ExecRequest,
        events: EventSink<'_>,
    ) -> Result<ExecResult> {
        if self.control.disposed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::NotFound, "the shell was closed"));
        }
        if ticket.is_cancelled() {
            return Err(Error::new(ErrorKind::Cancelled, "cancelled before it ran"));
        }
        let started = Instant::now();
        let (pair, replaced) = self.make_fit(slot)?;
        let Some(live) = slot.as_ref() else {
            return Err(Error::new(ErrorKind::Internal, "there is no shell"));
        };
        let limits = &self.home.fence().policy().limits;
        let timeout = match (request.timeout_ms, limits.timeout_ms) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        if let Some(desk) = &self.desk {
            desk.turn_to(command, request.call.as_deref(), &live.bash);
        }
        let watch = Watch {
            live,
            pair,
            control: &self.control,
            ticket,
            nonce,
            request: &bytes.to(pair),
            deadline: timeout.map(|ms| started + Duration::from_millis(ms)),
            cap: Some(limits.kept_output()),
            events,
        };
        let watched = watch.run();
        let ended = match watched.end {
            End::Reported(status) => {
                let late = ticket.late().unwrap_or(&self.options.background);
                live.alone.set(live.outputs.lend_if_held(pair, &live.bash, late));
                (status, None)
            }
            End::Died | End::Spoiled => {
                let ended = slot.take().map(Live::finish).transpose()?;
                ended.map_or((1, None), |ended| (ended.exit_code, ended.signal))
            }
        };
        Ok(self.result(watched, ended, replaced, started))
    }

    /// Ends the command that runs, and its processes; bash stays where it can. Without one nothing happens;
    /// for a command that may not have begun there are [tickets](Ticket).
    pub fn cancel(&self) {
        self.control.cancel();
    }

    /// What makes another bash like this one, as commands: its directory, exported variables, functions, aliases
    /// and options.
    pub(crate) fn state(&self) -> Result<String> {
        const TELL: &str = "builtin printf 'builtin cd -- %q\\n' \"$PWD\"; builtin export -p; \
            builtin declare -f; builtin alias -p; builtin shopt -p; builtin set +o";
        let slot = self.lock();
        let Some(live) = slot.as_ref().filter(|live| live.is_fit(0)) else { return Ok(String::new()) };
        let pair = live.outputs.choose(&live.bash);
        let (nonce, control) = (nonce()?, &self.control);
        let watch = Watch {
            live,
            pair,
            control,
            ticket: &Ticket::new(),
            nonce: &nonce,
            request: &driver::request(&nonce, TELL, None)?.to(pair),
            deadline: None,
            cap: None,
            events: &|_| (),
        };
        let [stdout, _] = watch.run().outputs;
        let text = String::from_utf8(stdout.finish());
        text.map_err(|_| refused("the variables or functions of the shell are not UTF-8"))
    }

    /// Ends everything inside. Repeating it is harmless.
    pub fn dispose(&self) {
        self.control.disposed.store(true, Ordering::Release);
        self.control.wake.wake();
        drop(self.lock().take());
    }

    /// Which layers hold.
    #[must_use]
    pub fn assurance(&self) -> Assurance {
        self.home.fence().assurance()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Live>> {
        self.live.locked()
    }

    /// Puts a new bash in the place of one that is gone or spoiled; which outputs to use, and whether
    /// anything was lost.
    fn make_fit(&self, slot: &mut Option<Live>) -> Result<(usize, bool)> {
        if let Some(live) = slot {
            let pair = live.outputs.choose(&live.bash);
            if live.is_fit(pair) {
                return Ok((pair, false));
            }
        }
        let lost = slot.take().is_some();
        let start = || Live::start(&self.home, self.desk.as_ref(), live::Streams::Nothing);
        *slot = Some(match start() {
            // Nothing has run yet.
            Err(_) if self.home.has_ended() => start()?,
            started => started?,
        });
        Ok((0, lost))
    }

    fn result(
        &self,
        watched: Watched,
        (status, signal): (i32, Option<i32>),
        replaced: bool,
        started: Instant,
    ) -> ExecResult {
        let Watched { end, stopped, outputs: [stdout, stderr], mut violations } = watched;
        let (exit_code, signal) = match stopped {
            Some(Stopped::Timeout) => (124, signal),
            Some(Stopped::Cancel) => (128 + libc::SIGTERM, Some(libc::SIGTERM)),
            None => (status, signal),
        };
        let (blocked_reason, blocked_resource) = blocking(&violations, exit_code)
            .map(|violation| (violation.message.clone(), violation.resource.clone()))
            .unzip();
        let timed_out = stopped == Some(Stopped::Timeout);
        let reached =
            limit_violations::End { timed_out, signal, exit_code, cpu_us: None, lasted: started.elapsed() };
        let limits = &self.home.fence().policy().limits;
        violations.extend(limit_violations::by_one_process(limits, &reached, &[stdout.cut(), stderr.cut()]));
        // What ends well and at once has reached none of those that hold for all processes together.
        if let Home::Shared(sandbox) = &self.home
            && (exit_code != 0 || started.elapsed() > AT_ONCE)
        {
            violations.extend(sandbox.reached());
        }
        ExecResult {
            truncated: stdout.truncated() || stderr.truncated(),
            stdout: stdout.finish(),
            stderr: stderr.finish(),
            exit_code,
            signal,
            blocked: blocked_resource.is_some(),
            blocked_reason,
            blocked_resource,
            violations,
            runs_later: vec![],
            changed_remotes: vec![],
            connections: vec![],
            timed_out,
            restarted: replaced || !matches!(end, End::Reported(_)),
            duration_ms: started.elapsed().as_secs_f64() * 1000.0,
            usage: Usage::default(),
            sandbox: self.home.fence().assurance_of_command(),
        }
    }
}

fn refused(message: &str) -> Error {
    Error::new(ErrorKind::Validation, message)
}

fn text(request: &ExecRequest) -> Result<String> {
    if request.tty {
        return Err(refused("a command on a terminal is a job").hint("start it with Jobs"));
    }
    command_text(request)
}

/// The command as bash reads it.
pub(crate) fn command_text(request: &ExecRequest) -> Result<String> {
    if request.cwd.is_some() || !request.env.is_empty() {
        return Err(
            refused("a shell keeps its own directory and variables").hint("use cd and export in the command")
        );
    }
    match &request.command {
        Command::Shell(text) => Ok(text.clone()),
        Command::Argv(argv) => {
            let words: Option<Vec<String>> = argv.iter().map(|word| word.to_str().map(shell_word)).collect();
            words.map(|words| words.join(" ")).ok_or_else(|| refused("a word of the command is not UTF-8"))
        }
    }
}

/// Unknown to everybody until the command is sent.
pub(crate) fn nonce() -> Result<String> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).map_err(|errno| {
        Error::new(ErrorKind::Internal, "no random numbers").caused_by(std::io::Error::from(errno))
    })?;
    Ok(format!("{:016x}", u64::from_ne_bytes(bytes)))
}
