//! Look-ups of names: answered at once, and told by name.
//!
//! The sandbox's network namespace is empty. A name server that is asked there never answers, programs wait and try
//! again, and all that could be told is the server's address. So the first time somebody turns to a name server, that
//! address becomes one of the sandbox's own loopback interface, with a socket of ours behind it: whatever is asked for,
//! it says that there is no such name; where hosts are reached by name, it gives an address that stands for the name. Nothing
//! that is asked leaves the sandbox.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ringfence_model::{Access, DenyReason, LockExt as _, Operation};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with, sockopt,
};
use rustix::thread::{Timespec, nanosleep};

use super::name_server::{Answering, Answers, Hearing};
use super::outside::Names;
use super::{Denial, Resource, Supervisor, describe};
use crate::sys::Sys;

pub(super) const NAME_SERVER: u16 = 53;
/// More servers than anybody has.
const MOST_SERVERS: usize = 8;
/// What was asked is looked for so often, and so long after somebody turned to a server.
const SOON: Duration = Duration::from_millis(2);
const LINGER: Duration = Duration::from_secs(1);

/// What was asked for, by whom, and not told yet.
pub(super) type Asked = Arc<Mutex<VecDeque<(i32, Sent)>>>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sent {
    /// A question about this name.
    Query(String),
    /// Something else, to this address.
    Other(SocketAddr),
}

#[derive(Debug, Default)]
pub(super) struct NameLookups {
    servers: Vec<Server>,
    asked: Asked,
    /// When somebody turned to a server.
    last: Option<Instant>,
}

#[derive(Debug)]
struct Server {
    address: IpAddr,
    /// Who turned to it last.
    asker: Arc<Mutex<i32>>,
    kind: SocketType,
    /// None where it could not be made: then it is an address like any other.
    answering: Option<Answering>,
}

impl NameLookups {
    /// What answers, and where it tells what was asked.
    pub(super) fn hearing(&self, names: Option<Arc<Mutex<Names>>>) -> Hearing {
        Hearing { names, asked: Arc::clone(&self.asked) }
    }

    /// Somebody turned to a server.
    pub(super) fn turned_to(&mut self) {
        self.last = Some(Instant::now());
    }

    /// After how long names may have been asked for that are to be told: each command hears of its own.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.last.filter(|last| last.elapsed() < LINGER).map(|_| SOON)
    }
}

impl Supervisor<'_> {
    /// Whether what `socket` is to send to `address` are look-ups of names which are answered there. By streams only where
    /// hosts have names inside: elsewhere nobody is told that a connection is there.
    pub(super) fn is_name_lookup(&mut self, tid: i32, socket: &OwnedFd, address: SocketAddr) -> bool {
        let is_by_name = self.way_out.as_ref().is_some_and(|way| way.is_by_name());
        // Its own name servers are the sandbox's own affair.
        let elsewhere = !address.ip().is_loopback() || is_by_name || is_configured(address.ip());
        if address.port() != NAME_SERVER || !elsewhere || self.watched.shared.is_some() {
            return false;
        }
        let kind = match sockopt::socket_type(socket) {
            Ok(kind) if kind == SocketType::DGRAM || (kind == SocketType::STREAM && is_by_name) => kind,
            _ => return false,
        };
        let names = &mut self.name_lookups;
        let known =
            names.servers.iter().position(|server| (server.address, server.kind) == (address.ip(), kind));
        let index = match known {
            Some(index) => index,
            None if names.servers.len() == MOST_SERVERS => return false,
            None => {
                let asker = Arc::new(Mutex::new(tid));
                let given = self.way_out.as_ref().and_then(|way| way.names_for(tid));
                let hearing = names.hearing(given);
                let answers = Answers { server: address, asker: Arc::clone(&asker), hearing };
                let answering = Answering::begin(tid, kind, answers).ok();
                names.servers.push(Server { address: address.ip(), kind, asker, answering });
                names.servers.len() - 1
            }
        };
        let server = &names.servers[index];
        *server.asker.locked() = tid;
        let is_answered = server.answering.is_some();
        names.turned_to();
        is_answered
    }

    /// Tells of the names that were asked for.
    pub(super) fn tell_names(&mut self) {
        if self.name_lookups.last.is_none() {
            return;
        }
        let asked: Vec<(i32, Sent)> = self.name_lookups.asked.locked().drain(..).collect();
        for (tid, sent) in asked {
            let (operation, resource, access) = match sent {
                Sent::Query(name) => (Operation::Lookup, name, Access::Read),
                Sent::Other(address) => (Operation::Send, address.to_string(), Access::Write),
            };
            self.reporter.tell(describe::violation(
                tid,
                Denial {
                    operation,
                    resource: Resource::Address(resource),
                    access,
                    reason: DenyReason::Unlisted,
                    rule: None,
                    missing: false,
                },
            ));
        }
    }

    /// The same, when nobody asks any more.
    pub(super) fn end_name_lookups(&mut self) {
        for server in &mut self.name_lookups.servers {
            server.answering = None;
        }
        self.tell_names();
    }
}

/// Whether programs on this machine turn to that address.
fn is_configured(address: IpAddr) -> bool {
    let configured = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    configured
        .lines()
        .filter_map(|line| line.strip_prefix("nameserver")?.trim().parse().ok())
        .any(|known: IpAddr| known == address)
}

/// `ip address add ADDRESS/BITS dev lo`: all of the older kind in that range are local then. Allocates nothing.
pub(super) fn add_to_loopback(address: IpAddr, bits: u8) -> Sys<()> {
    const NEW_ADDRESS: u16 = 20;
    const REQUEST_ACK_CREATE: u16 = 0x1 | 0x4 | 0x400;
    const NO_DUPLICATE_DETECTION: u8 = 2;
    const HOST_SCOPE: u8 = 254;
    const LOOPBACK: u8 = 1;
    const LOCAL: u16 = 2;
    let mut octets = [0_u8; 16];
    let (family, length) = match address {
        IpAddr::V4(v4) => {
            octets[..4].copy_from_slice(&v4.octets());
            (libc::AF_INET, 4_usize)
        }
        IpAddr::V6(v6) => {
            octets = v6.octets();
            (libc::AF_INET6, 16)
        }
    };
    // The header, what is said of the address, and the address itself.
    let mut message = [0_u8; 16 + 8 + 4 + 16];
    let total = 16 + 8 + 4 + length;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small numbers")]
    {
        message[..4].copy_from_slice(&(total as u32).to_ne_bytes());
        message[16] = family as u8;
        message[17] = bits;
        message[24..26].copy_from_slice(&(4 + length as u16).to_ne_bytes());
    }
    message[4..6].copy_from_slice(&NEW_ADDRESS.to_ne_bytes());
    message[6..8].copy_from_slice(&REQUEST_ACK_CREATE.to_ne_bytes());
    message[18] = NO_DUPLICATE_DETECTION;
    message[19] = HOST_SCOPE;
    message[20] = LOOPBACK;
    message[26..28].copy_from_slice(&LOCAL.to_ne_bytes());
    message[28..28 + length].copy_from_slice(&octets[..length]);
    // Protocol 0 of this family is NETLINK_ROUTE.
    let route = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    send(&route, &message[..total], SendFlags::empty())?;
    let mut reply = [0_u8; 128];
    let (got, _) = recv(&route, &mut reply[..], RecvFlags::empty())?;
    // The error follows the header.
    let code = reply[..got].get(16..20).and_then(|code| code.first_chunk::<4>()).ok_or(Errno::IO)?;
    match i32::from_ne_bytes(*code) {
        0 => {}
        code if code == -libc::EEXIST => {}
        code => return Err(Errno::from_raw_os_error(-code)),
    }
    wait_for_route(address)
}

/// The way to a new address of the younger kind is made some time after the address: while other networks of the machine
/// are taken down, seconds later. Allocates nothing.
fn wait_for_route(address: IpAddr) -> Sys<()> {
    const LOOKS: usize = 10_000;
    const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    if address.is_ipv4() {
        return Ok(());
    }
    for _ in 0..LOOKS {
        // Nothing is sent: only the way is looked for.
        let tried = socket_with(AddressFamily::INET6, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        match connect(&tried, &SocketAddr::new(address, NAME_SERVER)) {
            Err(Errno::NETUNREACH | Errno::ADDRNOTAVAIL) => {
                let _ = nanosleep(&PAUSE);
            }
            found => return found,
        }
    }
    Err(Errno::NETUNREACH)
}
