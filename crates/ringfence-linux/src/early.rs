//! A sandbox that is begun before anybody knows what it will be.
//!
//! Making namespaces takes as long as reading a configuration and planning from it, and neither needs the other. So
//! a program that will make one sandbox calls [`begin`] first thing. A helper is cloned from it while it is small,
//! makes pid 1 of a sandbox as *our* child, and ends. That pid 1 does what no policy decides
//! ([`stage::found`], and the mounts that every plan begins with) and waits. [`launch`](crate::launch::launch) sends
//! it the plan and the command as a [parcel](crate::parcel), instead of cloning them with a process.
//!
//! Nothing but this code runs in it until then. It ends when this process does, or at [`forget`].

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;

use crate::launch::{End, Maps, NAMESPACES, Sandboxed, control_pair};
use crate::plan::MountStep;
use crate::report::{Message, Step};
use crate::stage::{self, Failure};
use crate::sys::{self, Cloned, Sys};
use crate::waiting::{self, Order};

static BEGUN: Mutex<Option<Begun>> = Mutex::new(None);

/// It has done its work, and ends.
static HELPER: Mutex<Option<OwnedFd>> = Mutex::new(None);

#[derive(Debug)]
struct Begun {
    helper: OwnedFd,
    /// Where the helper says who pid 1 is. Not on the control socket, where pid 1 may be heard before it.
    told: OwnedFd,
    /// The host's end.
    control: OwnedFd,
    ground: Vec<MountStep>,
}

/// Begins a sandbox, which the first [`launch`](crate::launch::launch) of this process takes, if its plan begins
/// with the mounts of `ground`. Where that is not possible nothing happens: a launch does all of it then, and says
/// what is wrong.
///
/// To be called while this process has one thread only: what is begun allocates, and a thread that is not there
/// any more could hold the allocator's lock.
pub fn begin(ground: Vec<MountStep>) {
    let (Ok((host, inside)), Ok((told, tell))) = (control_pair(), control_pair()) else { return };
    if !has_one_thread() {
        return;
    }
    match sys::clone(0) {
        Ok(Cloned::Child) => {
            drop((host, told));
            help(inside.as_fd(), tell, &ground)
        }
        Ok(Cloned::Parent { pidfd, .. }) => {
            *BEGUN.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(Begun { helper: pidfd, told, control: host, ground });
        }
        Err(_) => {}
    }
}

/// Ends what was begun and will not be used.
pub fn forget() {
    if let Some(begun) = take() {
        begun.forget();
    }
}

pub(crate) fn has_one_thread() -> bool {
    // A link for itself, one for its parent, and one for each thread.
    rustix::fs::stat(c"/proc/self/task").is_ok_and(|task| task.st_nlink == 3)
}

/// The helper: makes pid 1, and tells whose it is.
fn help(control: BorrowedFd<'_>, tell: OwnedFd, ground: &[MountStep]) -> ! {
    let maps = Maps::identity();
    match sys::clone(NAMESPACES | libc::CLONE_PARENT) {
        Ok(Cloned::Child) => {
            drop(tell);
            waiting::run(control, &maps, ground)
        }
        Ok(Cloned::Parent { pid, pidfd }) => {
            // If the host is gone, so is pid 1, soon.
            let _ = Message::Begun { pid }.send(tell.as_fd(), Some(pidfd.as_fd()));
            sys::exit_now(0)
        }
        Err(errno) => {
            stage::report_failure(tell.as_fd(), Failure { step: Step::WaitForHost, detail: 0, errno });
            sys::exit_now(1)
        }
    }
}

impl Begun {
    /// Waits until pid 1 is there. None when it cannot be. A helper that says nothing may have made one, which may
    /// have been told what to do: that is an error, or a command could run twice.
    fn sandboxed(self) -> Sys<Option<Sandboxed>> {
        let heard = Message::receive_with_descriptor(self.told.as_fd());
        *HELPER.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.helper);
        match heard? {
            (Message::Begun { pid }, Some(pidfd)) => {
                Ok(Some(Sandboxed { pid, pidfd, control: self.control, end: End::Kill }))
            }
            (Message::Failed { .. }, _) => Ok(None),
            _ => Err(Errno::BADMSG),
        }
    }

    fn forget(self) {
        if let Ok(Some(sandboxed)) = self.sandboxed() {
            sandboxed.kill();
        }
        see_helper_off();
    }
}

/// Reaps the helper, if there was one. Later than it ends, so that nobody waits for it.
pub(crate) fn see_helper_off() {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    if let Some(helper) = HELPER.lock().unwrap_or_else(PoisonError::into_inner).take() {
        while let Err(Errno::INTR) = waitid(WaitId::PidFd(helper.as_fd()), WaitIdOptions::EXITED) {}
    }
}

fn take() -> Option<Begun> {
    BEGUN.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// The sandbox that was begun, if it fits, told what it is to be.
pub(crate) fn continue_with(order: &Order<'_>) -> Sys<Option<Sandboxed>> {
    let Some(begun) = take() else { return Ok(None) };
    let Order { plan, exec, .. } = order;
    if !plan.mounts.starts_with(&begun.ground) || !exec.passed.is_empty() || exec.held {
        begun.forget();
        return Ok(None);
    }
    // Pid 1 may not be there yet; it finds this when it is.
    match order.send(begun.control.as_fd()) {
        // Or it never will be.
        Ok(()) | Err(Errno::PIPE | Errno::CONNRESET) => begun.sandboxed(),
        Err(errno) => Err(errno),
    }
}
