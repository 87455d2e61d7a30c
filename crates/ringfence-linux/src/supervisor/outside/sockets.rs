//! Sockets in the sandbox's own network, which is empty: how a connection comes to be that nobody listens for.
//!
//! The caller's socket sends its SYN to an address of the sandbox's own loopback interface. A listener stands there that
//! takes no packet, so the SYN stays unanswered, as one on its way does. When the way out is there, a socket of ours with
//! that very address opens the same connection from the other side: TCP calls that a simultaneous open, and the caller's
//! socket is connected in the same moment. When there is no way out, the SYN is answered with a reset.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use ringfence_model::LockExt as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, getsockname, ipproto,
    listen, recv, sendto, socket_with, sockopt,
};

use super::super::mount_grant::Namespaces;
use super::super::name_lookup::add_to_loopback;
use super::names::{OWN, RANGE_BITS, is_in_range};
use crate::sys::packets::{Instruction, attach_filter, include_header, instruction};
use crate::sys::{self, Sys};

/// So many sockets are brought at once: each time costs a process.
const AT_ONCE: usize = 16;
/// Of the caller's socket and ours, both on this machine.
const MEETING: Duration = Duration::from_secs(5);

/// A listener with this program hears nothing.
const NOTHING: [Instruction; 1] = [instruction(RETURN, 0, 0, 0)];
/// The first packets of connections: SYN, and not ACK.
const BEGINNINGS: [Instruction; 6] = [
    // The length of the IP header, to X; the flags of the TCP header behind it.
    instruction(LOAD_HEADER_LENGTH, 0, 0, 0),
    instruction(LOAD_BYTE_AT_X, 0, 0, 13),
    instruction(AND, 0, 0, (SYN | ACK) as u32),
    instruction(JUMP_IF_EQUAL, 0, 1, SYN as u32),
    instruction(RETURN, 0, 0, 128),
    instruction(RETURN, 0, 0, 0),
];
const RETURN: u16 = 0x06;
const LOAD_HEADER_LENGTH: u16 = 0xb1;
const LOAD_BYTE_AT_X: u16 = 0x50;
const AND: u16 = 0x54;
const JUMP_IF_EQUAL: u16 = 0x15;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// The sockets of one sandbox.
#[derive(Debug)]
pub(super) struct Sockets {
    pub(super) namespaces: Namespaces,
    /// There as long as somebody is connecting to it: nobody's own server shall find its port taken.
    listeners: Mutex<HashMap<SocketAddr, Weak<Listening>>>,
    /// Addresses that were made the sandbox's own.
    own: Mutex<HashSet<IpAddr>>,
    /// Ports that sockets here have, or had: the kernel remembers them for a while.
    ports: Mutex<HashSet<u16>>,
    fresh: Mutex<Vec<OwnedFd>>,
    fresh_v6: Mutex<Vec<OwnedFd>>,
    /// Where datagrams are taken.
    pub(super) datagrams: Mutex<HashSet<SocketAddr>>,
    /// Hears the beginnings of connections, and refuses them.
    raw: Option<OwnedFd>,
    /// The numbers that connections began with, by their ports inside.
    begun: Mutex<HashMap<SocketAddrV4, u32>>,
}

#[derive(Debug)]
pub(super) struct Listening {
    pub(super) _socket: OwnedFd,
    pub(super) at: SocketAddr,
}

/// The caller's socket is connecting.
#[derive(Debug)]
pub(super) struct Begun {
    /// The caller's own address.
    pub(super) own: SocketAddr,
    /// What it connects to.
    pub(super) to: Arc<Listening>,
    /// The caller's socket, where its port must not become another's meanwhile.
    pub(super) held: Option<OwnedFd>,
}

/// How a socket of the caller's comes to be connected with one of ours, and only with that.
pub(super) trait Meeting: Debug + Send + Sync {
    /// Lets the caller's socket begin to connect to `to`, whose bytes are `address`.
    fn begin(&self, caller: &OwnedFd, to: SocketAddr, address: Vec<u8>) -> Sys<Begun>;

    /// Meets the caller's socket: connected then, with the one that is returned.
    fn meet(&self, begun: Begun) -> Sys<OwnedFd>;

    /// Tells the caller's socket that there is no connection.
    fn refuse(&self, begun: &Begun, errno: Errno);
}

impl Sockets {
    /// For the sandbox that the thread `tid` is in.
    pub(super) fn of(tid: i32) -> Sys<Self> {
        let namespaces = Namespaces::of(tid).ok_or(Errno::NOSYS)?;
        let raw = namespaces.bring(1, &|| {
            add_to_loopback(IpAddr::V4(OWN), RANGE_BITS)?;
            let raw =
                socket_with(AddressFamily::INET, SocketType::RAW, SocketFlags::CLOEXEC, Some(ipproto::TCP))?;
            attach_filter(raw.as_fd(), &BEGINNINGS)?;
            include_header(raw.as_fd())?;
            Ok(raw)
        })?;
        Ok(Self {
            namespaces,
            listeners: Mutex::default(),
            datagrams: Mutex::default(),
            own: Mutex::default(),
            ports: Mutex::default(),
            fresh: Mutex::default(),
            fresh_v6: Mutex::default(),
            raw: raw.into_iter().next(),
            begun: Mutex::default(),
        })
    }

    /// How many here listen on that port.
    pub(super) fn listeners(&self, port: u16) -> usize {
        let listeners = self.listeners.locked();
        let at_port =
            |listening: &&Weak<Listening>| listening.upgrade().is_some_and(|one| one.at.port() == port);
        listeners.values().filter(at_port).count()
    }

    pub(super) fn had_port(&self, port: u16) -> bool {
        self.ports.locked().contains(&port)
    }

    fn forget(&self, begun: &Begun) -> Option<u32> {
        let SocketAddr::V4(own) = begun.own else { return None };
        self.begun.locked().remove(&own)
    }

    /// Keeps the numbers of what began to connect.
    fn hear(&self) {
        const MOST: usize = 4096;
        let Some(raw) = &self.raw else { return };
        let mut packet = [0_u8; 128];
        while let Ok((got, _)) = recv(raw, &mut packet[..], RecvFlags::DONTWAIT) {
            let mut begun = self.begun.locked();
            if begun.len() >= MOST {
                begun.clear();
            }
            if let Some((own, number)) = beginning(&packet[..got.min(packet.len())]) {
                begun.insert(own, number);
            }
        }
    }

    /// A listener that hears nothing, at that address; on another port when somebody inside has this one.
    fn listen(&self, to: SocketAddr) -> Sys<Arc<Listening>> {
        let mut listeners = self.listeners.locked();
        if let Some(listening) = listeners.get(&to).and_then(Weak::upgrade) {
            return Ok(listening);
        }
        listeners.retain(|_, listening| listening.strong_count() > 0);
        self.make_own(to.ip())?;
        let socket = self.fresh(to.is_ipv4())?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        sockopt::set_socket_reuseport(&socket, true)?;
        attach_filter(socket.as_fd(), &NOTHING)?;
        match bind(&socket, &to) {
            Err(Errno::ADDRINUSE) => bind(&socket, &SocketAddr::new(to.ip(), 0))?,
            bound => bound?,
        }
        listen(&socket, 1)?;
        let at = address_of(&socket)?;
        self.ports.locked().insert(at.port());
        let listening = Arc::new(Listening { _socket: socket, at });
        listeners.insert(to, Arc::downgrade(&listening));
        Ok(listening)
    }

    /// Makes the address one of the sandbox's own.
    pub(super) fn make_own(&self, address: IpAddr) -> Sys<()> {
        let is_own = match address {
            IpAddr::V4(ip) => is_in_range(ip) || ip.is_loopback(),
            IpAddr::V6(ip) => ip.is_loopback(),
        };
        let mut own = self.own.locked();
        if !is_own && !own.contains(&address) {
            let bits = if address.is_ipv4() { 32 } else { 128 };
            self.namespaces.inside(&|| add_to_loopback(address, bits))?;
            own.insert(address);
        }
        Ok(())
    }

    fn fresh(&self, v4: bool) -> Sys<OwnedFd> {
        let (family, pool) =
            if v4 { (AddressFamily::INET, &self.fresh) } else { (AddressFamily::INET6, &self.fresh_v6) };
        let mut pool = pool.locked();
        if pool.is_empty() {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            *pool = self
                .namespaces
                .bring(AT_ONCE, &|| socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP)))?;
        }
        pool.pop().ok_or(Errno::NFILE)
    }
}

impl Meeting for Sockets {
    fn begin(&self, caller: &OwnedFd, to: SocketAddr, mut address: Vec<u8>) -> Sys<Begun> {
        let listening = self.listen(to)?;
        // In both families the port is at the same place.
        if let Some(port) = address.get_mut(2..4) {
            port.copy_from_slice(&listening.at.port().to_be_bytes());
        }
        let own = start(caller, &address)?;
        self.hear();
        Ok(Begun { own, to: listening, held: None })
    }

    fn meet(&self, begun: Begun) -> Sys<OwnedFd> {
        let ours = self.fresh(begun.to.at.is_ipv4())?;
        self.forget(&begun);
        open_from_here(ours, &begun)
    }

    /// Answers the caller's SYN: nobody is there, or no way leads there.
    fn refuse(&self, begun: &Begun, errno: Errno) {
        let (SocketAddr::V4(own), SocketAddr::V4(to)) = (begun.own, begun.to.at) else { return };
        self.hear();
        let (Some(number), Some(raw)) = (self.forget(begun), &self.raw) else { return };
        let _ = match errno {
            Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::TIMEDOUT => {
                sendto(raw, &unreachable(to, own, number), SendFlags::DONTWAIT, &own)
            }
            _ => sendto(raw, &reset(to, own, number), SendFlags::DONTWAIT, &own),
        };
    }
}

/// Lets the caller's socket begin to connect, where nobody answers; its own address.
pub(super) fn start(caller: &OwnedFd, address: &[u8]) -> Sys<SocketAddr> {
    let flags = rustix::fs::fcntl_getfl(caller)?;
    let waits = !flags.contains(rustix::fs::OFlags::NONBLOCK);
    if waits {
        rustix::fs::fcntl_setfl(caller, flags | rustix::fs::OFlags::NONBLOCK)?;
    }
    let begun = sys::connect(caller.as_fd(), address);
    if waits {
        rustix::fs::fcntl_setfl(caller, flags)?;
    }
    match begun {
        Err(Errno::INPROGRESS) => address_of(caller),
        Ok(()) => Err(Errno::ISCONN),
        Err(errno) => Err(errno),
    }
}

/// Opens the same connection from our side.
pub(super) fn open_from_here(ours: OwnedFd, begun: &Begun) -> Sys<OwnedFd> {
    sockopt::set_socket_reuseaddr(&ours, true)?;
    sockopt::set_socket_reuseport(&ours, true)?;
    bind(&ours, &begun.to.at)?;
    match connect(&ours, &begun.own) {
        Ok(()) => return Ok(ours),
        Err(Errno::INPROGRESS) => {}
        Err(errno) => return Err(errno),
    }
    let mut fds = [PollFd::new(&ours, PollFlags::OUT)];
    let limit = Timespec { tv_sec: i64::try_from(MEETING.as_secs()).unwrap_or(1), tv_nsec: 0 };
    if rustix::io::retry_on_intr(|| poll(&mut fds, Some(&limit)))? == 0 {
        return Err(Errno::TIMEDOUT);
    }
    sockopt::socket_error(&ours)??;
    Ok(ours)
}

/// A socket's own address, in the older family where it can be written in both.
pub(super) fn address_of(socket: &OwnedFd) -> Sys<SocketAddr> {
    let own = SocketAddr::try_from(getsockname(socket)?).map_err(|_| Errno::IO)?;
    Ok(SocketAddr::new(own.ip().to_canonical(), own.port()))
}

/// Who begins a connection, and with which number, of a whole packet.
fn beginning(packet: &[u8]) -> Option<(SocketAddrV4, u32)> {
    let header = usize::from(packet.first()? & 0x0f) * 4;
    let source: [u8; 4] = *packet.get(12..16)?.first_chunk()?;
    let tcp = packet.get(header..)?;
    let port = u16::from_be_bytes(*tcp.first_chunk()?);
    let number = u32::from_be_bytes(*tcp.get(4..8)?.first_chunk()?);
    Some((SocketAddrV4::new(Ipv4Addr::from(source), port), number))
}

const TCP: u8 = 6;

/// An IP header; the kernel computes its checksum.
fn ip_header(protocol: u8, length: u8, from: Ipv4Addr, to: Ipv4Addr) -> [u8; 20] {
    let mut header = [0; 20];
    // Version and length, total length, time to live, protocol.
    header[0] = 0x45;
    header[3] = length;
    header[8] = 64;
    header[9] = protocol;
    header[12..16].copy_from_slice(&from.octets());
    header[16..20].copy_from_slice(&to.octets());
    header
}

/// As the internet's protocols sum up, beginning with `sum`.
fn checksum(mut sum: u32, bytes: &[u8]) -> [u8; 2] {
    for word in bytes.chunks_exact(2) {
        sum += u32::from(u16::from_be_bytes([word[0], word[1]]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!u16::try_from(sum).unwrap_or_default()).to_be_bytes()
}

/// The packet that says "connection refused" to whoever began with that number.
fn reset(from: SocketAddrV4, to: SocketAddrV4, number: u32) -> [u8; 40] {
    const LENGTH: u8 = 20;
    let mut packet = [0; 40];
    packet[..20].copy_from_slice(&ip_header(TCP, 2 * LENGTH, *from.ip(), *to.ip()));
    packet[20..22].copy_from_slice(&from.port().to_be_bytes());
    packet[22..24].copy_from_slice(&to.port().to_be_bytes());
    packet[28..32].copy_from_slice(&number.wrapping_add(1).to_be_bytes());
    packet[32] = 5 << 4;
    packet[33] = RST | ACK;
    // Over the addresses, the protocol and the length, then over the segment.
    let sum = checksum(u32::from(TCP) + u32::from(LENGTH), &packet[12..]);
    packet[36..38].copy_from_slice(&sum);
    packet
}

/// The packet that says "no route to host" to whoever began with that number.
fn unreachable(from: SocketAddrV4, to: SocketAddrV4, number: u32) -> [u8; 56] {
    const ICMP: u8 = 1;
    const UNREACHABLE: u8 = 3;
    const HOST: u8 = 1;
    let mut packet = [0; 56];
    packet[..20].copy_from_slice(&ip_header(ICMP, 56, *from.ip(), *to.ip()));
    packet[20..22].copy_from_slice(&[UNREACHABLE, HOST]);
    // What did not get there: its header, and the first eight bytes behind it.
    packet[28..48].copy_from_slice(&ip_header(TCP, 60, *to.ip(), *from.ip()));
    packet[48..50].copy_from_slice(&to.port().to_be_bytes());
    packet[50..52].copy_from_slice(&from.port().to_be_bytes());
    packet[52..].copy_from_slice(&number.to_be_bytes());
    let sum = checksum(0, &packet[20..]);
    packet[22..24].copy_from_slice(&sum);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_names_both_sides_and_sums_up() {
        let from = "198.18.0.5:443".parse().unwrap();
        let to = "198.18.0.1:40000".parse().unwrap();
        let packet = reset(from, to, u32::MAX);
        assert_eq!(packet[28..32], [0; 4]);
        let mut sum = 6 + 20_u32;
        for word in packet[12..].chunks_exact(2) {
            sum += u32::from(u16::from_be_bytes([word[0], word[1]]));
        }
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        assert_eq!(beginning(&packet), Some((from, 0)));
        assert_eq!(beginning(&packet[..10]), None);
    }
}
