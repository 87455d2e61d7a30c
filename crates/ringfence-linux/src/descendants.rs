//! Everything a process has started, and what those have started: found by climbing from each process of
//! the machine to its parents.
//!
//! For a sandbox without a pid namespace. Allocates nothing.

use std::ffi::CStr;
use std::io::Write as _;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, RawDir};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::sys::{self, Sys};

/// No real tree is deeper; a climb that meets recycled pids ends here.
const DEEPEST: usize = 4096;
/// A process that is stuck in the kernel is not waited for for ever.
const MOST_ROUNDS: u32 = 3000;
/// How often children are killed before the whole machine is searched.
const CHASES: u32 = 64;
const CHILDREN: &CStr = c"/proc/thread-self/children";
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// Sends `signal` to every descendant of this process.
pub(crate) fn signal_all(signal: i32) {
    if let Some(signal) = Signal::from_named_raw(signal) {
        let _ = each(|_, pidfd| rustix::process::pidfd_send_signal(pidfd, signal));
    }
}

/// Kills every descendant but the child `except`, and reaps it. This process must be the one that orphans
/// come to.
pub(crate) fn kill_all(signals: Option<&OwnedFd>, except: Option<i32>) {
    let except = except.and_then(Pid::from_raw);
    let kill = |signal: Signal| {
        let _ = each(|pid, pidfd| {
            if Some(pid) == except { Ok(()) } else { rustix::process::pidfd_send_signal(pidfd, signal) }
        });
    };
    for _ in 0..MOST_ROUNDS {
        loop {
            match sys::reap() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                // None is left.
                Err(_) => return,
            }
        }
        if except.is_some() && only_child() == except {
            return;
        }
        // Who makes another one of itself and ends, again and again, is a child of this process whenever it is looked
        // at: to read and kill those takes less time than that.
        for _ in 0..CHASES {
            if !kill_children(except) {
                break;
            }
            while let Ok(Some(_)) = sys::reap() {}
        }
        // Stopped first, they cannot make more of themselves while they are being killed.
        kill(Signal::STOP);
        kill(Signal::KILL);
        let mut drained = [0_u8; 128];
        if let Some(signals) = signals {
            let _ = poll(&mut [PollFd::new(signals, PollFlags::IN)], Some(&PAUSE));
            let _ = rustix::io::read(signals, &mut drained);
        }
    }
}

/// Calls `act` for every descendant. The descriptor names the process that was looked at, whatever happens
/// to its number.
fn each(mut act: impl FnMut(Pid, &OwnedFd) -> Sys<()>) -> Sys<()> {
    let me = rustix::process::getpid();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let proc = rustix::fs::open(c"/proc", flags, Mode::empty())?;
    let mut buffer = [MaybeUninit::<u8>::uninit(); 8192];
    let mut entries = RawDir::new(&proc, &mut buffer);
    while let Some(Ok(entry)) = entries.next() {
        let Some(pid) = number(entry.file_name().to_bytes()).and_then(Pid::from_raw) else { continue };
        if pid == me {
            continue;
        }
        let Ok(pidfd) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else { continue };
        if descends(pid, me) {
            // One that is gone needs nothing.
            let _ = act(pid, &pidfd);
        }
    }
    Ok(())
}

fn descends(pid: Pid, from: Pid) -> bool {
    top(pid, from).is_some()
}

/// The child of `from` that `pid` descends from, or is.
pub(crate) fn top(pid: Pid, from: Pid) -> Option<Pid> {
    let mut at = pid;
    for _ in 0..DEEPEST {
        match parent(at)? {
            parent if parent == from => return Some(at),
            parent => at = parent,
        }
    }
    None
}

/// Kills the children of this thread but `except`; false when there are none. Their numbers are theirs until they are
/// reaped, which nobody else does.
fn kill_children(except: Option<Pid>) -> bool {
    let mut text = [0_u8; 4096];
    let Some(length) = read_small(CHILDREN, &mut text) else { return false };
    let mut any = false;
    // The last one may be cut off; it comes again.
    let whole = text[..length].iter().rposition(|&b| b == b' ').unwrap_or(0);
    for pid in text[..whole].split(|&b| b == b' ').filter_map(number).filter_map(Pid::from_raw) {
        if Some(pid) != except {
            any = true;
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
    any
}

/// The only child of this thread, if it has just one.
fn only_child() -> Option<Pid> {
    let mut text = [0_u8; 64];
    let length = read_small(CHILDREN, &mut text)?;
    let text = std::str::from_utf8(&text[..length]).ok()?;
    let mut children = text.split_ascii_whitespace();
    let first = children.next()?.parse().ok()?;
    if children.next().is_some() { None } else { Pid::from_raw(first) }
}

/// The parent of a process, as `/proc` tells it; none for pid 1 and for one that is gone.
fn parent(pid: Pid) -> Option<Pid> {
    let mut path = [0_u8; 32];
    write!(&mut path[..31], "/proc/{}/stat", pid.as_raw_nonzero()).ok()?;
    let mut text = [0_u8; 256];
    let length = read_small(CStr::from_bytes_until_nul(&path).ok()?, &mut text)?;
    parent_in(&text[..length])
}

/// The start of a file of `/proc`, by one read.
fn read_small(path: &CStr, into: &mut [u8]) -> Option<usize> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    loop {
        match rustix::io::read(&file, &mut *into) {
            Err(Errno::INTR) => {}
            other => return other.ok(),
        }
    }
}

/// `pid (name) state ppid …`; the name may hold anything.
fn parent_in(stat: &[u8]) -> Option<Pid> {
    let after = stat.iter().rposition(|&b| b == b')')?;
    let mut fields = stat[after + 1..].split(|&b| b == b' ').filter(|field| !field.is_empty());
    let (_state, parent) = (fields.next()?, fields.next()?);
    Pid::from_raw(number(parent)?)
}

fn number(text: &[u8]) -> Option<i32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_lie_about_the_parent() {
        let parent = |text: &str| parent_in(text.as_bytes()).map(|pid| pid.as_raw_nonzero().get());
        assert_eq!(parent("12 (bash) S 7 12 12 0"), Some(7));
        assert_eq!(parent("12 (a) S 1 (b) R 9 12"), Some(9));
        assert_eq!(parent("1 (init) S 0 1"), None);
        assert_eq!(parent("nonsense"), None);
    }

    #[test]
    fn the_only_child_is_told_from_one_of_many() {
        // Children belong to the thread that made them, so other tests do not disturb.
        let mut first = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = |child: &std::process::Child| Pid::from_raw(i32::try_from(child.id()).unwrap());
        assert_eq!(only_child(), pid(&first));
        let mut second = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert_eq!(only_child(), None);
        for child in [&mut first, &mut second] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(only_child(), None);
    }

    #[test]
    fn children_are_descendants_and_parents_are_not() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        let me = rustix::process::getpid();
        assert!(descends(pid, me));
        assert!(!descends(me, pid));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
