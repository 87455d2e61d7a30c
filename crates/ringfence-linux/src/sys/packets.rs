//! Packets of a network namespace of our own: which of them a socket takes, and whole ones.

use std::os::fd::{AsRawFd, BorrowedFd};

use super::{Sys, check};

/// A classic BPF program over packets; see [`attach_filter`].
pub(crate) type Instruction = libc::sock_filter;

pub(crate) const fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> Instruction {
    Instruction { code, jt, jf, k }
}

/// Takes only the packets that the program says; the others are dropped without a word. Allocates nothing.
pub(crate) fn attach_filter(socket: BorrowedFd<'_>, program: &[Instruction]) -> Sys<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).unwrap_or(u16::MAX),
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: the kernel reads `len` instructions behind `filter`, which is not written.
    unsafe { set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program) }
}

/// What is sent on a raw socket begins with its own IP header.
pub(crate) fn include_header(socket: BorrowedFd<'_>) -> Sys<()> {
    // SAFETY: the option is an int.
    unsafe { set_option(socket, libc::IPPROTO_IP, libc::IP_HDRINCL, &1_i32) }
}

/// # Safety
///
/// `T` must be what the kernel defines for that option.
unsafe fn set_option<T>(socket: BorrowedFd<'_>, level: i32, name: i32, value: &T) -> Sys<()> {
    let length = libc::socklen_t::try_from(size_of::<T>()).unwrap_or(0);
    // SAFETY: the kernel reads `length` bytes of `value`; what they mean the caller has to know.
    let done = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, std::ptr::from_ref(value).cast(), length)
    };
    check(done.into()).map(drop)
}
