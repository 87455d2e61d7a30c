//! The limit on processes where no control group counts them.
//!
//! The kernel refuses a process too many (`RLIMIT_NPROC`) and tells nobody but the caller. So every new process is
//! noticed here, and the processes are counted when there can be that many: only forks make more, so a count of
//! ten under a limit of forty need not be repeated before thirty forks.

use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};

use super::{Supervisor, describe};

/// The last count of processes, and how long it holds.
#[derive(Debug, Default)]
pub(super) struct ProcessLimit {
    /// As many may be made before the next count.
    unseen: u64,
    told: bool,
}

impl Supervisor<'_> {
    /// One more process or thread is about to be made.
    pub(super) fn one_more(&mut self, tid: i32) {
        let Some(limit) = self.watched.most_processes.filter(|_| !self.process_limit.told) else { return };
        if let Some(left) = self.process_limit.unseen.checked_sub(1) {
            self.process_limit.unseen = left;
            return;
        }
        let there = self.count();
        match limit.checked_sub(there) {
            // The one at hand is counted the next time.
            Some(room @ 1..) => self.process_limit.unseen = room - 1,
            Some(0) | None => {
                self.process_limit.told = true;
                self.reporter.tell(describe::too_many_processes(tid, limit, there));
            }
        }
    }

    /// Threads and processes of this user, as the sandbox's own `/proc` has them.
    fn count(&self) -> u64 {
        let own = rustix::process::geteuid().as_raw();
        let open = |root| {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::openat(root, c"proc", flags, Mode::empty())
        };
        let Some(proc) = self.root.as_ref().and_then(|root| open(root.as_fd()).ok()) else { return 0 };
        let Ok(entries) = rustix::fs::Dir::read_from(&proc) else { return 0 };
        let wanted = StatxFlags::NLINK | StatxFlags::UID;
        let is_number = |name: &[u8]| name.iter().all(u8::is_ascii_digit);
        entries
            .flatten()
            .filter(|entry| is_number(entry.file_name().to_bytes()))
            .filter_map(|entry| {
                let task = [entry.file_name().to_bytes(), b"/task"].concat();
                rustix::fs::statx(&proc, task, AtFlags::empty(), wanted).ok()
            })
            .filter(|tasks| tasks.stx_uid == own)
            // One entry for each, besides `.` and `..`.
            .map(|tasks| u64::from(tasks.stx_nlink).saturating_sub(2).max(1))
            .sum()
    }
}
