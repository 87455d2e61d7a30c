//! A local sandbox: prepared once per policy, run for each command, whichever launcher builds the fence.

mod handlers;
mod private_home;
mod shared_sandbox;

use std::cell::{Cell, RefCell};
use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ringfence_fence::{CreateOptions, EventSink};
use ringfence_linux::cgroup;
use ringfence_linux::host_loop::{self, Outcome};
use ringfence_linux::launch::{LaunchError, Place, Sandboxed, Stdio};
use ringfence_linux::plan::{Exec, LOWEST_SOURCE, MountStep, Passed};
use ringfence_linux::prefork;
use ringfence_linux::supervisor::{Ask, Reporter, Supervisor};
use ringfence_model::LockExt as _;
use ringfence_model::{
    Access, Assurance, Command, Error, ErrorKind, ExecEvent, ExecRequest, ExecResult, PathOutcome, Policy,
    Result, Stdin, Usage, Violation,
};
use rustix::termios::isatty;

use crate::approval::Approval;
use crate::asker::Asker;
use crate::capture::Capture;
use crate::command;
use crate::complete::{self, Completed};
use crate::fence_plan::{PlanInputs, Ready};
use crate::host::{Host, canonical_or_same};
use crate::inspection::Inspection;
use crate::launcher::{self, LaunchOptions, Launcher};
use crate::limit_violations::{self, End};
use crate::limits::{Gauge, LimitPlan, Seen};
use crate::memory_watch::Tally;
use crate::relay;
use crate::scan;
use crate::select::{Selected, Selection};
use crate::streams::refuse_terminals;
use crate::synthetic_etc::Users;
use crate::terminal;
use crate::traps::Traps;
use crate::tripwire;
use crate::verdict::blocking;
use crate::wake::{Wake, WakeWhenDropped};
use crate::way_out::{self, Elsewhere};

use handlers::RunHandlers;
use private_home::PrivateHome;

pub(crate) use shared_sandbox::{ExtraCommand, HeldSandbox};

pub use crate::streams::{CallersTerminal, Streams};

/// A fence that is ready to be built: the plan is computed once per policy and reused for each run.
#[derive(Debug)]
pub struct LocalFence {
    inputs: PlanInputs,
    selection: Selection,
    /// Files that the last command left in its private home directory, which is gone.
    vanished: Mutex<Vec<PathBuf>>,
}

impl LocalFence {
    /// Computes the plan. Fails when a rule of the policy cannot be enforced.
    pub fn prepare(options: CreateOptions) -> Result<Self> {
        Self::prepare_in(options, None)
    }

    /// As [`prepare`](Self::prepare), in a place without a network, where somebody else makes connections.
    pub(crate) fn prepare_in(options: CreateOptions, elsewhere: Option<Arc<dyn Elsewhere>>) -> Result<Self> {
        let host = Host::from_environment(options.environment);
        let cwd = canonical_or_same(&options.cwd);
        complete::refuse_what_cannot_be_enforced(&options.policy, &cwd)?;
        let local = options.provider_options.local()?;
        let precision = local.precision;
        let launch_options = LaunchOptions::new(local)?;
        let Completed { mut policy, .. } = complete::complete(options.policy, &cwd, &host);
        let users = Users::show_own(&mut policy.filesystem);
        let found = scan::scan(&policy.filesystem, &scan::roots(&policy.filesystem));
        scan::add_rules(&mut policy.filesystem, &found);
        crate::git::protect_named(&mut policy.filesystem, &found, &host.home);
        let limits = LimitPlan::new(&policy.limits, &host.home);
        let inspection = Inspection::of(&policy, &host)?;
        let options = launch_options;
        let inputs =
            PlanInputs { host, cwd, policy, users, found, precision, limits, inspection, options, elsewhere };
        let selection = Selection::new(&inputs, &prefork::one::build)?;
        Ok(Self { inputs, selection, vanished: Mutex::default() })
    }

    /// The files that the last command wrote to its private home directory, which is gone. They are given once.
    pub fn take_vanished(&self) -> Vec<PathBuf> {
        std::mem::take(&mut *self.vanished.locked())
    }

    /// The policy as it is enforced, with everything the fence added.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.inputs.policy
    }

    /// The words that shells are started with.
    pub(crate) fn shell(&self) -> &[String] {
        &self.inputs.options.shell
    }

    /// The launcher that builds the fence, as far as it is known: it is tried when the first command runs.
    #[must_use]
    pub fn launcher(&self) -> Launcher {
        self.selection.current().fence_plan.launcher
    }

    /// Runs one command in a fresh sandbox and waits for it. Nobody is asked.
    pub fn run(
        &self,
        request: &ExecRequest,
        streams: Streams<'_>,
        events: EventSink<'_>,
    ) -> Result<ExecResult> {
        self.run_asking(request, streams, events, None)
    }

    /// As [`run`](Self::run); what is refused is asked about first, where `approval` says so.
    pub fn run_asking(
        &self,
        request: &ExecRequest,
        streams: Streams<'_>,
        events: EventSink<'_>,
        approval: Option<Approval>,
    ) -> Result<ExecResult> {
        self.run_passing(request, streams, events, approval, &[])
    }

    /// As [`run_asking`](Self::run_asking), with more descriptors for the command. One that is talked to
    /// through them has no time limit of its own.
    pub(crate) fn run_passing(
        &self,
        request: &ExecRequest,
        streams: Streams<'_>,
        events: EventSink<'_>,
        approval: Option<Approval>,
        passed: &[Passed],
    ) -> Result<ExecResult> {
        let started = Instant::now();
        let asker = approval.map(|approval| asker(approval, request)).transpose()?;
        let mut selected = self.selection.current();
        loop {
            let launch_failed = RefCell::default();
            let attempt = Attempt {
                selected: &selected,
                asker: asker.clone(),
                started,
                passed,
                launch_failed: &launch_failed,
            };
            let result = self.attempt(attempt, request, streams, events);
            selected = match launch_failed.into_inner() {
                // Nothing of the command has run.
                Some(error) if error.is_of_the_machine() => {
                    self.selection.instead_of(&self.inputs, &selected, &error)?
                }
                _ => return result,
            };
        }
    }

    fn attempt(
        &self,
        attempt: Attempt<'_>,
        request: &ExecRequest,
        streams: Streams<'_>,
        events: EventSink<'_>,
    ) -> Result<ExecResult> {
        let Attempt { selected, asker, started, passed, launch_failed } = attempt;
        let PlanInputs { policy, cwd, .. } = &self.inputs;
        let ready = selected.fence_plan.ready(&self.inputs)?;
        let cwd = request.cwd.as_ref().map_or_else(|| cwd.clone(), |cwd| canonical_or_same(cwd));
        ready.refuse_unseen(&cwd)?;
        let env = ready.environment(&self.inputs, &cwd, &request.env);
        // Lifted out of the way of the numbers that the command gets.
        let given = match streams {
            Streams::Terminal(terminal) => given(terminal)?,
            Streams::Inherit(_) | Streams::Capture => vec![],
        };
        let given = given.iter().map(|(fd, target)| Passed { source: fd.as_raw_fd(), target: *target });
        let passed_on = passed.iter().copied().chain(given).collect();
        let exec = Exec { passed: passed_on, ..command::prepare(request, &env, &cwd)? };
        let timeout = match (request.timeout_ms, policy.limits.timeout_ms) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let timeout = timeout.filter(|_| passed.is_empty());
        let run = Run {
            inputs: &self.inputs,
            selected,
            ready: &ready,
            launch_failed,
            exec: &exec,
            deadline: timeout.map(|ms| started + Duration::from_millis(ms)),
            events,
            violations: Mutex::default(),
            usage: Cell::default(),
            created: Cell::default(),
            asker,
            on_held: None,
            on_gauge: None,
            is_shell: !passed.is_empty(),
            tally: Arc::default(),
            private_home: Mutex::default(),
        };
        let (outcome, output) = match streams {
            Streams::Inherit(fds) => {
                refuse_terminals(&fds)?;
                let stdio = Stdio::Raw(fds.map(|fd| fd.as_raw_fd()));
                (run.attended(stdio, [], drop)?, Collected::nothing())
            }
            Streams::Capture => run.captured(&request.stdin)?,
            Streams::Terminal(terminal) => (run.on_terminal(terminal)?, Collected::nothing()),
        };
        self.end_of(run, request, outcome, output, started)
    }

    fn end_of(
        &self,
        run: Run<'_>,
        request: &ExecRequest,
        outcome: Outcome,
        output: Collected,
        started: Instant,
    ) -> Result<ExecResult> {
        if let Some(errno) = outcome.exec_errno {
            return Err(command::exec_error(request, errno));
        }
        if let Some(home) = run.private_home.locked().take() {
            *self.vanished.locked() = home.written();
        }
        // With Landlock, only the supervisor makes names, and it makes none of these.
        if run.created.get() && run.ready.plan.landlock.is_none() {
            let fs = &self.inputs.policy.filesystem;
            let appeared = tripwire::appeared(fs, &self.inputs.found, &scan::roots(fs));
            run.violations.locked().extend(appeared);
        }
        let (violations, usage) = (std::mem::take(&mut *run.violations.locked()), run.usage.into_inner());
        Ok(self.result(run.selected, outcome, output, violations, (usage, &run.tally), started))
    }

    fn result(
        &self,
        selected: &Selected,
        outcome: Outcome,
        output: Collected,
        mut violations: Vec<Violation>,
        (usage, tally): (Option<cgroup::Usage>, &Tally),
        started: Instant,
    ) -> ExecResult {
        let (exit_code, signal) = exit_code(&outcome);
        let (blocked_reason, blocked_resource) = blocking(&violations, exit_code)
            .map(|violation| (violation.message.clone(), violation.resource.clone()))
            .unzip();
        let outputs = [&output.stdout, &output.stderr];
        let (timed_out, cpu_us, lasted) = (outcome.timed_out, Some(outcome.cpu_us), started.elapsed());
        let end = End { timed_out, signal, exit_code, cpu_us, lasted };
        let seen = Seen { tally, largest: outcome.max_rss_kib * 1024 };
        violations.extend(self.inputs.limits.reached(
            &end,
            usage.as_ref(),
            &seen,
            &outputs.map(Capture::cut),
        ));
        let tree_peak = usage.and_then(|usage| usage.memory).and_then(|memory| memory.peak);
        let truncated = outputs.iter().any(|output| output.truncated());
        ExecResult {
            stdout: output.stdout.finish(),
            stderr: output.stderr.finish(),
            exit_code,
            signal,
            blocked: blocked_resource.is_some(),
            blocked_reason,
            blocked_resource,
            violations,
            runs_later: vec![],
            changed_remotes: vec![],
            connections: vec![],
            timed_out: outcome.timed_out,
            truncated,
            restarted: false,
            duration_ms: started.elapsed().as_secs_f64() * 1000.0,
            usage: Usage {
                cpu_ms: Some(outcome.cpu_us / 1000),
                max_memory_bytes: tree_peak.or(Some(outcome.max_rss_kib * 1024)),
            },
            sandbox: selected.assurance(&self.inputs),
        }
    }

    /// Which layers hold, as far as it is known before the next run.
    #[must_use]
    pub fn assurance(&self) -> Assurance {
        self.selection.current().assurance(&self.inputs)
    }

    /// The same for the result of one of many commands in a shared sandbox.
    pub(crate) fn assurance_of_command(&self) -> Assurance {
        self.selection.current().assurance_of_command(&self.inputs)
    }
}

/// One try to run a command by one launcher.
struct Attempt<'a> {
    selected: &'a Selected,
    asker: Option<Arc<Asker>>,
    started: Instant,
    passed: &'a [Passed],
    /// Why the sandbox could not be launched.
    launch_failed: &'a RefCell<Option<LaunchError>>,
}

#[derive(Debug)]
struct Collected {
    stdout: Capture,
    stderr: Capture,
}

impl Collected {
    fn nothing() -> Self {
        Self { stdout: Capture::new(None), stderr: Capture::new(None) }
    }
}

/// One run of a prepared fence.
struct Run<'a> {
    inputs: &'a PlanInputs,
    selected: &'a Selected,
    ready: &'a Ready<'a>,
    launch_failed: &'a RefCell<Option<LaunchError>>,
    exec: &'a Exec,
    deadline: Option<Instant>,
    events: EventSink<'a>,
    violations: Mutex<Vec<Violation>>,
    usage: Cell<Option<cgroup::Usage>>,
    /// Something may have been created.
    created: Cell<bool>,
    asker: Option<Arc<Asker>>,
    /// Told when a sandbox without a command of its own is there.
    on_held: Option<&'a dyn Fn()>,
    /// Told how to read which limits were reached meanwhile.
    on_gauge: Option<&'a dyn Fn(Gauge)>,
    /// It is talked to through descriptors of its own.
    is_shell: bool,
    tally: Arc<Tally>,
    /// The private home directory, where there is one and only one command uses it.
    private_home: Mutex<Option<PrivateHome>>,
}

impl Run<'_> {
    /// Launches and attends.
    fn attended<const N: usize>(
        &self,
        stdio: Stdio,
        ours: [OwnedFd; N],
        on_terminal: impl FnMut(OwnedFd),
    ) -> Result<Outcome> {
        self.launched(stdio, ours, |sandbox| self.serve(sandbox, on_terminal))
    }

    /// Launches, under limits while `serve` works. `ours` are descriptors that must be closed on this side as
    /// soon as the command has them, or its pipes would never end.
    fn launched<T, const N: usize>(
        &self,
        stdio: Stdio,
        ours: [OwnedFd; N],
        serve: impl FnOnce(&Sandboxed) -> Result<T>,
    ) -> Result<T> {
        let limits = &self.inputs.limits;
        let mut group = None;
        let mut place = || {
            let mut made = limits.group()?;
            if let Some(tell) = self.on_gauge {
                tell(Gauge { group: Some(made.gauge()), tally: Arc::clone(&self.tally) });
            }
            let doors = made.take_doors();
            group = Some(made);
            Ok(doors)
        };
        let needs_cgroup = limits.needs_cgroup();
        let place: Place<'_> = if needs_cgroup { Some(&mut place) } else { None };
        if let Some(tell) = self.on_gauge.filter(|_| !needs_cgroup) {
            tell(Gauge { group: None, tally: Arc::clone(&self.tally) });
        }
        let sandbox =
            self.ready.launch(self.exec, stdio, place).map_err(|error| self.launch_failed(error))?;
        drop(ours);
        let outcome = match limits.watched_memory {
            Some(limit) => self.watching(&sandbox, limit, serve),
            None => serve(&sandbox),
        };
        if let Some(group) = group {
            self.usage.set(Some(group.usage()));
            group.leave();
        }
        outcome
    }

    /// Serves, while somebody adds up what all processes use.
    fn watching<T>(
        &self,
        sandbox: &Sandboxed,
        limit: u64,
        serve: impl FnOnce(&Sandboxed) -> Result<T>,
    ) -> Result<T> {
        let places: Vec<PathBuf> = in_memory(&self.ready.plan.mounts).map(Path::to_owned).collect();
        std::thread::scope(|scope| {
            let (tally, top, places) = (&*self.tally, sandbox.pid, &places);
            let watch = move || tally.watch(top, limit, places);
            let watcher = std::thread::Builder::new().name("memory".to_owned()).spawn_scoped(scope, watch);
            // A limit that nobody keeps is no limit.
            watcher.map_err(|error| {
                sandbox.kill();
                Error::new(ErrorKind::SpawnFailed, "cannot watch the memory of the sandbox").caused_by(error)
            })?;
            let outcome = serve(sandbox);
            self.tally.stop();
            outcome
        })
    }

    /// Attends to what runs, in its own sandbox or beside others.
    fn serve(&self, sandbox: &Sandboxed, on_terminal: impl FnMut(OwnedFd)) -> Result<Outcome> {
        let Ready { plan, policy, watched, .. } = self.ready;
        let (events, violations) = (self.events, &self.violations);
        // One of its own has its channels from the beginning; those that share a sandbox get theirs later.
        let is_shell = self.is_shell || self.exec.held;
        let report = |violation: Violation| {
            events(ExecEvent::Violation(Box::new(violation.clone())));
            // A shell gives each to the command it belongs to; there may be any number of them.
            if !is_shell {
                violations.locked().push(violation);
            }
        };
        let ask = self.asker.clone().map(|asker| asker as Arc<dyn Ask>);
        let reporter = if is_shell { Reporter::each_time(&report) } else { Reporter::new(&report) };
        let has_way_out = self.selected.fence_plan.launcher.can_have_way_out();
        let PlanInputs { host, inspection, elsewhere, .. } = self.inputs;
        let outside = has_way_out
            .then(|| {
                way_out::of(policy, host, inspection.as_ref(), elsewhere.as_deref(), self.asker.is_some())
            })
            .flatten();
        let supervisor = Supervisor::new(&policy.filesystem, watched, ask, &reporter).reaching(outside);
        let wake = self.asker.as_deref().map(Asker::wake);
        let traps = Traps::new(&plan.traps, &policy.filesystem, &reporter);
        let outcome = std::thread::scope(|scope| {
            let look = || {
                if !is_shell {
                    *self.private_home.locked() = self.open_private_home(sandbox.pid);
                }
            };
            let mut handlers = RunHandlers {
                on_start: &look,
                supervisor,
                on_terminal,
                asker: self.asker.as_deref(),
                selected: self.selected,
                on_held: self.on_held,
                on_full: |place: &Path, holds| report(limit_violations::no_room(place, holds)),
                in_memory: in_memory(&plan.mounts).collect(),
                held_open: vec![],
                on_tripwire: |device| traps.serve(scope, device),
                traps: &traps,
            };
            let outcome = host_loop::run(plan, sandbox, self.deadline, wake, &mut handlers);
            self.created.set(handlers.supervisor.saw_creation());
            traps.stop();
            outcome
        });
        for violation in self.asker.iter().flat_map(|asker| asker.take_refused()) {
            report(violation);
        }
        reporter.finish();
        outcome.map_err(|error| self.launch_failed(error))
    }

    fn open_private_home(&self, pid: i32) -> Option<PrivateHome> {
        let home = self.inputs.host.home.as_path();
        let fs = &self.inputs.policy.filesystem;
        let is_private = fs.decide(&home.join("-"), Access::Write).outcome == PathOutcome::Private;
        let is_apart = self.selected.fence_plan.launcher != Launcher::Landlock;
        (is_private && is_apart).then(|| PrivateHome::of(pid, home)).flatten()
    }

    fn launch_failed(&self, error: LaunchError) -> Error {
        let wrapped = launch_error(&error, self.selected);
        self.launch_failed.replace(Some(error));
        wrapped
    }

    fn captured(&self, stdin: &Stdin) -> Result<(Outcome, Collected)> {
        let pipe_error = |errno: rustix::io::Errno| {
            Error::new(ErrorKind::SpawnFailed, "cannot make pipes for the command")
                .caused_by(std::io::Error::from(errno))
        };
        let (stdout, command_stdout) = relay::output_pipe().map_err(pipe_error)?;
        let (stderr, command_stderr) = relay::output_pipe().map_err(pipe_error)?;
        let mut typed = None;
        let (command_stdin, feed) = match stdin {
            Stdin::Inherit if isatty(rustix::stdio::stdin()) => {
                let (read, write) = relay::input_pipe().map_err(pipe_error)?;
                typed = Some(write);
                (read, None)
            }
            Stdin::Inherit => (
                rustix::stdio::stdin().try_clone_to_owned().map_err(|error| {
                    Error::new(ErrorKind::SpawnFailed, "cannot pass the standard input on").caused_by(error)
                })?,
                None,
            ),
            Stdin::Empty => (relay::open_null().map_err(pipe_error)?, None),
            Stdin::Bytes(bytes) => {
                let (read, write) = relay::input_pipe().map_err(pipe_error)?;
                (read, Some((write, bytes.as_slice())))
            }
        };
        let cap = Some(self.inputs.policy.limits.kept_output());
        let events = self.events;
        let stop = Wake::new().map_err(pipe_error)?;
        std::thread::scope(|scope| {
            let _stopped = WakeWhenDropped(&stop);
            if let Some(typed) = typed {
                scope.spawn(|| relay::pass_lines(typed, &stop));
            }
            let pump = scope.spawn(move || relay::pump(feed, [stdout, stderr], cap, events));
            let stdio =
                Stdio::Raw([&command_stdin, &command_stdout, &command_stderr].map(AsRawFd::as_raw_fd));
            let outcome = self.attended(stdio, [command_stdin, command_stdout, command_stderr], drop);
            let [stdout, stderr] =
                pump.join().map_err(|_| Error::new(ErrorKind::Internal, "the output thread failed"))?;
            Ok((outcome?, Collected { stdout, stderr }))
        })
    }

    fn on_terminal(&self, terminal: CallersTerminal<'_>) -> Result<Outcome> {
        let masters = Mutex::new(None);
        let outcome = std::thread::scope(|scope| {
            let start = |master: OwnedFd| {
                let kept = Arc::clone(masters.locked().insert(Arc::new(master)));
                self.asker.iter().for_each(|asker| asker.is_at(&kept));
                scope.spawn(move || terminal::relay_until(&kept, terminal, None));
            };
            self.attended(Stdio::Terminal(terminal::size(terminal.output)), [], start)
        });
        // A command may let go of its terminal and go on: without a master the terminal would hang up on it.
        drop(masters);
        outcome
    }
}

/// The standard descriptors that are no terminal, and the numbers they keep.
fn given(terminal: CallersTerminal<'_>) -> Result<Vec<(OwnedFd, i32)>> {
    let given = (0..).zip(terminal.given).filter_map(|(number, fd)| fd.map(|fd| (fd, number)));
    let lifted = given.map(|(fd, number)| {
        refuse_terminals(&[fd])?;
        let lifted = rustix::io::fcntl_dupfd_cloexec(fd, LOWEST_SOURCE).map_err(|errno| {
            Error::new(ErrorKind::SpawnFailed, "cannot pass the standard descriptors on")
                .caused_by(std::io::Error::from(errno))
        })?;
        Ok((lifted, number))
    });
    lifted.collect()
}

/// The sandbox's own file systems of a limited size.
fn in_memory(mounts: &[MountStep]) -> impl Iterator<Item = &Path> {
    mounts.iter().filter_map(|step| match step {
        MountStep::Tmpfs { target, size: Some(_), .. } => {
            Some(Path::new(OsStr::from_bytes(target.to_bytes())))
        }
        _ => None,
    })
}

fn asker(approval: Approval, request: &ExecRequest) -> Result<Arc<Asker>> {
    let command = match &request.command {
        Command::Shell(text) => text.clone(),
        Command::Argv(argv) => argv.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "),
    };
    Asker::new(approval, command).map(Arc::new).map_err(|errno| {
        Error::new(ErrorKind::SpawnFailed, "cannot prepare to ask").caused_by(std::io::Error::from(errno))
    })
}

/// The shell's convention, with timeouts told apart.
fn exit_code(outcome: &Outcome) -> (i32, Option<i32>) {
    const TIMED_OUT: i32 = 124;
    let status = outcome.status.unwrap_or(libc::SIGKILL);
    let signal = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
    let code = match signal {
        _ if outcome.timed_out => TIMED_OUT,
        Some(signal) => 128 + signal,
        None => libc::WEXITSTATUS(status),
    };
    (code, signal)
}

fn launch_error(error: &LaunchError, selected: &Selected) -> Error {
    let message = format!("cannot start the sandbox: {}", launcher::in_words(error));
    let wrapped = Error::new(ErrorKind::SandboxDenied, message);
    if error.is_nested() {
        let held = if selected.fence_plan.launcher == Launcher::Landlock {
            "this is inside another supervised sandbox; here denied files in writable directories could not be held"
        } else {
            "this is inside another supervised sandbox, and the supervisor is required"
        };
        return wrapped.hint(held).hint("start ringfence outside of the other sandbox");
    }
    wrapped
}
