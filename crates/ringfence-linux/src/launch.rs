//! Starting a sandbox: the one spawn path of the native launcher.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Mutex;

use ringfence_model::LockExt as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::Winsize;

use crate::init::{IdMaps, InitArgs, run_init};
use crate::plan::{Exec, MountStep, Plan};
use crate::prefork::child::Order;
use crate::prefork::{one, server};
use crate::report::{Message, Step};
use crate::steps;
use crate::sys::{self, Cloned};

/// All the namespaces a sandbox has of its own.
pub const NAMESPACES: i32 = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// The first word from inside.
#[derive(Debug)]
pub(crate) enum Heard {
    Ready,
    Failed(Step, u32, i32),
    /// It ended, or took too long, without one.
    Nothing,
}

/// How long it may take.
pub(crate) const PATIENCE_AT_START: Timespec = Timespec { tv_sec: 20, tv_nsec: 0 };

/// How long whoever is asked to end everything may take.
const PATIENCE: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// A sandbox that is being built or runs.
#[derive(Debug)]
pub struct Sandboxed {
    /// Of pid 1 inside; its end is the end of everything inside.
    pub pid: i32,
    pub pidfd: OwnedFd,
    /// The socket on which init reports; see [`Message`].
    pub control: OwnedFd,
    pub(crate) end: End,
}

/// How everything inside is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// `pid` is pid 1 inside: its end is the end of everything.
    Kill,
    /// `pid` ends everything when it is asked to, and then itself. Killed, it could leave something behind.
    Ask,
}

/// The command's standard descriptors.
#[derive(Debug, Clone, Copy)]
pub enum Stdio {
    /// These descriptors, which must be open; they are duplicated by the clone.
    Raw([RawFd; 3]),
    /// A terminal of the sandbox's own; its master comes as [`Message::Terminal`].
    Terminal(Winsize),
}

impl Stdio {
    pub(crate) fn parts(self) -> ([RawFd; 3], Option<Winsize>) {
        match self {
            Self::Raw(fds) => (fds, None),
            Self::Terminal(size) => ([-1; 3], Some(size)),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error("cannot make a control socket")]
    Control(#[source] std::io::Error),
    #[error("cannot create the sandbox's namespaces")]
    Clone(#[source] std::io::Error),
    #[error("cannot place the sandbox under its limits")]
    Place(#[source] std::io::Error),
    /// Another program that should have built the sandbox did not; what it said.
    #[error("{program} did not start the sandbox: {said}")]
    Helper { program: String, said: String },
    /// A step inside failed; `what` names the path where there is one.
    #[error("cannot {}{what}", step.describe())]
    Init {
        step: Step,
        what: String,
        /// It is about something the kernel makes, not about a path of the host.
        made: bool,
        #[source]
        source: std::io::Error,
    },
}

impl LaunchError {
    /// Whether this machine does not let the fence be built this way, whatever the policy. Another way may
    /// work then.
    #[must_use]
    pub fn is_of_the_machine(&self) -> bool {
        let refused = |source: &std::io::Error| {
            let errno = source.raw_os_error().unwrap_or(0);
            [libc::EPERM, libc::EACCES, libc::ENOSYS, libc::EINVAL, libc::ENOSPC, libc::EUSERS]
                .contains(&errno)
        };
        match self {
            Self::Helper { .. } => true,
            Self::Clone(source) => refused(source),
            Self::Init { step, made, source, .. } => match step {
                Step::Bwrap => true,
                Step::UserMap
                | Step::PrivateMounts
                | Step::NewRoot
                | Step::PivotRoot
                | Step::Mount
                | Step::DetachHost
                | Step::SealRoot
                | Step::Loopback
                | Step::Hostname
                | Step::Namespaces => *made && refused(source),
                _ => false,
            },
            Self::Control(_) | Self::Place(_) => false,
        }
    }

    /// Whether a supervisor above us is in the way of ours.
    #[must_use]
    pub fn is_nested(&self) -> bool {
        matches!(self, Self::Init { step: Step::Supervisor, source, .. }
            if source.raw_os_error() == Some(libc::EBUSY))
    }

    /// Puts a report from inside into words, with the path it is about.
    #[must_use]
    pub fn from_report(plan: &Plan, step: Step, detail: u32, errno: i32) -> Self {
        let detail = detail as usize;
        let made = match step {
            Step::Mount => matches!(
                plan.mounts.get(detail),
                Some(MountStep::Proc { .. } | MountStep::Devpts { .. } | MountStep::Tmpfs { .. })
            ),
            _ => true,
        };
        let what = match step {
            Step::Mount => plan.mounts.get(detail).map_or_else(String::new, |mount| {
                format!(": {} {}", mount.verb(), mount.target().to_string_lossy())
            }),
            Step::LandlockRule => plan
                .landlock
                .as_ref()
                .and_then(|(_, rules)| rules.get(detail))
                .map_or_else(String::new, |rule| format!(" for {}", rule.path.to_string_lossy())),
            _ => String::new(),
        };
        Self::Init { step, what, made, source: std::io::Error::from_raw_os_error(errno) }
    }
}

/// Starts a sandbox that runs one command. Returns as soon as its first process exists; all that
/// follows is reported on `control`.
///
/// The sandbox dies with the *thread* that calls this (the kernel's rule for parent-death signals), so
/// call it from one that lives as long as the sandbox; or, by the [server], with the one that began that. `place` is called while the sandbox is being built; the
/// first process is in the groups it gives before the command may start.
pub fn launch(plan: &Plan, exec: &Exec, stdio: Stdio, place: Place<'_>) -> Result<Sandboxed, LaunchError> {
    let (stdio, tty) = stdio.parts();
    let begun = one::take_for(plan, exec);
    let idmapped_tree = match &begun {
        Some(begun) if begun.has_idmapped() => None,
        _ => idmapped_tree(plan)?,
    };
    let order = Order {
        plan,
        exec,
        stdio,
        tty,
        idmapped_tree: idmapped_tree.as_ref().map(AsFd::as_fd),
        waits: place.is_some(),
    };
    let begun = match begun {
        Some(begun) => begun.continue_with(&order).map(Some),
        None => server::launch(&order),
    };
    if let Some(begun) = begun.map_err(|errno| LaunchError::Control(errno.into()))? {
        begun.placed(plan, place)?;
        return Ok(begun);
    }
    let (host, inside) = control_pair()?;
    let maps = Maps::identity();
    let args = InitArgs {
        plan,
        exec,
        idmapped_tree: order.idmapped_tree,
        passed: &exec.passed,
        stdio,
        tty,
        control: inside.as_fd(),
        wait_for_go: order.waits,
        maps: Some(maps.borrow()),
        landlocked: false,
        tied: false,
        mounted: 0,
    };
    steps::start();
    // SAFETY: the child allocates nothing and never returns.
    match unsafe { sys::clone(NAMESPACES) }.map_err(|errno| LaunchError::Clone(errno.into()))? {
        Cloned::Child => run_init(&args, host.as_raw_fd()),
        Cloned::Parent { pid, pidfd } => {
            let sandboxed = Sandboxed { pid, pidfd, control: host, end: End::Kill };
            sandboxed.placed(plan, place)?;
            Ok(sandboxed)
        }
    }
}

fn idmapped_tree(plan: &Plan) -> Result<Option<OwnedFd>, LaunchError> {
    let (Some(idmapped), Some(path)) = (&plan.idmapped, plan.idmapped_tree()) else { return Ok(None) };
    idmapped.tree().map(Some).map_err(|source| LaunchError::Init {
        step: Step::Mount,
        what: format!(" {} without its owners", path.to_string_lossy()),
        made: true,
        source,
    })
}

/// Makes the control groups that hold the sandbox, and gives their [doors](crate::cgroup::Cgroup::doors).
pub type Place<'a> = Option<&'a mut dyn FnMut() -> std::io::Result<Vec<OwnedFd>>>;

/// The control socket: (the host's end, the sandbox's end).
pub(crate) fn control_pair() -> Result<(OwnedFd, OwnedFd), LaunchError> {
    rustix::net::socketpair(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::SEQPACKET,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )
    .map_err(|errno| LaunchError::Control(errno.into()))
}

/// The caller stays who it is in a new user namespace.
#[derive(Debug)]
pub(crate) struct Maps {
    uid: CString,
    gid: CString,
}

impl Maps {
    pub(crate) fn identity() -> Self {
        let identity = |id: u32| CString::new(format!("{id} {id} 1\n")).unwrap_or_default();
        Self {
            uid: identity(rustix::process::geteuid().as_raw()),
            gid: identity(rustix::process::getegid().as_raw()),
        }
    }

    pub(crate) fn borrow(&self) -> IdMaps<'_> {
        IdMaps { uid: self.uid.as_bytes(), gid: self.gid.as_bytes() }
    }
}

/// A way into a running sandbox, for more commands than its first one.
#[derive(Debug)]
pub struct Door<'a> {
    control: BorrowedFd<'a>,
}

impl Door<'_> {
    /// Starts the sandbox's [`Exec`] once more, beside what runs: with these descriptors under these numbers, the
    /// first of them as its standard ones, or with a terminal. What it leaves behind ends with it, and it ends
    /// with the sandbox.
    pub fn another(
        &self,
        given: &[(BorrowedFd<'_>, RawFd)],
        terminal: Option<Winsize>,
    ) -> Result<Sandboxed, LaunchError> {
        let failed = |errno: Errno| LaunchError::Control(errno.into());
        let (host, inside) = control_pair()?;
        Message::Another.send(self.control, Some(inside.as_fd())).map_err(failed)?;
        drop(inside);
        for (fd, target) in given {
            Message::Given { target: *target }.send(host.as_fd(), Some(*fd)).map_err(failed)?;
        }
        let (rows, columns) = terminal.map_or((0, 0), |size| (size.ws_row.max(1), size.ws_col.max(1)));
        Message::Begin { rows, columns }.send(host.as_fd(), None).map_err(failed)?;
        let mut fds = [PollFd::new(&host, PollFlags::IN)];
        while let Err(Errno::INTR) = poll(&mut fds, Some(&PATIENCE_AT_START)) {}
        if fds[0].revents().is_empty() {
            return Err(failed(Errno::TIMEDOUT));
        }
        match Message::receive_with_descriptor(host.as_fd()) {
            Ok((Message::Ready, Some(pidfd))) => {
                Ok(Sandboxed { pid: 0, pidfd, control: host, end: End::Ask })
            }
            Ok(_) => Err(failed(Errno::BADMSG)),
            Err(errno) => Err(failed(errno)),
        }
    }
}

impl Sandboxed {
    /// For a sandbox whose command is [held](Exec::held).
    #[must_use]
    pub fn door(&self) -> Door<'_> {
        Door { control: self.control.as_fd() }
    }

    /// Lets the first process go on once it knows which groups to enter; ends it where that fails.
    pub(crate) fn placed(&self, plan: &Plan, place: Place<'_>) -> Result<(), LaunchError> {
        let Some(place) = place else { return Ok(()) };
        let control = self.control.as_fd();
        let go_on = |doors: Vec<OwnedFd>| {
            for door in &doors {
                Message::Enter.send(control, Some(door.as_fd()))?;
            }
            Message::Go.send(control, None).map_err(std::io::Error::from)
        };
        place().and_then(go_on).map_err(|error| {
            let said = self.said_already();
            self.kill();
            match said {
                // It was gone before it could be placed, and this is why.
                Some(Message::Failed { step, detail, errno }) => {
                    LaunchError::from_report(plan, step, detail, errno)
                }
                _ => LaunchError::Place(error),
            }
        })
    }

    /// Waits for the first word from inside, of those that say it before anything else.
    pub(crate) fn first_word(&self) -> Heard {
        let mut fds = [PollFd::new(&self.control, PollFlags::IN), PollFd::new(&self.pidfd, PollFlags::IN)];
        while let Err(Errno::INTR) = poll(&mut fds, Some(&PATIENCE_AT_START)) {}
        if !fds[0].revents().contains(PollFlags::IN) {
            return Heard::Nothing;
        }
        match Message::receive(self.control.as_fd()) {
            Ok(Message::Ready) => Heard::Ready,
            Ok(Message::Failed { step, detail, errno }) => Heard::Failed(step, detail, errno),
            _ => Heard::Nothing,
        }
    }

    fn said_already(&self) -> Option<Message> {
        let mut fds = [PollFd::new(&self.control, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).ok()?;
        fds[0].revents().contains(PollFlags::IN).then(|| Message::receive(self.control.as_fd()).ok())?
    }

    /// Ends everything inside, at once, and waits for it.
    pub fn kill(&self) {
        if self.end == End::Ask {
            self.terminate(libc::SIGKILL);
            let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
            let _ = poll(&mut fds, Some(&PATIENCE));
        }
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, rustix::process::Signal::KILL);
        self.wait();
    }

    /// Waits until pid 1 has ended and reaps it. Harmless when that has been done.
    pub fn wait(&self) {
        use rustix::process::{WaitId, WaitIdOptions, waitid};
        while let Err(Errno::INTR) = waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED) {}
    }

    /// Does not wait for pid 1, which has nothing to do any more but to end. It is reaped by the next one who
    /// calls this, or by whoever inherits it.
    pub(crate) fn leave(&self) {
        use rustix::process::{WaitId, WaitIdOptions, waitid};
        static LEAVING: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());
        let mut leaving = LEAVING.locked();
        leaving.extend(self.pidfd.try_clone());
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        leaving.retain(|pidfd| matches!(waitid(WaitId::PidFd(pidfd.as_fd()), options), Ok(None)));
    }

    /// Asks everything inside to end.
    pub fn terminate(&self, signal: i32) {
        // A sandbox that is already gone needs no asking.
        let _ = Message::Terminate { signal }.send(self.control.as_fd(), None);
    }
}
