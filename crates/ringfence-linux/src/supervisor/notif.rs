//! The notification descriptor: receiving calls and answering them.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use crate::sys::{self, Sys};

/// A call that waits for an answer.
#[derive(Debug, Clone, Copy)]
pub struct Notification {
    pub id: u64,
    /// The calling thread, as this process sees it.
    pub tid: i32,
    pub nr: i64,
    pub args: [u64; 6],
}

impl Notification {
    /// The descriptor that a `linkat` with an empty path means.
    #[expect(clippy::cast_possible_truncation, reason = "the kernel takes the low 32 bits of int arguments")]
    pub(super) fn linked_descriptor(&self) -> Option<i32> {
        let empty = self.nr == libc::SYS_linkat && self.args[4] as i32 & libc::AT_EMPTY_PATH != 0;
        empty.then_some(self.args[0] as i32).filter(|descriptor| *descriptor >= 0)
    }
}

/// Takes the next call. `ENOENT` means that the caller is gone again.
pub fn receive(listener: BorrowedFd<'_>) -> Sys<Notification> {
    let mut raw = libc::seccomp_notif {
        id: 0,
        pid: 0,
        flags: 0,
        data: libc::seccomp_data { nr: 0, arch: 0, instruction_pointer: 0, args: [0; 6] },
    };
    // SAFETY: the request's struct.
    unsafe { sys::ioctl_struct(listener, libc::SECCOMP_IOCTL_NOTIF_RECV, &mut raw) }?;
    Ok(Notification {
        id: raw.id,
        tid: i32::try_from(raw.pid).map_err(|_| Errno::SRCH)?,
        nr: raw.data.nr.into(),
        args: raw.data.args,
    })
}

/// Lets the call go on in the kernel, which enforces what it always enforces. Never a permission.
pub fn let_continue(listener: BorrowedFd<'_>, id: u64) -> Sys<()> {
    const CONTINUE: u32 = 1;
    respond(listener, libc::seccomp_notif_resp { id, val: 0, error: 0, flags: CONTINUE })
}

/// Makes the call fail.
pub fn refuse(listener: BorrowedFd<'_>, id: u64, errno: Errno) -> Sys<()> {
    respond(listener, libc::seccomp_notif_resp { id, val: 0, error: -errno.raw_os_error(), flags: 0 })
}

/// Makes the call return `value` without having been made.
pub fn succeed(listener: BorrowedFd<'_>, id: u64, value: i64) -> Sys<()> {
    respond(listener, libc::seccomp_notif_resp { id, val: value, error: 0, flags: 0 })
}

fn respond(listener: BorrowedFd<'_>, mut response: libc::seccomp_notif_resp) -> Sys<()> {
    // SAFETY: the request's struct.
    unsafe { sys::ioctl_struct(listener, libc::SECCOMP_IOCTL_NOTIF_SEND, &mut response) }.map(drop)
}

/// Whether the caller still waits: what was read from its memory or `/proc` before was its own.
#[must_use]
pub fn is_valid(listener: BorrowedFd<'_>, id: u64) -> bool {
    let mut id = id;
    // SAFETY: the request takes a number of this size.
    unsafe { sys::ioctl_struct(listener, libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &mut id) }.is_ok()
}

/// Answers the call with a copy of `descriptor`, atomically: the caller sees it as the call's result.
pub fn inject(listener: BorrowedFd<'_>, id: u64, descriptor: BorrowedFd<'_>, cloexec: bool) -> Sys<()> {
    const FLAG_SEND: u32 = 2;
    put(listener, id, descriptor, FLAG_SEND, cloexec).map(drop)
}

/// Gives the caller a copy of `descriptor`, whose number is returned; the call still waits. Only for a listener whose
/// callers are not interrupted meanwhile (since Linux 5.19).
pub fn add(listener: BorrowedFd<'_>, id: u64, descriptor: BorrowedFd<'_>, cloexec: bool) -> Sys<i32> {
    put(listener, id, descriptor, 0, cloexec)
}

fn put(listener: BorrowedFd<'_>, id: u64, descriptor: BorrowedFd<'_>, flags: u32, cloexec: bool) -> Sys<i32> {
    #[expect(clippy::cast_sign_loss, reason = "descriptors and flags are not negative here")]
    let mut request = libc::seccomp_notif_addfd {
        id,
        flags,
        srcfd: descriptor.as_raw_fd() as u32,
        newfd: 0,
        newfd_flags: if cloexec { libc::O_CLOEXEC as u32 } else { 0 },
    };
    // SAFETY: the request's struct.
    unsafe { sys::ioctl_struct(listener, libc::SECCOMP_IOCTL_NOTIF_ADDFD, &mut request) }
}
