//! The inner side of the tripwire: makes the file system, and lays its parts over the masks and doors.
//!
//! Runs between the clone and the command: nothing here allocates.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, RawDir};
use rustix::io::Errno;

use super::Trap;
use crate::init::open_target;
use crate::mounts;
use crate::sys::Sys;

/// Opens the kernel's device. It must be opened in the user namespace that mounts it.
pub(crate) fn open(host: BorrowedFd<'_>) -> Sys<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::openat(host, c"dev/fuse", flags, Mode::empty())
}

/// A detached file system that whoever holds `device` serves.
pub(crate) fn make(device: BorrowedFd<'_>) -> Sys<OwnedFd> {
    let [mut fd, mut user, mut group] = [[0_u8; 24]; 3];
    let number = u64::try_from(device.as_raw_fd()).map_err(|_| Errno::BADF)?;
    let options = [
        (c"fd", mounts::digits(number, 10, &mut fd)?),
        (c"rootmode", c"40000"),
        (c"user_id", mounts::digits(rustix::process::geteuid().as_raw().into(), 10, &mut user)?),
        (c"group_id", mounts::digits(rustix::process::getegid().as_raw().into(), 10, &mut group)?),
    ];
    mounts::new_filesystem(c"fuse", &options, libc::MOUNT_ATTR_NODEV)
}

/// Covers every trap with its part of `whole`. One that has vanished needs none. The whole hangs below the host's root
/// meanwhile, with which it goes: each unmounting by itself makes the kernel wait for all processors.
pub(crate) fn lay_out(host: BorrowedFd<'_>, whole: BorrowedFd<'_>, traps: &[Trap]) -> Sys<()> {
    let place = mounts::any_directory(host)?;
    mounts::attach(whole, mounts::directory(host, place, OFlags::PATH)?.as_fd())?;
    let whole = mounts::directory(host, place, OFlags::RDONLY)?;
    // Listing it makes every part known at once; each by itself would be a request to the host and back.
    let mut buffer = [MaybeUninit::<u8>::uninit(); 16 * 1024];
    let mut entries = RawDir::new(&whole, &mut buffer);
    for _ in traps {
        if entries.next().transpose()?.is_none() {
            break;
        }
    }
    let mut text = [0_u8; 24];
    for (index, trap) in traps.iter().enumerate() {
        match open_target(&trap.path) {
            Ok(target) => {
                let part =
                    mounts::clone_tree(whole.as_fd(), mounts::digits(index as u64, 10, &mut text)?, false)?;
                mounts::attach(part.as_fd(), target.as_fd())?;
            }
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// The sandbox's own view of its processes, for the host side: requests name their caller by the number it
/// has here.
pub(crate) fn processes() -> Sys<OwnedFd> {
    rustix::fs::openat(CWD, c"/proc", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}
