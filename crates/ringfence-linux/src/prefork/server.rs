//! A small process that makes the first processes of sandboxes, for a program that keeps many.
//!
//! A clone copies the page tables and the descriptor table of the program that makes it, and both grow with every
//! sandbox that the program keeps; each is cloned several times over on the way to its command. So a program calls
//! [`begin`] first thing, and what is cloned from then on is a copy of what it was at that moment. The server makes
//! each pid 1 as a child of the *program*, which waits for it and with which it dies, as with every other launch.
//! The program itself tells that pid 1 what the sandbox is to be.
//!
//! The server reads nothing but requests and keeps nothing of them. It has the program's right to make sandboxes, as
//! the program had it at the beginning, and neither its descriptors nor its environment. It ends with the program. When
//! it ends before, launches are made by the program itself.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};

use ringfence_model::LockExt as _;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, waitid};

use super::child::{self, Order};
use super::one::has_one_thread;
use crate::init::{self, Failure};
use crate::launch::{End, Maps, NAMESPACES, PATIENCE_AT_START, Sandboxed, control_pair};
use crate::report::{Message, Step};
use crate::sys::{self, Cloned, Sys};

static SERVER: Mutex<Option<Arc<Server>>> = Mutex::new(None);

#[derive(Debug)]
struct Server {
    pidfd: OwnedFd,
    /// The socket for requests.
    requests: OwnedFd,
    whose: Whose,
}

/// For which process sandboxes are made, and as whom: a clone of the program is not their parent.
#[derive(Debug, PartialEq, Eq)]
struct Whose(Pid, [u32; 4]);

impl Whose {
    fn now() -> Self {
        use rustix::process::{getegid, geteuid, getgid, getpid, getuid};
        Self(getpid(), [getuid().as_raw(), geteuid().as_raw(), getgid().as_raw(), getegid().as_raw()])
    }
}

/// Starts a server, which makes the sandboxes of all later launches of this process. Where that is not possible
/// nothing happens, and launches are made as without.
///
/// To be called by the main thread, while there is no other: what is made allocates, and a thread that is not there any
/// more could hold the allocator's lock; and sandboxes die with the thread that called this.
pub fn begin() {
    let mut server = lock();
    if server.is_some() || !has_one_thread() {
        return;
    }
    let Ok((ours, theirs)) = control_pair() else { return };
    // SAFETY: the child never returns; it may allocate, since there is one thread.
    match unsafe { sys::clone(0) } {
        Ok(Cloned::Child) => {
            drop(ours);
            // Whoever wants something finds out that nobody is here.
            let _ = serve(theirs.as_fd());
            sys::exit_now(0)
        }
        Ok(Cloned::Parent { pidfd, .. }) => {
            *server = Some(Arc::new(Server { pidfd, requests: ours, whose: Whose::now() }));
        }
        Err(_) => {}
    }
}

fn lock() -> MutexGuard<'static, Option<Arc<Server>>> {
    SERVER.locked()
}

/// The server, until its program ends.
fn serve(requests: BorrowedFd<'_>) -> Sys<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    init::still_there(requests)?;
    // The terminal's are for the program.
    sys::block_signals();
    // SAFETY: this process keeps nothing of the program's.
    unsafe { sys::close_all_but(&mut [requests.as_raw_fd()]) }?;
    furnish_standard_descriptors()?;
    // SAFETY: a clone has one thread, and this one reads no environment.
    unsafe { sys::wipe_environment() };
    let _ = rustix::thread::set_name(c"ringfence-nurse");
    let maps = Maps::identity();
    loop {
        let (message, mut descriptors) = Message::receive_with_descriptors(requests)?;
        if let (Message::Another, Some(control)) = (message, descriptors.pop()) {
            make(control, &maps);
        }
    }
}

/// Nothing that is opened later shall have one of their numbers: they are what a command gets first.
fn furnish_standard_descriptors() -> Sys<()> {
    let null = rustix::fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    for number in 0..3 {
        if number != null.as_raw_fd() {
            // SAFETY: these numbers were closed.
            unsafe { sys::install_stdio(null.as_raw_fd(), number) }?;
        }
    }
    if null.as_raw_fd() < 3 {
        std::mem::forget(null);
    }
    Ok(())
}

/// Makes a pid 1 that is talked to by `control`.
fn make(control: OwnedFd, maps: &Maps) {
    // SAFETY: the child never returns; it may allocate, since there is one thread.
    match unsafe { sys::clone(NAMESPACES | libc::CLONE_PARENT) } {
        Ok(Cloned::Child) => {
            // Requests of others are not for it.
            // SAFETY: the others belong to frames that this process never returns to.
            let alone = unsafe { sys::close_all_but(&mut [0, 1, 2, control.as_raw_fd()]) };
            // The kernel says who it is.
            if alone.and_then(|()| Message::Ready.send(control.as_fd(), None)).is_err() {
                sys::exit_now(1)
            }
            child::run(control.as_fd(), maps, 0, &[])
        }
        Ok(Cloned::Parent { .. }) => {}
        Err(errno) => {
            init::report_failure(control.as_fd(), Failure { step: Step::WaitForHost, detail: 0, errno });
        }
    }
}

/// A sandbox by the server. None where there is no server, or it could not make one: nothing has happened then.
pub(crate) fn launch(order: &Order<'_>) -> Sys<Option<Sandboxed>> {
    let server = lock().clone();
    let Some(server) = server.filter(|server| server.whose == Whose::now()) else { return Ok(None) };
    let Some(sandboxed) = server.sandbox() else { return Ok(None) };
    match order.send(sandboxed.control.as_fd()) {
        // One that is gone already is found so by whoever attends to it.
        Ok(()) | Err(Errno::PIPE | Errno::CONNRESET) => Ok(Some(sandboxed)),
        Err(errno) => {
            sandboxed.kill();
            Err(errno)
        }
    }
}

impl Server {
    /// A new pid 1, which waits for its order.
    fn sandbox(&self) -> Option<Sandboxed> {
        let (host, inside) = control_pair().ok()?;
        rustix::net::sockopt::set_socket_passcred(&host, true).ok()?;
        if Message::Another.send(self.requests.as_fd(), Some(inside.as_fd())).is_err() {
            self.see_off();
            return None;
        }
        drop(inside);
        let mut fds = [PollFd::new(&host, PollFlags::IN)];
        while let Err(Errno::INTR) = poll(&mut fds, Some(&PATIENCE_AT_START)) {}
        if fds[0].revents().is_empty() {
            // Somebody stopped it. After its end there is a pid 1 that speaks, or there never will be one.
            self.see_off();
        }
        let heard = Message::receive_from(host.as_fd());
        // Further messages come without a name, which would take the place of their descriptors.
        let _ = rustix::net::sockopt::set_socket_passcred(&host, false);
        match heard {
            Ok((Message::Ready, Some(pid))) => match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
                Ok(pidfd) => {
                    Some(Sandboxed { pid: pid.as_raw_nonzero().get(), pidfd, control: host, end: End::Kill })
                }
                Err(_) => {
                    // Nobody talks to it any more, so it ends.
                    drop(host);
                    reap(WaitId::Pid(pid));
                    None
                }
            },
            Ok(_) => None,
            Err(_) => {
                self.see_off();
                None
            }
        }
    }

    /// Ends and reaps it, and lets nobody ask it any more.
    fn see_off(&self) {
        let mut server = lock();
        if server.as_ref().is_some_and(|current| std::ptr::eq(&raw const **current, self)) {
            *server = None;
        }
        drop(server);
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL);
        reap(WaitId::PidFd(self.pidfd.as_fd()));
    }
}

fn reap(who: WaitId<'_>) {
    while let Err(Errno::INTR) = waitid(who.clone(), WaitIdOptions::EXITED) {}
}
