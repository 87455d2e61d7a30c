//! The native launcher: everything built by this program, no helper, no set-uid, no daemon.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringfence_fence::{CreateOptions, EventSink};
use ringfence_linux::landlock;
use ringfence_linux::launch::{LaunchError, Stdio, launch};
use ringfence_linux::plan::{Exec, Plan, Rlimit};
use ringfence_linux::seccomp::{self, NotifySet, Precision};
use ringfence_linux::supervisor::{Supervisor, Watched};
use ringfence_linux::sys::CStringArray;
use ringfence_linux::warden::{Attend, Outcome, attend};
use ringfence_model::{
    Assurance, Command, DenyReason, Error, ErrorKind, ExecEvent, ExecRequest, ExecResult, Layer, Limits,
    Policy, PolicyMode, Result, Stdin, Usage, Violation,
};

use crate::complete::{self, Completed};
use crate::environment;
use crate::host::{Host, canonical_or_same};
use crate::relay;
use crate::scan;
use crate::terminal::{self, RawTerminal};
use crate::view::{self, c_path};

/// A fence that is ready to be built: the plan is computed once per policy and reused for each run.
#[derive(Debug)]
pub struct Native {
    host: Host,
    cwd: PathBuf,
    policy: Policy,
    plan: Plan,
    watched: Watched,
    degraded: Vec<String>,
}

impl Native {
    /// Computes the plan. Fails when a rule of the policy cannot be enforced.
    pub fn prepare(options: CreateOptions) -> Result<Self> {
        let host = Host::from_environment(options.environment);
        let cwd = canonical_or_same(&options.cwd);
        refuse_what_cannot_be_enforced(&options.policy, &cwd)?;
        let precision = precision(&options.provider_options)?;
        let Completed { policy, .. } = complete::complete(options.policy, &cwd, &host);
        let fs = &policy.filesystem;
        let roots: Vec<&Path> = fs
            .allow_write
            .iter()
            .chain(fs.allow_read.iter().filter(|rule| !is_systems_own(rule)))
            .filter_map(|rule| rule.path.as_literal())
            .collect();
        let found = scan::scan(fs, &roots);
        let view = view::lay_out(fs, &found, &cwd)?;
        let mut degraded = Vec::new();
        if found.incomplete {
            degraded.push("the project has too many files to look for denied names in all of it".to_owned());
        }
        let abi = landlock::abi();
        if abi == 0 {
            degraded.push("this kernel has no Landlock: one layer less".to_owned());
        }
        let plan = Plan {
            hostname: CString::from(c"ringfence"),
            mounts: view.mounts,
            landlock: (abi > 0).then_some((abi, view.landlock)),
            rlimits: rlimits(&policy.limits),
            filter: filter(precision),
            supervised: precision != Precision::Off,
        };
        if precision != Precision::Full {
            degraded.push(format!(
                "precision {}: reads of hidden paths are refused but not reported",
                name(precision)
            ));
        }
        Ok(Self { host, cwd, policy, plan, watched: Watched { fixed: view.fixed }, degraded })
    }

    /// The policy as it is enforced, with everything the fence added.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Runs one command in a fresh sandbox and waits for it.
    pub fn run(
        &self,
        request: &ExecRequest,
        streams: Streams<'_>,
        events: EventSink<'_>,
    ) -> Result<ExecResult> {
        let started = Instant::now();
        let cwd = request.cwd.as_ref().map_or_else(|| self.cwd.clone(), |cwd| canonical_or_same(cwd));
        let env = environment::build(&self.policy.environment, &self.host, &cwd, &request.env);
        let exec = command(request, &env, &cwd)?;
        let timeout = match (request.timeout_ms, self.policy.limits.timeout_ms) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let run = Run {
            native: self,
            exec: &exec,
            deadline: timeout.map(|ms| started + Duration::from_millis(ms)),
            events,
            violations: RefCell::default(),
        };
        let (outcome, output) = match streams {
            Streams::Inherit(fds) => {
                let stdio = Stdio::Raw(fds.map(|fd| fd.as_raw_fd()));
                (run.attended(stdio, [], drop)?, Collected::default())
            }
            Streams::Capture => run.captured(&request.stdin)?,
            Streams::Terminal { input, output, resized } => {
                (run.on_terminal(input, output, resized)?, Collected::default())
            }
        };
        if let Some(errno) = outcome.exec_errno {
            return Err(exec_error(request, errno));
        }
        Ok(self.result(outcome, output, run.violations.into_inner(), started))
    }

    fn result(
        &self,
        outcome: Outcome,
        output: Collected,
        violations: Vec<Violation>,
        started: Instant,
    ) -> ExecResult {
        let (exit_code, signal) = exit_code(&outcome);
        let blocking = blocking(&violations, exit_code);
        ExecResult {
            stdout: output.stdout,
            stderr: output.stderr,
            exit_code,
            signal,
            blocked: blocking.is_some(),
            blocked_reason: blocking.map(|violation| violation.message.clone()),
            blocked_resource: blocking.map(|violation| violation.resource.clone()),
            violations,
            timed_out: outcome.timed_out,
            truncated: output.truncated,
            duration_ms: started.elapsed().as_secs_f64() * 1000.0,
            usage: Usage {
                cpu_ms: Some(outcome.cpu_us / 1000),
                max_memory_bytes: Some(outcome.max_rss_kib * 1024),
            },
            sandbox: self.assurance(),
        }
    }

    #[must_use]
    pub fn assurance(&self) -> Assurance {
        let mut layers = vec![
            Layer::UserNamespace,
            Layer::MountNamespace,
            Layer::PidNamespace,
            Layer::NetworkNamespace,
            Layer::IpcNamespace,
            Layer::UtsNamespace,
            Layer::CgroupNamespace,
            Layer::Capabilities,
            Layer::Seccomp,
        ];
        if self.plan.landlock.is_some() {
            layers.push(Layer::Landlock);
        }
        if self.plan.supervised {
            layers.push(Layer::Supervisor);
        }
        if !self.plan.rlimits.is_empty() {
            layers.push(Layer::Rlimits);
        }
        Assurance {
            requested: PolicyMode::Restricted,
            effective: PolicyMode::Restricted,
            active: true,
            adapter: "local/native".to_owned(),
            layers,
            degraded: self.degraded.clone(),
        }
    }
}

/// Where the command's output goes.
#[derive(Debug, Clone, Copy)]
pub enum Streams<'a> {
    /// The caller's own descriptors, handed to the command as they are.
    Inherit([BorrowedFd<'a>; 3]),
    /// Collected in the result, and streamed as events.
    Capture,
    /// A terminal of its own, connected to the caller's.
    Terminal {
        input: BorrowedFd<'a>,
        output: BorrowedFd<'a>,
        /// Readable when the caller's terminal changed its size.
        resized: Option<BorrowedFd<'a>>,
    },
}

#[derive(Debug, Default)]
struct Collected {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    truncated: bool,
}

/// One run of a prepared fence.
struct Run<'a> {
    native: &'a Native,
    exec: &'a Exec,
    deadline: Option<Instant>,
    events: EventSink<'a>,
    violations: RefCell<Vec<Violation>>,
}

impl Run<'_> {
    /// Launches and attends. `ours` are descriptors that must be closed on this side as soon as the command
    /// has them, or its pipes would never end.
    fn attended<const N: usize>(
        &self,
        stdio: Stdio,
        ours: [OwnedFd; N],
        on_terminal: impl FnMut(OwnedFd),
    ) -> Result<Outcome> {
        let Native { plan, policy, watched, .. } = self.native;
        let sandbox = launch(plan, self.exec, stdio, None).map_err(|error| launch_error(&error))?;
        drop(ours);
        let mut report = |violation: Violation| {
            (self.events)(ExecEvent::Violation(Box::new(violation.clone())));
            self.violations.borrow_mut().push(violation);
        };
        let supervisor = Supervisor::new(&policy.filesystem, watched, &mut report);
        let mut attendant = Attendant { supervisor, on_terminal };
        attend(plan, &sandbox, self.deadline, None, &mut attendant).map_err(|error| launch_error(&error))
    }

    fn captured(&self, stdin: &Stdin) -> Result<(Outcome, Collected)> {
        let pipe_error = |errno: rustix::io::Errno| {
            Error::new(ErrorKind::SpawnFailed, "cannot make pipes for the command")
                .caused_by(std::io::Error::from(errno))
        };
        let (stdout, command_stdout) = relay::output_pipe().map_err(pipe_error)?;
        let (stderr, command_stderr) = relay::output_pipe().map_err(pipe_error)?;
        let (command_stdin, feed) = match stdin {
            Stdin::Inherit => (
                rustix::stdio::stdin().try_clone_to_owned().map_err(|error| {
                    Error::new(ErrorKind::SpawnFailed, "cannot pass the standard input on").caused_by(error)
                })?,
                None,
            ),
            Stdin::Empty => (open_null().map_err(pipe_error)?, None),
            Stdin::Bytes(bytes) => {
                let (read, write) = relay::input_pipe().map_err(pipe_error)?;
                (read, Some((write, bytes.as_slice())))
            }
        };
        let cap = self.native.policy.limits.max_output_bytes;
        let events = self.events;
        std::thread::scope(|scope| {
            let pump = scope.spawn(move || relay::pump(feed, [stdout, stderr], cap, events));
            let stdio =
                Stdio::Raw([&command_stdin, &command_stdout, &command_stderr].map(AsRawFd::as_raw_fd));
            let outcome = self.attended(stdio, [command_stdin, command_stdout, command_stderr], drop);
            let [stdout, stderr] =
                pump.join().map_err(|_| Error::new(ErrorKind::Internal, "the output thread failed"))?;
            let truncated = stdout.truncated() || stderr.truncated();
            Ok((outcome?, Collected { stdout: stdout.finish(), stderr: stderr.finish(), truncated }))
        })
    }

    fn on_terminal(
        &self,
        input: BorrowedFd<'_>,
        output: BorrowedFd<'_>,
        resized: Option<BorrowedFd<'_>>,
    ) -> Result<Outcome> {
        let raw = RawTerminal::new(input).map_err(|errno| {
            Error::new(ErrorKind::SpawnFailed, "cannot use the terminal")
                .caused_by(std::io::Error::from(errno))
        })?;
        let outcome = std::thread::scope(|scope| {
            let start = |master: OwnedFd| {
                scope.spawn(move || terminal::relay(&master, input, output, resized));
            };
            self.attended(Stdio::Terminal(terminal::size(input)), [], start)
        });
        drop(raw);
        outcome
    }
}

/// Serves the supervisor's notifications, and hands the terminal's master on.
struct Attendant<'a, F> {
    supervisor: Supervisor<'a>,
    on_terminal: F,
}

impl<F: FnMut(OwnedFd)> Attend for Attendant<'_, F> {
    fn listener(&mut self, listener: &OwnedFd) {
        // Without it each call pays two wake-ups across processors; older kernels do not know it.
        let _ = seccomp::set_sync_wake_up(listener.as_fd());
    }

    fn notification(&mut self, listener: BorrowedFd<'_>) {
        self.supervisor.serve(listener);
    }

    fn terminal(&mut self, master: OwnedFd) {
        (self.on_terminal)(master);
    }
}

fn open_null() -> rustix::io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    rustix::fs::open(c"/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

fn precision(options: &serde_json::Value) -> Result<Precision> {
    match options.get("precision").map(|value| value.as_str()) {
        None | Some(Some("full")) => Ok(Precision::Full),
        Some(Some("writes")) => Ok(Precision::Writes),
        Some(Some("off")) => Ok(Precision::Off),
        Some(other) => Err(Error::new(
            ErrorKind::InvalidConfig,
            format!("precision is full, writes or off, not {}", other.unwrap_or("something that is no text")),
        )),
    }
}

fn name(precision: Precision) -> &'static str {
    match precision {
        Precision::Full => "full",
        Precision::Writes => "writes",
        Precision::Off => "off",
    }
}

fn filter(precision: Precision) -> Vec<seccomp::sock_filter> {
    match precision {
        Precision::Off => seccomp::static_program(),
        Precision::Full => seccomp::combined_program(&NotifySet { execs: true, ..NotifySet::full() }),
        Precision::Writes => seccomp::combined_program(&NotifySet::writes()),
    }
}

fn is_systems_own(rule: &ringfence_model::PathRule) -> bool {
    use ringfence_model::RuleLayer::{BuiltIn, Detected};
    matches!(rule.source.layer, BuiltIn | Detected)
}

fn refuse_what_cannot_be_enforced(policy: &Policy, cwd: &Path) -> Result<()> {
    if policy.network.allow_network {
        return Err(Error::new(
            ErrorKind::SandboxDenied,
            "network.allowNetwork cannot be enforced by the local fence: it has no filtered network",
        )
        .hint("remove allowNetwork, or use a provider with a network"));
    }
    if cwd.parent().is_none() {
        return Err(Error::new(ErrorKind::SandboxDenied, "the project cannot be the root directory")
            .hint("start in the project's own directory, or name it with --project"));
    }
    Ok(())
}

fn rlimits(limits: &Limits) -> Vec<Rlimit> {
    let mut list = vec![Rlimit { resource: libc::RLIMIT_CORE, soft: 0, hard: 0 }];
    let mut add = |resource, limit: Option<u64>| {
        if let Some(limit) = limit {
            list.push(Rlimit { resource, soft: limit, hard: limit });
        }
    };
    add(libc::RLIMIT_CPU, limits.max_cpu_seconds);
    add(libc::RLIMIT_FSIZE, limits.max_file_size_bytes);
    add(libc::RLIMIT_NOFILE, limits.max_open_files);
    add(libc::RLIMIT_STACK, limits.max_stack_bytes);
    add(libc::RLIMIT_NPROC, limits.max_processes);
    add(libc::RLIMIT_DATA, limits.max_memory_bytes);
    list
}

/// The violation that makes the result a blocked one: of a resource on the deny list always, of anything
/// else when the command failed. The last such is the likeliest cause.
fn blocking(violations: &[Violation], exit_code: i32) -> Option<&Violation> {
    let listed = violations.iter().rev().find(|violation| violation.reason == Some(DenyReason::Denied));
    listed.or_else(|| violations.last().filter(|_| exit_code != 0))
}

/// The command as `execve` wants it, with every place PATH lets it be.
fn command(request: &ExecRequest, env: &BTreeMap<OsString, OsString>, cwd: &Path) -> Result<Exec> {
    let argv: Vec<OsString> = match &request.command {
        Command::Argv(argv) => argv.clone(),
        Command::Shell(text) => vec!["bash".into(), "-c".into(), text.into()],
    };
    let c = |text: &OsStr| {
        CString::new(text.as_bytes())
            .map_err(|_| Error::new(ErrorKind::Validation, format!("argument {text:?} contains a NUL byte")))
    };
    let Some(program) = argv.first().filter(|program| !program.is_empty()) else {
        return Err(Error::new(ErrorKind::Validation, "no command given"));
    };
    let candidates = if program.as_bytes().contains(&b'/') {
        vec![c(program)?]
    } else {
        let path = env.get(OsStr::new("PATH")).cloned().unwrap_or_default();
        std::env::split_paths(&path).map(|dir| c(dir.join(program).as_os_str())).collect::<Result<_>>()?
    };
    let argv: Vec<CString> = argv.iter().map(|word| c(word)).collect::<Result<_>>()?;
    let env = env
        .iter()
        .map(|(name, value)| {
            let mut pair = name.clone();
            pair.push("=");
            pair.push(value);
            c(&pair)
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Exec { candidates, argv: CStringArray::new(argv), env: CStringArray::new(env), cwd: c_path(cwd)? })
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

fn launch_error(error: &LaunchError) -> Error {
    let cause = std::error::Error::source(error).map_or_else(String::new, |source| format!(": {source}"));
    let mut wrapped =
        Error::new(ErrorKind::SandboxDenied, format!("cannot start the sandbox: {error}{cause}"));
    if matches!(error, LaunchError::Clone(_)) {
        wrapped = wrapped.hint("`ringfence doctor` says what is missing and how to get it");
    }
    wrapped
}

fn exec_error(request: &ExecRequest, errno: i32) -> Error {
    let program = match &request.command {
        Command::Argv(argv) => {
            argv.first().map_or_else(String::new, |program| program.to_string_lossy().into_owned())
        }
        Command::Shell(_) => "bash".to_owned(),
    };
    let kind = if errno == libc::ENOENT { ErrorKind::NotFound } else { ErrorKind::SpawnFailed };
    let reason = std::io::Error::from_raw_os_error(errno);
    Error::new(kind, format!("cannot run {program}: {reason}"))
}
