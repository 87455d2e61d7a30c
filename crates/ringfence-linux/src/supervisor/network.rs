//! Sockets: who may be reached.
//!
//! The network namespace is empty, so nothing beyond loopback can be reached whatever is answered here;
//! the supervisor makes the refusal visible. Pathname sockets are the exception: they are files, and one
//! that a host process listens on inside a shared directory could be reached. And a socket that was looked at can be
//! another one when the kernel takes it. So the supervisor makes every connection itself: of its own copy of the socket,
//! to its own copy of the address; to a path by a descriptor of what it judged, after the kernel has told it whose socket
//! that is.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use ringfence_model::{Access, DenyReason, Operation, PathOutcome};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, sockopt};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};

use super::call::Last;
use super::mount_grant::Namespaces;
use super::name_lookup::NAME_SERVER;
use super::notif::{self, Notification};
use super::socket_table::{self, Bound};
use super::target::{Resolved, Unread, read_bytes};
use super::{Answer, Denial, Resource, Supervisor, describe, on_behalf};
use crate::seccomp::MSG_FASTOPEN;
use crate::sys;

/// Of any address.
const LONGEST: usize = 128;

pub(super) enum Address {
    Internet(SocketAddr),
    /// A pathname socket.
    Path(Vec<u8>),
    /// A name that is no path, without the NUL before it.
    Abstract(Vec<u8>),
    /// Unnamed, or of a family the static filter lets nobody make.
    Other,
}

impl Supervisor<'_> {
    pub(super) fn connect(
        &mut self,
        listener: BorrowedFd<'_>,
        notification: &Notification,
        socket: i32,
        (address, length): (u64, u64),
    ) -> Answer {
        let tid = notification.tid;
        if let Some(answer) = self.connect_loopback(listener, notification, socket, (address, length)) {
            return answer;
        }
        let bytes = match copy_address(tid, address, length) {
            Ok(bytes) => bytes,
            Err(errno) => return Answer::Done(Err(errno)),
        };
        let Some(own) = take_descriptor(tid, socket) else { return Answer::Done(Err(Errno::BADF)) };
        // It was the caller's own only if it still waits.
        if !notif::is_valid(listener, notification.id) {
            return Answer::Continue;
        }
        let Ok(domain) = sockopt::socket_domain(&own) else { return Answer::Done(Err(Errno::NOTSOCK)) };
        let address = parse_address(&bytes);
        if domain == AddressFamily::UNIX {
            if let Some(answer) = self.turn_datagrams(tid, &own, &address, Operation::Connect) {
                return answer;
            }
            return self.connect_local(listener, notification, own, address);
        }
        let mut own = own;
        if let Address::Internet(to) = address {
            own = match self.connect_out(listener, notification, own, (to, bytes.clone())) {
                Ok(answer) => return answer,
                Err(own) => own,
            };
        }
        // Without a network namespace nothing would stand between it and the host.
        if self.watched.shared.is_some() {
            return match address {
                Address::Internet(to) if !is_loopback(to) || listens("self", to.port()) => {
                    self.refuse_or_ask(notification, own, (to, bytes))
                }
                Address::Internet(_) => Answer::Done(Err(Errno::CONNREFUSED)),
                _ => Answer::Done(Err(Errno::ACCESS)),
            };
        }
        let is_stream = sockopt::socket_type(&own) == Ok(SocketType::STREAM);
        if let Address::Internet(address) = address
            && !self.carries_datagrams(tid, &own, address)
            && !self.stands_for_a_name(address)
            && !self.is_name_lookup(tid, &own, address)
            && (!is_loopback(address) || (is_stream && is_the_hosts(tid, address.port())))
        {
            return self.refuse_or_ask(notification, own, (address, bytes));
        }
        self.make_connection(listener, notification.id, Connection { own, address: bytes, to: None })
    }

    fn connect_local(
        &mut self,
        listener: BorrowedFd<'_>,
        notification: &Notification,
        own: OwnedFd,
        address: Address,
    ) -> Answer {
        match address {
            Address::Path(path) => self.connect_path(listener, notification, own, &path),
            // Of the sandbox's network namespace. Without one it would be a name of the host's.
            Address::Abstract(name) if self.watched.shared.is_none() => {
                let address = local_address(&[b"\0", &name[..]].concat());
                self.make_connection(listener, notification.id, Connection { own, address, to: None })
            }
            Address::Abstract(_) => Answer::Done(Err(Errno::ACCESS)),
            Address::Internet(_) | Address::Other => Answer::Done(Err(Errno::INVAL)),
        }
    }

    /// Where no network namespace holds datagrams, nobody gets a socket for them; where they were to go is not known.
    pub(super) fn refuse_datagrams(&self, tid: i32) -> Answer {
        self.reporter.tell(describe::violation(
            tid,
            Denial {
                operation: Operation::Send,
                resource: Resource::Address("udp".to_owned()),
                access: Access::Write,
                reason: DenyReason::Unlisted,
                rule: None,
                missing: false,
            },
        ));
        Answer::Done(Err(Errno::ACCESS))
    }

    pub(super) fn send_to(
        &mut self,
        tid: i32,
        (socket, flags): (i32, u64),
        (address, length): (u64, u64),
    ) -> Answer {
        let address = read_address(tid, address, length);
        if self.watched.shared.is_some()
            && let Some(own) = take_descriptor(tid, socket)
            && let Some(answer) = self.turn_datagrams(tid, &own, &address, Operation::Send)
        {
            return answer;
        }
        match address {
            Address::Internet(address) if !is_loopback(address) || address.port() == NAME_SERVER => {
                let own = take_descriptor(tid, socket);
                let is_stream =
                    own.as_ref().is_some_and(|own| sockopt::socket_type(own) == Ok(SocketType::STREAM));
                if is_stream && self.way_out.as_ref().is_some_and(|way| way.is_by_name()) {
                    // As where fast open is switched off: who wants it connects instead. To a stream that is
                    // connected the address means nothing.
                    let wants_to_connect = flags & MSG_FASTOPEN != 0;
                    return if wants_to_connect {
                        Answer::Done(Err(Errno::OPNOTSUPP))
                    } else {
                        Answer::Continue
                    };
                }
                let is_taken = own.is_some_and(|own| {
                    self.is_name_lookup(tid, &own, address) || self.carries_datagrams(tid, &own, address)
                });
                if is_taken || is_loopback(address) {
                    Answer::Continue
                } else {
                    self.refuse_datagram(address)
                }
            }
            Address::Internet(_) | Address::Path(_) | Address::Abstract(_) | Address::Other => {
                Answer::Continue
            }
        }
    }

    /// The same of messages, whose addresses are behind their headers.
    pub(super) fn send_messages(
        &mut self,
        tid: i32,
        (socket, flags): (i32, u64),
        (headers, count): (u64, u64),
    ) -> Answer {
        /// The kernel takes no more at once.
        const MOST: u64 = 1024;
        const HEADER: u64 = size_of::<libc::mmsghdr>() as u64;
        for index in 0..count.min(MOST) {
            let mut header = [0; 12];
            let place = headers.saturating_add(index * HEADER);
            // The kernel says what is wrong with it.
            let Ok(12) = read_bytes(tid, place, &mut header) else { return Answer::Continue };
            let (Some(address), Some(length)) = (header.first_chunk(), header.last_chunk()) else {
                return Answer::Continue;
            };
            let (address, length) = (u64::from_ne_bytes(*address), u32::from_ne_bytes(*length));
            if address != 0 && length != 0 {
                match self.send_to(tid, (socket, flags), (address, length.into())) {
                    Answer::Continue => {}
                    refused => return refused,
                }
            }
        }
        Answer::Continue
    }

    fn connect_path(
        &mut self,
        listener: BorrowedFd<'_>,
        notification: &Notification,
        own: OwnedFd,
        path: &[u8],
    ) -> Answer {
        let tid = notification.tid;
        if let Err(unread) = self.absolute(tid, path) {
            return match unread {
                Unread::Nothing(_) => Answer::Done(Err(Errno::NOENT)),
                Unread::TooLong => Answer::Done(Err(Errno::NAMETOOLONG)),
            };
        }
        match self.resolve(Last::Follow) {
            Resolved::Missing | Resolved::Unreachable => {
                return match self.hidden(Operation::Connect, Access::Write) {
                    Answer::Continue => Answer::Done(Err(Errno::NOENT)),
                    Answer::Notice(denial) => {
                        self.notice(tid, denial);
                        Answer::Done(Err(Errno::NOENT))
                    }
                    other => other,
                };
            }
            Resolved::Nowhere => return Answer::Done(Err(Errno::CONNREFUSED)),
            Resolved::Exists => {}
        }
        let Some((opened, address)) = self.socket_at_real() else { return Answer::Done(Err(Errno::NOENT)) };
        let connection = Connection { own, address, to: Some(opened) };
        match self.decide(self.real.as_path(), Access::Write).outcome {
            // Made inside; nobody outside can listen there.
            PathOutcome::Private => self.make_connection(listener, notification.id, connection),
            PathOutcome::Denied(_) => match self.verdict(Operation::Connect, Access::Write) {
                // The host refuses it as well.
                Answer::Continue => Answer::Done(Err(Errno::ACCESS)),
                other => other,
            },
            PathOutcome::Allowed if self.leads_inside(tid, &connection) => {
                self.make_connection(listener, notification.id, connection)
            }
            PathOutcome::Allowed => refuse_socket(self.real.as_path()),
        }
    }

    /// Whether the socket that it leads to is the sandbox's own; false when nobody can tell.
    fn leads_inside(&self, tid: i32, connection: &Connection) -> bool {
        let Some(to) = &connection.to else { return false };
        if on_behalf::kind(to) != Some(FileType::Socket) {
            // The kernel says what is wrong with it.
            return true;
        }
        let Some(file) = Bound::of(to, tid) else { return false };
        if self.watched.shared.is_some() {
            return socket_table::look_up(file).is_ok_and(|socket| self.is_held_inside(socket));
        }
        Namespaces::of(tid).is_some_and(|namespaces| namespaces.has_socket(file).is_ok())
    }

    /// Whether a process of the sandbox has the socket of that number open.
    fn is_held_inside(&self, socket: u32) -> bool {
        let wanted = format!("socket:[{socket}]");
        let has_it = |process: &Path| {
            let descriptors = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
            descriptors
                .filter_map(|entry| std::fs::read_link(entry.path()).ok())
                .any(|to| to.as_os_str() == wanted.as_str())
        };
        std::fs::read_dir("/proc").into_iter().flatten().flatten().any(|entry| {
            let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
            number.is_some_and(|pid| self.is_inside(pid)) && has_it(&entry.path())
        })
    }

    /// What is at `self.real`, held open, and the address it is reached by.
    fn socket_at_real(&self) -> Option<(OwnedFd, Vec<u8>)> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
        let root = self.root.as_ref()?;
        let opened = rustix::fs::openat2(root, self.real.as_path(), flags, Mode::empty(), resolve).ok()?;
        let address = local_address(format!("/proc/self/fd/{}\0", opened.as_raw_fd()).as_bytes());
        Some((opened, address))
    }

    /// Connects, on a thread of its own where that can take time: a listener that accepts nobody would hold everybody up.
    fn make_connection(&mut self, listener: BorrowedFd<'_>, id: u64, connection: Connection) -> Answer {
        let Some(shared) = self.shared_listener(listener) else { return Answer::Done(Err(Errno::ACCESS)) };
        // The thread is made without capabilities, and has none.
        let Some(_lowered) = self.powers.lower() else { return Answer::Done(Err(Errno::ACCESS)) };
        if connection.is_made_at_once() {
            return Answer::Done(connection.make().map(|()| 0));
        }
        let work = move || {
            let made = match connection.make() {
                Ok(()) => notif::succeed(shared.as_fd(), id, 0),
                Err(errno) => notif::refuse(shared.as_fd(), id, errno),
            };
            // An answer that cannot be delivered belongs to a caller that is gone.
            let _ = made;
        };
        match std::thread::Builder::new().name("connect".to_owned()).spawn(work) {
            Ok(_) => Answer::Later,
            Err(_) => Answer::Done(Err(Errno::AGAIN)),
        }
    }

    /// Puts the caller's pathname into `self.path`, absolute.
    pub(super) fn absolute(&mut self, tid: i32, path: &[u8]) -> Result<(), Unread> {
        super::target::absolute_path(tid, path, &mut self.path)
    }
}

/// A connection to be made for the caller's socket.
struct Connection {
    own: OwnedFd,
    /// As the kernel takes it.
    address: Vec<u8>,
    /// What the address leads to, held open so that it stays the same.
    to: Option<OwnedFd>,
}

impl Connection {
    fn make(&self) -> Result<(), Errno> {
        sys::connect(self.own.as_fd(), &self.address)
    }

    /// Whether nobody has to be waited for. Of a stream that does not wait now that is not known: another thread may let
    /// it wait meanwhile.
    fn is_made_at_once(&self) -> bool {
        sockopt::socket_type(&self.own) == Ok(SocketType::DGRAM)
    }
}

/// The address of a local socket, whose name is a path that ends in a NUL, or begins with one.
fn local_address(name: &[u8]) -> Vec<u8> {
    let family = u16::try_from(libc::AF_UNIX).unwrap_or_default();
    [&family.to_ne_bytes(), name].concat()
}

fn refuse_socket(path: &Path) -> Answer {
    Answer::Deny(Denial {
        operation: Operation::Connect,
        resource: Resource::Path(path.to_owned()),
        access: Access::Write,
        reason: DenyReason::Unlisted,
        rule: None,
        missing: false,
    })
}

/// Loopback is the sandbox's own.
pub(super) fn is_loopback(address: SocketAddr) -> bool {
    address.ip().is_loopback() || address.ip().is_unspecified()
}

/// Whether somebody on the host listens on that port, and nobody inside: a service that is out of reach, which is worth
/// telling. Both are looked at each time, so that the time it takes tells nothing.
fn is_the_hosts(tid: i32, port: u16) -> bool {
    let [host, inside] = ["self".to_owned(), tid.to_string()].map(|process| listens(&process, port));
    host && !inside
}

pub(super) fn refuse_address(operation: Operation, address: SocketAddr) -> Answer {
    Answer::Deny(Denial {
        operation,
        resource: Resource::Address(address.to_string()),
        access: Access::Write,
        reason: DenyReason::Unlisted,
        rule: None,
        missing: false,
    })
}

/// Whether somebody listens on that TCP port in the network that the process sees.
fn listens(process: &str, port: u16) -> bool {
    listeners(process, port) > 0
}

/// How many do.
pub(super) fn listeners(process: &str, port: u16) -> usize {
    let wanted = format!(":{port:04X}");
    let is_one = |line: &&str| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, _, state) = (fields.next(), fields.next(), fields.next());
        state == Some("0A") && local.is_some_and(|local| local.ends_with(&wanted))
    };
    let tables = ["tcp", "tcp6"].map(|table| std::fs::read_to_string(format!("/proc/{process}/net/{table}")));
    tables.iter().flatten().map(|table| table.lines().skip(1).filter(is_one).count()).sum()
}

/// The caller's address as it is now, whatever becomes of the caller's memory.
fn copy_address(tid: i32, address: u64, length: u64) -> Result<Vec<u8>, Errno> {
    let length = usize::try_from(length).ok().filter(|length| *length <= LONGEST).ok_or(Errno::INVAL)?;
    let mut bytes = vec![0; length];
    match read_bytes(tid, address, &mut bytes) {
        Ok(got) if got == length => Ok(bytes),
        _ if length == 0 => Ok(bytes),
        _ => Err(Errno::FAULT),
    }
}

pub(super) fn read_address(tid: i32, address: u64, length: u64) -> Address {
    let mut bytes = [0_u8; LONGEST];
    let length = usize::try_from(length).unwrap_or(usize::MAX).min(bytes.len());
    let Ok(got) = read_bytes(tid, address, &mut bytes[..length]) else { return Address::Other };
    parse_address(&bytes[..got])
}

fn parse_address(bytes: &[u8]) -> Address {
    let (Some(family), Some(rest)) = (bytes.first_chunk::<2>(), bytes.get(2..)) else {
        return Address::Other;
    };
    let port = || rest.first_chunk::<2>().map(|port| u16::from_be_bytes(*port));
    match i32::from(u16::from_ne_bytes(*family)) {
        libc::AF_INET => match (port(), rest.get(2..6).and_then(|ip| ip.first_chunk::<4>())) {
            (Some(port), Some(ip)) => Address::Internet((IpAddr::V4(Ipv4Addr::from(*ip)), port).into()),
            _ => Address::Other,
        },
        libc::AF_INET6 => match (port(), rest.get(6..22).and_then(|ip| ip.first_chunk::<16>())) {
            (Some(port), Some(ip)) => {
                let ip = Ipv6Addr::from(*ip);
                let ip = ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4);
                Address::Internet((ip, port).into())
            }
            _ => Address::Other,
        },
        libc::AF_UNIX if rest.first().is_some_and(|&first| first != 0) => {
            let end = rest.iter().position(|&b| b == 0).unwrap_or(rest.len());
            Address::Path(rest[..end].to_vec())
        }
        libc::AF_UNIX if !rest.is_empty() => Address::Abstract(rest[1..].to_vec()),
        _ => Address::Other,
    }
}

/// A copy of the caller's descriptor.
pub(super) fn take_descriptor(tid: i32, number: i32) -> Option<OwnedFd> {
    // pidfds are of processes, not threads.
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let tgid: i32 = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()?;
    let pidfd = rustix::process::pidfd_open(Pid::from_raw(tgid)?, PidfdFlags::empty()).ok()?;
    rustix::process::pidfd_getfd(pidfd.as_fd(), number, PidfdGetfdFlags::empty()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family(number: i32) -> [u8; 2] {
        u16::try_from(number).unwrap().to_ne_bytes()
    }

    #[test]
    fn addresses_are_read_as_the_kernel_lays_them_out() {
        let mut v4 = vec![];
        v4.extend(family(libc::AF_INET));
        v4.extend(443_u16.to_be_bytes());
        v4.extend([93, 184, 216, 34]);
        assert!(matches!(parse_address(&v4), Address::Internet(a) if a.to_string() == "93.184.216.34:443"));

        let mut mapped = vec![];
        mapped.extend(family(libc::AF_INET6));
        mapped.extend(80_u16.to_be_bytes());
        mapped.extend([0; 4]);
        mapped.extend(Ipv4Addr::new(127, 0, 0, 1).to_ipv6_mapped().octets());
        assert!(matches!(parse_address(&mapped), Address::Internet(a) if a.to_string() == "127.0.0.1:80"));

        let mut unix = vec![];
        unix.extend(family(libc::AF_UNIX));
        unix.extend(b"/p/s.sock\0junk");
        assert!(matches!(parse_address(&unix), Address::Path(path) if path == b"/p/s.sock"));

        let mut abstract_name = vec![];
        abstract_name.extend(family(libc::AF_UNIX));
        abstract_name.extend(b"\0name");
        assert!(matches!(parse_address(&abstract_name), Address::Abstract(name) if name == b"name"));
        assert!(matches!(parse_address(&[1]), Address::Other));
    }
}
