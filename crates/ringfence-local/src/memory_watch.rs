//! Keeping a memory limit for all processes of a sandbox together, where no control group does: what they use is added up
//! several times a second, and the largest is ended when it is too much.
//!
//! The nearer the limit, the more often: nothing allocates faster than memory is cleared.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use ringfence_model::LockExt as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// What was seen and done.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Processes that were ended.
    pub(crate) ended: AtomicU64,
    /// The most that was in use at once, in bytes.
    pub(crate) peak: AtomicU64,
    over: Mutex<bool>,
    changed: Condvar,
}

/// No machine clears more bytes in a second.
const FASTEST: u64 = 8 << 30;
const SHORTEST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_millis(500);

impl Tally {
    /// Watches everything below the process `top` until [`stop`](Self::stop). `places` are the sandbox's own file systems
    /// in memory, as they are seen in the root of its processes.
    pub(crate) fn watch(&self, top: i32, limit: u64, places: &[PathBuf]) {
        // A process may get to the limit before it is looked at for the first time.
        let mut pause = pause(limit);
        while !self.waits(pause) {
            let used = self.look(top, limit, places);
            self.peak.fetch_max(used, Ordering::Relaxed);
            pause = self::pause(limit.saturating_sub(used));
        }
    }

    pub(crate) fn stop(&self) {
        *self.over.locked() = true;
        self.changed.notify_all();
    }

    /// Whether it was stopped meanwhile.
    fn waits(&self, pause: Duration) -> bool {
        let over = self.over.locked();
        let (over, _) = self
            .changed
            .wait_timeout_while(over, pause, |over| !*over)
            .unwrap_or_else(PoisonError::into_inner);
        *over
    }

    /// Adds up, and ends the largest where it is too much. What is in use then, in bytes.
    fn look(&self, top: i32, limit: u64, places: &[PathBuf]) -> u64 {
        let mut processes = below(top);
        processes.retain(|pid| !is_a_copy_of_this(*pid));
        let files: u64 =
            processes.last().map_or(0, |pid| places.iter().map(|place| in_files(*pid, place)).sum());
        let quick = files + processes.iter().map(|pid| resident(*pid)).sum::<Memory>().all();
        if quick <= limit {
            return quick;
        }
        // Pages that several share were counted for each of them, and those of files that are mapped once more.
        let exact: Vec<(Memory, i32)> = processes.iter().map(|pid| (share(*pid), *pid)).collect();
        let sum: Memory = exact.iter().map(|(memory, _)| *memory).sum();
        let used = sum.own + files.max(sum.shared);
        if used > limit
            && let Some((_, largest)) = exact.iter().max_by_key(|(memory, _)| memory.all())
            && end(*largest)
        {
            self.ended.fetch_add(1, Ordering::Relaxed);
        }
        used
    }
}

fn pause(headroom: u64) -> Duration {
    Duration::from_micros(headroom / (FASTEST / 1_000_000)).clamp(SHORTEST, LONGEST)
}

/// Ends a process, and waits a little until its memory is free: else the next look would end another.
fn end(pid: i32) -> bool {
    const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
    let pidfd = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let ended = pidfd.filter(|pidfd| pidfd_send_signal(pidfd, Signal::KILL).is_ok());
    ended.is_some_and(|pidfd| {
        let _ = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&PATIENCE));
        true
    })
}

/// Whether it is a copy of this process that has not become a program, as those that only reap: its memory is ours. They
/// hide which program they are. So can others; the limit of each process holds those all the same.
fn is_a_copy_of_this(pid: i32) -> bool {
    /// `PF_FORKNOEXEC`, in the ninth field.
    const NO_EXEC: u64 = 0x40;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // A name may hold anything, and ends with the last parenthesis.
    let flags = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(6)?.parse::<u64>().ok());
    let program = |pid: &str| {
        let exe = std::fs::metadata(format!("/proc/{pid}/exe")).ok()?;
        Some((exe.dev(), exe.ino()))
    };
    let is_ours = |pid: i32| program(&pid.to_string()).is_none_or(|theirs| Some(theirs) == program("self"));
    flags.is_some_and(|flags| flags & NO_EXEC != 0) && is_ours(pid)
}

/// Everything that descends from `top`, without it.
fn below(top: i32) -> Vec<i32> {
    let mut found = Vec::new();
    let mut open = vec![top];
    while let Some(pid) = open.pop() {
        for thread in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let children = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            let children = children.split_ascii_whitespace().filter_map(|child| child.parse::<i32>().ok());
            let before = found.len();
            found.extend(children);
            open.extend_from_slice(&found[before..]);
        }
    }
    found
}

/// Memory that is not of a file on disk, in bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Memory {
    own: u64,
    /// With other processes, or of a file in memory.
    shared: u64,
}

impl Memory {
    fn all(self) -> u64 {
        self.own + self.shared
    }

    /// From a file of `/proc` with an amount in kibibytes behind each name.
    fn from(text: &str, own: &str, shared: &str) -> Option<Self> {
        let amount = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
        };
        Some(Self { own: amount(own)?, shared: amount(shared)? })
    }
}

impl std::iter::Sum for Memory {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self { own: sum.own + one.own, shared: sum.shared + one.shared })
    }
}

/// What is there of it; none of a process that is gone.
fn resident(pid: i32) -> Memory {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    Memory::from(&text, "RssAnon", "RssShmem").unwrap_or_default()
}

/// The same, with what is shared divided among those who share it. Where that is not told, all of it.
fn share(pid: i32) -> Memory {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    Memory::from(&text, "Pss_Anon", "Pss_Shmem").unwrap_or_else(|| resident(pid))
}

/// What a file system in memory holds, as this process sees it.
fn in_files(pid: i32, place: &std::path::Path) -> u64 {
    let place = PathBuf::from(format!("/proc/{pid}/root{}", place.display()));
    rustix::fs::statvfs(&place).map_or(0, |stat| (stat.f_blocks - stat.f_bfree) * stat.f_frsize)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_largest_of_several_is_ended() {
        let hold = |mib: usize| {
            std::process::Command::new("python3")
                .args([
                    "-c",
                    &format!("import time; x = b'x' * ({mib} << 20); print(1, flush=True); time.sleep(60)"),
                ])
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap()
        };
        let [mut small, mut large] = [hold(20), hold(120)];
        for child in [&mut small, &mut large] {
            let mut line = [0; 2];
            std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
        }
        let tally = Arc::new(Tally::default());
        let watcher = std::thread::spawn({
            let (tally, top) = (Arc::clone(&tally), rustix::process::getpid().as_raw_nonzero().get());
            move || tally.watch(top, 100 << 20, &[])
        });
        assert!(!large.wait().unwrap().success());
        assert!(small.try_wait().unwrap().is_none());
        tally.stop();
        watcher.join().unwrap();
        small.kill().unwrap();
        small.wait().unwrap();
        assert_eq!(tally.ended.load(Ordering::Relaxed), 1);
        assert!(tally.peak.load(Ordering::Relaxed) > 100 << 20);
    }

    #[test]
    fn the_nearer_the_limit_the_more_often() {
        assert_eq!(pause(0), SHORTEST);
        assert_eq!(pause(u64::MAX / 2), LONGEST);
        assert_eq!(pause(8 << 27), Duration::from_micros((8 << 27) / ((8 << 30) / 1_000_000)));
    }
}
