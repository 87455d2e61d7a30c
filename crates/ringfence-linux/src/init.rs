//! Pid 1 of the new namespaces ([`run_init`]), from the clone to the end of the sandbox. It builds the root, starts the
//! process that becomes the command ([`payload`](crate::payload)), and reaps.
//!
//! Nothing here allocates, locks or panics: the process may be a clone of a multi-threaded one. Every
//! failure is reported to the host as (step, detail, errno) and ends the sandbox.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, UnmountFlags};
use rustix::process::Signal;

use crate::extra_command;
use crate::fuse::mount as fuse;
use crate::mounts;
use crate::order::{self, Begin, Init, Named as _, Root};
use crate::payload;
use crate::plan::{Exec, MountStep, Passed, Plan};
use crate::report::{Message, Step};
use crate::steps::{self, Who};
use crate::sys::{self, Cloned, Sys};

/// Everything the child needs, prepared before the clone.
#[derive(Debug)]
pub(crate) struct InitArgs<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) exec: &'a Exec,
    /// The command's descriptors besides the standard ones.
    pub(crate) passed: &'a [Passed],
    /// The three standard descriptors of the command; ignored with a terminal.
    pub(crate) stdio: [RawFd; 3],
    /// Give the command a terminal of its own and send its master to the host.
    pub(crate) tty: Option<rustix::termios::Winsize>,
    /// Our end of the control socket.
    pub(crate) control: BorrowedFd<'a>,
    /// Wait for the host's word before starting the command (it may have to place us in a cgroup).
    pub(crate) wait_for_go: bool,
    /// The mount that only the host could prepare; see [`Plan::idmapped`].
    pub(crate) idmapped_tree: Option<BorrowedFd<'a>>,
    /// None in a sandbox whose namespaces somebody else made.
    pub(crate) maps: Option<IdMaps<'a>>,
    /// Landlock holds already.
    pub(crate) landlocked: bool,
    /// The command ends when the process that started it does. Pid 1 of a namespace needs no such tie.
    pub(crate) tied: bool,
    /// So many of the plan's mounts are there already.
    pub(crate) mounted: usize,
}

/// The ids of a new user namespace, as `/proc/self/uid_map` and `gid_map` take them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IdMaps<'a> {
    pub(crate) uid: &'a [u8],
    pub(crate) gid: &'a [u8],
}

/// A step that failed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failure {
    pub(crate) step: Step,
    pub(crate) detail: usize,
    pub(crate) errno: Errno,
}

pub(crate) trait OrFail<T> {
    fn or_fail(self, step: Step) -> Result<T, Failure>;
}

impl<T> OrFail<T> for Sys<T> {
    fn or_fail(self, step: Step) -> Result<T, Failure> {
        self.map_err(|errno| Failure { step, detail: 0, errno })
    }
}

impl<T> OrFail<T> for std::io::Result<T> {
    fn or_fail(self, step: Step) -> Result<T, Failure> {
        self.map_err(|error| {
            let errno = Errno::from_raw_os_error(error.raw_os_error().unwrap_or(libc::EIO));
            Failure { step, detail: 0, errno }
        })
    }
}

/// Runs as pid 1; never returns. `host` is this process's copy of the host's end of the control socket.
pub(crate) fn run_init(args: &InitArgs<'_>, host: RawFd) -> ! {
    // With a copy of the other end open here, the host's end would never be noticed.
    // SAFETY: this process's copy, which nothing else here uses.
    drop(unsafe { sys::adopt(host) });
    steps::lap(Who::Init, steps::CLONE);
    let code = match init(args) {
        Ok(()) => 0,
        Err(failure) => {
            report_failure(args.control, failure);
            1
        }
    };
    sys::exit_now(code)
}

pub(crate) fn report_failure(control: BorrowedFd<'_>, failure: Failure) {
    let message = Message::Failed {
        step: failure.step,
        detail: u32::try_from(failure.detail).unwrap_or(u32::MAX),
        errno: failure.errno.raw_os_error(),
    };
    // If the host is gone there is nobody left to tell.
    let _ = message.send(control, None);
}

fn init(args: &InitArgs<'_>) -> Result<(), Failure> {
    furnish(args, found(args.control, args.maps)?)
}

/// Does what every sandbox begins with, whatever its plan. Returns the host's root.
pub(crate) fn found(control: BorrowedFd<'_>, maps: Option<IdMaps<'_>>) -> Result<OwnedFd, Failure> {
    let mut host = Err(Errno::INVAL).or_fail(Step::NewRoot);
    for act in order::BEGIN {
        match act {
            Begin::DieWithParent => {
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
                    .and_then(|()| still_there(control))
                    .or_fail(Step::DieWithParent)?;
            }
            Begin::IdMaps => write_id_maps(maps)?,
            Begin::PrivateMounts => {
                rustix::mount::mount_change(
                    c"/",
                    MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
                )
                .or_fail(Step::PrivateMounts)?;
            }
            Begin::Loopback => sys::loopback_up().or_fail(Step::Loopback)?,
            Begin::NewRoot => {
                host = mounts::new_root().map_err(|(step, errno)| Failure { step, detail: 0, errno });
            }
        }
        steps::lap(Who::Init, act.name());
    }
    host
}

/// Builds what the plan says on that ground, and runs the command there.
pub(crate) fn furnish(args: &InitArgs<'_>, host: OwnedFd) -> Result<(), Failure> {
    let mut host = Some(host);
    for act in order::INIT {
        match act {
            Init::Root => build_root(args, &mut host)?,
            Init::Hostname => sys::sethostname(&args.plan.hostname).or_fail(Step::Hostname)?,
            Init::WaitForGo if args.wait_for_go => wait_for_go(args.control)?,
            Init::WaitForGo => {}
            Init::Capabilities => sys::drop_all_capabilities().or_fail(Step::Capabilities)?,
            Init::Command => start_and_reap(args)?,
        }
        steps::lap(Who::Init, act.name());
    }
    Ok(())
}

/// Waits for the host's word, and enters the groups that it names before. Anything else it says means that it
/// does not want the sandbox any more.
pub(crate) fn wait_for_go(control: BorrowedFd<'_>) -> Result<(), Failure> {
    loop {
        match Message::receive_with_descriptor(control).or_fail(Step::WaitForHost)? {
            (Message::Go, _) => return Ok(()),
            (Message::Enter, Some(door)) => rustix::io::write(&door, b"0").or_fail(Step::Enter)?,
            _ => return Err(Errno::CANCELED).or_fail(Step::WaitForHost),
        };
    }
}

/// Whether the host lives: one that died before the tie to it was made sends no signal.
pub(crate) fn still_there(control: BorrowedFd<'_>) -> Sys<()> {
    let mut fds = [PollFd::from_borrowed_fd(control, PollFlags::IN)];
    poll(&mut fds, Some(&rustix::event::Timespec::default()))?;
    if fds[0].revents().contains(PollFlags::HUP) { Err(Errno::PIPE) } else { Ok(()) }
}

/// Starts the command and reaps as pid 1 until it ends.
pub(crate) fn start_and_reap(args: &InitArgs<'_>) -> Result<(), Failure> {
    let signals = sys::child_signal_fd().or_fail(Step::Signals)?;
    let payload = start(args)?;
    become_reaper(c"ringfence-init", &mut [args.control.as_raw_fd(), signals.as_raw_fd()])?;
    reap_until_done(args, signals.as_fd(), None, payload, sys::kill_everyone);
    Ok(())
}

/// From here on this process only reaps. It must not be a way out for what it reaps: not dumpable, it can be
/// neither traced nor opened through /proc. And it must hold nothing open that others wait to be closed,
/// such as the other end of the command's input: it keeps these descriptors only.
pub(crate) fn become_reaper(name: &CStr, keep: &mut [RawFd]) -> Result<(), Failure> {
    // The command's process may still share the table.
    sys::unshare_files().or_fail(Step::StartCommand)?;
    // SAFETY: this process only reaps from here on, and ends without running destructors.
    unsafe { sys::close_all_but(keep) }.or_fail(Step::StartCommand)?;
    // SAFETY: it knows all it needs.
    unsafe { sys::wipe_arguments() };
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .or_fail(Step::NotDumpable)?;
    let _ = rustix::thread::set_name(name);
    Ok(())
}

pub(crate) fn write_id_maps(maps: Option<IdMaps<'_>>) -> Result<(), Failure> {
    let Some(maps) = maps else { return Ok(()) };
    write_file(c"/proc/self/setgroups", b"deny").or_fail(Step::UserMap)?;
    write_file(c"/proc/self/uid_map", maps.uid).or_fail(Step::UserMap)?;
    write_file(c"/proc/self/gid_map", maps.gid).or_fail(Step::UserMap)
}

fn write_file(path: &CStr, content: &[u8]) -> Sys<()> {
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, content).map(drop)
}

/// Takes `host` away when it is needed no more.
fn build_root(args: &InitArgs<'_>, host: &mut Option<OwnedFd>) -> Result<(), Failure> {
    let plan = args.plan;
    let mut traps = None;
    for act in order::ROOT {
        let from = || host.as_ref().map(AsFd::as_fd).ok_or(Errno::BADF).or_fail(Step::Mount);
        match act {
            // Whose use of one it was could not be told where several commands share a sandbox.
            Root::Traps if plan.traps.is_empty() || args.exec.held => {}
            Root::Traps => traps = make_traps(args, from()?).ok(),
            Root::Mounts => {
                let missing = plan.mounts.get(args.mounted..).unwrap_or_default();
                mount_all(from()?, args.idmapped_tree, missing, args.mounted)?;
            }
            // Without them the masks and doors below refuse as well, only silently.
            Root::TrapMounts => {
                if let Some(traps) = traps.take()
                    && fuse::lay_out(from()?, traps.as_fd(), &plan.traps).is_ok()
                    && let Ok(processes) = fuse::processes()
                {
                    Message::Processes
                        .send(args.control, Some(processes.as_fd()))
                        .or_fail(Step::WaitForHost)?;
                }
            }
            Root::DetachHost => {
                *host = None;
                mounts::close_workshop().or_fail(Step::SealRoot)?;
                rustix::mount::unmount(mounts::OLD_ROOT, UnmountFlags::DETACH).or_fail(Step::DetachHost)?;
                rustix::fs::rmdir(mounts::OLD_ROOT).or_fail(Step::DetachHost)?;
            }
            Root::Seal => mounts::make_read_only(c"/").or_fail(Step::SealRoot)?,
        }
        steps::lap(Who::Init, act.name());
    }
    Ok(())
}

/// Makes these mounts of a plan, which has `before` others before them.
pub(crate) fn mount_all(
    host: BorrowedFd<'_>,
    idmapped_tree: Option<BorrowedFd<'_>>,
    mounts: &[MountStep],
    before: usize,
) -> Result<(), Failure> {
    for (detail, step) in (before..).zip(mounts) {
        mounts::execute(host, idmapped_tree, step).map_err(|errno| Failure {
            step: Step::Mount,
            detail,
            errno,
        })?;
        steps::lap(Who::Init, steps::kind(step));
    }
    Ok(())
}

/// The file system of the traps, whose device the host has from here on.
fn make_traps(args: &InitArgs<'_>, host: BorrowedFd<'_>) -> Sys<OwnedFd> {
    let device = fuse::open(host)?;
    let traps = fuse::make(device.as_fd())?;
    Message::Tripwire.send(args.control, Some(device.as_fd()))?;
    Ok(traps)
}

/// Forks the process that becomes the command, and passes its notification listener (and terminal) on
/// to the host. Returns its pid.
pub(crate) fn start_payload(args: &InitArgs<'_>) -> Result<i32, Failure> {
    let terminal = args.tty.map(open_terminal).transpose().or_fail(Step::Terminal)?;
    let (tell, told) = rustix::net::socketpair(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::SEQPACKET,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )
    .or_fail(Step::StartCommand)?;

    // The two share their descriptor table until the listener exists: so this process can send it to
    // the host although the command's own process may no longer make such calls.
    steps::hand_over();
    // SAFETY: the child allocates nothing and never returns. Nothing is closed here before it has its own table.
    match unsafe { sys::clone(libc::CLONE_FILES) }.or_fail(Step::StartCommand)? {
        Cloned::Child => payload::run(args, told.as_fd(), terminal.as_ref().map(|(_, slave)| slave.as_fd())),
        Cloned::Parent { pid, pidfd } => {
            let master = terminal.as_ref().map(|(master, _)| master.as_fd());
            if let Some(master) = master {
                Message::Terminal.send(args.control, Some(master)).or_fail(Step::StartCommand)?;
            }
            // Until the other has a table of its own, closing anything here would close it there.
            while let Some(message) = next_word(&tell, &pidfd).or_fail(Step::StartCommand)? {
                match message {
                    Message::Listener { fd } => {
                        // SAFETY: the other process made it in our common table, and gave it up.
                        let listener = unsafe { sys::adopt(fd) };
                        Message::Listener { fd: -1 }
                            .send(args.control, Some(listener.as_fd()))
                            .or_fail(Step::StartCommand)?;
                    }
                    Message::Go => break,
                    // A failure, or "about to run" where nothing is supervised.
                    other => other.send(args.control, None).or_fail(Step::StartCommand)?,
                }
            }
            Ok(pid)
        }
    }
}

/// The next thing the command's process has to say; none when it is gone.
fn next_word(tell: &OwnedFd, pidfd: &OwnedFd) -> Sys<Option<Message>> {
    let mut fds = [PollFd::new(tell, PollFlags::IN), PollFd::new(pidfd, PollFlags::IN)];
    poll(&mut fds, None)?;
    if fds[0].revents().contains(PollFlags::IN) { Message::receive(tell.as_fd()).map(Some) } else { Ok(None) }
}

/// A new terminal in this mount namespace: (master, slave).
fn open_terminal(size: rustix::termios::Winsize) -> Sys<(OwnedFd, OwnedFd)> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    // The second is the one to use where the sandbox has no devpts of its own.
    let master = rustix::fs::open(c"/dev/pts/ptmx", flags, Mode::empty())
        .or_else(|_| rustix::fs::open(c"/dev/ptmx", flags, Mode::empty()))?;
    rustix::pty::unlockpt(&master)?;
    let flags =
        rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY | rustix::pty::OpenptFlags::CLOEXEC;
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags)?;
    rustix::termios::tcsetwinsize(&slave, size)?;
    Ok((master, slave))
}

/// Reaps until the command ends (or the host is gone), then returns: whoever is left must be ended, which
/// the end of a pid 1 does by itself. `parent` becomes readable when the host is gone, for who cannot tell
/// from the control socket. `signal_all` passes a signal on to everything inside.
///
/// Without a command it goes on until the host is gone. Asked for another, it starts that beside.
pub(crate) fn reap_until_done(
    args: &InitArgs<'_>,
    signals: BorrowedFd<'_>,
    parent: Option<BorrowedFd<'_>>,
    payload: Option<i32>,
    signal_all: fn(i32),
) {
    let control = args.control;
    if payload.is_none() && Message::Held.send(control, None).is_err() {
        return;
    }
    loop {
        let mut fds = [
            PollFd::new(&control, PollFlags::IN),
            PollFd::new(&signals, PollFlags::IN),
            PollFd::from_borrowed_fd(
                parent.unwrap_or(control),
                if parent.is_some() { PollFlags::IN } else { PollFlags::empty() },
            ),
        ];
        if poll(&mut fds, None).is_err_and(|errno| errno != Errno::INTR) {
            return;
        }
        let [control_events, signal_events] = [fds[0].revents(), fds[1].revents()];
        if parent.is_some() && fds[2].revents().contains(PollFlags::IN) {
            return;
        }
        if signal_events.contains(PollFlags::IN) {
            let mut drained = [0_u8; 128];
            let _ = rustix::io::read(signals, &mut drained);
            while let Ok(Some(reaped)) = sys::reap() {
                if Some(reaped.pid) == payload {
                    steps::lap(Who::Command, steps::RUN);
                    let ended = Message::Exited {
                        status: reaped.status,
                        alone: sys::end_everyone(),
                        cpu_us: reaped.user_us + reaped.system_us,
                        max_rss_kib: reaped.max_rss_kib,
                    };
                    let _ = ended.send(control, None);
                    return;
                }
            }
        }
        if control_events.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            match Message::receive_with_descriptor(control) {
                Ok((Message::Terminate { signal }, _)) if signal != libc::SIGKILL => signal_all(signal),
                Ok((Message::Another, Some(socket))) => extra_command::start(args, socket),
                _ => return,
            }
        }
    }
}

/// Starts the command, or, where it is held, gets ready to be asked for it.
pub(crate) fn start(args: &InitArgs<'_>) -> Result<Option<i32>, Failure> {
    if args.exec.held {
        payload::restrict(args.plan)?;
        return Ok(None);
    }
    start_payload(args).map(Some)
}

/// Opens a path of the new root without following any link: what is mounted on must be what was planned.
pub(crate) fn open_target(path: &CStr) -> Sys<OwnedFd> {
    rustix::fs::openat2(
        rustix::fs::CWD,
        path,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    )
}
