//! Files about processes, opened on behalf of the caller.
//!
//! The kernel lets the caller see the memory map, the environment or the descriptors of another process only if it is
//! held by the same fence: Landlock keeps it from the sandbox's first process and from those that keep shells, whose
//! memory is a copy of the host side's. The supervisor is held by no fence, so it looks for itself: whoever has the
//! fence's filter on, as the caller has, is inside.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::target::Ending;
use super::{Answer, Supervisor, on_behalf};

/// How many filters are on the processes inside, at the least.
pub(super) type Depth = OnceCell<Option<u64>>;

/// What anybody may read about any process.
const PUBLIC: [&str; 16] = [
    "cgroup",
    "cmdline",
    "comm",
    "cpuset",
    "limits",
    "loginuid",
    "mountinfo",
    "mounts",
    "oom_score",
    "oom_score_adj",
    "sched",
    "schedstat",
    "sessionid",
    "stat",
    "statm",
    "status",
];

impl Supervisor<'_> {
    /// Opens `self.real` where it is a file about a process of the sandbox; none when it is something else.
    pub(super) fn open_of_process(&self, tid: i32, flags: i32) -> Option<Answer> {
        // Without a pid namespace it was looked at before whose process it is.
        let root = self.root.as_ref().filter(|_| self.watched.shared.is_none())?;
        let below = self.real.as_path().strip_prefix("/proc").ok()?;
        let process = below.iter().next().filter(|name| is_number(name))?;
        let rest = below.strip_prefix(process).ok().filter(|rest| !rest.as_os_str().is_empty())?;
        let opened = directory(root.as_fd(), process).and_then(|directory| {
            let is_public = is_public(rest) || self.is_fenced(tid, &directory);
            if !is_public {
                return Err(Errno::ACCESS);
            }
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            let there = rustix::fs::openat2(
                &directory,
                rest,
                OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                Mode::empty(),
                resolve,
            )?;
            let directory = if self.ending == Ending::Name { 0 } else { libc::O_DIRECTORY };
            on_behalf::again(&there, flags | directory)
        });
        Some(match opened {
            Ok(file) => Answer::Give(file, flags & libc::O_CLOEXEC != 0),
            Err(errno) => Answer::Done(Err(errno)),
        })
    }

    fn is_fenced(&self, tid: i32, process: &OwnedFd) -> bool {
        let callers = || filters(&std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?);
        has_at_least(process, *self.depth.get_or_init(callers))
    }
}

/// Whether the process inside is held by at least as many filters as the caller, whose `status` this is.
pub(super) fn is_held_as(root: BorrowedFd<'_>, status: &str, process: i32) -> bool {
    let directory = directory(root, OsStr::new(&process.to_string()));
    directory.is_ok_and(|directory| has_at_least(&directory, filters(status)))
}

/// Of the process as it is now: its number may be another's later.
fn directory(root: BorrowedFd<'_>, process: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let path = Path::new("proc").join(process);
    rustix::fs::openat2(root, path, flags, Mode::empty(), ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS)
}

fn has_at_least(process: &OwnedFd, wanted: Option<u64>) -> bool {
    let read = || {
        let open = OFlags::RDONLY | OFlags::CLOEXEC;
        let status = rustix::fs::openat(process, c"status", open, Mode::empty()).ok()?;
        let mut text = String::new();
        std::fs::File::from(status).read_to_string(&mut text).ok()?;
        filters(&text)
    };
    matches!((wanted, read()), (Some(wanted), Some(filters)) if filters >= wanted)
}

/// How many filters a process has on, by its `status`.
fn filters(status: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:"))?.trim().parse().ok()
}

fn is_number(name: &OsStr) -> bool {
    name.as_encoded_bytes().iter().all(u8::is_ascii_digit)
}

/// Whether it is one of the files that anybody may read, of a process or a thread of it.
fn is_public(rest: &Path) -> bool {
    let names: Vec<&OsStr> = rest.iter().collect();
    let is_public = |name: &OsStr| PUBLIC.iter().any(|public| name == *public);
    match names.as_slice() {
        // The names of threads are numbers.
        [name] => *name == "task" || is_public(name),
        [task, thread] => *task == "task" && is_number(thread),
        [task, thread, name] => *task == "task" && is_number(thread) && is_public(name),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_public_is_so_for_threads_too_and_for_nothing_else() {
        for public in ["stat", "cmdline", "task", "task/12", "task/12/status"] {
            assert!(is_public(Path::new(public)), "{public}");
        }
        for private in
            ["environ", "maps", "mem", "fd", "fdinfo/3", "task/12/environ", "task/x/stat", "net/stat"]
        {
            assert!(!is_public(Path::new(private)), "{private}");
        }
    }

    #[test]
    fn who_has_fewer_filters_is_not_inside() {
        let root = rustix::fs::open(c"/", OFlags::PATH, Mode::empty()).unwrap();
        let me = i32::try_from(std::process::id()).unwrap();
        let mine = filters(&std::fs::read_to_string("/proc/self/status").unwrap()).unwrap();
        let held = |more: u64| is_held_as(root.as_fd(), &format!("Seccomp_filters:\t{}\n", mine + more), me);
        assert!(held(0) && !held(1));
        assert!(!is_held_as(root.as_fd(), "no such line", me));
    }

    #[test]
    fn this_process_has_a_number_of_filters() {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        assert!(filters(&status).is_some(), "{status}");
    }
}
