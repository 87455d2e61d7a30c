//! Handing a descriptor to a waiting caller without waking another processor for it.
//!
//! The kernel can wake who is answered on the processor of the one who answers, but only for a plain answer: who
//! gets a descriptor is woken wherever the scheduler likes. Where it likes a processor that sleeps, a hand-over takes
//! ten times as long as the open itself. So it is done in two steps. In the first the caller gets its copy; when that
//! took long enough for a detour, the next callers are kept on this processor while they get theirs, which they do not
//! notice, since they wait. In the second it is answered.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use super::notif::{self, Notification};

/// More than it takes on one processor, less than it takes to wake another.
const DETOUR: Duration = Duration::from_micros(25);
/// So often callers are kept before it is tried without.
const KEPT: u32 = 500;

/// How descriptors get to callers.
#[derive(Debug, Default)]
pub(super) struct Handover {
    /// Who is answered goes on on the processor of the one who answers, and is not interrupted before.
    pub(super) woken_here: bool,
    /// So many callers are still to be kept on this processor.
    kept: u32,
}

impl Handover {
    /// Hands the file over; a caller with no room for it hears so.
    pub(super) fn give(
        &mut self,
        listener: BorrowedFd<'_>,
        notification: &Notification,
        file: &OwnedFd,
        cloexec: bool,
    ) -> Result<(), Errno> {
        if !self.woken_here {
            return give(listener, notification.id, file, cloexec);
        }
        let added = if let Some(kept) = self.kept.checked_sub(1) {
            self.kept = kept;
            let _here = Here::keep(notification.tid);
            notif::add(listener, notification.id, file.as_fd(), cloexec)
        } else {
            let begun = Instant::now();
            let added = notif::add(listener, notification.id, file.as_fd(), cloexec);
            if begun.elapsed() > DETOUR {
                self.kept = KEPT;
            }
            added
        };
        match added {
            Ok(number) => notif::succeed(listener, notification.id, number.into()),
            Err(errno) => no_room(listener, notification.id, errno),
        }
    }
}

/// Hands the file over in one step; a caller with no room for it hears so.
pub(super) fn give(listener: BorrowedFd<'_>, id: u64, file: &OwnedFd, cloexec: bool) -> Result<(), Errno> {
    match notif::inject(listener, id, file.as_fd(), cloexec) {
        Err(errno) => no_room(listener, id, errno),
        Ok(()) => Ok(()),
    }
}

fn no_room(listener: BorrowedFd<'_>, id: u64, errno: Errno) -> Result<(), Errno> {
    match errno {
        Errno::MFILE | Errno::NFILE => notif::refuse(listener, id, errno),
        other => Err(other),
    }
}

/// A thread that runs on this processor only, until this is dropped.
struct Here {
    thread: Pid,
    before: CpuSet,
}

impl Here {
    /// None where it may not run here, or runs nowhere else anyway.
    fn keep(tid: i32) -> Option<Self> {
        let thread = Pid::from_raw(tid)?;
        let before = sched_getaffinity(Some(thread)).ok()?;
        let processor = sched_getcpu();
        if before.count() < 2 || processor >= CpuSet::MAX_CPU || !before.is_set(processor) {
            return None;
        }
        let mut here = CpuSet::new();
        here.set(processor);
        sched_setaffinity(Some(thread), &here).ok()?;
        Some(Self { thread, before })
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        // One that is gone needs nothing.
        let _ = sched_setaffinity(Some(self.thread), &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_kept_here_may_go_everywhere_again() {
        let tid = rustix::thread::gettid();
        let before = sched_getaffinity(Some(tid)).unwrap();
        let kept = Here::keep(tid.as_raw_nonzero().get());
        let during = sched_getaffinity(Some(tid)).unwrap();
        assert_eq!(
            during.count(),
            1,
            "on a machine with one processor nobody is kept, and this is true as well"
        );
        drop(kept);
        assert_eq!(sched_getaffinity(Some(tid)).unwrap(), before);
    }
}
