//! What a group has used, and which of its limits were hit.

use super::find::Controller;
use super::group::{self, Group};
use super::{Limits, Version};
use rustix::fs::{Mode, OFlags};
use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

/// Both are `None` where the group does not enforce that limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    pub memory: Option<MemoryUsage>,
    pub pids: Option<PidsUsage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryUsage {
    /// In bytes, as the other amounts.
    pub limit: u64,
    /// The most that was ever used at once; since Linux 5.19 in version 2.
    pub peak: Option<u64>,
    /// Processes killed because the limit was reached and no memory could be reclaimed. How often the limit
    /// was reached without that is not told: version 1 does not count it when swap is limited too.
    pub oom_kills: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PidsUsage {
    pub limit: u64,
    /// The most that were alive at once; since Linux 6.1.
    pub peak: Option<u64>,
    /// How many forks and new threads were refused.
    pub refused: u64,
}

pub(super) fn read(groups: &[Group], limits: &Limits) -> Usage {
    let of = |controller| groups.iter().find(|group| group.base.has(controller));
    Usage {
        memory: limits.memory.zip(of(Controller::Memory)).map(|(limit, group)| memory(group, limit)),
        pids: limits.pids.zip(of(Controller::Pids)).map(|(limit, group)| PidsUsage {
            limit,
            peak: number(group, c"pids.peak"),
            refused: entry(group, c"pids.events", "max").unwrap_or(0),
        }),
    }
}

/// How often limits were reached since the group is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reached {
    /// Processes killed because there was no memory left.
    pub oom_kills: u64,
    /// Forks and new threads refused.
    pub refused: u64,
}

impl Reached {
    /// What came after `before`.
    #[must_use]
    pub const fn since(self, before: Self) -> Self {
        Self {
            oom_kills: self.oom_kills.saturating_sub(before.oom_kills),
            refused: self.refused.saturating_sub(before.refused),
        }
    }
}

/// Reads [`Reached`] while a group lives, at the price of two system calls.
#[derive(Debug)]
pub struct Gauge {
    memory: Option<OwnedFd>,
    pids: Option<OwnedFd>,
}

impl Gauge {
    pub(super) fn of(groups: &[Group]) -> Self {
        let open = |controller, v1: &CStr, v2: &CStr| {
            let group = groups.iter().find(|group| group.base.has(controller))?;
            let file = if group.base.version == Version::V1 { v1 } else { v2 };
            rustix::fs::openat(&group.dir, file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
        };
        Self {
            memory: open(Controller::Memory, c"memory.oom_control", c"memory.events"),
            pids: open(Controller::Pids, c"pids.events", c"pids.events"),
        }
    }

    #[must_use]
    pub fn read(&self) -> Reached {
        let count = |file: Option<&OwnedFd>, key| {
            let mut text = [0; 512];
            let length = rustix::io::pread(file?, &mut text, 0).ok()?;
            value_of(std::str::from_utf8(&text[..length]).ok()?, key)
        };
        Reached {
            oom_kills: count(self.memory.as_ref(), "oom_kill").unwrap_or(0),
            refused: count(self.pids.as_ref(), "max").unwrap_or(0),
        }
    }
}

fn memory(group: &Group, limit: u64) -> MemoryUsage {
    match group.base.version {
        Version::V1 => MemoryUsage {
            limit,
            peak: number(group, c"memory.max_usage_in_bytes"),
            oom_kills: entry(group, c"memory.oom_control", "oom_kill").unwrap_or(0),
        },
        Version::V2 => MemoryUsage {
            limit,
            peak: number(group, c"memory.peak"),
            oom_kills: entry(group, c"memory.events", "oom_kill").unwrap_or(0),
        },
    }
}

fn number(group: &Group, file: &CStr) -> Option<u64> {
    group::read(group.dir.as_fd(), file).ok()?.trim_ascii().parse().ok()
}

fn entry(group: &Group, file: &CStr, key: &str) -> Option<u64> {
    value_of(&group::read(group.dir.as_fd(), file).ok()?, key)
}

/// The value of that key in a file of `key value` lines.
fn value_of(text: &str, key: &str) -> Option<u64> {
    text.lines().filter_map(|line| line.split_once(' ')).find(|(name, _)| *name == key)?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::value_of;

    #[test]
    fn keys_are_whole_words() {
        let text = "oom_kill_disable 0\nunder_oom 1\noom_kill 7\n";
        assert_eq!(value_of(text, "oom_kill"), Some(7));
        assert_eq!(value_of(text, "oom"), None);
        assert_eq!(value_of("", "max"), None);
        assert_eq!(value_of("low 0\nhigh 0\nmax 12\noom 1\noom_kill 1\noom_group_kill 0\n", "max"), Some(12));
    }
}
