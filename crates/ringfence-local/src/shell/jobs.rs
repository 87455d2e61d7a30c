//! Commands that go on while others run, each in a bash of its own, with or without a terminal.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ringfence_fence::jobs::{JobInfo, JobOutput, JobState, TerminalSize};
use ringfence_model::LockExt as _;
use ringfence_model::{Error, ErrorKind, ExecRequest, Result, Violation};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use rustix::termios::{Winsize, tcsetwinsize};

use crate::relay;
use crate::shell::driver;
use crate::shell::job_watcher::Watcher;
use crate::shell::live::{Home, Live, Streams};
use crate::shell::session::{self, SharedSandbox, Shell};
use crate::shell::tree::{Seen, Tops};
use crate::verdict::blocking;

/// How much of a job's output is kept at most: the last of it.
const KEPT: usize = 4 << 20;
/// How many that have ended are remembered.
const REMEMBERED: usize = 100;
/// How long a new bash may take to become like another.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long input may wait for a job that does not read.
const UNREAD: Duration = Duration::from_secs(5);

/// The background commands of one sandbox. They end with it, or when this is dropped.
#[derive(Debug)]
pub struct Jobs {
    sandbox: SharedSandbox,
    last: AtomicU64,
    jobs: Mutex<BTreeMap<u64, Arc<Job>>>,
}

/// How a job is started.
#[derive(Debug, Clone, Default)]
pub struct JobOptions<'a> {
    /// It begins with this shell's directory, variables, functions, aliases and options, once what that shell
    /// runs has ended. What it changes is its own.
    pub like: Option<&'a Shell>,
}

#[derive(Debug)]
pub(crate) struct Job {
    number: u64,
    command: String,
    /// How much of its output is kept.
    most: usize,
    bash: Seen,
    input: Mutex<Option<OwnedFd>>,
    master: Option<OwnedFd>,
    progress: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Debug)]
struct Progress {
    state: JobState,
    /// The last of the output, and where it begins.
    kept: std::collections::VecDeque<u8>,
    begins: u64,
    timed_out: bool,
    violations: Vec<Violation>,
    blocked_resource: Option<String>,
}

impl Progress {
    fn written(&self) -> u64 {
        self.begins + self.kept.len() as u64
    }

    /// What is kept from `offset` on, which moves to the end of it.
    fn after(&self, offset: &mut u64) -> Vec<u8> {
        let skip = usize::try_from(offset.saturating_sub(self.begins)).unwrap_or(usize::MAX);
        *offset = self.begins + self.kept.len() as u64;
        self.kept.iter().skip(skip).copied().collect()
    }
}

impl Jobs {
    #[must_use]
    pub fn new(sandbox: SharedSandbox) -> Self {
        Self { sandbox, last: AtomicU64::new(0), jobs: Mutex::default() }
    }

    /// Starts a command and returns at once. Its input is what the request has, and then what is
    /// [written](Self::write).
    pub fn start(&self, request: &ExecRequest, options: &JobOptions<'_>) -> Result<JobInfo> {
        let command = session::command_text(request)?;
        let state = options.like.map(Shell::state).transpose()?;
        let home = Home::Shared(Arc::clone(&self.sandbox.0));
        let cannot = |errno: rustix::io::Errno| {
            Error::new(ErrorKind::SpawnFailed, "cannot prepare a job").caused_by(std::io::Error::from(errno))
        };
        let (live, input, output, master) = if request.tty {
            let size = request.size.unwrap_or_default();
            let (send, masters) = channel();
            let live = Live::start(&home, None, Streams::Terminal(winsize(size), send))?;
            let master = masters
                .recv_timeout(PATIENCE)
                .map_err(|_| Error::new(ErrorKind::SpawnFailed, "the job's terminal did not come"))?;
            rustix::fs::fcntl_setfl(&master, rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::RDWR)
                .map_err(cannot)?;
            let copy = |fd: &OwnedFd| rustix::io::fcntl_dupfd_cloexec(fd, 3).map_err(cannot);
            let (input, output) = (copy(&master)?, copy(&master)?);
            (live, input, output, Some(master))
        } else {
            let (their_input, input) = relay::input_pipe().map_err(cannot)?;
            let (output, their_output) = relay::small_output_pipe().map_err(cannot)?;
            let their_error = rustix::io::fcntl_dupfd_cloexec(&their_output, 3).map_err(cannot)?;
            let live = Live::start(&home, None, Streams::Pipes([their_input, their_output, their_error]))?;
            (live, input, output, None)
        };
        if let Some(state) = state
            && !live.does(&format!("{{ {state}\n}} >/dev/null 2>&1"), PATIENCE)
        {
            return Err(Error::new(ErrorKind::SpawnFailed, "the job's shell could not be prepared"));
        }
        // What bash was refused before the command is not the command's.
        drop(live.feed.take());
        let nonce = session::nonce()?;
        let bytes = driver::request(&nonce, &command, None)?.plain();
        let limits = &self.sandbox.0.fence().policy().limits;
        let most = usize::try_from(limits.kept_output()).unwrap_or(KEPT).min(KEPT);
        let job = Arc::new(Job {
            number: self.last.fetch_add(1, Ordering::Relaxed) + 1,
            command,
            most,
            bash: Seen::new(live.bash.pid),
            input: Mutex::new(Some(input)),
            master,
            progress: Mutex::new(Progress {
                state: JobState::Running,
                kept: <_>::default(),
                begins: 0,
                timed_out: false,
                violations: vec![],
                blocked_resource: None,
            }),
            changed: Condvar::new(),
        });
        let started = Instant::now();
        let timeout = match (request.timeout_ms, limits.timeout_ms) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let deadline = timeout.map(|ms| started + Duration::from_millis(ms));
        let mut jobs = self.lock();
        jobs.insert(job.number, Arc::clone(&job));
        forget_old(&mut jobs);
        drop(jobs);
        let (its, sandbox) = (Arc::clone(&job), Arc::clone(&self.sandbox.0));
        std::thread::spawn(move || {
            let watcher = Watcher { job: its, sandbox, live, output, nonce, started, deadline };
            watcher.run(&bytes);
        });
        if let ringfence_model::Stdin::Bytes(bytes) = &request.stdin {
            job.write(bytes)?;
            if !request.tty {
                job.close_input();
            }
        }
        Ok(job.info())
    }

    /// Those that run, and the last of those that ended.
    pub fn list(&self) -> Vec<JobInfo> {
        self.lock().values().map(|job| job.info()).collect()
    }

    /// At most `most` bytes of output from `offset` on; nothing when there is no more yet.
    pub fn read(&self, id: &str, offset: u64, most: usize) -> Result<JobOutput> {
        let job = self.find(id)?;
        let progress = job.lock();
        let offset = offset.max(progress.begins);
        let skip = usize::try_from(offset - progress.begins).unwrap_or(usize::MAX).min(progress.kept.len());
        let bytes = progress.kept.iter().skip(skip).take(most).copied().collect();
        drop(progress);
        Ok(JobOutput { offset, bytes, job: job.info() })
    }

    /// Writes to its input, or types on its terminal.
    pub fn write(&self, id: &str, bytes: &[u8]) -> Result<()> {
        self.find(id)?.write(bytes)
    }

    /// Says that no more input comes: on a terminal as the person would, with Ctrl-D.
    pub fn close_input(&self, id: &str) -> Result<()> {
        let job = self.find(id)?;
        if job.master.is_some() {
            job.write(b"\x04")
        } else {
            job.close_input();
            Ok(())
        }
    }

    /// Sends a signal to all its processes.
    pub fn signal(&self, id: &str, signal: i32) -> Result<()> {
        let signal = Signal::from_named_raw(signal)
            .ok_or_else(|| Error::new(ErrorKind::Validation, format!("there is no signal {signal}")))?;
        self.find(id)?.signal(signal);
        Ok(())
    }

    /// Tells its terminal how large it is.
    pub fn resize(&self, id: &str, size: TerminalSize) -> Result<()> {
        let job = self.find(id)?;
        let Some(master) = &job.master else {
            return Err(Error::new(ErrorKind::Validation, format!("{id} has no terminal")));
        };
        tcsetwinsize(master, winsize(size)).map_err(|errno| {
            Error::new(ErrorKind::Internal, "cannot resize the terminal")
                .caused_by(std::io::Error::from(errno))
        })
    }

    /// Tells what it writes as it comes, until it has ended. What comes faster than it is heard, and is no longer kept, is
    /// passed over.
    pub fn follow(&self, id: &str, tell: &dyn Fn(Vec<u8>)) -> Result<JobInfo> {
        let job = self.find(id)?;
        let mut offset = 0;
        loop {
            let mut progress = job.lock();
            let (bytes, is_over) = loop {
                let bytes = progress.after(&mut offset);
                let is_over = progress.state != JobState::Running;
                if is_over || !bytes.is_empty() {
                    break (bytes, is_over);
                }
                progress = job.changed.wait(progress).unwrap_or_else(PoisonError::into_inner);
            };
            drop(progress);
            if !bytes.is_empty() {
                tell(bytes);
            } else if is_over {
                return Ok(job.info());
            }
        }
    }

    /// Waits for its end.
    pub fn wait(&self, id: &str) -> Result<JobInfo> {
        let job = self.find(id)?;
        let mut progress = job.lock();
        while progress.state == JobState::Running {
            progress = job.changed.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
        drop(progress);
        Ok(job.info())
    }

    fn find(&self, id: &str) -> Result<Arc<Job>> {
        let number = id.strip_prefix("job-").and_then(|number| number.parse().ok());
        number
            .and_then(|number: u64| self.lock().get(&number).cloned())
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no job {id}")))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Job>>> {
        self.jobs.locked()
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        for job in self.lock().values() {
            job.bash.send(Signal::KILL);
        }
    }
}

fn winsize(size: TerminalSize) -> Winsize {
    Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 }
}

fn forget_old(jobs: &mut BTreeMap<u64, Arc<Job>>) {
    let ended: Vec<u64> = jobs
        .iter()
        .filter(|(_, job)| job.lock().state != JobState::Running)
        .map(|(number, _)| *number)
        .collect();
    for number in ended.iter().take(ended.len().saturating_sub(REMEMBERED)) {
        jobs.remove(number);
    }
}

impl Job {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.locked()
    }

    fn info(&self) -> JobInfo {
        let progress = self.lock();
        JobInfo {
            state: progress.state,
            output_bytes: progress.written(),
            truncated: progress.begins > 0,
            timed_out: progress.timed_out,
            violations: progress.violations.clone(),
            blocked_resource: progress.blocked_resource.clone(),
            ..JobInfo::running(format!("job-{}", self.number), self.command.clone())
        }
    }

    fn write(&self, mut bytes: &[u8]) -> Result<()> {
        let gone = || Error::new(ErrorKind::NotFound, format!("job-{} takes no more input", self.number));
        let input = self.input.locked();
        let input = input.as_ref().ok_or_else(gone)?;
        let deadline = Instant::now() + UNREAD;
        while !bytes.is_empty() {
            match rustix::io::write(input, bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) if Instant::now() < deadline => {
                    let wait = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
                    let _ = poll(&mut [PollFd::new(input, PollFlags::OUT)], Some(&wait));
                }
                Err(rustix::io::Errno::AGAIN) => {
                    return Err(Error::new(ErrorKind::Timeout, "the job does not read its input"));
                }
                Err(_) => return Err(gone()),
            }
        }
        Ok(())
    }

    fn close_input(&self) {
        *self.input.locked() = None;
    }

    /// Its bash hears what would end it; anything else is for what it started.
    pub(crate) fn signal(&self, signal: Signal) {
        let tops = Tops::now(&self.bash);
        // First, or it may say of the others how they ended.
        if [Signal::TERM, Signal::KILL, Signal::INT, Signal::QUIT, Signal::HUP].contains(&signal) {
            self.bash.send(signal);
        }
        tops.signal(signal);
    }

    pub(crate) fn push(&self, bytes: &[u8]) {
        let mut progress = self.lock();
        progress.kept.extend(bytes);
        let excess = progress.kept.len().saturating_sub(self.most);
        progress.kept.drain(..excess);
        progress.begins += excess as u64;
        drop(progress);
        self.changed.notify_all();
    }

    pub(crate) fn was_refused(&self, violations: Vec<Violation>) {
        let mut progress = self.lock();
        for violation in violations {
            if !progress.violations.iter().any(|known| known.is_same_refusal(&violation)) {
                progress.violations.push(violation);
            }
        }
    }

    /// What was refused so far counts, now that it ended with this.
    pub(crate) fn settle(&self, exit_code: i32) {
        let mut progress = self.lock();
        let blocking = blocking(&progress.violations, exit_code);
        progress.blocked_resource = blocking.map(|violation| violation.resource.clone());
    }

    /// How much it wrote, where not all of it is kept.
    pub(crate) fn cut(&self) -> Option<u64> {
        let progress = self.lock();
        (progress.begins > 0).then(|| progress.written())
    }

    pub(crate) fn end(&self, exit_code: i32, signal: Option<i32>, timed_out: bool) {
        self.close_input();
        let mut progress = self.lock();
        progress.state = JobState::Ended { exit_code, signal };
        progress.timed_out = timed_out;
        drop(progress);
        self.changed.notify_all();
    }
}
