//! Datagrams, for rules that allow them: between a socket inside, which stands for one port of one host, and that host.
//!
//! Nobody looks into them. Each sender inside has a socket of its own towards the host, connected to one vetted address,
//! so that an answer comes from there and goes to nobody else. What does not find room is lost, as on any network.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use ringfence_model::HostDecision;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::carry::Connection;
use crate::dial::{DialError, Upstream};
use crate::events::{End, Outcome, Refused};
use crate::pump::SCRATCH;
use crate::relay::{Serving, Shared, Slot, Wanted};

/// Senders at once that one port of a host has.
const MOST_SENDERS: usize = 1024;
/// Datagrams of one sender that wait, for the host to be looked up or for their turn.
const MOST_WAITING: usize = 64;
/// How long a sender that was refused is not tried for again.
const REFUSED_FOR: Duration = Duration::from_secs(2);

/// A socket inside that is bound to what stands for a host.
#[derive(Debug)]
pub struct DatagramSocket {
    pub socket: OwnedFd,
    /// A raw socket for ICMP with the same address, by which senders hear that nobody is there.
    pub errors: Option<OwnedFd>,
}

struct Inside {
    socket: UdpSocket,
    errors: Option<OwnedFd>,
    _serving: Serving,
}

impl Inside {
    fn new(sockets: DatagramSocket, serving: Serving) -> io::Result<Self> {
        let socket = std::net::UdpSocket::from(sockets.socket);
        socket.set_nonblocking(true)?;
        Ok(Self { socket: UdpSocket::from_std(socket)?, errors: sockets.errors, _serving: serving })
    }

    fn receive(&self) -> io::Result<(Vec<u8>, SocketAddr)> {
        SCRATCH.with_borrow_mut(|scratch| {
            let (count, _, from) =
                rustix::net::recvfrom(&self.socket, &mut scratch[..], RecvFlags::DONTWAIT)?;
            let from = from.and_then(|from| SocketAddr::try_from(from).ok()).ok_or(Errno::AFNOSUPPORT)?;
            Ok((scratch[..count].to_vec(), from))
        })
    }

    /// Tells a sender that nobody hears it.
    fn tell_unreachable(&self, sender: SocketAddr) {
        let (Some(errors), SocketAddr::V4(sender), Ok(SocketAddr::V4(own))) =
            (&self.errors, sender, self.socket.local_addr())
        else {
            return;
        };
        // It is lost where there is no room, like any datagram.
        let _ = rustix::net::sendto(errors, &unreachable(sender, own), SendFlags::DONTWAIT, &sender);
    }
}

/// Until nobody is inside any more.
pub(crate) async fn serve(shared: Arc<Shared>, serving: Serving, sockets: DatagramSocket, wanted: Wanted) {
    let Ok(inside) = Inside::new(sockets, serving) else { return };
    let inside = Arc::new(inside);
    let mut is_ending = shared.is_ending.subscribe();
    let mut senders: HashMap<SocketAddr, mpsc::Sender<Vec<u8>>> = HashMap::new();
    let mut pass_on = |(datagram, from): (Vec<u8>, SocketAddr)| {
        let known = senders.get(&from).filter(|sender| !sender.is_closed());
        if let Some(sender) = known {
            let _ = sender.try_send(datagram);
            return;
        }
        if senders.len() >= MOST_SENDERS {
            senders.retain(|_, sender| !sender.is_closed());
        }
        if senders.len() < MOST_SENDERS {
            let (sender, said) = mpsc::channel(MOST_WAITING);
            let _ = sender.try_send(datagram);
            senders.insert(from, sender);
            tokio::spawn(one_sender(Arc::clone(&shared), Arc::clone(&inside), wanted.clone(), from, said));
        }
    };
    loop {
        tokio::select! {
            ready = inside.socket.readable() => if ready.is_err() { return },
            _ = is_ending.wait_for(|is_ending| *is_ending) => {
                // What was said before the end.
                while let Ok(received) = inside.receive() {
                    pass_on(received);
                }
                return;
            }
        }
        // A few at a time: others have their turn too.
        for _ in 0..MOST_WAITING {
            match inside.socket.try_io(Interest::READABLE, || inside.receive()) {
                Ok(received) => pass_on(received),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return,
            }
        }
        tokio::task::yield_now().await;
    }
}

/// From its first datagram until there is none for long.
async fn one_sender(
    shared: Arc<Shared>,
    inside: Arc<Inside>,
    wanted: Wanted,
    from: SocketAddr,
    mut said: mpsc::Receiver<Vec<u8>>,
) {
    match dialled(&shared, &wanted).await {
        Ok(upstream) => {
            let idle = shared.settings.limits.datagrams_idle;
            let (connection, socket) = Connection::new(shared, upstream);
            let outcome = both_ways(&connection, socket, &inside, from, &mut said, idle).await;
            connection.end_with(outcome);
        }
        Err(error) => {
            if error.is_refusal() {
                shared.events.refused(&Refused {
                    host: wanted.host,
                    port: wanted.port,
                    named: None,
                    program: wanted.program,
                    pid: wanted.pid,
                    why: error.to_string(),
                    rule: None,
                });
            }
            // It hears it for what it said so far and what it says meanwhile.
            let answers = async {
                while said.recv().await.is_some() {
                    inside.tell_unreachable(from);
                }
            };
            let _ = timeout(REFUSED_FOR, answers).await;
        }
    }
}

async fn both_ways(
    connection: &Connection,
    socket: OwnedFd,
    inside: &Inside,
    from: SocketAddr,
    said: &mut mpsc::Receiver<Vec<u8>>,
    idle: Duration,
) -> Outcome {
    let host = match UdpSocket::from_std(std::net::UdpSocket::from(socket)) {
        Ok(host) => host,
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    loop {
        let turn = async {
            tokio::select! {
                datagram = said.recv() => match datagram {
                    None => Some(Outcome::Finished),
                    Some(datagram) => send(connection, &host, inside, from, &datagram),
                },
                ready = host.readable() => match ready {
                    Ok(()) => receive(connection, &host, inside, from),
                    Err(_) => Some(Outcome::Reset(End::Host)),
                },
            }
        };
        match timeout(idle, turn).await {
            Ok(None) => {}
            Ok(Some(outcome)) => return outcome,
            Err(_) => return Outcome::Finished,
        }
    }
}

fn send(
    connection: &Connection,
    host: &UdpSocket,
    inside: &Inside,
    from: SocketAddr,
    datagram: &[u8],
) -> Option<Outcome> {
    if !connection.out.has_room(datagram.len()) {
        inside.tell_unreachable(from);
        return Some(Outcome::TooManyBytes);
    }
    connection.out.add(datagram.len());
    let sent = || rustix::net::send(host.as_fd(), datagram, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    if sent() == Err(Errno::CONNREFUSED) {
        // That was about an earlier one.
        inside.tell_unreachable(from);
        let _ = sent();
    }
    None
}

fn receive(connection: &Connection, host: &UdpSocket, inside: &Inside, from: SocketAddr) -> Option<Outcome> {
    let received = host.try_io(Interest::READABLE, || {
        SCRATCH.with_borrow_mut(|scratch| {
            let (count, _) = rustix::net::recv(host.as_fd(), &mut scratch[..], RecvFlags::DONTWAIT)?;
            connection.into.add(count);
            let _ = rustix::net::sendto(&inside.socket, &scratch[..count], SendFlags::DONTWAIT, &from);
            Ok(())
        })
    });
    match received {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => inside.tell_unreachable(from),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        // Of the network on the way; the next one may arrive.
        Err(_) | Ok(()) => {}
    }
    None
}

/// Looks the host up, on a thread of its own.
async fn dialled(shared: &Arc<Shared>, wanted: &Wanted) -> Result<Upstream, DialError> {
    let slot = shared.slot()?;
    let (answer, answered) = oneshot::channel();
    let (shared, wanted) = (Arc::clone(shared), wanted.clone());
    let failed = DialError::Connect { host: wanted.host.to_string(), error: Errno::AGAIN };
    let work = move || drop(answer.send(dial(&shared, wanted, slot)));
    match std::thread::Builder::new().name("dial".to_owned()).spawn(work) {
        Ok(_) => answered.await.unwrap_or(Err(failed)),
        Err(_) => Err(failed),
    }
}

fn dial(shared: &Shared, wanted: Wanted, slot: Slot) -> Result<Upstream, DialError> {
    let place = wanted.host.with_port(wanted.port);
    let HostDecision::Allowed(rule) = shared.settings.policy.decide_datagrams(&wanted.host, wanted.port)
    else {
        return Err(DialError::Denied { why: format!("no rule allows datagrams to {place}") });
    };
    let addresses = shared.resolver.look_up(&wanted.host)?;
    let mut error = Errno::HOSTUNREACH;
    for address in shared.vetted(&wanted, Some(rule), &addresses)? {
        let address = SocketAddr::new(address, wanted.port);
        match connected(address) {
            Ok(socket) => {
                return Ok(Upstream {
                    socket,
                    wanted,
                    address: Some(address),
                    inspect: None,
                    proxy: None,
                    slot,
                });
            }
            Err(errno) => error = errno,
        }
    }
    Err(DialError::Connect { host: place, error })
}

fn connected(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::DGRAM, flags, None)?;
    rustix::net::connect(&socket, &address)?;
    Ok(socket)
}

/// "Port unreachable" (RFC 792) about a datagram from `sender` to `own`, of which its headers are repeated.
fn unreachable(sender: SocketAddrV4, own: SocketAddrV4) -> [u8; 36] {
    const UNREACHABLE: u8 = 3;
    const PORT: u8 = 3;
    const UDP: u8 = 17;
    let mut message = [0; 36];
    (message[0], message[1]) = (UNREACHABLE, PORT);
    // The datagram's IP header: version and length, total length, time to live, protocol, addresses; then its ports.
    message[8] = 0x45;
    message[11] = 28;
    message[16] = 64;
    message[17] = UDP;
    message[20..24].copy_from_slice(&sender.ip().octets());
    message[24..28].copy_from_slice(&own.ip().octets());
    message[28..30].copy_from_slice(&sender.port().to_be_bytes());
    message[30..32].copy_from_slice(&own.port().to_be_bytes());
    message[33] = 8;
    let header = checksum(&message[8..28]);
    message[18..20].copy_from_slice(&header);
    let whole = checksum(&message);
    message[2..4].copy_from_slice(&whole);
    message
}

/// The one's complement of the one's complement sum.
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let words = bytes.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!u16::try_from(sum).unwrap_or_default()).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_there_is_said_about_the_very_datagram() {
        let (sender, own) = ("198.18.0.1:40000".parse().unwrap(), "198.18.0.5:443".parse().unwrap());
        let message = unreachable(sender, own);
        assert_eq!(message[..2], [3, 3]);
        assert_eq!((message[8] >> 4, message[17]), (4, 17));
        assert_eq!((&message[20..24], &message[24..28]), (&[198, 18, 0, 1][..], &[198, 18, 0, 5][..]));
        assert_eq!((&message[28..30], &message[30..32]), (&[0x9c, 0x40][..], &[0x01, 0xbb][..]));
        // What carries its own checksum sums up to nothing.
        assert_eq!((checksum(&message), checksum(&message[8..28])), ([0; 2], [0; 2]));
    }
}
