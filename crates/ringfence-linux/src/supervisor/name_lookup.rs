//! Look-ups of names: answered at once, and told by name.
//!
//! The sandbox's network namespace is empty. A name server that is asked there never answers, programs wait and try
//! again, and all that could be told is the server's address. So the first time somebody turns to a name server, that
//! address becomes one of the sandbox's own loopback interface, with a socket of ours behind it: whatever is asked for,
//! it says that there is no such name; where hosts are reached by name, it gives an address that stands for the name. Nothing
//! that is asked leaves the sandbox.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringfence_model::{Access, DenyReason, LockExt as _, Operation};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, recvfrom, send, sendto,
    socket_with, sockopt,
};
use rustix::pipe::PipeFlags;

use super::mount_grant::Namespaces;
use super::outside::Names;
use super::{Denial, Resource, Supervisor, describe};
use crate::sys::Sys;

pub(super) const NAME_SERVER: u16 = 53;
/// More servers than anybody has.
const MOST_SERVERS: usize = 8;
/// What was asked is looked for so often, and so long after somebody turned to a server.
const SOON: Duration = Duration::from_millis(2);
const LINGER: Duration = Duration::from_secs(1);
/// What is asked faster than it is told is not told.
const MOST_UNTOLD: usize = 256;

/// What was asked for, by whom, and not told yet.
type Asked = Arc<Mutex<VecDeque<(i32, Sent)>>>;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Sent {
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
    /// None where it could not be made: then it is an address like any other.
    answering: Option<Answering>,
}

/// The thread that answers, until this is dropped.
#[derive(Debug)]
struct Answering {
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
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
    /// Whether the datagrams that `socket` is to send to `address` are look-ups of names which are answered there.
    pub(super) fn is_name_lookup(&mut self, tid: i32, socket: &OwnedFd, address: SocketAddr) -> bool {
        let is_by_name = self.way_out.as_ref().is_some_and(|way| way.is_by_name());
        // Its own name servers are the sandbox's own affair.
        let elsewhere = !address.ip().is_loopback() || is_by_name || is_configured(address.ip());
        if address.port() != NAME_SERVER || !elsewhere || self.watched.shared.is_some() {
            return false;
        }
        if sockopt::socket_type(socket) != Ok(SocketType::DGRAM) {
            return false;
        }
        let names = &mut self.name_lookups;
        let known = names.servers.iter().position(|server| server.address == address.ip());
        let index = match known {
            Some(index) => index,
            None if names.servers.len() == MOST_SERVERS => return false,
            None => {
                let asker = Arc::new(Mutex::new(tid));
                let given = self.way_out.as_ref().and_then(|way| way.names_for(tid));
                let answering = answering(tid, address, &asker, names.hearing(given)).ok();
                names.servers.push(Server { address: address.ip(), asker, answering });
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

/// Answers what is asked.
#[derive(Debug)]
pub(super) struct Hearing {
    /// Where hosts have names.
    names: Option<Arc<Mutex<Names>>>,
    asked: Asked,
}

impl Hearing {
    /// What is answered to a message to `address`, if anything; names that nobody has are told.
    pub(super) fn answer(&self, message: &[u8], address: SocketAddr, asker: i32) -> Option<Vec<u8>> {
        let (sent, answer) = match Query::read(message) {
            Some(query) => {
                let known = self.names.as_ref().and_then(|names| names.locked().address(&query.name));
                if let Some(known) = known {
                    return Some(query.address(known));
                }
                let answer = query.no_such_name();
                (Sent::Query(query.name), Some(answer))
            }
            None => (Sent::Other(address), None),
        };
        let news = (asker, sent);
        let mut asked = self.asked.locked();
        // Each name is asked for twice, once for each kind of address.
        if asked.back() != Some(&news) && asked.len() < MOST_UNTOLD {
            asked.push_back(news);
        }
        answer
    }
}

fn answering(tid: i32, address: SocketAddr, asker: &Arc<Mutex<i32>>, hearing: Hearing) -> Sys<Answering> {
    let socket = Namespaces::of(tid).ok_or(Errno::NOSYS)?.bring(1, &|| server_socket(address))?;
    let socket = socket.into_iter().next().ok_or(Errno::IO)?;
    let (ended, stop) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let asker = Arc::clone(asker);
    let work = move || {
        let mut query = [0_u8; 4096];
        loop {
            let mut fds = [PollFd::new(&socket, PollFlags::IN), PollFd::new(&ended, PollFlags::empty())];
            if rustix::io::retry_on_intr(|| poll(&mut fds, None)).is_err() || !fds[1].revents().is_empty() {
                return;
            }
            let Ok((length, _, Some(from))) = recvfrom(&socket, &mut query[..], RecvFlags::DONTWAIT) else {
                continue;
            };
            if let Some(answer) = hearing.answer(&query[..length], address, *asker.locked()) {
                let _ = sendto(&socket, &answer, SendFlags::DONTWAIT, &from);
            }
        }
    };
    let thread =
        std::thread::Builder::new().name("names".to_owned()).spawn(work).map_err(|_| Errno::AGAIN)?;
    Ok(Answering { stop: Some(stop), thread: Some(thread) })
}

/// A socket at that address, which is made one of this network namespace's own. Allocates nothing.
fn server_socket(address: SocketAddr) -> Sys<OwnedFd> {
    if !address.ip().is_loopback() {
        add_to_loopback(address.ip(), if address.is_ipv4() { 32 } else { 128 })?;
    }
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &address)?;
    Ok(socket)
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
        0 => Ok(()),
        code if code == -libc::EEXIST => Ok(()),
        code => Err(Errno::from_raw_os_error(-code)),
    }
}

/// A question about one name.
struct Query<'a> {
    /// In letters that can be shown.
    name: String,
    kind: u16,
    header: &'a [u8; HEADER],
    /// The question as it was asked.
    question: &'a [u8],
}

const HEADER: usize = 12;
/// Asks for an address of the older kind.
const ADDRESS: u16 = 1;

impl<'a> Query<'a> {
    fn read(query: &'a [u8]) -> Option<Self> {
        let header = query.first_chunk::<HEADER>()?;
        let is_query = header[2] & 0x80 == 0;
        let questions = u16::from_be_bytes([header[4], header[5]]);
        if !is_query || questions != 1 {
            return None;
        }
        let mut at = HEADER;
        let mut name = String::new();
        loop {
            let length = usize::from(*query.get(at)?);
            at += 1;
            if length == 0 {
                break;
            }
            // Anything longer is a reference, which a question has no use for.
            let label = query.get(at..at + length).filter(|_| length < 64)?;
            if !name.is_empty() {
                name.push('.');
            }
            name.extend(label.iter().flat_map(|&byte| std::ascii::escape_default(byte)).map(char::from));
            at += length;
        }
        // Kind and class.
        let question = query.get(HEADER..at + 4)?;
        let kind = u16::from_be_bytes([query[at], query[at + 1]]);
        (!name.is_empty()).then_some(Self { name, kind, header, question })
    }

    /// There is no such name.
    fn no_such_name(&self) -> Vec<u8> {
        self.answer(3, None)
    }

    /// The name has that address, and nothing else.
    fn address(&self, address: Ipv4Addr) -> Vec<u8> {
        self.answer(0, (self.kind == ADDRESS).then_some(address))
    }

    fn answer(&self, code: u8, address: Option<Ipv4Addr>) -> Vec<u8> {
        let mut answer = Vec::with_capacity(HEADER + self.question.len() + 16);
        answer.extend(&self.header[..2]);
        // A response, with "recursion desired" as it was asked; recursion available.
        answer.extend([
            0x80 | self.header[2] & 0x79,
            0x80 | code,
            0,
            1,
            0,
            address.is_some().into(),
            0,
            0,
            0,
            0,
        ]);
        answer.extend(self.question);
        if let Some(address) = address {
            // The name of the question, an address of the internet, for a minute, four bytes.
            answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
            answer.extend(address.octets());
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(name: &[u8]) -> Vec<u8> {
        let mut query = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        query.extend(name);
        query.extend([0, 0, 1, 0, 1]);
        query
    }

    #[test]
    fn a_query_is_read_and_answered() {
        let asked = query(b"\x03www\x07example");
        let query = Query::read(&asked).unwrap();
        assert_eq!((&query.name[..], query.kind), ("www.example", ADDRESS));
        let answer = query.no_such_name();
        assert_eq!(answer[..4], [0xab, 0xcd, 0x81, 0x83]);
        assert_eq!(answer[4..12], [0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(answer[12..], asked[12..]);
        let answer = query.address(Ipv4Addr::new(198, 18, 0, 2));
        assert_eq!(answer[2..12], [0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
        assert_eq!(answer[answer.len() - 4..], [198, 18, 0, 2]);
    }

    #[test]
    fn a_name_has_no_address_of_another_kind() {
        let mut asked = query(b"\x03www\x07example");
        let kind = asked.len() - 3;
        asked[kind] = 28;
        let answer = Query::read(&asked).unwrap().address(Ipv4Addr::new(198, 18, 0, 2));
        assert_eq!(answer[2..12], [0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(answer.len(), asked.len());
    }

    #[test]
    fn nothing_that_is_no_query_is_answered() {
        let whole = query(b"\x03www\x07example");
        for length in 0..whole.len() {
            assert!(Query::read(&whole[..length]).is_none(), "{length}");
        }
        let mut response = whole.clone();
        response[2] |= 0x80;
        assert!(Query::read(&response).is_none());
        assert!(Query::read(&query(b"\xc0\x0c")).is_none());
        assert!(Query::read(&query(b"")).is_none());
    }

    #[test]
    fn a_name_is_shown_in_plain_letters() {
        assert_eq!(Query::read(&query(b"\x04a\x1b[b")).unwrap().name, "a\\x1b[b");
    }
}
