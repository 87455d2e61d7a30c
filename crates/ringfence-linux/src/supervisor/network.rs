//! Sockets: who may be reached.
//!
//! The network namespace is empty, so nothing beyond loopback can be reached whatever is answered here;
//! the supervisor makes the refusal visible. Pathname sockets are the exception: they are files, and one
//! that a host process listens on inside a shared directory could be reached. So the supervisor makes every
//! connection of a local socket itself, by a descriptor of what it judged, after the kernel has told it whether
//! that is a socket of the sandbox's own network namespace.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use ringfence_model::{Access, DenyReason, Operation, PathOutcome};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::net::SocketAddrUnix;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};

use super::call::Last;
use super::mount_grant::Namespaces;
use super::notif::{self, Notification};
use super::target::{Resolved, Unread, read_bytes};
use super::{Answer, Denial, Resource, Supervisor, describe};

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
        let address = read_address(tid, address, length);
        // A local socket can reach whatever has a path. The kernel would read the address a second time, so
        // it is the supervisor that connects, also to what is the sandbox's own.
        let local = take_descriptor(tid, socket)
            .filter(|own| rustix::net::sockopt::socket_domain(own) == Ok(rustix::net::AddressFamily::UNIX));
        let answer = match (address, local) {
            (Address::Internet(address), None) => internet(Operation::Connect, address),
            (Address::Path(path), Some(own)) => self.connect_path(listener, notification, own, &path),
            // Of the sandbox's network namespace. Without one it would be a name of the host's.
            (Address::Abstract(name), Some(own)) if self.watched.shared.is_none() => {
                match SocketAddrUnix::new_abstract_name(&name) {
                    Ok(address) => {
                        let connection = Connection { own, address, to: None };
                        self.connect_later(listener, notification.id, connection)
                    }
                    Err(errno) => Answer::Done(Err(errno)),
                }
            }
            (Address::Abstract(_), Some(_)) => Answer::Done(Err(Errno::ACCESS)),
            (_, Some(_)) => Answer::Done(Err(Errno::INVAL)),
            (_, None) => Answer::Continue,
        };
        self.never_continue(answer)
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

    pub(super) fn send_to(&mut self, tid: i32, address: u64, length: u64) -> Answer {
        match read_address(tid, address, length) {
            Address::Internet(address) => internet(Operation::Send, address),
            Address::Path(_) | Address::Abstract(_) | Address::Other => Answer::Continue,
        }
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
        match self.policy.decide(self.real.as_path(), Access::Write).outcome {
            // Made inside; nobody outside can listen there.
            PathOutcome::Private => self.connect_later(listener, notification.id, connection),
            PathOutcome::Denied(_) => match self.verdict(Operation::Connect, Access::Write) {
                // The host refuses it as well.
                Answer::Continue => Answer::Done(Err(Errno::ACCESS)),
                other => other,
            },
            PathOutcome::Allowed => match connection.is_of_inside(tid) {
                Some(true) => self.connect_later(listener, notification.id, connection),
                Some(false) => refuse_socket(self.real.as_path()),
                None => self.connect_and_look(tid, &connection),
            },
        }
    }

    /// Connects, and looks then who is on the other side: where nobody can tell before.
    fn connect_and_look(&self, tid: i32, connection: &Connection) -> Answer {
        match connection.make_in_time() {
            Ok(()) => {}
            // Nobody can tell whose listener has too many already: that is not for the caller to know.
            Err(Errno::AGAIN) => return refuse_socket(self.real.as_path()),
            Err(errno) => return Answer::Done(Err(errno)),
        }
        let own = &connection.own;
        let inside = rustix::net::sockopt::socket_peercred(own)
            .is_ok_and(|peer| self.is_peer_inside(peer.pid.as_raw_nonzero().get(), tid));
        if inside {
            return Answer::Done(Ok(0));
        }
        let _ = rustix::net::shutdown(own, rustix::net::Shutdown::Both);
        refuse_socket(self.real.as_path())
    }

    /// What is at `self.real`, held open, and the address it is reached by.
    fn socket_at_real(&self) -> Option<(OwnedFd, SocketAddrUnix)> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
        let root = self.root.as_ref()?;
        let opened = rustix::fs::openat2(root, self.real.as_path(), flags, Mode::empty(), resolve).ok()?;
        let address = SocketAddrUnix::new(format!("/proc/self/fd/{}", opened.as_raw_fd())).ok()?;
        Some((opened, address))
    }

    /// Connects on a thread of its own: a listener that accepts nobody would hold everybody up.
    fn connect_later(&mut self, listener: BorrowedFd<'_>, id: u64, connection: Connection) -> Answer {
        let Some(listener) = self.shared_listener(listener) else { return Answer::Done(Err(Errno::ACCESS)) };
        let work = move || {
            let made = match connection.make() {
                Ok(()) => notif::succeed(listener.as_fd(), id, 0),
                Err(errno) => notif::refuse(listener.as_fd(), id, errno),
            };
            // An answer that cannot be delivered belongs to a caller that is gone.
            let _ = made;
        };
        match std::thread::Builder::new().name("connect".to_owned()).spawn(work) {
            Ok(_) => Answer::Later,
            Err(_) => Answer::Done(Err(Errno::AGAIN)),
        }
    }

    fn is_peer_inside(&self, peer: i32, tid: i32) -> bool {
        if self.watched.shared.is_some() { self.is_inside(peer) } else { same_pid_namespace(peer, tid) }
    }

    /// Puts the caller's pathname into `self.path`, absolute.
    pub(super) fn absolute(&mut self, tid: i32, path: &[u8]) -> Result<(), Unread> {
        super::target::absolute_path(tid, path, &mut self.path)
    }
}

/// A connection to be made for the caller's local socket.
struct Connection {
    own: OwnedFd,
    address: SocketAddrUnix,
    /// What the address leads to, held open so that it stays the same.
    to: Option<OwnedFd>,
}

impl Connection {
    fn make(&self) -> Result<(), Errno> {
        rustix::net::connect(&self.own, &self.address)
    }

    /// As [`make`](Self::make), without waiting long for a listener that accepts nobody.
    fn make_in_time(&self) -> Result<(), Errno> {
        use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_timeout};
        let before = socket_timeout(&self.own, Timeout::Send)?;
        set_socket_timeout(&self.own, Timeout::Send, Some(std::time::Duration::from_secs(1)))?;
        let made = self.make();
        set_socket_timeout(&self.own, Timeout::Send, before)?;
        made
    }

    /// Whether the socket it leads to is one of the sandbox's network namespace. None when nobody can tell.
    fn is_of_inside(&self, tid: i32) -> Option<bool> {
        let to = self.to.as_ref()?;
        let stat = rustix::fs::fstat(to).ok()?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
            // The kernel says what is wrong with it.
            return Some(true);
        }
        if tells_two_devices(to) {
            return None;
        }
        match Namespaces::of(tid)?.has_socket(&stat) {
            Ok(()) => Some(true),
            Err(Errno::SRCH) => Some(false),
            Err(_) => None,
        }
    }
}

/// Whether its file system tells programs another device than it has in the kernel's tables (btrfs, overlayfs).
fn tells_two_devices(file: &OwnedFd) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|fs| matches!(fs.f_type, 0x9123_683e | 0x794c_7630))
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

fn internet(operation: Operation, address: SocketAddr) -> Answer {
    let ip = address.ip();
    if ip.is_loopback() || ip.is_unspecified() {
        // Loopback is the sandbox's own. A service of the host with that port is out of reach, which is
        // worth telling.
        return if host_listens(address.port()) {
            refuse_address(operation, address)
        } else {
            Answer::Continue
        };
    }
    refuse_address(operation, address)
}

fn refuse_address(operation: Operation, address: SocketAddr) -> Answer {
    Answer::Deny(Denial {
        operation,
        resource: Resource::Address(address.to_string()),
        access: Access::Write,
        reason: DenyReason::Unlisted,
        rule: None,
        missing: false,
    })
}

/// Whether a process of the host listens on that TCP port.
fn host_listens(port: u16) -> bool {
    let wanted = format!(":{port:04X}");
    ["/proc/self/net/tcp", "/proc/self/net/tcp6"].iter().any(|table| {
        std::fs::read_to_string(table).is_ok_and(|table| {
            table.lines().skip(1).any(|line| {
                let mut fields = line.split_whitespace().skip(1);
                let (local, _, state) = (fields.next(), fields.next(), fields.next());
                state == Some("0A") && local.is_some_and(|local| local.ends_with(&wanted))
            })
        })
    })
}

pub(super) fn read_address(tid: i32, address: u64, length: u64) -> Address {
    let mut bytes = [0_u8; 128];
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

/// A connection to `address` made outside, for the caller's stream socket `socket`: the one that takes its
/// place, and whether it closes on exec. Options that were set on the old one before are lost.
pub(super) fn connect_outside(tid: i32, socket: i32, address: SocketAddr) -> Result<(OwnedFd, bool), Errno> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
    let theirs = take_descriptor(tid, socket).ok_or(Errno::BADF)?;
    if sockopt::socket_type(&theirs)? != SocketType::STREAM {
        return Err(Errno::ACCESS);
    }
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let ours = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_timeout(&ours, sockopt::Timeout::Send, Some(std::time::Duration::from_secs(10)))?;
    rustix::net::connect(&ours, &address)?;
    sockopt::set_socket_timeout(&ours, sockopt::Timeout::Send, None)?;
    rustix::fs::fcntl_setfl(&ours, rustix::fs::fcntl_getfl(&theirs)?)?;
    Ok((ours, closes_on_exec(tid, socket)))
}

fn closes_on_exec(tid: i32, descriptor: i32) -> bool {
    let info = std::fs::read_to_string(format!("/proc/{tid}/fdinfo/{descriptor}")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    flags
        .and_then(|text| i32::from_str_radix(text.trim(), 8).ok())
        .is_some_and(|flags| flags & libc::O_CLOEXEC != 0)
}

/// A copy of the caller's descriptor.
pub(super) fn take_descriptor(tid: i32, number: i32) -> Option<OwnedFd> {
    // pidfds are of processes, not threads.
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let tgid: i32 = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()?;
    let pidfd = rustix::process::pidfd_open(Pid::from_raw(tgid)?, PidfdFlags::empty()).ok()?;
    rustix::process::pidfd_getfd(pidfd.as_fd(), number, PidfdGetfdFlags::empty()).ok()
}

fn same_pid_namespace(pid: i32, tid: i32) -> bool {
    let namespace =
        |pid: i32| std::fs::read_link(Path::new("/proc").join(pid.to_string()).join("ns/pid")).ok();
    let (a, b) = (namespace(pid), namespace(tid));
    a.is_some() && a == b
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
