//! Loading programs into the kernel.
//!
//! All of it may run between fork and exec: nothing here allocates, locks or panics.

use libc::sock_filter;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`: the waker stays on its processor and hands it over.
const SYNC_WAKE_UP: libc::c_ulong = 1;

/// The supervisor's end of a notify program.
#[derive(Debug)]
pub struct Listener {
    pub fd: OwnedFd,
    /// A call that the supervisor has taken up is no longer interrupted by signals other than fatal ones
    /// (since Linux 5.19). Without it a signal handler makes the kernel send the same call twice.
    pub wait_killable: bool,
}

/// Puts the calling thread, and all it will start, under this program.
///
/// The thread must have set `no_new_privs`.
///
/// # Errors
/// What seccomp(2) says: `EACCES` without `no_new_privs`, `EINVAL` for a program the kernel rejects.
pub fn install(program: &[sock_filter]) -> io::Result<()> {
    set_mode_filter(program, 0).map(drop)
}

/// As [`install`], for a program with [`Notify`](super::Verdict::Notify) verdicts: returns the descriptor they arrive on.
///
/// # Errors
/// As [`install`]; and `EBUSY` when a listener exists above already, as in a nested sandbox.
pub fn install_listener(program: &[sock_filter]) -> io::Result<Listener> {
    const LISTEN: libc::c_ulong = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    let (fd, wait_killable) =
        match set_mode_filter(program, LISTEN | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV) {
            Ok(fd) => (fd, true),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                (set_mode_filter(program, LISTEN)?, false)
            }
            Err(error) => return Err(error),
        };
    // SAFETY: the kernel has just made this descriptor and nobody else knows it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    Ok(Listener { fd, wait_killable })
}

fn set_mode_filter(program: &[sock_filter], flags: libc::c_ulong) -> io::Result<RawFd> {
    let Ok(len) = u16::try_from(program.len()) else {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    };
    let fprog = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    // SAFETY: `fprog` points to `len` instructions that outlive the call; the kernel copies and does not
    // write them.
    let result =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const fprog) };
    descriptor(result)
}

/// Makes the kernel wake supervisor and caller on one processor: a third of the cost of a notification.
///
/// # Errors
/// `EINVAL` before Linux 6.6.
pub fn set_sync_wake_up(listener: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the argument of this request is a number, not a pointer.
    let result =
        unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP) };
    descriptor(result.into()).map(drop)
}

/// Whether the kernel knows user notification at all. Says nothing about a listener above.
#[must_use]
pub fn notify_supported() -> bool {
    let action: u32 = libc::SECCOMP_RET_USER_NOTIF;
    // SAFETY: the kernel reads one `u32` behind the pointer.
    let result =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action) };
    result == 0
}

fn descriptor(result: libc::c_long) -> io::Result<RawFd> {
    match RawFd::try_from(result) {
        Ok(fd) if fd >= 0 => Ok(fd),
        Ok(_) | Err(_) => Err(io::Error::last_os_error()),
    }
}
