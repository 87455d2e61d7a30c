//! Calls about sockets that a network of the sandbox's own would answer. Where it has that of the host, the supervisor does:
//! who is at the other end, and why a connection was not made.
//!
//! What is answered here is information. A call about anything else goes on in the kernel.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::super::network::take_descriptor;
use super::super::notif::{self, Notification};
use super::super::target::read_bytes;
use super::super::{Answer, Supervisor};
use crate::sys::{self, Sys};

impl Supervisor<'_> {
    pub(in super::super) fn answer_for_network(
        &mut self,
        listener: BorrowedFd<'_>,
        notification: &Notification,
    ) -> Answer {
        let Notification { tid, args, .. } = *notification;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the kernel takes the low 32 bits of int arguments"
        )]
        let [first, second] = [args[0] as i32, args[1] as i32];
        if notification.nr == libc::SYS_listen {
            return self.listen(listener, notification, first, second);
        }
        let Some(way) = self.way_out.clone() else { return Answer::Continue };
        let Some(socket) = take_descriptor(tid, first) else { return Answer::Continue };
        // What is written to its memory is written to the caller's only if it still waits.
        if !notif::is_valid(listener, notification.id) {
            return Answer::Continue;
        }
        let datagrams = way.known_pairs();
        let written = match notification.nr {
            libc::SYS_getpeername => match datagrams.and_then(|datagrams| datagrams.peer(&socket)) {
                Some(Some(address)) => write_address(tid, args[1], args[2], &address),
                Some(None) => Err(Errno::NOTCONN),
                None => match way.on_host.as_ref().and_then(|on_host| on_host.peer(&socket)) {
                    Some(address) => write_address(tid, args[1], args[2], &address),
                    None => return Answer::Continue,
                },
            },
            libc::SYS_getsockname => match datagrams.and_then(|datagrams| datagrams.own(&socket)) {
                Some(address) => write_address(tid, args[1], args[2], &address),
                None => return Answer::Continue,
            },
            libc::SYS_getsockopt => {
                match way.on_host.as_ref().and_then(|on_host| on_host.take_error(&socket)) {
                    Some(errno) => write_address(tid, args[3], args[4], &errno.raw_os_error().to_ne_bytes()),
                    None => return Answer::Continue,
                }
            }
            libc::SYS_recvfrom | libc::SYS_recvmsg => {
                return match datagrams.and_then(|datagrams| datagrams.peer(&socket)) {
                    Some(from) => self.receive_for(listener, notification, socket, from),
                    None => Answer::Continue,
                };
            }
            _ => return Answer::Continue,
        };
        Answer::Done(written.map(|()| 0))
    }
}

/// Writes what is asked for where the caller has room, as much as there is, and how long it is.
pub(super) fn write_address(tid: i32, at: u64, length_at: u64, bytes: &[u8]) -> Sys<()> {
    let mut room = [0; 4];
    if read_bytes(tid, length_at, &mut room)? != room.len() {
        return Err(Errno::FAULT);
    }
    let room = usize::try_from(i32::from_ne_bytes(room)).map_err(|_| Errno::INVAL)?;
    sys::write_memory(tid, at, &bytes[..bytes.len().min(room)])?;
    let length = u32::try_from(bytes.len()).map_err(|_| Errno::IO)?;
    sys::write_memory(tid, length_at, &length.to_ne_bytes())
}
