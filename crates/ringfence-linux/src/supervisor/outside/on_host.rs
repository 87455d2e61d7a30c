//! Meeting a caller's socket where the sandbox has no network of its own: on the host's loopback interface.
//!
//! The caller's socket connects to a listener of ours that has no room for anybody: its SYN stays unanswered. When the way
//! out is there, a socket with the listener's address opens the same connection from the other side, as it does in a
//! network of the sandbox's own. Nobody else on the host has a part in it: two sockets of one connection are these two or
//! none, and that is looked at before a byte is carried. When there is no way out, the caller's socket is disconnected,
//! which any of its users can do, and what it shall hear is told when it asks.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock};

use ringfence_model::LockExt as _;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Shutdown, SocketFlags, SocketType, bind, connect, getpeername, ipproto, listen, shutdown,
    socket_with, sockopt,
};

use super::super::loopback;
use super::sockets::{Begun, Listening, Meeting, address_of, open_from_here, start};
use crate::sys::{self, Sys};

/// More are not remembered; those that are gone make room.
const MOST: usize = 8192;

/// The connections of one sandbox.
#[derive(Debug, Default)]
pub(super) struct OnHost {
    listener: OnceLock<Option<Full>>,
    /// By the number of the caller's socket.
    peers: Mutex<HashMap<u64, Peer>>,
}

/// A listener that has no room, and what is in it.
#[derive(Debug)]
struct Full {
    listening: Arc<Listening>,
    _first: OwnedFd,
}

#[derive(Debug)]
struct Peer {
    /// What was connected to, as the kernel takes it.
    asked: Vec<u8>,
    /// What became of it, until somebody asks.
    error: Option<Errno>,
}

/// Whether only ways out have addresses there: nobody inside binds one.
pub(in super::super) fn is_ours(address: IpAddr) -> bool {
    matches!(address.to_canonical(), IpAddr::V4(v4) if v4.octets()[..2] == OURS)
}
const OURS: [u8; 2] = [127, 198];

impl OnHost {
    fn listener(&self) -> Sys<&Arc<Listening>> {
        let full = self.listener.get_or_init(|| Full::new().ok()).as_ref().ok_or(Errno::NETUNREACH)?;
        Ok(&full.listening)
    }

    /// What the socket connected to, if that is a way out.
    pub(super) fn peer(&self, socket: &OwnedFd) -> Option<Vec<u8>> {
        let at = SocketAddr::try_from(getpeername(socket).ok()??).ok()?;
        let number = rustix::fs::fstat(socket).ok()?.st_ino;
        self.peers.locked().get(&number).filter(|_| is_ours(at.ip())).map(|peer| peer.asked.clone())
    }

    /// Why it could not connect; once, as the kernel says it.
    pub(super) fn take_error(&self, socket: &OwnedFd) -> Option<Errno> {
        let number = rustix::fs::fstat(socket).ok()?.st_ino;
        let errno = self.peers.locked().get_mut(&number)?.error.take()?;
        // The kernel has its own word for it, which is answered with this one.
        let _ = sockopt::socket_error(socket);
        Some(errno)
    }

    fn remember(&self, number: u64, asked: Vec<u8>) {
        let mut peers = self.peers.locked();
        if peers.len() >= MOST {
            let there: HashSet<u64> = loopback::numbers().collect();
            peers.retain(|number, _| there.contains(number));
        }
        if peers.len() < MOST {
            peers.insert(number, Peer { asked, error: None });
        }
    }
}

impl Full {
    fn new() -> Sys<Self> {
        let own = std::process::id().to_be_bytes();
        let address = Ipv4Addr::new(OURS[0], OURS[1], own[2], own[3].max(1));
        let socket = fresh()?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        sockopt::set_socket_reuseport(&socket, true)?;
        bind(&socket, &SocketAddr::from((address, 0)))?;
        listen(&socket, 0)?;
        let at = address_of(&socket)?;
        let first = fresh()?;
        // One that finds no room any more does as well.
        match connect(&first, &at) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(errno) => return Err(errno),
        }
        Ok(Self { listening: Arc::new(Listening { _socket: socket, at }), _first: first })
    }
}

impl Meeting for OnHost {
    fn begin(&self, caller: &OwnedFd, _: SocketAddr, mut asked: Vec<u8>) -> Sys<Begun> {
        let listening = self.listener()?;
        let domain = sockopt::socket_domain(caller)?;
        let family = asked.first_chunk().map(|family| u16::from_ne_bytes(*family)).ok_or(Errno::INVAL)?;
        if family != domain.as_raw() {
            return Err(Errno::AFNOSUPPORT);
        }
        let address = in_family(domain, listening.at);
        asked.truncate(address.len());
        if domain == AddressFamily::INET6 {
            // One that is bound says no, and reaches nothing of the older kind.
            let _ = sockopt::set_ipv6_v6only(caller, false);
        }
        let held = Some(rustix::io::fcntl_dupfd_cloexec(caller, 0)?);
        let own = start(caller, &address)?;
        self.remember(rustix::fs::fstat(caller)?.st_ino, asked);
        Ok(Begun { own, to: Arc::clone(listening), held })
    }

    fn meet(&self, begun: Begun) -> Sys<OwnedFd> {
        let met = fresh().and_then(|ours| open_from_here(ours, &begun)).and_then(|ours| {
            if is_met(&begun) {
                return Ok(ours);
            }
            let _ = shutdown(&ours, Shutdown::Both);
            Err(Errno::CONNABORTED)
        });
        if met.is_err() {
            self.refuse(&begun, Errno::CONNABORTED);
        }
        met
    }

    fn refuse(&self, begun: &Begun, errno: Errno) {
        let Some(held) = &begun.held else { return };
        if let Ok(stat) = rustix::fs::fstat(held)
            && let Some(peer) = self.peers.locked().get_mut(&stat.st_ino)
        {
            peer.error = Some(errno);
        }
        // To nowhere.
        let _ = sys::connect(held.as_fd(), &[0; 16]);
    }
}

/// Whether the caller's socket is the other end of the connection that was made from here: then nobody else is.
fn is_met(begun: &Begun) -> bool {
    let Some(held) = &begun.held else { return false };
    let peer = getpeername(held).ok().flatten().and_then(|peer| SocketAddr::try_from(peer).ok());
    let peer = peer.map(|peer| SocketAddr::new(peer.ip().to_canonical(), peer.port()));
    peer == Some(begun.to.at) && address_of(held) == Ok(begun.own)
}

fn fresh() -> Sys<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::INET, SocketType::STREAM, flags, Some(ipproto::TCP))
}

/// The address as the kernel takes it of a socket of that family.
pub(super) fn in_family(domain: AddressFamily, address: SocketAddr) -> Vec<u8> {
    let (family, port) = (domain.as_raw().to_ne_bytes(), address.port().to_be_bytes());
    match address.ip().to_canonical() {
        IpAddr::V4(v4) if domain == AddressFamily::INET => {
            [&family[..], &port, &v4.octets(), &[0; 8]].concat()
        }
        ip => {
            let v6 = match ip {
                IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                IpAddr::V6(v6) => v6,
            };
            [&family[..], &port, &[0; 4], &v6.octets(), &[0; 4]].concat()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use super::*;

    fn caller() -> OwnedFd {
        fresh().unwrap()
    }

    fn asked() -> Vec<u8> {
        in_family(AddressFamily::INET, "198.18.0.2:443".parse().unwrap())
    }

    #[test]
    fn a_socket_is_connecting_until_it_is_met() {
        let on_host = OnHost::default();
        let caller = caller();
        let begun = on_host.begin(&caller, "198.18.0.2:443".parse().unwrap(), asked()).unwrap();
        assert_eq!(getpeername(&caller), Err(Errno::NOTCONN));
        let mut ours = TcpStream::from(on_host.meet(begun).unwrap());
        assert_eq!(on_host.peer(&caller), Some(asked()));
        rustix::io::write(&caller, b"hello").unwrap();
        let mut heard = [0; 5];
        ours.set_nonblocking(false).unwrap();
        ours.read_exact(&mut heard).unwrap();
        ours.write_all(b"yes").unwrap();
        assert_eq!(&heard, b"hello");
    }

    #[test]
    fn a_socket_that_is_refused_hears_why_once() {
        let on_host = OnHost::default();
        let caller = caller();
        let begun = on_host.begin(&caller, "198.18.0.2:443".parse().unwrap(), asked()).unwrap();
        on_host.refuse(&begun, Errno::HOSTUNREACH);
        assert_eq!(on_host.take_error(&caller), Some(Errno::HOSTUNREACH));
        assert_eq!(on_host.take_error(&caller), None);
        assert_eq!(sockopt::socket_error(&caller), Ok(Ok(())));
    }

    #[test]
    fn nobody_else_is_met() {
        let on_host = OnHost::default();
        let caller = caller();
        let begun = on_host.begin(&caller, "198.18.0.2:443".parse().unwrap(), asked()).unwrap();
        // The caller gives its port up, and somebody on the host takes it.
        let _ = shutdown(&caller, Shutdown::Both);
        let service = std::net::TcpListener::bind(begun.own).unwrap();
        assert_eq!(on_host.meet(begun).map(drop), Err(Errno::CONNABORTED));
        let (mut came, _) = service.accept().unwrap();
        assert_eq!(came.read(&mut [0; 1]).unwrap_or_default(), 0, "and hears nothing");
    }
}
