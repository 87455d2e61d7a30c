//! Receiving from what is taken for a socket for datagrams, by a caller who wants to know from whom: many resolvers
//! believe only whom they asked.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::super::notif::{self, Notification};
use super::super::target::read_bytes;
use super::super::{Answer, Supervisor};
use super::answers::write_address;
use super::dialling;
use crate::sys::{self, Sys};

/// More than any answer has.
const LONGEST: usize = 4096;

impl Supervisor<'_> {
    /// Receives a message for the caller.
    pub(super) fn receive_for(
        &mut self,
        listener: BorrowedFd<'_>,
        notification: &Notification,
        socket: OwnedFd,
        from: Option<Vec<u8>>,
    ) -> Answer {
        let Some(listener) = self.shared_listener(listener) else { return Answer::Done(Err(Errno::ACCESS)) };
        let room = match Room::of(notification) {
            Ok(room) => room,
            Err(errno) => return Answer::Done(Err(errno)),
        };
        let receive = Receive { listener, id: notification.id, tid: notification.tid, socket, from, room };
        match receive.now() {
            Err(Errno::AGAIN) if receive.waits() => {
                let spawned = dialling(move || receive.later());
                spawned.map_or_else(|errno| Answer::Done(Err(errno)), |()| Answer::Later)
            }
            received => Answer::Done(received),
        }
    }
}

/// Where the caller wants a message, and the address of the sender.
struct Room {
    /// Places and how much each takes.
    parts: Vec<(u64, usize)>,
    name: u64,
    length: u64,
    /// Where the kernel would write that there is nothing besides, and which flags the message has.
    besides: Option<u64>,
    flags: RecvFlags,
}

impl Room {
    fn of(notification: &Notification) -> Sys<Self> {
        let Notification { tid, nr, args, .. } = *notification;
        let flags =
            |arg: u64| RecvFlags::from_bits_truncate(u32::try_from(arg & 0xffff_ffff).unwrap_or_default());
        if nr == libc::SYS_recvfrom {
            let parts = vec![(args[1], usize::try_from(args[2]).unwrap_or(LONGEST))];
            return Ok(Self { parts, name: args[4], length: args[5], besides: None, flags: flags(args[3]) });
        }
        // A header: the name, its length, the parts, their number, what is besides, its length, flags.
        let header: [u64; 7] = words(tid, args[1])?;
        let mut parts = Vec::new();
        for index in 0..header[3].min(16) {
            let [at, length] = words(tid, header[2].wrapping_add(index * 16))?;
            parts.push((at, usize::try_from(length).unwrap_or(LONGEST)));
        }
        let length = if header[0] == 0 { 0 } else { args[1].wrapping_add(8) };
        Ok(Self {
            parts,
            name: header[0],
            length,
            besides: Some(args[1].wrapping_add(40)),
            flags: flags(args[2]),
        })
    }
}

fn words<const N: usize>(tid: i32, at: u64) -> Sys<[u64; N]> {
    let mut bytes = vec![0; N * 8];
    if read_bytes(tid, at, &mut bytes)? != bytes.len() {
        return Err(Errno::FAULT);
    }
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_ne_bytes(*bytes.first_chunk().ok_or(Errno::FAULT)?);
    }
    Ok(words)
}

/// A call that receives.
struct Receive {
    listener: Arc<OwnedFd>,
    id: u64,
    tid: i32,
    socket: OwnedFd,
    from: Option<Vec<u8>>,
    room: Room,
}

impl Receive {
    fn waits(&self) -> bool {
        let flags = rustix::fs::fcntl_getfl(&self.socket);
        let waits = flags.is_ok_and(|flags| !flags.contains(OFlags::NONBLOCK));
        waits && !self.room.flags.contains(RecvFlags::DONTWAIT)
    }

    fn now(&self) -> Result<i64, Errno> {
        let space = self.room.parts.iter().fold(0, |sum: usize, (_, length)| sum.saturating_add(*length));
        let mut message = vec![0; space.min(LONGEST)];
        let flags = self.room.flags | RecvFlags::DONTWAIT;
        let (_, length) = recv(&self.socket, &mut message[..], flags)?;
        let mut rest = &message[..length.min(message.len())];
        for (at, room) in &self.room.parts {
            let (part, after) = rest.split_at(rest.len().min(*room));
            if !part.is_empty() {
                sys::write_memory(self.tid, *at, part)?;
            }
            rest = after;
        }
        if self.room.length != 0 {
            write_address(
                self.tid,
                self.room.name,
                self.room.length,
                self.from.as_deref().unwrap_or_default(),
            )?;
        }
        if let Some(besides) = self.room.besides {
            sys::write_memory(self.tid, besides, &[0; 12])?;
        }
        i64::try_from(length).map_err(|_| Errno::IO)
    }

    /// The same when something has come, unless the caller is gone before.
    fn later(&self) {
        /// The caller is looked for so often.
        const OFTEN: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
        let listener = self.listener.as_fd();
        loop {
            let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
            let _ = poll(&mut fds, Some(&OFTEN));
            if !notif::is_valid(listener, self.id) {
                return;
            }
            let answered = match self.now() {
                Err(Errno::AGAIN) => continue,
                Err(errno) => notif::refuse(listener, self.id, errno),
                Ok(length) => notif::succeed(listener, self.id, length),
            };
            // An answer that cannot be delivered belongs to a caller that is gone.
            let _ = answered;
            return;
        }
    }
}
