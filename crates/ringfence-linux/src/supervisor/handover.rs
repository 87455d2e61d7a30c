//! Handing a descriptor to a waiting caller.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::notif;

/// Hands the file over; a caller with no room for it hears so.
pub(super) fn give(listener: BorrowedFd<'_>, id: u64, file: &OwnedFd, cloexec: bool) -> Result<(), Errno> {
    notif::inject(listener, id, file.as_fd(), cloexec).or_else(|errno| no_room(listener, id, errno))
}

/// Whether it was opened to be written. Who closes such a file expects its lock to be gone, watchers to be told and the
/// program to be run, then and not when our copy is closed.
pub(super) fn is_written(file: &OwnedFd) -> bool {
    rustix::fs::fcntl_getfl(file).is_ok_and(|flags| flags.intersects(OFlags::WRONLY | OFlags::RDWR))
}

/// Hands the file over and closes our copy before the caller is answered: a pipe whose reader has left must not look as
/// if it had one, or what is written next is lost. Only where callers are not interrupted.
pub(super) fn give_away(
    listener: BorrowedFd<'_>,
    id: u64,
    file: OwnedFd,
    cloexec: bool,
) -> Result<(), Errno> {
    let added = notif::add(listener, id, file.as_fd(), cloexec);
    drop(file);
    match added {
        Ok(number) => notif::succeed(listener, id, number.into()),
        Err(errno) => no_room(listener, id, errno),
    }
}

fn no_room(listener: BorrowedFd<'_>, id: u64, errno: Errno) -> Result<(), Errno> {
    match errno {
        Errno::MFILE | Errno::NFILE => notif::refuse(listener, id, errno),
        other => Err(other),
    }
}
