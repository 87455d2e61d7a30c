//! Servers of the sandbox's own on loopback, where it has no network namespace.
//!
//! Landlock refuses TCP to everybody inside. The supervisor binds and connects for them, and only on loopback: it
//! remembers which sockets it bound, and connects where one of these listens. The kernel's table says which socket that
//! is, before the connection and after it; in between nothing is sent.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use ringfence_model::LockExt as _;
use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketType, sockopt};

use super::network::{self, Address};
use super::notif::{self, Notification};
use super::outside::is_ours;
use super::{Answer, Supervisor};

/// The sockets that were bound for the sandbox, by their number in the kernel's table. One set for all who serve it.
#[derive(Debug, Clone, Default)]
pub struct Bound(Arc<Mutex<HashSet<u64>>>);

impl PartialEq for Bound {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Bound {}

impl Bound {
    /// More are not remembered; those that are gone make room.
    const MOST: usize = 4096;

    fn add(&self, number: u64) -> Result<(), Errno> {
        let mut bound = self.0.locked();
        if bound.len() >= Self::MOST {
            let there: HashSet<u64> = numbers().collect();
            bound.retain(|number| there.contains(number));
        }
        if bound.len() >= Self::MOST {
            return Err(Errno::NOBUFS);
        }
        bound.insert(number);
        Ok(())
    }

    /// Binds the socket, and remembers it. It stays bound then, as long as it lives.
    fn bind(&self, socket: &OwnedFd, address: SocketAddr) -> Result<(), Errno> {
        rustix::net::bind(socket, &address)?;
        self.add(rustix::fs::fstat(socket)?.st_ino)
    }

    /// Whether the socket is one of these.
    fn has(&self, socket: &OwnedFd) -> bool {
        let is_known = rustix::fs::fstat(socket).is_ok_and(|stat| self.0.locked().contains(&stat.st_ino));
        let own = rustix::net::getsockname(socket).ok().and_then(|own| SocketAddr::try_from(own).ok());
        is_known && own.is_some_and(|own| own.ip().to_canonical().is_loopback())
    }

    /// Whether whoever connects to `address` gets to one of these, and to nobody else.
    fn listen_at(&self, address: SocketAddr) -> bool {
        let bound = self.0.locked();
        let table = table();
        let mut listeners = table.iter().filter(|socket| socket.listens && socket.hears(address)).peekable();
        listeners.peek().is_some() && listeners.all(|socket| bound.contains(&socket.number))
    }
}

impl Supervisor<'_> {
    /// Binds the caller's socket on loopback. None when the call is about something else.
    pub(super) fn bind_loopback(
        &self,
        listener: BorrowedFd<'_>,
        notification: &Notification,
        socket: i32,
        (address, length): (u64, u64),
    ) -> Option<Answer> {
        let (bound, own, address) = self.on_loopback(notification.tid, socket, (address, length))?;
        if !notif::is_valid(listener, notification.id) {
            return Some(Answer::Continue);
        }
        let lowered = self.powers.lower();
        let made = lowered.ok_or(Errno::ACCESS).and_then(|_lowered| {
            // Where ways out begin, nobody else shall be.
            if is_ours(address.ip()) {
                return Err(Errno::ADDRNOTAVAIL);
            }
            bound.bind(&own, address)
        });
        Some(Answer::Done(made.map(|()| 0)))
    }

    /// Lets the caller's socket listen. One of TCP that was bound nowhere would listen on every interface of the host, so
    /// it is bound on loopback before.
    pub(super) fn listen(
        &self,
        listener: BorrowedFd<'_>,
        notification: &Notification,
        socket: i32,
        backlog: i32,
    ) -> Answer {
        let Some(shared) = &self.watched.shared else { return Answer::Continue };
        let Some(own) = network::take_descriptor(notification.tid, socket) else {
            return Answer::Done(Err(Errno::BADF));
        };
        if !notif::is_valid(listener, notification.id) {
            return Answer::Continue;
        }
        let Some(_lowered) = self.powers.lower() else { return Answer::Done(Err(Errno::ACCESS)) };
        let anywhere = match sockopt::socket_domain(&own) {
            Ok(AddressFamily::INET) => Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
            Ok(AddressFamily::INET6) => Some(SocketAddr::from((Ipv6Addr::LOCALHOST, 0))),
            Ok(_) => None,
            Err(errno) => return Answer::Done(Err(errno)),
        };
        let bound = match anywhere {
            Some(address) if !shared.bound.has(&own) => shared.bound.bind(&own, address),
            Some(_) | None => Ok(()),
        };
        Answer::Done(bound.and_then(|()| rustix::net::listen(&own, backlog)).map(|()| 0))
    }

    /// Connects the caller's socket to a server of the sandbox's own. None when the call is about something else.
    pub(super) fn connect_loopback(
        &mut self,
        listener: BorrowedFd<'_>,
        notification: &Notification,
        socket: i32,
        (address, length): (u64, u64),
    ) -> Option<Answer> {
        let (bound, own, address) = self.on_loopback(notification.tid, socket, (address, length))?;
        if !bound.listen_at(address) {
            return None;
        }
        let id = notification.id;
        let Some(listener) = self.shared_listener(listener) else {
            return Some(Answer::Done(Err(Errno::ACCESS)));
        };
        let work = move || {
            let connected = rustix::net::connect(&own, &address);
            let answered = if bound.listen_at(address) {
                match connected {
                    Ok(()) => notif::succeed(listener.as_fd(), id, 0),
                    Err(errno) => notif::refuse(listener.as_fd(), id, errno),
                }
            } else {
                let _ = rustix::net::shutdown(&own, Shutdown::Both);
                notif::refuse(listener.as_fd(), id, Errno::CONNREFUSED)
            };
            // One that cannot be delivered belongs to a caller that is gone.
            let _ = answered;
        };
        Some(match std::thread::Builder::new().name("connect".to_owned()).spawn(work) {
            Ok(_) => Answer::Later,
            Err(_) => Answer::Done(Err(Errno::AGAIN)),
        })
    }

    /// The caller's TCP socket, and the address on loopback that it means.
    fn on_loopback(
        &self,
        tid: i32,
        socket: i32,
        (address, length): (u64, u64),
    ) -> Option<(Bound, OwnedFd, SocketAddr)> {
        let bound = self.watched.shared.as_ref()?.bound.clone();
        let Address::Internet(address) = network::read_address(tid, address, length) else { return None };
        let own = network::take_descriptor(tid, socket)?;
        let family = sockopt::socket_domain(&own).ok()?;
        // An address of the older family can be written in the newer one.
        let address = match (address.ip(), family) {
            (IpAddr::V4(ip), AddressFamily::INET6) => {
                SocketAddr::new(IpAddr::V6(ip.to_ipv6_mapped()), address.port())
            }
            _ => address,
        };
        let is_tcp = sockopt::socket_type(&own) == Ok(SocketType::STREAM)
            && matches!(family, AddressFamily::INET | AddressFamily::INET6);
        (is_tcp && address.ip().to_canonical().is_loopback()).then_some((bound, own, address))
    }
}

/// A TCP socket of the machine.
#[derive(Debug, PartialEq, Eq)]
struct Socket {
    address: IpAddr,
    port: u16,
    listens: bool,
    number: u64,
}

impl Socket {
    fn hears(&self, address: SocketAddr) -> bool {
        let own = self.address.to_canonical();
        self.port == address.port() && (own.is_unspecified() || own == address.ip().to_canonical())
    }
}

/// The numbers of all TCP sockets of the machine.
pub(super) fn numbers() -> impl Iterator<Item = u64> {
    table().into_iter().map(|socket| socket.number)
}

/// The addresses of all TCP sockets of this network that a process has open.
#[must_use]
pub fn addresses_in_use() -> HashSet<SocketAddr> {
    let held = table().into_iter().filter(|socket| socket.number != 0);
    held.map(|socket| SocketAddr::new(socket.address.to_canonical(), socket.port)).collect()
}

fn table() -> Vec<Socket> {
    let text = |name: &str| std::fs::read_to_string(format!("/proc/self/net/{name}")).unwrap_or_default();
    ["tcp", "tcp6"]
        .iter()
        .flat_map(|name| text(name).lines().skip(1).filter_map(socket).collect::<Vec<_>>())
        .collect()
}

/// `sl local_address rem_address st …`, with the inode in the tenth field. Addresses are words in the machine's order.
fn socket(line: &str) -> Option<Socket> {
    const LISTENS: &str = "0A";
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (address, port) = fields.get(1)?.split_once(':')?;
    let word =
        |at: usize| u32::from_str_radix(address.get(at * 8..at * 8 + 8)?, 16).ok().map(u32::to_ne_bytes);
    let address = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for at in 0..4 {
                bytes[at * 4..at * 4 + 4].copy_from_slice(&word(at)?);
            }
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(Socket {
        address,
        port: u16::from_str_radix(port, 16).ok()?,
        listens: *fields.get(3)? == LISTENS,
        number: fields.get(9)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_table_names_a_listener() {
        use std::os::fd::AsRawFd as _;
        for address in ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0"] {
            let Ok(listener) = std::net::TcpListener::bind(address) else { continue };
            let number = rustix::fs::fstat(&listener).unwrap().st_ino;
            assert!(listener.as_raw_fd() >= 0);
            let port = listener.local_addr().unwrap().port();
            let mut there = listener.local_addr().unwrap();
            if there.ip().is_unspecified() {
                there.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
            }
            let bound = Bound::default();
            assert!(!bound.listen_at(there), "nobody's");
            bound.add(number).unwrap();
            assert!(bound.listen_at(there), "{address}");
            there.set_port(port ^ 1);
            assert!(!bound.listen_at(there));
        }
    }
}
