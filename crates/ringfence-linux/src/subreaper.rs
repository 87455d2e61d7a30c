//! A sandbox on the host's own files: no mounts, no pid namespace.
//!
//! Where user namespaces are out of reach (in containers, mostly), Landlock, seccomp and the supervisor hold
//! the command; where only the network shall be isolated, a network namespace does. Either way a
//! *subreaper* plays the part of pid 1: orphans come to it, it ends every process at the end, removes the
//! sandbox's own directories, and does both even when the host side is killed.
//!
//! Everything after the clone allocates nothing; see [`crate::init`].

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, WaitId, WaitIdOptions, waitid};

use crate::init::{self, Failure, InitArgs, OrFail};
use crate::launch::{End, Heard, LaunchError, Maps, Place, Sandboxed, Stdio, control_pair};
use crate::plan::{Exec, Plan};
use crate::report::{Message, Step};
use crate::sys::{self, Cloned, Sys};
use crate::{descendants, sweeper};

/// The things that such a sandbox has of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options<'a> {
    /// A network namespace (and the user namespace that it takes).
    pub network: bool,
    /// A directory that is removed at the end.
    pub directory: Option<&'a CStr>,
}

/// Starts a sandbox that runs one command. As [`crate::launch::launch`], except that the sandbox dies with
/// the calling *process*, and that the mounts of the plan are not made.
pub fn launch(
    plan: &Plan,
    exec: &Exec,
    stdio: Stdio,
    options: Options<'_>,
    place: Place<'_>,
) -> Result<Sandboxed, LaunchError> {
    let (host, inside) = control_pair()?;
    let parent = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty())
        .map_err(|errno| LaunchError::Control(errno.into()))?;
    let maps = Maps::identity();
    let (stdio, tty) = stdio.parts();
    let args = InitArgs {
        plan,
        exec,
        passed: &exec.passed,
        stdio,
        tty,
        control: inside.as_fd(),
        idmapped_tree: None,
        wait_for_go: place.is_some(),
        maps: options.network.then(|| maps.borrow()),
        landlocked: false,
        tied: true,
        mounted: 0,
    };
    let flags = if options.network { libc::CLONE_NEWUSER | libc::CLONE_NEWNET } else { 0 };
    // SAFETY: the child allocates nothing and never returns.
    match unsafe { sys::clone(flags) }.map_err(|errno| LaunchError::Clone(errno.into()))? {
        Cloned::Child => run(&args, options, parent.as_fd(), host.as_raw_fd()),
        Cloned::Parent { pid, pidfd } => {
            let sandboxed = Sandboxed { pid, pidfd, control: host, end: End::Ask };
            if place.is_some() {
                // The process that cleans up after it must not be placed with it.
                match sandboxed.first_word() {
                    Heard::Ready => {}
                    Heard::Failed(step, detail, errno) => {
                        sandboxed.wait();
                        return Err(LaunchError::from_report(plan, step, detail, errno));
                    }
                    Heard::Nothing => {
                        sandboxed.kill();
                        return Err(LaunchError::Control(Errno::PIPE.into()));
                    }
                }
            }
            sandboxed.placed(plan, place)?;
            Ok(sandboxed)
        }
    }
}

/// Runs as the subreaper; never returns.
fn run(args: &InitArgs<'_>, options: Options<'_>, parent: BorrowedFd<'_>, hosts_end: RawFd) -> ! {
    // Our copy of it would keep the connection open when the host is gone.
    // SAFETY: this process's copy, which nothing else here uses.
    drop(unsafe { sys::adopt(hosts_end) });
    let (mut signals, mut remover) = (None, None);
    let result = keep(args, options, parent, &mut signals, &mut remover);
    descendants::kill_all(signals.as_ref(), remover.as_ref().map(|remover| remover.pid));
    if let Some(remover) = remover {
        remover.work();
    }
    let code = match result {
        Ok(()) => 0,
        Err(failure) => {
            init::report_failure(args.control, failure);
            1
        }
    };
    sys::exit_now(code)
}

fn keep(
    args: &InitArgs<'_>,
    options: Options<'_>,
    parent: BorrowedFd<'_>,
    signals: &mut Option<OwnedFd>,
    remover: &mut Option<Remover>,
) -> Result<(), Failure> {
    // A signal from the host's terminal or from somebody who ends "all of ringfence" must not end the one
    // that cleans up.
    rustix::process::setsid().or_fail(Step::Subreaper)?;
    sys::block_signals();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).or_fail(Step::Subreaper)?;
    if options.network {
        init::write_id_maps(args.maps)?;
        sys::loopback_up().or_fail(Step::Loopback)?;
    }
    if let Some(directory) = options.directory {
        *remover = Some(Remover::start(directory).or_fail(Step::Subreaper)?);
    }
    if args.wait_for_go {
        Message::Ready.send(args.control, None).or_fail(Step::WaitForHost)?;
        init::wait_for_go(args.control)?;
    }
    let signals = signals.insert(sys::child_signal_fd().or_fail(Step::Signals)?);
    sys::give_up_capabilities().or_fail(Step::Capabilities)?;
    let payload = init::start(args)?;
    let [pidfd, sign] = remover.as_ref().map_or([parent.as_raw_fd(); 2], Remover::descriptors);
    let keep = &mut [args.control.as_raw_fd(), signals.as_raw_fd(), parent.as_raw_fd(), pidfd, sign];
    init::become_reaper(c"ringfence-keep", keep)?;
    let signal_all = descendants::signal_all;
    init::reap_until_done(args, signals.as_fd(), Some(parent), payload, signal_all);
    Ok(())
}

/// A process that removes the directory: when the subreaper says so, which may be confined by then and not able
/// to do it, or when the subreaper is killed: by whoever clears its control group, which is about to become the
/// sandbox's, or by the kernel when memory is short.
struct Remover {
    pid: i32,
    pidfd: OwnedFd,
    sign: OwnedFd,
}

impl Remover {
    fn start(directory: &CStr) -> Sys<Self> {
        let subreaper = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?;
        let sign = rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?;
        // SAFETY: the child allocates nothing, and ends in its arm.
        match unsafe { sys::clone(0) }? {
            Cloned::Parent { pid, pidfd } => Ok(Self { pid, pidfd, sign }),
            Cloned::Child => {
                let _ = sys::give_up_capabilities();
                let _ =
                    init::become_reaper(c"ringfence-clean", &mut [subreaper.as_raw_fd(), sign.as_raw_fd()]);
                let watched =
                    &mut [PollFd::new(&subreaper, PollFlags::IN), PollFd::new(&sign, PollFlags::IN)];
                while let Err(Errno::INTR) = poll(watched, None) {}
                for _ in 0..MOST_TRIES {
                    sweeper::remove_tree(directory);
                    if rustix::fs::lstat(directory).is_err() {
                        break;
                    }
                    // Something inside is still about to end.
                    let _ = poll(&mut [], Some(&PAUSE));
                }
                sys::exit_now(0)
            }
        }
    }

    fn descriptors(&self) -> [RawFd; 2] {
        [self.pidfd.as_raw_fd(), self.sign.as_raw_fd()]
    }

    /// Lets it begin, and waits for its end.
    fn work(self) {
        if rustix::io::write(&self.sign, &1_u64.to_ne_bytes()).is_ok() {
            let _ = waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED);
        }
    }
}

const MOST_TRIES: u32 = 500;
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
