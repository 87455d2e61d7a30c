//! Descriptors by their numbers.

use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::Errno;

use super::{Sys, check};

/// Marks every descriptor from `first` on to be closed by exec.
pub(crate) fn cloexec_from(first: u32) -> Sys<()> {
    // SAFETY: only flags of descriptors change.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) })
        .map(drop)
}

/// Closes every descriptor but these, which it sorts.
///
/// # Safety
///
/// Nothing in this process may use a descriptor afterwards that is not kept, not even to close it.
pub(crate) unsafe fn close_all_but(keep: &mut [RawFd]) -> Sys<()> {
    keep.sort_unstable();
    // SAFETY: as for this function.
    unsafe { close_all_but_sorted(keep) }
}

/// The same for descriptors in ascending order. Does not touch the C library's `errno`, which may be another's.
///
/// # Safety
///
/// As for [`close_all_but`].
pub(crate) unsafe fn close_all_but_sorted(keep: &[RawFd]) -> Sys<()> {
    let close = |first: u32, last: u32| {
        if first > last {
            return Ok(());
        }
        let range = syscalls::Sysno::close_range as usize;
        // SAFETY: the caller gives these descriptors up.
        match unsafe { syscalls::raw::syscall3(range, first as usize, last as usize, 0) } {
            0 => Ok(()),
            _ => Err(Errno::IO),
        }
    };
    let mut first = 0;
    for kept in keep.iter().map(|fd| fd.unsigned_abs()) {
        // The same one may be named twice.
        if kept > first {
            close(first, kept - 1)?;
        }
        first = first.max(kept + 1);
    }
    close(first, u32::MAX)
}

/// `dup2` over `target`, clearing close-on-exec.
///
/// # Safety
///
/// Nothing in this process may use `target` for what it was before.
pub(crate) unsafe fn install_stdio(source: RawFd, target: RawFd) -> Sys<()> {
    if source == target {
        // SAFETY: only the flags of our own descriptor change.
        return check(unsafe { libc::fcntl(target, libc::F_SETFD, 0) }.into()).map(drop);
    }
    // SAFETY: the caller gives the target up.
    check(unsafe { libc::dup2(source, target) }.into()).map(drop)
}

/// A copy of `source` with a number of at least `lowest`, closed by exec.
pub(crate) fn duplicate_above(source: RawFd, lowest: RawFd) -> Sys<RawFd> {
    // SAFETY: makes a new descriptor and changes none.
    let fd = unsafe { libc::fcntl(source, libc::F_DUPFD_CLOEXEC, lowest) };
    check(fd.into())?;
    Ok(fd)
}

/// A descriptor of this process by its number.
///
/// # Safety
///
/// It must be open, and stay so for `'a`.
pub(crate) unsafe fn borrow<'a>(fd: RawFd) -> BorrowedFd<'a> {
    // SAFETY: the caller keeps it open.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// Takes ownership of a raw descriptor.
///
/// # Safety
///
/// It must be open, and nobody else may own it.
pub(crate) unsafe fn adopt(fd: RawFd) -> OwnedFd {
    // SAFETY: the caller owns it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}
