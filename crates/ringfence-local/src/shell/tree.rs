//! The processes of one sandbox as its host sees them.

use std::collections::BTreeSet;
use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// No real tree is larger; a sandbox that makes more is ended as a whole.
const MOST: usize = 100_000;

/// The processes directly below bash, and those whose parents are gone: what stands at the top of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tops(BTreeSet<i32>);

impl Tops {
    pub(crate) fn now(bash: i32) -> Self {
        let mut tops: BTreeSet<i32> = children(bash).into_iter().collect();
        if let Some(init) = parent(bash) {
            tops.extend(children(init).into_iter().filter(|pid| *pid != bash));
        }
        Self(tops)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that were not there before.
    pub(crate) fn since(self, before: &Self) -> Self {
        Self(self.0.difference(&before.0).copied().collect())
    }

    /// Sends a signal to all of them and all below them.
    pub(crate) fn signal(&self, signal: Signal) {
        let mut reached = BTreeSet::new();
        let mut waiting: Vec<i32> = self.0.iter().copied().collect();
        while let Some(pid) = waiting.pop() {
            if reached.len() < MOST && reached.insert(pid) {
                waiting.extend(children(pid));
            }
        }
        for pid in reached {
            send(pid, signal);
        }
    }
}

/// Sends a signal to a process that may be gone.
pub(crate) fn send(pid: i32, signal: Signal) {
    let Some(pid) = Pid::from_raw(pid) else { return };
    if let Ok(fd) = pidfd_open(pid, PidfdFlags::empty()) {
        let _ = pidfd_send_signal(&fd, signal);
    }
}

/// Whether a process waits in `read` for this descriptor; none when that cannot be seen.
pub(crate) fn waits_for(pid: i32, descriptor: i32) -> Option<bool> {
    let text = fs::read_to_string(format!("/proc/{pid}/syscall")).ok()?;
    let mut words = text.split(' ');
    let number = words.next()?.trim();
    let argument = words.next().and_then(|word| i64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    Some(number == libc::SYS_read.to_string() && argument == Some(descriptor.into()))
}

fn children(pid: i32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
}

fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain anything, but nothing after it contains a parenthesis.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}
