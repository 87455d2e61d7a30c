//! One running bash: its sandbox, its channels, and the thread that serves them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ringfence_linux::plan::{LOWEST_SOURCE, Passed};
use ringfence_linux::supervisor;
use ringfence_model::LockExt as _;
use ringfence_model::{Error, ErrorKind, ExecEvent, ExecRequest, ExecResult, Result, Violation};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;
use rustix::termios::Winsize;

use crate::approval::Approval;
use crate::fence::{ExtraCommand, HeldSandbox, LocalFence};
use crate::shell::asking::Desk;
use crate::shell::channel::{Channel, Pair};
use crate::shell::driver;
use crate::shell::outputs::Outputs;
use crate::shell::session::nonce;
use crate::shell::tree::Seen;
use crate::wake::Wake;

/// How long a sandbox and bash may take to start.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long bash may take from its report to waiting for the next command: much longer than it needs, for
/// machines with a lot to do.
const SETTLING: Duration = Duration::from_secs(2);

/// How many different refusals wait for the command to whose result they belong.
const MOST_WAITING: usize = 1000;

/// What comes from the thread that serves a sandbox.
#[derive(Debug)]
pub(crate) struct Feed {
    violations: Mutex<Vec<Violation>>,
    /// More than are kept.
    left_out: AtomicU64,
    /// Reported when they were decided; the end of the sandbox reports them again.
    decided: Mutex<Vec<Violation>>,
    over: AtomicBool,
    pub(crate) wake: Wake,
}

impl Feed {
    fn new() -> rustix::io::Result<Self> {
        Ok(Self {
            violations: Mutex::default(),
            left_out: AtomicU64::new(0),
            decided: Mutex::default(),
            over: AtomicBool::new(false),
            wake: Wake::new()?,
        })
    }

    fn report(&self, violation: Violation) {
        let mut decided = self.decided.locked();
        if let Some(index) = decided.iter().position(|known| *known == violation) {
            decided.remove(index);
            return;
        }
        self.push(violation);
    }

    pub(crate) fn report_once(&self, violation: Violation) {
        self.decided.locked().push(violation.clone());
        self.push(violation);
    }

    fn push(&self, violation: Violation) {
        let mut waiting = self.violations.locked();
        if !waiting.iter().any(|known| known.is_same_refusal(&violation)) {
            if waiting.len() < MOST_WAITING {
                waiting.push(violation);
            } else {
                self.left_out.fetch_add(1, Ordering::Relaxed);
            }
        }
        drop(waiting);
        self.wake.wake();
    }

    pub(crate) fn take(&self) -> Vec<Violation> {
        let mut taken = std::mem::take(&mut *self.violations.locked());
        let left_out = self.left_out.swap(0, Ordering::Relaxed);
        if left_out > 0 {
            taken.push(supervisor::left_out(left_out));
        }
        taken
    }

    /// Whether everything inside has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

/// Where a bash lives.
#[derive(Debug, Clone)]
pub(crate) enum Home {
    /// In a sandbox of its own.
    Own(Arc<LocalFence>, ExecRequest),
    /// In one that it shares.
    Shared(Arc<HeldSandbox>),
}

impl Home {
    /// Whether the sandbox that could not be entered has ended.
    pub(crate) fn has_ended(&self) -> bool {
        match self {
            Self::Own(..) => false,
            Self::Shared(sandbox) => sandbox.has_ended(),
        }
    }

    pub(crate) fn fence(&self) -> &Arc<LocalFence> {
        match self {
            Self::Own(fence, _) => fence,
            Self::Shared(sandbox) => sandbox.fence(),
        }
    }
}

/// What bash has as its own standard streams, which only [jobs](crate::shell::Jobs) use.
pub(crate) enum Streams {
    Nothing,
    /// Input, output and error.
    Pipes([OwnedFd; 3]),
    /// A terminal, whose master is sent here.
    Terminal(Winsize, Sender<OwnedFd>),
}

/// A bash that waits for commands.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) bash: Seen,
    pub(crate) channel: Channel,
    pub(crate) outputs: Outputs,
    pub(crate) feed: Arc<Feed>,
    /// No process stood beside bash when its last command had ended; without one none can appear.
    pub(crate) alone: Cell<bool>,
    /// For reading outputs, one command after the other.
    pub(crate) buffer: RefCell<Vec<u8>>,
    /// What bash's empty input is.
    null: Vec<u8>,
    ended: Receiver<Result<ExecResult>>,
}

/// What bash runs as.
pub(crate) fn request(fence: &LocalFence, env: &BTreeMap<String, String>) -> ExecRequest {
    let script = driver::script();
    let ours = ["--norc", "--noprofile", "-c", &script];
    let mut request = ExecRequest::argv(fence.shell().iter().map(String::as_str).chain(ours));
    request.env = env.clone();
    // Nothing runs before the driver.
    request.env.insert("BASH_ENV".to_owned(), String::new());
    request
}

fn cannot(errno: rustix::io::Errno) -> Error {
    Error::new(ErrorKind::SpawnFailed, "cannot prepare a shell").caused_by(std::io::Error::from(errno))
}

impl Live {
    pub(crate) fn start(home: &Home, desk: Option<&Arc<Desk>>, streams: Streams) -> Result<Self> {
        let Pair { ours, commands, status } = Channel::pair().map_err(cannot)?;
        let (outputs, mut given) = Outputs::new().map_err(cannot)?;
        let null =
            rustix::fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(cannot)?;
        // The first stands in for the standard ones.
        given.insert(0, (null, driver::NULL));
        given.extend([(commands, driver::COMMANDS), (status, driver::STATUS)]);
        let mut terminal = None;
        match streams {
            Streams::Nothing => {}
            Streams::Pipes(pipes) => given.extend(pipes.into_iter().zip(0..)),
            Streams::Terminal(size, master) => terminal = Some((size, master)),
        }
        let feed = Arc::new(Feed::new().map_err(cannot)?);
        let approval = desk.map(|desk| desk.approval(&feed));
        let (end, ended) = channel();
        let over = Over(Arc::clone(&feed));
        let done = move |result: Result<ExecResult>| {
            let _ = end.send(result);
            drop(over);
        };
        let to = Arc::clone(&feed);
        let events = move |event: ExecEvent| {
            if let ExecEvent::Violation(violation) = event {
                to.report(*violation);
            }
        };
        match home {
            Home::Own(fence, request) => {
                start_alone(Arc::clone(fence), request.clone(), given, approval, events, done)?
            }
            Home::Shared(sandbox) => sandbox.open(ExtraCommand {
                given,
                terminal: terminal.as_ref().map(|(size, _)| *size),
                approval,
                events: Box::new(events),
                on_terminal: Box::new(move |master| {
                    if let Some((_, to)) = &terminal {
                        let _ = to.send(master);
                    }
                }),
                done: Box::new(done),
            })?,
        }
        let mut live = Self {
            bash: Seen::new(0),
            channel: ours,
            outputs,
            feed,
            alone: Cell::new(false),
            buffer: RefCell::default(),
            null: vec![],
            ended,
        };
        live.wait_until_ready()?;
        Ok(live)
    }

    /// The first report comes from bash: nobody else is inside yet.
    fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(said) = self.channel.receive()
                && said.nonce == driver::READY
            {
                self.bash = Seen::new(said.pid);
                self.null = self.bash.link(driver::NULL);
                self.outputs.remember(&self.bash);
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if self.feed.is_over() {
                return Err(match self.ended.recv() {
                    Ok(Err(error)) => error,
                    Ok(Ok(result)) => Error::new(
                        ErrorKind::SpawnFailed,
                        format!("bash ended with {} before its first command", result.exit_code),
                    ),
                    _ => Error::new(ErrorKind::Internal, "the thread of the sandbox failed"),
                });
            }
            if left.is_zero() {
                return Err(Error::new(ErrorKind::SpawnFailed, "the shell did not start in time"));
            }
            let wait = Timespec { tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: 1 };
            let mut fds = [
                PollFd::new(self.channel.status(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.feed.wake.fd(), PollFlags::IN),
            ];
            let _ = poll(&mut fds, Some(&wait));
            self.feed.wake.clear();
        }
    }

    /// Whether it can be given a command with its output to this pair: it lives, has its streams, and waits for
    /// one. A command that claims to have ended while bash still evaluates it is found here.
    pub(crate) fn is_fit(&self, pair: usize) -> bool {
        let started = Instant::now();
        loop {
            if self.feed.is_over() {
                return false;
            }
            match self.bash.waits_for(driver::COMMANDS) {
                None | Some(true) => {
                    return self.bash.link(driver::NULL) == self.null
                        && self.outputs.is_intact(pair, &self.bash)
                        && !self.feed.is_over();
                }
                Some(false) if started.elapsed() > SETTLING => return false,
                Some(false) if started.elapsed() > Duration::from_millis(1) => {
                    std::thread::sleep(Duration::from_micros(200));
                }
                Some(false) => std::thread::yield_now(),
            }
        }
    }

    /// Lets bash evaluate something of ours; whether it said that it did. Nothing of the shell's may run.
    pub(crate) fn does(&self, command: &str, patience: Duration) -> bool {
        let Ok(nonce) = nonce() else { return false };
        let Ok(request) = driver::request(&nonce, command, None) else { return false };
        let request = request.to(0);
        let mut unsent = request.as_slice();
        let deadline = Instant::now() + patience;
        loop {
            match self.channel.send(unsent) {
                _ if unsent.is_empty() => {}
                Ok(length) => unsent = &unsent[length..],
                Err(_) => return false,
            }
            while let Some(said) = self.channel.receive() {
                if said.pid == self.bash.pid {
                    return said.nonce == nonce;
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.feed.is_over() {
                return false;
            }
            let sending = if unsent.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            let wait = Timespec { tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: 1 };
            let _ = poll(
                &mut [
                    PollFd::new(self.channel.status(), PollFlags::IN),
                    PollFd::new(self.channel.commands(), sending),
                ],
                Some(&wait),
            );
        }
    }

    /// Ends everything inside; how bash ended.
    pub(crate) fn finish(mut self) -> Result<ExecResult> {
        self.end().unwrap_or_else(|| Err(Error::new(ErrorKind::Internal, "the thread of the sandbox failed")))
    }

    fn end(&mut self) -> Option<Result<ExecResult>> {
        if self.bash.pid == 0 {
            // It never said who it is; it ends when it finds its sockets closed.
            return None;
        }
        if !self.feed.is_over() {
            self.bash.send(Signal::KILL);
        }
        let result = self.ended.recv().ok();
        self.outputs.close();
        result
    }
}

/// Says that everything inside has ended, also when nobody could say how.
struct Over(Arc<Feed>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Release);
        self.0.wake.wake();
    }
}

/// The sandbox dies with the thread that starts it.
fn start_alone(
    fence: Arc<LocalFence>,
    request: ExecRequest,
    given: Vec<(OwnedFd, i32)>,
    approval: Option<Approval>,
    events: impl Fn(ExecEvent) + Send + Sync + 'static,
    done: impl FnOnce(Result<ExecResult>) + Send + 'static,
) -> Result<()> {
    let theirs: Vec<(OwnedFd, i32)> = given
        .into_iter()
        .map(|(fd, target)| rustix::io::fcntl_dupfd_cloexec(fd, LOWEST_SOURCE).map(|fd| (fd, target)))
        .collect::<rustix::io::Result<_>>()
        .map_err(cannot)?;
    std::thread::spawn(move || {
        let passed: Vec<Passed> =
            theirs.iter().map(|(fd, target)| Passed { source: fd.as_raw_fd(), target: *target }).collect();
        let streams = crate::streams::Streams::Inherit([theirs[0].0.as_fd(); 3]);
        done(fence.run_passing(&request, streams, &events, approval, &passed));
    });
    Ok(())
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.end();
    }
}
