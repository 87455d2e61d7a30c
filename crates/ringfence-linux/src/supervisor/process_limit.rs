//! The limit on processes where no control group counts them.
//!
//! The kernel refuses a process too many (`RLIMIT_NPROC`) and tells nobody but the caller. So they are counted now and
//! then: when somebody calls, and when nobody does; the more often, the more there are. New processes themselves are
//! not noticed: a fork that waits for the supervisor can be interrupted, which no program expects.

use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};

use super::{Supervisor, describe};

/// Between two counts when there are many, or more than before.
const SOON: Duration = Duration::from_millis(20);
/// This part of the limit may be missing from a count that was taken when the limit was reached.
const SLACK: u64 = 4;
/// When nothing happens.
const SELDOM: Duration = Duration::from_secs(1);

/// The last count of processes.
#[derive(Debug)]
pub(super) struct ProcessLimit {
    at: Option<Instant>,
    there: u64,
    pause: Duration,
    told: bool,
}

impl Default for ProcessLimit {
    fn default() -> Self {
        Self { at: None, there: 0, pause: SOON, told: false }
    }
}

/// What a count finds.
#[derive(Debug, Default)]
struct Counted {
    tasks: u64,
    /// The number of the newest process inside.
    newest: u64,
}

impl Supervisor<'_> {
    fn limit_to_watch(&self) -> Option<u64> {
        self.watched.most_processes.filter(|_| !self.process_limit.told && self.root.is_some())
    }

    /// After how long it is to be counted again.
    pub(super) fn next_count(&self) -> Option<Duration> {
        self.limit_to_watch().map(|_| self.process_limit.pause)
    }

    /// Counts, unless that was done a moment ago, and tells when there are as many as there may be.
    pub(super) fn count_processes(&mut self) {
        let Some(limit) = self.limit_to_watch() else { return };
        let (now, last) = (Instant::now(), &mut self.process_limit);
        if last.at.is_some_and(|at| now.duration_since(at) < last.pause) {
            return;
        }
        let Some((proc, counted)) = self.count() else { return };
        let last = &mut self.process_limit;
        let is_busy = counted.tasks > last.there || counted.tasks >= limit / 2;
        last.pause = if is_busy { SOON } else { (last.pause * 2).min(SELDOM) };
        (last.at, last.there) = (Some(now), counted.tasks);
        // They come and go while they are counted: one that was refused is rarely seen with all the others.
        if counted.tasks + limit / SLACK >= limit {
            last.told = true;
            let newest = format!("/proc/self/fd/{}/{}", proc.as_raw_fd(), counted.newest);
            self.reporter.tell(describe::too_many_processes(&newest, limit, counted.tasks));
        }
    }

    /// Threads and processes of this user, as the sandbox's own `/proc` has them.
    fn count(&self) -> Option<(rustix::fd::OwnedFd, Counted)> {
        let own = rustix::process::geteuid().as_raw();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc = rustix::fs::openat(self.root.as_ref()?.as_fd(), c"proc", flags, Mode::empty()).ok()?;
        let entries = rustix::fs::Dir::read_from(&proc).ok()?;
        let wanted = StatxFlags::NLINK | StatxFlags::UID;
        let mut counted = Counted::default();
        for entry in entries.flatten() {
            let name = entry.file_name().to_str().ok();
            let Some(number) = name.and_then(|name| name.parse::<u64>().ok()) else { continue };
            let task = format!("{number}/task");
            let Ok(tasks) = rustix::fs::statx(&proc, task, AtFlags::empty(), wanted) else { continue };
            if tasks.stx_uid == own {
                // One entry for each, besides `.` and `..`.
                counted.tasks += u64::from(tasks.stx_nlink).saturating_sub(2).max(1);
                counted.newest = number;
            }
        }
        Some((proc, counted))
    }
}
