//! Where a path leads, component by component, as the kernel would go for the caller.
//!
//! The kernel resolves nearly every path for the supervisor in one call. Three kinds it cannot: those through
//! `/proc/self` and `/proc/thread-self`, which mean the caller and not the supervisor; those through the
//! links of `/proc` that lead to open files and directories; and those that end in a link to nowhere, where
//! opening creates what the link names.

use std::collections::VecDeque;
use std::ffi::CString;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::call::Last;
use super::processes;
use super::target::{Resolved, link_target};

/// As many links as the kernel follows.
const MOST_LINKS: usize = 40;

/// Where `path` (absolute, with or without `..`) leads for the thread `tid`. None when it ends at something
/// that has no place in the file system, such as a pipe.
pub(super) fn walk(root: BorrowedFd<'_>, tid: i32, path: &Path, last: Last) -> Option<(Resolved, PathBuf)> {
    match travel(root, tid, path, last)? {
        End::Place(resolved, place) => Some((resolved, place)),
        End::Object(_) => None,
    }
}

/// The thing without a place that `path` ends at.
pub(super) fn object(root: BorrowedFd<'_>, tid: i32, path: &Path, last: Last) -> Option<OwnedFd> {
    match travel(root, tid, path, last)? {
        End::Place(..) => None,
        End::Object(object) => Some(object),
    }
}

enum End {
    Place(Resolved, PathBuf),
    /// Opened to point at it only.
    Object(OwnedFd),
}

fn travel(root: BorrowedFd<'_>, tid: i32, path: &Path, last: Last) -> Option<End> {
    let mut todo: VecDeque<Vec<u8>> = components(path.as_os_str().as_bytes()).collect();
    let mut here = PathBuf::from("/");
    let mut links = 0;
    while let Some(name) = todo.pop_front() {
        if name == b".." {
            here.pop();
            continue;
        }
        if here == Path::new("/proc") && matches!(name.as_slice(), b"self" | b"thread-self") {
            let [process, thread] = inner_ids(tid)?;
            if name == b"thread-self" {
                todo.push_front(thread.into_bytes());
                todo.push_front(b"task".to_vec());
            }
            todo.push_front(process.into_bytes());
            continue;
        }
        let there = here.join(std::ffi::OsStr::from_bytes(&name));
        let opened = match open(root, &there, OFlags::NOFOLLOW) {
            Ok(opened) => opened,
            Err(errno) => {
                let missing = errno == Errno::NOENT && todo.is_empty();
                let rest = todo.iter().map(|name| std::ffi::OsStr::from_bytes(name));
                let there = by_text(rest.fold(there, |path, name| path.join(name)));
                return Some(End::Place(
                    if missing { Resolved::Missing } else { Resolved::Unreachable },
                    there,
                ));
            }
        };
        let is_link = rustix::fs::fstat(&opened)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink);
        if !is_link || (todo.is_empty() && last == Last::Name) {
            here = there;
            continue;
        }
        links += 1;
        if links > MOST_LINKS {
            return Some(End::Place(Resolved::Unreachable, there));
        }
        // The links in the top directory of /proc are ordinary ones.
        if is_proc(&opened) && here != Path::new("/proc") {
            if !is_of_the_sandbox(root, tid, &here) {
                return Some(End::Place(Resolved::Unreachable, there));
            }
            let opened = follow_magic(root, &here, &name)?;
            match link_target(&opened) {
                Some(place) => here = place,
                None if todo.is_empty() => return Some(End::Object(opened)),
                None => return None,
            }
            continue;
        }
        let Ok(text) = rustix::fs::readlinkat(&opened, c"", Vec::new()) else {
            return Some(End::Place(Resolved::Unreachable, there));
        };
        if text.to_bytes().starts_with(b"/") {
            here = PathBuf::from("/");
        }
        for name in components(text.to_bytes()).rev() {
            todo.push_front(name);
        }
    }
    Some(End::Place(Resolved::Exists, here))
}

fn components(path: &[u8]) -> impl DoubleEndedIterator<Item = Vec<u8>> {
    let names = path.split(|&b| b == b'/').filter(|name| !name.is_empty() && *name != b".");
    names.map(<[u8]>::to_vec).collect::<Vec<_>>().into_iter()
}

/// Removes `..` by text, for a part of a path that does not exist.
fn by_text(path: PathBuf) -> PathBuf {
    path.components().fold(PathBuf::from("/"), |mut path, part| {
        match part {
            std::path::Component::ParentDir => drop(path.pop()),
            std::path::Component::Normal(name) => path.push(name),
            _ => {}
        }
        path
    })
}

fn open(root: BorrowedFd<'_>, path: &Path, extra: OFlags) -> Result<OwnedFd, Errno> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(root, path, OFlags::PATH | OFlags::CLOEXEC | extra, Mode::empty(), resolve)
}

fn is_proc(opened: &OwnedFd) -> bool {
    rustix::fs::fstatfs(opened).is_ok_and(|fs| fs.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

/// What a link such as `/proc/7/fd/3` leads to.
fn follow_magic(root: BorrowedFd<'_>, directory: &Path, name: &[u8]) -> Option<OwnedFd> {
    let directory = open(root, directory, OFlags::DIRECTORY).ok()?;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    rustix::fs::openat(&directory, name, flags, Mode::empty()).ok()
}

/// Whether the links in this directory of `/proc` belong to a process that the caller may look at. Landlock keeps it
/// from following those of others; whoever follows them for it must not go further than the caller itself could. With
/// a pid namespace of its own it meets nobody else but the processes that the sandbox is made by. Where it shares the
/// numbers of its processes with the host, it may look at its own session, and at what it started.
fn is_of_the_sandbox(root: BorrowedFd<'_>, tid: i32, directory: &Path) -> bool {
    let number = |name: &std::ffi::OsStr| name.to_str()?.parse::<i32>().ok();
    let below = directory.strip_prefix("/proc").ok().and_then(|below| below.iter().next());
    let (Some(process), Some(status)) = (below.and_then(number), status(tid)) else { return false };
    let numbers: Vec<i32> = field(&status, "NStgid:").filter_map(|number| number.parse().ok()).collect();
    let &[caller] = numbers.as_slice() else {
        return numbers.last() == Some(&process) || processes::is_held_as(root, &status, process);
    };
    let Some((mut parent, session)) = parent_and_session(process) else { return false };
    if process == caller || parent_and_session(caller).is_some_and(|(_, callers)| callers == session) {
        return true;
    }
    while parent > 1 && parent != caller {
        let Some((next, _)) = parent_and_session(parent) else { return false };
        parent = next;
    }
    parent == caller
}

fn parent_and_session(process: i32) -> Option<(i32, i32)> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // After the name: state, parent, group, session.
    let numbers = stat.rsplit(')').next()?.split_whitespace().skip(1);
    let numbers: Vec<i32> = numbers.take(3).filter_map(|number| number.parse().ok()).collect();
    let &[parent, _, session] = numbers.as_slice() else { return None };
    Some((parent, session))
}

fn status(tid: i32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{tid}/status")).ok()
}

fn field<'a>(status: &'a str, key: &str) -> impl Iterator<Item = &'a str> {
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    line.unwrap_or_default().split_whitespace()
}

/// The process and the thread, by the numbers they have inside.
pub(super) fn inner_ids(tid: i32) -> Option<[String; 2]> {
    let status = status(tid)?;
    let last = |key: &str| field(&status, key).last().map(str::to_owned);
    Some([last("NStgid:")?, last("NSpid:")?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsFd, AsRawFd};
    use std::os::unix::fs::symlink;

    #[test]
    fn links_of_strangers_lead_nowhere() {
        let root = std::fs::File::open("/").unwrap();
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        let look = |caller: i32, process: u32| {
            let path = PathBuf::from(format!("/proc/{process}/exe"));
            walk(root.as_fd(), caller, &path, Last::Follow).map(|(resolved, _)| resolved)
        };
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let mut apart = std::process::Command::new("setsid").args(["sleep", "100"]).spawn().unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        let own_session = |id: u32| {
            parent_and_session(id.cast_signed()).is_some_and(|(_, session)| session == id.cast_signed())
        };
        while !own_session(apart.id()) && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        // What this process started, in its session or not, and itself.
        assert_eq!(look(tid, child.id()), Some(Resolved::Exists));
        assert_eq!(look(tid, apart.id()), Some(Resolved::Exists));
        assert_eq!(look(tid, std::process::id()), Some(Resolved::Exists));
        // One in a session of its own knows neither its parent nor the first of all.
        assert_eq!(look(apart.id().cast_signed(), std::process::id()), Some(Resolved::Unreachable));
        assert_eq!(look(apart.id().cast_signed(), child.id()), Some(Resolved::Unreachable));
        assert_eq!(look(apart.id().cast_signed(), 1), Some(Resolved::Unreachable));
        for child in [&mut child, &mut apart] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn every_alias_leads_to_the_same_place() {
        let temp = tempfile::tempdir().unwrap();
        let top = temp.path().canonicalize().unwrap();
        std::fs::create_dir_all(top.join("repo/.git")).unwrap();
        std::fs::create_dir_all(top.join("repo/sub")).unwrap();
        std::fs::create_dir(top.join("gone (deleted)")).unwrap();
        symlink("../repo/sub", top.join("gone (deleted)/link")).unwrap();
        symlink("/proc/self/fd", top.join("fds")).unwrap();
        symlink("repo/.git/config", top.join("dangling")).unwrap();
        symlink("loop", top.join("loop")).unwrap();
        let held = std::fs::File::open(top.join("repo")).unwrap();
        let fd = held.as_raw_fd();
        let root = std::fs::File::open("/").unwrap();
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        let look = |path: &str| {
            let (resolved, path) = walk(root.as_fd(), tid, &top.join(path), Last::Follow).unwrap();
            (resolved, path.strip_prefix(&top).map_or(path.clone(), Path::to_owned))
        };
        let missing = (Resolved::Missing, PathBuf::from("repo/.git/config"));
        assert_eq!(look("repo/.git/config"), missing);
        assert_eq!(look("gone (deleted)/link/../.git/config"), missing);
        assert_eq!(look("dangling"), missing);
        assert_eq!(look(&format!("fds/{fd}/.git/config")), missing);
        assert_eq!(look(&format!("/proc/self/fd/{fd}/sub/../.git/config")), missing);
        assert_eq!(look(&format!("/proc/thread-self/fd/{fd}/.git/config")), missing);
        assert_eq!(look(&format!("/dev/fd/{fd}/.git/config")), missing);
        assert_eq!(look("repo/sub"), (Resolved::Exists, PathBuf::from("repo/sub")));
        assert_eq!(look("none/../repo"), (Resolved::Unreachable, PathBuf::from("repo")));
        assert_eq!(look("loop").0, Resolved::Unreachable);
        let name = walk(root.as_fd(), tid, &top.join("dangling"), Last::Name).unwrap();
        assert_eq!(name, (Resolved::Exists, top.join("dangling")));
    }
}
