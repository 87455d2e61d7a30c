//! What a command wrote to the private home directory, which goes with the sandbox.

use std::ffi::CStr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};

/// More is not looked at.
const MOST_LOOKS: usize = 2000;

/// The private home directory of a sandbox, held open: what is in it stays until this is dropped.
#[derive(Debug)]
pub(super) struct PrivateHome {
    directory: OwnedFd,
    path: PathBuf,
}

impl PrivateHome {
    /// As pid 1 of the sandbox sees it, which is `pid` or was started by it. None where it cannot be looked at.
    pub(super) fn of(pid: i32, home: &Path) -> Option<Self> {
        const GENERATIONS: usize = 3;
        let hosts = rustix::fs::stat(home).ok().map(|stat| (stat.st_dev, stat.st_ino));
        let mut processes = vec![pid];
        for _ in 0..GENERATIONS {
            for process in &processes {
                let found = Self::seen_by(*process, home);
                let is_own = |found: &Self| {
                    rustix::fs::fstat(&found.directory)
                        .is_ok_and(|stat| hosts.is_none_or(|hosts| hosts != (stat.st_dev, stat.st_ino)))
                };
                if let Some(found) = found.filter(is_own) {
                    return Some(found);
                }
            }
            processes = processes.iter().flat_map(|process| children(*process)).collect();
        }
        None
    }

    fn seen_by(pid: i32, home: &Path) -> Option<Self> {
        let inside = PathBuf::from(format!("/proc/{pid}/root")).join(home.strip_prefix("/").ok()?);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let directory = rustix::fs::open(inside, flags, Mode::empty()).ok()?;
        Some(Self { directory, path: home.to_owned() })
    }

    /// The files that were written there. Hidden ones are the tools' own, and names that the fence made are empty.
    pub(super) fn written(&self) -> Vec<PathBuf> {
        let mut found = vec![];
        let mut looks = 0;
        let Ok(top) = rustix::fs::fstat(&self.directory) else { return found };
        walk(self.directory.as_fd(), &self.path, top.st_dev, true, &mut looks, &mut found);
        found.sort();
        found
    }
}

fn children(pid: i32) -> Vec<i32> {
    let listed = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    listed.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Nothing that is mounted there is looked at: the project, for one.
fn walk(
    directory: BorrowedFd<'_>,
    path: &Path,
    device: u64,
    is_top: bool,
    looks: &mut usize,
    found: &mut Vec<PathBuf>,
) {
    let Ok(entries) = Dir::read_from(directory) else { return };
    for entry in entries.flatten() {
        let name: &CStr = entry.file_name();
        let bytes = name.to_bytes();
        if matches!(bytes, b"." | b"..") || (is_top && bytes.starts_with(b".")) {
            continue;
        }
        *looks += 1;
        if *looks > MOST_LOOKS {
            return;
        }
        let Ok(stat) = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        if stat.st_dev != device {
            continue;
        }
        let below = path.join(std::ffi::OsStr::from_bytes(bytes));
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                if let Ok(inner) = openat(directory, name, flags, Mode::empty()) {
                    walk(inner.as_fd(), &below, device, false, looks, found);
                }
            }
            FileType::RegularFile if stat.st_size > 0 => found.push(below),
            _ => {}
        }
    }
}
