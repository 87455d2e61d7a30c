//! Handing a descriptor to a waiting caller without waking another processor for it.
//!
//! The kernel can wake who is answered on the processor of the one who answers, but only for a plain answer: who
//! gets a descriptor is woken wherever the scheduler likes, and so is who handed it over. Where it likes a processor that
//! sleeps, a hand-over takes five times as long as on one. So caller and supervisor are kept on one processor, where
//! they take turns anyway.
//!
//! To move a thread to a processor and back costs more than all the rest of a hand-over. So callers stay here as long as
//! they open one file after the other, and go when they rest, and before anybody can see or inherit where one of them
//! may run: before a new process or thread is made, before anybody asks for or sets a thread's processors, and before
//! something below `/proc` is opened. Where those calls are not seen, a caller is kept for each single hand-over, while it
//! waits.
//!
//! Several callers are kept together only while they call so fast that this thread has no rest: then each waits for it
//! most of the time, and there is nothing that they could do at the same time.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::Pid;

use super::notif::{self, Notification};
use super::pin_cpu::Pinned;

/// Without a call for so long, a single caller goes. Longer than until the next tick of any usual clock: an earlier alarm
/// would be set anew for each call, which is dear on a virtual machine.
const PATIENCE: Duration = Duration::from_millis(5);
/// The same of several, who could do something at the same time.
const PATIENCE_WITH_SEVERAL: Duration = Duration::from_millis(1);
/// Whoever calls so soon after the one before had to wait for it, or nearly.
const AT_ONCE: Duration = Duration::from_micros(100);
const MOST: usize = 8;
/// After so many hand-overs this thread stays here, too. It nearly always would anyway; but not moving it when every
/// process opens its two or three libraries saves more than that.
const STEADY: u32 = 4;

/// How descriptors get to callers.
#[derive(Debug)]
pub(super) struct Handover {
    /// See [`placement`](super::Watched::placement).
    may_stay: bool,
    /// Whoever waits for an answer is not interrupted before.
    pub(super) uninterrupted: bool,
    /// This thread, and the callers that are here.
    own: Option<Pinned>,
    callers: Vec<Pinned>,
    /// To them.
    handed_over: u32,
    last_call: Instant,
    /// Who calls now is not to stay here.
    apart: bool,
}

impl Handover {
    pub(super) fn new(may_stay: bool) -> Self {
        Self {
            may_stay,
            uninterrupted: false,
            own: None,
            handed_over: 0,
            callers: Vec::with_capacity(MOST),
            last_call: Instant::now(),
            apart: false,
        }
    }

    /// Somebody calls.
    pub(super) fn meet(&mut self, tid: i32) {
        self.apart = false;
        let now = Instant::now();
        let at_once = now.duration_since(std::mem::replace(&mut self.last_call, now)) < AT_ONCE;
        if !self.keeps(tid) && (!at_once || self.callers.len() == MOST) {
            self.part();
        }
    }

    fn keeps(&self, tid: i32) -> bool {
        self.callers.iter().any(|kept| kept.is(tid))
    }

    /// Whoever is kept may go everywhere again.
    pub(super) fn part(&mut self) {
        self.callers.clear();
        self.own = None;
        self.handed_over = 0;
    }

    /// The same, and who calls now does not stay with what it gets.
    pub(super) fn stay_apart(&mut self) {
        self.part();
        self.apart = true;
    }

    /// After how long without a call there is something to do.
    pub(super) fn patience(&self) -> Option<Duration> {
        match self.callers.len() {
            0 => None,
            1 => Some(PATIENCE),
            _ => Some(PATIENCE_WITH_SEVERAL),
        }
    }

    /// Hands the file over; a caller with no room for it hears so.
    pub(super) fn give(
        &mut self,
        listener: BorrowedFd<'_>,
        notification: &Notification,
        file: &OwnedFd,
        cloexec: bool,
    ) -> Result<(), Errno> {
        if self.may_stay && !self.apart {
            self.keep(notification.tid);
        }
        if !self.may_stay && self.uninterrupted {
            return give_in_two_steps(listener, notification, file, cloexec);
        }
        give(listener, notification.id, file, cloexec)
    }

    fn keep(&mut self, tid: i32) {
        if !self.keeps(tid) {
            self.callers.extend(Pinned::here(Pid::from_raw(tid)));
        }
        self.handed_over = self.handed_over.saturating_add(1);
        if self.handed_over == STEADY {
            self.own = Pinned::here(None);
        }
    }
}

/// Hands the file over in one step; a caller with no room for it hears so.
pub(super) fn give(listener: BorrowedFd<'_>, id: u64, file: &OwnedFd, cloexec: bool) -> Result<(), Errno> {
    notif::inject(listener, id, file.as_fd(), cloexec).or_else(|errno| no_room(listener, id, errno))
}

/// Hands the file over and closes our copy before the caller is answered: a pipe whose reader has left must not look as
/// if it had one, or what is written next is lost. Only where callers are not interrupted.
pub(super) fn give_away(
    listener: BorrowedFd<'_>,
    id: u64,
    file: OwnedFd,
    cloexec: bool,
) -> Result<(), Errno> {
    let added = notif::add(listener, id, file.as_fd(), cloexec);
    drop(file);
    match added {
        Ok(number) => notif::succeed(listener, id, number.into()),
        Err(errno) => no_room(listener, id, errno),
    }
}

/// The caller is kept here while it gets the file, and goes everywhere again before it is answered.
fn give_in_two_steps(
    listener: BorrowedFd<'_>,
    notification: &Notification,
    file: &OwnedFd,
    cloexec: bool,
) -> Result<(), Errno> {
    let kept = Pinned::here(Pid::from_raw(notification.tid));
    let added = notif::add(listener, notification.id, file.as_fd(), cloexec);
    drop(kept);
    match added {
        Ok(number) => notif::succeed(listener, notification.id, number.into()),
        Err(errno) => no_room(listener, notification.id, errno),
    }
}

fn no_room(listener: BorrowedFd<'_>, id: u64, errno: Errno) -> Result<(), Errno> {
    match errno {
        Errno::MFILE | Errno::NFILE => notif::refuse(listener, id, errno),
        other => Err(other),
    }
}

#[cfg(test)]
mod tests {
    use rustix::thread::{CpuSet, sched_getaffinity};

    use super::*;

    fn processors(thread: Option<Pid>) -> CpuSet {
        sched_getaffinity(thread).unwrap()
    }

    fn while_somebody_waits(check: impl FnOnce(Pid)) {
        std::thread::scope(|scope| {
            let (send, receive) = std::sync::mpsc::channel();
            let (done, wait) = std::sync::mpsc::channel::<()>();
            scope.spawn(move || {
                send.send(rustix::thread::gettid()).unwrap();
                wait.recv().unwrap_err();
            });
            check(receive.recv().unwrap());
            drop(done);
        });
    }

    // On a machine with one processor nobody is kept, and all of it is true as well.

    #[test]
    fn who_was_kept_may_go_everywhere_again() {
        while_somebody_waits(|tid| {
            let before = (processors(None), processors(Some(tid)));
            let mut handover = Handover::new(true);
            for _ in 0..STEADY {
                handover.keep(tid.as_raw_nonzero().get());
            }
            assert_eq!((processors(None).count(), processors(Some(tid)).count()), (1, 1));
            handover.part();
            assert_eq!((processors(None), processors(Some(tid))), before);
            handover.keep(tid.as_raw_nonzero().get());
            drop(handover);
            assert_eq!((processors(None), processors(Some(tid))), before);
        });
    }

    #[test]
    fn a_stranger_who_calls_later_finds_nobody_kept() {
        while_somebody_waits(|tid| {
            let before = processors(Some(tid));
            let mut handover = Handover::new(true);
            handover.keep(tid.as_raw_nonzero().get());
            handover.last_call = Instant::now() - AT_ONCE;
            handover.meet(tid.as_raw_nonzero().get());
            assert_eq!(processors(Some(tid)).count(), 1, "it is no stranger");
            handover.last_call = Instant::now() - AT_ONCE;
            handover.meet(i32::MAX);
            assert_eq!(processors(Some(tid)), before);
        });
    }
}
