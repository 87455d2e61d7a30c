//! The words that init and the host exchange on their private socket.

use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::process::Pid;

use crate::sys::Sys;

/// What init was doing when something failed. The numbers travel over the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Step {
    DieWithParent = 1,
    UserMap,
    PrivateMounts,
    NewRoot,
    PivotRoot,
    Mount,
    DetachHost,
    SealRoot,
    Loopback,
    Hostname,
    WaitForHost,
    Signals,
    StartCommand,
    Terminal,
    Capabilities,
    NotDumpable,
    Session,
    Rlimit,
    NoNewPrivs,
    Landlock,
    LandlockRule,
    Supervisor,
    Stdio,
    Chdir,
    Seccomp,
    Exec,
    Subreaper,
    Bwrap,
    Order,
    Enter,
    Namespaces,
}

impl Step {
    const ALL: [Self; 31] = [
        Self::DieWithParent,
        Self::UserMap,
        Self::PrivateMounts,
        Self::NewRoot,
        Self::PivotRoot,
        Self::Mount,
        Self::DetachHost,
        Self::SealRoot,
        Self::Loopback,
        Self::Hostname,
        Self::WaitForHost,
        Self::Signals,
        Self::StartCommand,
        Self::Terminal,
        Self::Capabilities,
        Self::NotDumpable,
        Self::Session,
        Self::Rlimit,
        Self::NoNewPrivs,
        Self::Landlock,
        Self::LandlockRule,
        Self::Supervisor,
        Self::Stdio,
        Self::Chdir,
        Self::Seccomp,
        Self::Exec,
        Self::Subreaper,
        Self::Bwrap,
        Self::Order,
        Self::Enter,
        Self::Namespaces,
    ];

    fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|step| *step as u32 == number)
    }

    /// Fits after "cannot".
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::DieWithParent => "tie the sandbox to its parent",
            Self::UserMap => "map the user into the new user namespace",
            Self::PrivateMounts => "make the mount namespace private",
            Self::NewRoot => "mount the new root",
            Self::PivotRoot => "change to the new root",
            Self::Mount => "mount",
            Self::DetachHost => "detach the host's file system",
            Self::SealRoot => "make the new root read-only",
            Self::Loopback => "bring up the loopback interface",
            Self::Hostname => "set the host name",
            Self::WaitForHost => "hear from the host side",
            Self::Signals => "set up signals",
            Self::StartCommand => "start the command's process",
            Self::Terminal => "open a terminal",
            Self::Capabilities => "drop capabilities",
            Self::NotDumpable => "hide the sandbox's first process",
            Self::Session => "start a new session",
            Self::Rlimit => "set a resource limit",
            Self::NoNewPrivs => "set no_new_privs",
            Self::Landlock => "apply Landlock",
            Self::LandlockRule => "add a Landlock rule",
            Self::Supervisor => "install the supervised system-call filter",
            Self::Stdio => "connect the standard descriptors",
            Self::Chdir => "enter the working directory",
            Self::Seccomp => "install the system-call filter",
            Self::Exec => "execute the command",
            Self::Subreaper => "become the subreaper of the sandbox's processes",
            Self::Bwrap => "execute bwrap",
            Self::Order => "read inside what is to be done",
            Self::Enter => "enter the control group of the sandbox",
            Self::Namespaces => "create the sandbox's namespaces",
        }
    }
}

/// One message. A descriptor may travel beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// Host → init: the command may start.
    Go,
    /// Host → init, with the door of a control group: go in.
    Enter,
    /// Host → init: send this signal to everything but yourself.
    Terminate { signal: i32 },
    /// Command → init (the number, in their shared table), init → host (the descriptor itself): the
    /// notification listener. The command runs from here on.
    Listener { fd: i32 },
    /// The same moment where nothing is supervised.
    Unsupervised,
    /// Init → host, with the terminal's master.
    Terminal,
    /// Init → host: the command ended, with its wait status. `alone`: and nothing else is left inside.
    Exited { status: i32, alone: bool, cpu_us: u64, max_rss_kib: u64 },
    /// A step failed; the sandbox ends.
    Failed { step: Step, detail: u32, errno: i32 },
    /// Init → host, with the device that the traps are served on.
    Tripwire,
    /// Init → host, with the sandbox's `/proc`: the traps are laid out.
    Processes,
    /// Init → host, where somebody else made it: it is there, and init is ours.
    Ready,
    /// Init → host: it has no command of its own, and waits for what it is asked for.
    Held,
    /// Host → init, with a socket: start another command, which is talked about there. Host →
    /// [server](crate::prefork::server): make another sandbox, which is talked to there.
    Another,
    /// Host → the subreaper of such a command, or pid 1 before its order, with a descriptor: the command has it under
    /// this number.
    Given { target: i32 },
    /// Host → pid 1 of a sandbox that was [begun](crate::prefork::one), with the first mounts of its plan.
    Mounts,
    /// Host → pid 1 of such a sandbox, with its [order](crate::prefork::wire), after the descriptors that it needs.
    Order,
    /// The last word before such a command starts. With rows it gets a terminal of this size.
    Begin { rows: u16, columns: u16 },
}

const SIZE: usize = 32;

/// See [`Message::send_with`].
pub const MOST_DESCRIPTORS: usize = 8;

impl Message {
    fn encode(self) -> [u8; SIZE] {
        let (tag, a, b, c, d): (u32, i32, u32, u64, u64) = match self {
            Self::Go => (1, 0, 0, 0, 0),
            Self::Terminate { signal } => (2, signal, 0, 0, 0),
            Self::Listener { fd } => (3, fd, 0, 0, 0),
            Self::Unsupervised => (4, 0, 0, 0, 0),
            Self::Terminal => (5, 0, 0, 0, 0),
            Self::Exited { status, alone, cpu_us, max_rss_kib } => {
                (6, status, alone.into(), cpu_us, max_rss_kib)
            }
            Self::Failed { step, detail, errno } => (7, errno, detail, u64::from(step as u32), 0),
            Self::Ready => (8, 0, 0, 0, 0),
            Self::Held => (9, 0, 0, 0, 0),
            Self::Another => (10, 0, 0, 0, 0),
            Self::Given { target } => (11, target, 0, 0, 0),
            Self::Begin { rows, columns } => (12, 0, 0, rows.into(), columns.into()),
            Self::Tripwire => (13, 0, 0, 0, 0),
            Self::Processes => (14, 0, 0, 0, 0),
            Self::Enter => (15, 0, 0, 0, 0),
            Self::Mounts => (16, 0, 0, 0, 0),
            Self::Order => (17, 0, 0, 0, 0),
        };
        let mut bytes = [0; SIZE];
        bytes[0..4].copy_from_slice(&tag.to_ne_bytes());
        bytes[4..8].copy_from_slice(&a.to_ne_bytes());
        bytes[8..12].copy_from_slice(&b.to_ne_bytes());
        bytes[16..24].copy_from_slice(&c.to_ne_bytes());
        bytes[24..32].copy_from_slice(&d.to_ne_bytes());
        bytes
    }

    fn decode(bytes: &[u8; SIZE]) -> Option<Self> {
        let word = |at: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&bytes[at..at + 4]);
            u32::from_ne_bytes(word)
        };
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let (a, b) = (word(4).cast_signed(), word(8));
        Some(match word(0) {
            1 => Self::Go,
            2 => Self::Terminate { signal: a },
            3 => Self::Listener { fd: a },
            4 => Self::Unsupervised,
            5 => Self::Terminal,
            6 => Self::Exited { status: a, alone: b != 0, cpu_us: long(16), max_rss_kib: long(24) },
            7 => Self::Failed { step: Step::from_number(word(16))?, detail: b, errno: a },
            8 => Self::Ready,
            9 => Self::Held,
            10 => Self::Another,
            11 => Self::Given { target: a },
            12 => Self::Begin { rows: u16::try_from(long(16)).ok()?, columns: u16::try_from(long(24)).ok()? },
            13 => Self::Tripwire,
            14 => Self::Processes,
            15 => Self::Enter,
            16 => Self::Mounts,
            17 => Self::Order,
            _ => return None,
        })
    }

    /// Sends without allocating, and without SIGPIPE when the other side is gone.
    pub fn send(self, socket: BorrowedFd<'_>, descriptor: Option<BorrowedFd<'_>>) -> Sys<()> {
        let bytes = self.encode();
        if descriptor.is_none() {
            // Not sendmsg: the process that reports its own listener is already supervised.
            return rustix::net::send(socket, &bytes, SendFlags::NOSIGNAL).map(drop);
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let carried = descriptor.map(|fd| [fd]);
        if let Some(fds) = &carried {
            ancillary.push(SendAncillaryMessage::ScmRights(fds));
        }
        sendmsg(socket, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL).map(drop)
    }

    /// With several descriptors, up to [`MOST_DESCRIPTORS`].
    pub fn send_with(self, socket: BorrowedFd<'_>, descriptors: &[BorrowedFd<'_>]) -> Sys<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(Errno::TOOBIG);
        }
        sendmsg(socket, &[IoSlice::new(&self.encode())], &mut ancillary, SendFlags::NOSIGNAL).map(drop)
    }

    /// What [`send_with`](Self::send_with) sent. Allocates.
    pub fn receive_with_descriptors(socket: BorrowedFd<'_>) -> Sys<(Self, Vec<OwnedFd>)> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let message = Self::receive_into(socket, &mut ancillary)?;
        let descriptors = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        });
        Ok((message, descriptors.flatten().collect()))
    }

    pub fn receive(socket: BorrowedFd<'_>) -> Sys<Self> {
        Self::receive_with_descriptor(socket).map(|(message, _)| message)
    }

    /// Receives one message and the descriptor that came with it. An end of the connection is
    /// `EPIPE`.
    pub fn receive_with_descriptor(socket: BorrowedFd<'_>) -> Sys<(Self, Option<OwnedFd>)> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let message = Self::receive_into(socket, &mut ancillary)?;
        let descriptor = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        Ok((message, descriptor))
    }

    /// With the process that sent it, for a socket that was asked to pass that on.
    pub fn receive_from(socket: BorrowedFd<'_>) -> Sys<(Self, Option<Pid>)> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let message = Self::receive_into(socket, &mut ancillary)?;
        let sender = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmCredentials(credentials) => Some(credentials.pid),
            _ => None,
        });
        Ok((message, sender))
    }

    fn receive_into(socket: BorrowedFd<'_>, ancillary: &mut RecvAncillaryBuffer<'_>) -> Sys<Self> {
        let mut bytes = [0; SIZE];
        let received = loop {
            let mut slices = [IoSliceMut::new(&mut bytes)];
            match recvmsg(socket, &mut slices, ancillary, RecvFlags::CMSG_CLOEXEC) {
                // The second is said once, before what is still to be heard, of one that ended without having heard all.
                Err(Errno::INTR | Errno::CONNRESET) => {}
                other => break other?,
            }
        };
        match received.bytes {
            0 => Err(Errno::PIPE),
            SIZE => Self::decode(&bytes).ok_or(Errno::BADMSG),
            _ => Err(Errno::BADMSG),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_its_number_and_words() {
        for step in Step::ALL {
            assert_eq!(Step::from_number(step as u32), Some(step));
            assert!(!step.describe().is_empty());
        }
        assert_eq!(Step::from_number(0), None);
        assert_eq!(Step::from_number(u32::try_from(Step::ALL.len()).unwrap() + 1), None);
    }

    #[test]
    fn the_last_word_of_one_that_did_not_listen_is_heard() {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
        use std::os::fd::AsFd;
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let last = Message::Failed { step: Step::Namespaces, detail: 0, errno: 28 };
        Message::Go.send(ours.as_fd(), None).unwrap();
        last.send(theirs.as_fd(), None).unwrap();
        drop(theirs);
        assert_eq!(Message::receive(ours.as_fd()), Ok(last));
        assert_eq!(Message::receive(ours.as_fd()), Err(Errno::PIPE));
    }

    #[test]
    fn every_message_survives_the_wire() {
        for message in [
            Message::Go,
            Message::Terminate { signal: 15 },
            Message::Listener { fd: 7 },
            Message::Unsupervised,
            Message::Terminal,
            Message::Exited { status: -1, alone: true, cpu_us: u64::MAX, max_rss_kib: 1 << 40 },
            Message::Failed { step: Step::Mount, detail: 12, errno: 13 },
            Message::Ready,
            Message::Tripwire,
            Message::Processes,
            Message::Enter,
            Message::Mounts,
        ] {
            assert_eq!(Message::decode(&message.encode()), Some(message));
        }
    }
}
