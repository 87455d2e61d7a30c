//! Pinning two threads that take turns to one processor. On another one, which sleeps, each would have to be woken for
//! its turn, and that takes longer than the turns.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// A thread (this one, if none is named) that runs on this processor only, until this is dropped.
#[derive(Debug)]
pub(super) struct Pinned {
    thread: Option<Pid>,
    before: CpuSet,
}

impl Pinned {
    /// None where it may not run here, or runs nowhere else anyway.
    pub(super) fn here(thread: Option<Pid>) -> Option<Self> {
        let before = sched_getaffinity(thread).ok()?;
        let processor = sched_getcpu();
        if before.count() < 2 || processor >= CpuSet::MAX_CPU || !before.is_set(processor) {
            return None;
        }
        let mut here = CpuSet::new();
        here.set(processor);
        sched_setaffinity(thread, &here).ok()?;
        Some(Self { thread, before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // One that is gone needs nothing.
        let _ = sched_setaffinity(self.thread, &self.before);
    }
}
