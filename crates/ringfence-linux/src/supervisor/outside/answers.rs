//! Calls about sockets that a network of the sandbox's own would answer. Where it has that of the host, the supervisor does:
//! who is at the other end, and why a connection was not made.
//!
//! What is answered here is information. A call about anything else goes on in the kernel.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::super::network::take_descriptor;
use super::super::notif::{self, Notification};
use super::super::target::read_bytes;
use super::super::{Answer, Supervisor};
use super::dialling;
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
            libc::SYS_recvfrom => match datagrams.and_then(|datagrams| datagrams.peer(&socket)) {
                Some(from) => return self.receive_for(listener, notification, socket, from),
                None => return Answer::Continue,
            },
            _ => return Answer::Continue,
        };
        Answer::Done(written.map(|()| 0))
    }

    /// Receives a message for the caller, who wants to know whom it is from.
    fn receive_for(
        &mut self,
        listener: BorrowedFd<'_>,
        notification: &Notification,
        socket: OwnedFd,
        from: Option<Vec<u8>>,
    ) -> Answer {
        let Some(listener) = self.shared_listener(listener) else { return Answer::Done(Err(Errno::ACCESS)) };
        let receive = Receive { listener, notification: *notification, socket, from };
        match receive.now() {
            Err(Errno::AGAIN) if receive.waits() => {
                let spawned = dialling(move || receive.later());
                spawned.map_or_else(|errno| Answer::Done(Err(errno)), |()| Answer::Later)
            }
            received => Answer::Done(received),
        }
    }
}

/// A call that receives.
struct Receive {
    listener: Arc<OwnedFd>,
    notification: Notification,
    socket: OwnedFd,
    from: Option<Vec<u8>>,
}

impl Receive {
    fn flags(&self) -> RecvFlags {
        RecvFlags::from_bits_truncate(
            u32::try_from(self.notification.args[3] & 0xffff_ffff).unwrap_or_default(),
        )
    }

    fn waits(&self) -> bool {
        let flags = rustix::fs::fcntl_getfl(&self.socket);
        flags.is_ok_and(|flags| !flags.contains(OFlags::NONBLOCK))
            && !self.flags().contains(RecvFlags::DONTWAIT)
    }

    fn now(&self) -> Result<i64, Errno> {
        /// More than any answer has.
        const LONGEST: usize = 4096;
        let Notification { tid, args, .. } = self.notification;
        let room = usize::try_from(args[2]).unwrap_or(LONGEST).min(LONGEST);
        let mut message = vec![0; room];
        let (_, length) = recv(&self.socket, &mut message[..], self.flags() | RecvFlags::DONTWAIT)?;
        sys::write_memory(tid, args[1], &message[..length.min(room)])?;
        if args[5] != 0 {
            write_address(tid, args[4], args[5], self.from.as_deref().unwrap_or_default())?;
        }
        i64::try_from(length).map_err(|_| Errno::IO)
    }

    /// The same when something has come, unless the caller is gone before.
    fn later(&self) {
        /// The caller is looked for so often.
        const OFTEN: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
        let (listener, id) = (self.listener.as_fd(), self.notification.id);
        loop {
            let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
            let _ = poll(&mut fds, Some(&OFTEN));
            if !notif::is_valid(listener, id) {
                return;
            }
            let answered = match self.now() {
                Err(Errno::AGAIN) => continue,
                Err(errno) => notif::refuse(listener, id, errno),
                Ok(length) => notif::succeed(listener, id, length),
            };
            // An answer that cannot be delivered belongs to a caller that is gone.
            let _ = answered;
            return;
        }
    }
}

/// Writes what is asked for where the caller has room, as much as there is, and how long it is.
fn write_address(tid: i32, at: u64, length_at: u64, bytes: &[u8]) -> Sys<()> {
    let mut room = [0; 4];
    if read_bytes(tid, length_at, &mut room)? != room.len() {
        return Err(Errno::FAULT);
    }
    let room = usize::try_from(i32::from_ne_bytes(room)).map_err(|_| Errno::INVAL)?;
    sys::write_memory(tid, at, &bytes[..bytes.len().min(room)])?;
    let length = u32::try_from(bytes.len()).map_err(|_| Errno::IO)?;
    sys::write_memory(tid, length_at, &length.to_ne_bytes())
}
