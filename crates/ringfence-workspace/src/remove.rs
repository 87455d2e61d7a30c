//! Removing, without ever following a link.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;

use crate::beneath::{ENTRIES, moment_name, names_in};

/// Directories held open at once. Deeper ones are moved up first, so that no depth exhausts descriptors.
const DEEPEST: usize = 32;

/// Rounds before giving up on a directory that somebody keeps filling.
const MOST_ROUNDS: usize = 1000;

/// Removes a name and, when it is a directory, everything below it.
pub(crate) fn tree(directory: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
    match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
        // Linux says the first, others the second; a mere lack of permission shows again below.
        Err(Errno::ISDIR | Errno::PERM) => {}
        outcome => return outcome,
    }
    let top = open_directory(directory, name)?;
    for _ in 0..MOST_ROUNDS {
        clear(&top, top.as_fd(), 0)?;
        match rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR) {
            // Something was moved up, or somebody is still writing; each round takes a layer away.
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            outcome => return outcome,
        }
    }
    Err(Errno::NOTEMPTY)
}

fn clear(directory: &OwnedFd, top: BorrowedFd<'_>, depth: usize) -> Result<(), Errno> {
    for name in names_in(directory)? {
        match rustix::fs::unlinkat(directory, &name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => continue,
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(errno) => return Err(errno),
        }
        if depth >= DEEPEST {
            rustix::fs::renameat(directory, &name, top, moment_name())?;
            continue;
        }
        let inner = match open_directory(directory.as_fd(), &name) {
            Ok(inner) => inner,
            // It went away, or is no directory any more; the next round sees what it is.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
            Err(errno) => return Err(errno),
        };
        clear(&inner, top, depth + 1)?;
        match rustix::fs::unlinkat(directory, &name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Opens a directory for emptying it, making it ours to empty when its mode forbids that.
fn open_directory(directory: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    match rustix::fs::openat(directory, name, ENTRIES, Mode::empty()) {
        Err(Errno::ACCESS) => {
            unlock::directory(directory, name)?;
            rustix::fs::openat(directory, name, ENTRIES, Mode::empty())
        }
        Ok(fd) => {
            // Readable, but perhaps not writable; if that fails, removing the entries says so.
            let _ = rustix::fs::fchmod(&fd, Mode::RWXU);
            Ok(fd)
        }
        outcome => outcome,
    }
}

#[cfg(target_os = "linux")]
mod unlock {
    use super::*;
    use rustix::fs::OFlags;
    use std::os::fd::AsRawFd;

    /// Changes the mode of exactly the directory that was opened here; by name, a link could be put there.
    pub(super) fn directory(directory: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(directory, name, flags, Mode::empty())?;
        rustix::fs::chmod(format!("/proc/self/fd/{}", fd.as_raw_fd()), Mode::RWXU)
    }
}

#[cfg(not(target_os = "linux"))]
mod unlock {
    use super::*;

    pub(super) fn directory(directory: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
        rustix::fs::chmodat(directory, name, Mode::RWXU, AtFlags::SYMLINK_NOFOLLOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beneath::PLACE;

    /// The race of a directory swapped for a link right before it is opened, without the luck it needs.
    #[test]
    fn a_link_is_never_opened_for_emptying() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("victim")).unwrap();
        std::os::unix::fs::symlink("victim", directory.path().join("link")).unwrap();
        let here = rustix::fs::open(directory.path(), PLACE, Mode::empty()).unwrap();
        assert!(matches!(open_directory(here.as_fd(), "link".as_ref()), Err(Errno::NOTDIR | Errno::LOOP)));
        assert!(open_directory(here.as_fd(), "victim".as_ref()).is_ok());
    }
}
