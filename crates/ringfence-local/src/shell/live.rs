//! One running bash: its sandbox, its channels, and the thread that serves them.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringfence_linux::plan::{LOWEST_SOURCE, Passed};
use ringfence_model::{Error, ErrorKind, ExecEvent, ExecRequest, ExecResult, Result, Violation};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;

use crate::native::Native;
use crate::relay;
use crate::shell::asking::Desk;
use crate::shell::channel::{Channel, Pair};
use crate::shell::session::Background;
use crate::shell::{driver, tree};
use crate::streams::Streams;
use crate::wake::Wake;

/// How long a sandbox and bash may take to start.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long bash may take from its report to waiting for the next command.
const SETTLING: Duration = Duration::from_millis(200);
/// How long output that nobody waits for may lie in its pipe.
const LATENESS: Duration = Duration::from_millis(20);
/// As much as a pipe holds.
const MOST_IN_PIPE: usize = 1 << 20;

/// What comes from the thread that serves a sandbox.
#[derive(Debug)]
pub(crate) struct Feed {
    violations: Mutex<Vec<Violation>>,
    /// Reported when they were decided; the end of the sandbox reports them again.
    decided: Mutex<Vec<Violation>>,
    over: AtomicBool,
    pub(crate) wake: Wake,
}

impl Feed {
    fn new() -> rustix::io::Result<Self> {
        Ok(Self {
            violations: Mutex::default(),
            decided: Mutex::default(),
            over: AtomicBool::new(false),
            wake: Wake::new()?,
        })
    }

    fn report(&self, violation: Violation) {
        let mut decided = self.decided.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = decided.iter().position(|known| *known == violation) {
            decided.remove(index);
            return;
        }
        self.push(violation);
    }

    pub(crate) fn report_once(&self, violation: Violation) {
        self.decided.lock().unwrap_or_else(PoisonError::into_inner).push(violation.clone());
        self.push(violation);
    }

    fn push(&self, violation: Violation) {
        self.violations.lock().unwrap_or_else(PoisonError::into_inner).push(violation);
        self.wake.wake();
    }

    pub(crate) fn take(&self) -> Vec<Violation> {
        std::mem::take(&mut *self.violations.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether everything inside has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

/// A bash that waits for commands.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) pid: i32,
    pub(crate) channel: Channel,
    pub(crate) outputs: Arc<[OwnedFd; 2]>,
    pub(crate) feed: Arc<Feed>,
    /// What bash's own descriptors are, as long as nobody changed them.
    streams: Vec<PathBuf>,
    /// Held by whoever reads the outputs.
    reading: Arc<Mutex<()>>,
    done: Arc<Wake>,
    sandbox: Option<JoinHandle<Result<ExecResult>>>,
    idle_reader: Option<JoinHandle<()>>,
}

impl Live {
    pub(crate) fn start(
        native: &Arc<Native>,
        env: &BTreeMap<String, String>,
        desk: Option<&Arc<Desk>>,
        background: &Background,
    ) -> Result<Self> {
        let cannot = |errno: rustix::io::Errno| {
            Error::new(ErrorKind::SpawnFailed, "cannot prepare a shell")
                .caused_by(std::io::Error::from(errno))
        };
        let Pair { ours, commands, status } = Channel::pair().map_err(cannot)?;
        let (stdout, their_stdout) = relay::output_pipe().map_err(cannot)?;
        let (stderr, their_stderr) = relay::output_pipe().map_err(cannot)?;
        let null =
            rustix::fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(cannot)?;
        let lifted = |fd: &OwnedFd| rustix::io::fcntl_dupfd_cloexec(fd, LOWEST_SOURCE).map_err(cannot);
        let null = lifted(&null)?;
        let theirs = [
            (lifted(&null)?, driver::NULL),
            (lifted(&their_stdout)?, driver::STDOUT),
            (lifted(&their_stderr)?, driver::STDERR),
            (lifted(&commands)?, driver::COMMANDS),
            (lifted(&status)?, driver::STATUS),
        ];
        drop((commands, status, their_stdout, their_stderr));
        let feed = Arc::new(Feed::new().map_err(cannot)?);
        let approval = desk.map(|desk| desk.approval(&feed));
        let script = driver::script();
        let mut request = ExecRequest::argv(["bash", "--norc", "--noprofile", "-c", &script]);
        request.env = env.clone();
        // Nothing runs before the driver.
        request.env.insert("BASH_ENV".to_owned(), String::new());

        let (native, to) = (Arc::clone(native), Arc::clone(&feed));
        // The sandbox dies with the thread that starts it.
        let sandbox = std::thread::spawn(move || {
            let passed =
                theirs.each_ref().map(|(fd, target)| Passed { source: fd.as_raw_fd(), target: *target });
            let streams = Streams::Inherit([null.as_fd(); 3]);
            let events = |event: ExecEvent| {
                if let ExecEvent::Violation(violation) = event {
                    to.report(*violation);
                }
            };
            let result = native.run_passing(&request, streams, &events, approval, &passed);
            to.over.store(true, Ordering::Release);
            to.wake.wake();
            result
        });
        let mut live = Self {
            pid: 0,
            channel: ours,
            outputs: Arc::new([stdout, stderr]),
            feed,
            streams: vec![],
            reading: Arc::default(),
            done: Arc::new(Wake::new().map_err(cannot)?),
            sandbox: Some(sandbox),
            idle_reader: None,
        };
        live.wait_until_ready()?;
        live.idle_reader = Some(live.read_while_idle(Arc::clone(background)));
        Ok(live)
    }

    /// The first report comes from bash: nobody else is inside yet.
    fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(said) = self.channel.receive()
                && said.nonce == driver::READY
            {
                self.pid = said.pid;
                self.streams = self.streams();
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if self.feed.is_over() {
                let ended = self.sandbox.take().map(JoinHandle::join);
                return Err(match ended {
                    Some(Ok(Err(error))) => error,
                    Some(Ok(Ok(result))) => Error::new(
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

    fn streams(&self) -> Vec<PathBuf> {
        let link = |fd: i32| std::fs::read_link(format!("/proc/{}/fd/{fd}", self.pid)).unwrap_or_default();
        [driver::NULL, driver::STDOUT, driver::STDERR].map(link).to_vec()
    }

    /// Whether it can be given a command: it lives, has its streams, and waits for one. A command that claims to have ended
    /// while bash still evaluates it is found here.
    pub(crate) fn is_fit(&self) -> bool {
        let started = Instant::now();
        loop {
            if self.feed.is_over() {
                return false;
            }
            match tree::waits_for(self.pid, driver::COMMANDS) {
                None | Some(true) => return self.streams() == self.streams && !self.feed.is_over(),
                Some(false) if started.elapsed() > SETTLING => return false,
                Some(false) if started.elapsed() > Duration::from_millis(1) => {
                    std::thread::sleep(Duration::from_micros(200));
                }
                Some(false) => std::thread::yield_now(),
            }
        }
    }

    /// Keeps others from reading the outputs. What lies there already belongs to no command.
    pub(crate) fn reading(&self) -> Arc<Mutex<()>> {
        Arc::clone(&self.reading)
    }

    /// Passes everything that lies in the pipes to `to`; false when there never will be more.
    pub(crate) fn drain(outputs: &[OwnedFd; 2], to: &mut dyn FnMut(usize, &[u8])) -> bool {
        let mut open = false;
        let mut buffer = vec![0; 64 << 10];
        for (index, fd) in outputs.iter().enumerate() {
            let mut left = MOST_IN_PIPE;
            open |= loop {
                match rustix::io::read(fd, &mut buffer) {
                    Ok(0) => break false,
                    Ok(length) => {
                        to(index, &buffer[..length]);
                        left = left.saturating_sub(length);
                        if left == 0 {
                            break true;
                        }
                    }
                    Err(rustix::io::Errno::INTR) => {}
                    Err(errno) => break errno == rustix::io::Errno::AGAIN,
                }
            };
        }
        open
    }

    /// A job in the background must not wait for the next command to get its output away.
    fn read_while_idle(&self, background: Background) -> JoinHandle<()> {
        let (outputs, reading, done) =
            (Arc::clone(&self.outputs), Arc::clone(&self.reading), Arc::clone(&self.done));
        std::thread::spawn(move || {
            loop {
                let mut fds = [
                    PollFd::new(&outputs[0], PollFlags::IN),
                    PollFd::new(&outputs[1], PollFlags::IN),
                    PollFd::from_borrowed_fd(done.fd(), PollFlags::IN),
                ];
                let _ = poll(&mut fds, None);
                if !fds[2].revents().is_empty() {
                    return;
                }
                std::thread::sleep(LATENESS);
                if let Ok(_held) = reading.try_lock()
                    && !Self::drain(&outputs, &mut |index, bytes| background(event(index, bytes)))
                {
                    return;
                }
            }
        })
    }

    /// Ends everything inside; how bash ended.
    pub(crate) fn finish(mut self) -> Result<ExecResult> {
        self.end().unwrap_or_else(|| Err(Error::new(ErrorKind::Internal, "the thread of the sandbox failed")))
    }

    fn end(&mut self) -> Option<Result<ExecResult>> {
        self.done.wake();
        if !self.feed.is_over() && self.pid > 0 {
            tree::send(self.pid, Signal::KILL);
        }
        let result = self.sandbox.take().and_then(|thread| thread.join().ok());
        if let Some(thread) = self.idle_reader.take() {
            let _ = thread.join();
        }
        result
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

pub(crate) fn event(index: usize, bytes: &[u8]) -> ExecEvent {
    if index == 0 { ExecEvent::Stdout(bytes.to_vec()) } else { ExecEvent::Stderr(bytes.to_vec()) }
}
