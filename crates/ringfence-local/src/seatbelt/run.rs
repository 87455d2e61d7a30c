//! One run, from the profile to the result.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ringfence_fence::EventSink;
use ringfence_model::LockExt as _;
use ringfence_model::config::Precision;
use ringfence_model::{
    Access, Error, ErrorKind, ExecEvent, ExecRequest, ExecResult, Filesystem, Result, Stdin, Usage,
    Violation, ViolationKind, now_ms,
};
use ringfence_seatbelt::{Denial, MacEnv, Mode, Outcome, effective};
use rustix::io::Errno;
use rustix::termios::{Winsize, isatty};

use super::Seatbelt;
use super::log::Log;
use super::process::{self, End, Process, Start, nobody};
use super::wrapper::open_descriptors;
use crate::capture::Capture;
use crate::host::canonical_or_same;
use crate::limit_violations;
use crate::own_directory::OwnDirectory;
use crate::streams::{CallersTerminal, Streams, refuse_terminals};
use crate::terminal::{self, USUAL_SIZE};
use crate::verdict::{blocking, invisible};
use crate::wake::Wake;
use crate::{command, environment, relay};

/// How long output may still come after everything was killed, from a process that got away.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// A command with the sandbox it will run in.
#[derive(Debug)]
pub(super) struct Run<'a> {
    fence: &'a Seatbelt,
    request: &'a ExecRequest,
    own: OwnDirectory,
    tag: String,
    env: MacEnv,
    /// The rules that the profile holds.
    rules: Filesystem,
    cwd: PathBuf,
    variables: BTreeMap<OsString, OsString>,
    words: Vec<OsString>,
    started: Instant,
    violations: Mutex<Vec<Violation>>,
    /// The kernel's log says nothing; the command's own words must do.
    guessing: AtomicBool,
}

impl<'a> Run<'a> {
    pub(super) fn prepare(fence: &'a Seatbelt, request: &'a ExecRequest) -> Result<Self> {
        let started = Instant::now();
        let own = OwnDirectory::new(&fence.base())?;
        own.furnish(&fence.host.home, &fence.policy.filesystem);
        let name = own.path().file_name().unwrap_or_default().to_string_lossy();
        let tag = format!("rf-{}", name.trim_start_matches("ringfence-"));
        let env = fence.mac_env(own.path()).with_log_tag(tag.clone());
        let rules = effective(&fence.policy, &env);
        let cwd = request.cwd.as_ref().map_or_else(|| fence.cwd.clone(), |cwd| canonical_or_same(cwd));
        if !fence.policy.filesystem.decide(&cwd, Access::Read).allowed() {
            return Err(invisible(&fence.policy.filesystem, &cwd));
        }
        if !cwd.is_dir() {
            let message = format!("the working directory {} does not exist", cwd.display());
            return Err(Error::new(ErrorKind::Validation, message));
        }
        let mut variables = environment::build(&fence.policy, &fence.host, &own.places, &cwd, &request.env);
        variables.retain(|name, _| !steers_programs_outside(name));
        let words = command::words(request)?;
        let run = Self {
            fence,
            request,
            own,
            tag,
            env,
            rules,
            cwd,
            variables,
            words,
            started,
            violations: Mutex::default(),
            guessing: AtomicBool::new(false),
        };
        run.find_program()?;
        Ok(run)
    }

    /// Whether there is such a program at all, as a shell would see it.
    fn find_program(&self) -> Result<()> {
        let mut problem = Errno::NOENT;
        for place in command::places(&self.words[0], &self.variables) {
            let place = self.cwd.join(place);
            match rustix::fs::access(&place, rustix::fs::Access::EXEC_OK) {
                Ok(()) if place.is_file() => return Ok(()),
                Ok(()) => problem = Errno::ACCESS,
                Err(Errno::ACCESS) => problem = Errno::ACCESS,
                Err(_) => {}
            }
        }
        Err(command::exec_error(self.request, problem.raw_os_error()))
    }

    pub(super) fn execute(self, streams: Streams<'_>, events: EventSink<'_>) -> Result<ExecResult> {
        let report = |violation: Violation| {
            events(ExecEvent::Violation(Box::new(violation.clone())));
            self.violations.locked().push(violation);
        };
        let (end, output) = self.listening(&report, || match streams {
            Streams::Inherit(fds) => {
                Ok((refuse_terminals(&fds).and_then(|()| self.inherited(fds))?, Collected::default()))
            }
            Streams::Capture => self.captured(events),
            Streams::Terminal(terminal) => Ok((self.on_terminal(terminal)?, Collected::default())),
        })?;
        self.result(end, output, report)
    }

    /// Does `work` while the kernel's log is listened to.
    fn listening<T>(
        &self,
        report: &(impl Fn(Violation) + Sync),
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if self.fence.options.precision == Precision::Off {
            return work();
        }
        let (log, ear, ready) = match Log::start(&self.fence.options.log, &self.tag) {
            Ok(log) => log,
            Err(error) => {
                self.no_log(error.to_string());
                return work();
            }
        };
        let (result, problem) = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut known = BTreeSet::new();
                log.listen(ear, |denial| {
                    if known.insert((denial.operation.clone(), denial.resource.clone())) {
                        self.refused(denial).into_iter().for_each(report);
                    }
                });
            });
            let is_there = ready.wait();
            let result = work();
            if is_there.is_ok() {
                log.settle();
            }
            log.stop();
            (result, is_there.err())
        });
        match problem {
            Some(why) => self.no_log(log.complaint().unwrap_or_else(|| why.to_owned())),
            None => self.fence.set_log_problem(None),
        }
        result
    }

    fn no_log(&self, why: String) {
        self.guessing.store(true, Ordering::Relaxed);
        self.fence.set_log_problem(Some(format!("{}: {why}", self.fence.options.log.display())));
    }

    /// A refusal as it is reported, if it is.
    fn refused(&self, denial: &Denial) -> Option<Violation> {
        let violation = denial.violation(&self.rules, now_ms());
        let is_read = matches!(violation.access, Some(Access::Read | Access::Execute));
        (self.fence.options.precision == Precision::Full || !is_read).then_some(violation)
    }

    fn start(&self, stdio: [Option<OwnedFd>; 3], size: Winsize) -> Result<Started> {
        let inner = self.fence.wrapper.argv(&self.sign(), &open_descriptors(), &self.words);
        let wrapped = self.fence.adapter(self.env.clone()).wrap_command(&self.fence.policy, &inner)?;
        wrapped.start_with(|argv| {
            Process::start(Start { argv, env: &self.variables, cwd: &self.cwd, stdio, size })
        })
    }

    /// Made by the wrapper when the fence holds and the command is about to run.
    fn sign(&self) -> PathBuf {
        self.own.path().join("started")
    }

    fn deadline(&self) -> Option<Instant> {
        let timeout = match (self.request.timeout_ms, self.fence.policy.limits.timeout_ms) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        timeout.map(|ms| self.started + Duration::from_millis(ms))
    }

    fn inherited(&self, fds: [BorrowedFd<'_>; 3]) -> Result<End> {
        let [stdin, stdout, stderr] = fds.map(|fd| fd.try_clone_to_owned());
        let turn = process::turn();
        let stdio = [stdin.map_err(no_pipes)?, stdout.map_err(no_pipes)?, stderr.map_err(no_pipes)?];
        let started = self.start(stdio.map(Some), USUAL_SIZE)?;
        drop(turn);
        self.unattended(started)
    }

    /// Waits for a command at whose terminal nobody sits.
    fn unattended(&self, mut started: Started) -> Result<End> {
        let stop = Wake::new().map_err(no_pipes)?;
        let master = started.process.master.try_clone().map_err(no_pipes)?;
        std::thread::scope(|scope| {
            scope.spawn(|| nobody(&master, &stop));
            let end = started.process.attend(self.deadline());
            stop.wake();
            end.map_err(cannot_wait)
        })
    }

    fn captured(&self, events: EventSink<'_>) -> Result<(End, Collected)> {
        let turn = process::turn();
        let (stdout, their_stdout) = relay::output_pipe().map_err(no_pipes)?;
        let (stderr, their_stderr) = relay::output_pipe().map_err(no_pipes)?;
        let mut typed = None;
        let (stdin, feed) = match &self.request.stdin {
            Stdin::Inherit if isatty(rustix::stdio::stdin()) => {
                let (read, write) = relay::input_pipe().map_err(no_pipes)?;
                typed = Some(write);
                (read, None)
            }
            Stdin::Inherit => (rustix::stdio::stdin().try_clone_to_owned().map_err(no_pipes)?, None),
            Stdin::Empty => (relay::open_null().map_err(no_pipes)?, None),
            Stdin::Bytes(bytes) => {
                let (read, write) = relay::input_pipe().map_err(no_pipes)?;
                (read, Some((write, bytes.as_slice())))
            }
        };
        let started = self.start([stdin, their_stdout, their_stderr].map(Some), USUAL_SIZE)?;
        drop(turn);
        let cap = Some(self.fence.policy.limits.kept_output());
        let stop = Wake::new().map_err(no_pipes)?;
        std::thread::scope(|scope| {
            if let Some(typed) = typed {
                scope.spawn(|| relay::pass_lines(typed, &stop));
            }
            let pump = scope.spawn(|| relay::pump_until(feed, [stdout, stderr], cap, events, Some(&stop)));
            let end = self.unattended(started);
            stop_in_time(&stop, || pump.is_finished());
            let [stdout, stderr] =
                pump.join().map_err(|_| Error::new(ErrorKind::Internal, "the output thread failed"))?;
            Ok((end?, Collected { stdout, stderr }))
        })
    }

    fn on_terminal(&self, terminal: CallersTerminal<'_>) -> Result<End> {
        let turn = process::turn();
        let mut given = [None, None, None];
        for (own, fd) in given.iter_mut().zip(terminal.given) {
            *own = fd.map(|fd| fd.try_clone_to_owned()).transpose().map_err(no_pipes)?;
        }
        let mut started = self.start(given, terminal::size(terminal.output))?;
        drop(turn);
        let master = started.process.master.try_clone().map_err(no_pipes)?;
        let stop = Wake::new().map_err(no_pipes)?;
        let end = std::thread::scope(|scope| {
            let relay = scope.spawn(|| terminal::relay_until(&master, terminal, Some(&stop)));
            let end = started.process.attend(self.deadline());
            stop_in_time(&stop, || relay.is_finished());
            end
        });
        end.map_err(cannot_wait)
    }

    fn result(&self, end: End, output: Collected, report: impl Fn(Violation)) -> Result<ExecResult> {
        let signal = end.status.signal();
        let exit_code = match signal {
            _ if end.timed_out => 124,
            Some(signal) => 128 + signal,
            None => end.status.code().unwrap_or(1),
        };
        let limits = &self.fence.policy.limits;
        let lasted = self.started.elapsed();
        let ended =
            limit_violations::End { timed_out: end.timed_out, signal, exit_code, cpu_us: None, lasted };
        let reached =
            limit_violations::by_one_process(limits, &ended, &[output.stdout.cut(), output.stderr.cut()]);
        let truncated = output.stdout.truncated() || output.stderr.truncated();
        let stderr = output.stderr.finish();
        let outcome = Outcome { exit_code, stderr: &stderr, directory: &self.cwd };
        if !end.timed_out && signal.is_none() {
            self.refuse_unless_started(&outcome)?;
        }
        if self.guessing.load(Ordering::Relaxed)
            && let Some(violation) = outcome.violation(&self.rules, now_ms())
        {
            report(violation);
        }
        let mut violations = std::mem::take(&mut *self.violations.locked());
        // Programs ask for services of the system all the time and do without them.
        let decisive: Vec<Violation> = violations
            .iter()
            .filter(|violation| violation.kind != ViolationKind::SyscallDenied)
            .cloned()
            .collect();
        let (blocked_reason, blocked_resource) = blocking(&decisive, exit_code)
            .map(|violation| (violation.message.clone(), violation.resource.clone()))
            .unzip();
        violations.extend(reached);
        Ok(ExecResult {
            stdout: output.stdout.finish(),
            stderr,
            exit_code,
            signal,
            blocked: blocked_resource.is_some(),
            blocked_reason,
            blocked_resource,
            violations,
            runs_later: vec![],
            changed_remotes: vec![],
            connections: vec![],
            timed_out: end.timed_out,
            truncated,
            restarted: false,
            duration_ms: self.started.elapsed().as_secs_f64() * 1000.0,
            // Nothing says it without unsafe code.
            usage: Usage::default(),
            sandbox: self.fence.assurance(),
        })
    }

    /// When the command never came to run, the exit code is not its own.
    fn refuse_unless_started(&self, outcome: &Outcome<'_>) -> Result<()> {
        if self.sign().exists() {
            return Ok(());
        }
        if let Some(error) = outcome.start_failure() {
            return Err(error);
        }
        if matches!(self.env.mode, Mode::Custom(_)) {
            // Such a profile may refuse the sign.
            return Ok(());
        }
        let said = String::from_utf8_lossy(outcome.stderr);
        let said = said.lines().next().map_or_else(String::new, |line| format!(": {line}"));
        let program = self.fence.options.program.display();
        let message = format!("{program} ended with {} before the command ran{said}", outcome.exit_code);
        Err(Error::new(ErrorKind::SandboxDenied, message).hint("run `ringfence doctor`"))
    }
}

type Started = ringfence_seatbelt::adapter::Started<Process>;

#[derive(Debug)]
struct Collected {
    stdout: Capture,
    stderr: Capture,
}

impl Default for Collected {
    fn default() -> Self {
        Self { stdout: Capture::new(None), stderr: Capture::new(None) }
    }
}

/// Lets whoever copies output finish by itself, for a while.
fn stop_in_time(stop: &Wake, is_finished: impl Fn() -> bool) {
    let deadline = Instant::now() + LAST_WORDS;
    while !is_finished() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    stop.wake();
}

/// Variables that the system's libraries obey in every program, `sandbox-exec` included, which runs outside
/// of the fence until it has applied the profile.
fn steers_programs_outside(name: &OsStr) -> bool {
    const PREFIXES: [&[u8]; 7] = [b"DYLD_", b"LD_", b"Malloc", b"LIBDISPATCH_", b"OS_", b"OBJC_", b"XPC_"];
    let name = name.as_bytes();
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn no_pipes(error: impl Into<std::io::Error>) -> Error {
    Error::new(ErrorKind::SpawnFailed, "cannot make pipes for the command").caused_by(error.into())
}

fn cannot_wait(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Internal, "cannot wait for the command").caused_by(error)
}
