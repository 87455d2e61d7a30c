//! The sockets between a shell and its bash. Sockets, because a pipe could be opened through `/proc` by
//! anybody inside.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::{Errno, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketFlags, SocketType,
    recvmsg, send, socketpair,
};

/// Longer than any honest report.
const LONGEST_REPORT: usize = 64;

/// Both ends of the two sockets.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) ours: Channel,
    pub(crate) commands: OwnedFd,
    pub(crate) status: OwnedFd,
}

/// Our ends.
#[derive(Debug)]
pub(crate) struct Channel {
    commands: OwnedFd,
    status: OwnedFd,
}

/// What somebody inside said, and who it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) pid: i32,
    pub(crate) nonce: String,
    pub(crate) status: i32,
}

impl Channel {
    pub(crate) fn pair() -> rustix::io::Result<Pair> {
        let (commands, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        let (status, reports) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        rustix::net::sockopt::set_socket_passcred(&status, true)?;
        for fd in [&commands, &status] {
            rustix::fs::fcntl_setfl(fd, OFlags::NONBLOCK | OFlags::RDWR)?;
        }
        Ok(Pair { ours: Self { commands, status }, commands: theirs, status: reports })
    }

    /// Sends what fits; how much that was.
    pub(crate) fn send(&self, bytes: &[u8]) -> rustix::io::Result<usize> {
        match send(&self.commands, bytes, SendFlags::NOSIGNAL) {
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            other => other,
        }
    }

    pub(crate) fn commands(&self) -> &OwnedFd {
        &self.commands
    }

    pub(crate) fn status(&self) -> &OwnedFd {
        &self.status
    }

    /// The next report; none when there is none. Strangers may write anything here, so what is not a report is
    /// passed over.
    pub(crate) fn receive(&self) -> Option<Said> {
        loop {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut bytes = [0; LONGEST_REPORT];
            let received = recvmsg(
                self.status.as_fd(),
                &mut [IoSliceMut::new(&mut bytes)],
                &mut control,
                RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
            );
            let length = match received {
                Ok(message) => message.bytes,
                Err(Errno::INTR) => continue,
                Err(_) => return None,
            };
            let sender = control.drain().find_map(|message| match message {
                RecvAncillaryMessage::ScmCredentials(credentials) => {
                    Some(credentials.pid.as_raw_nonzero().get())
                }
                _ => None,
            });
            // An empty message has a sender; the end of the connection has none.
            if length == 0 && sender.is_none() {
                return None;
            }
            if let Some(said) = sender.and_then(|pid| parse(pid, &bytes[..length])) {
                return Some(said);
            }
        }
    }
}

fn parse(pid: i32, bytes: &[u8]) -> Option<Said> {
    let (nonce, status) = std::str::from_utf8(bytes).ok()?.split_once(' ')?;
    let status: u8 = status.parse().ok()?;
    Some(Said { pid, nonce: nonce.to_owned(), status: status.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reports_are_reports_and_the_kernel_says_whose() {
        let Pair { ours, status, .. } = Channel::pair().unwrap();
        assert_eq!(ours.receive(), None);
        for noise in ["", " ", "x", "x 256", "x -1", "x 1 2", "\u{fffd}"] {
            let _ = send(&status, noise.as_bytes(), SendFlags::empty());
        }
        send(&status, &[0; 5000], SendFlags::empty()).unwrap();
        send(&status, b"abc 7", SendFlags::empty()).unwrap();
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        assert_eq!(ours.receive(), Some(Said { pid, nonce: "abc".to_owned(), status: 7 }));
        assert_eq!(ours.receive(), None);
    }
}
