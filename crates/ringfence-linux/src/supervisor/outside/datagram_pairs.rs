//! What programs take for sockets for datagrams, where the sandbox has no network of its own.
//!
//! A socket for datagrams sends to whatever address its user puts behind a pointer, which nobody could judge. So who asks
//! for one gets one end of a pair of local sockets that keep messages apart. They send to nobody but the other end, and
//! that is ours: it answers look-ups of names, and everything else is lost there, as in any network.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use ringfence_model::{LockExt as _, Operation};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use rustix::pipe::PipeFlags;

use super::super::name_lookup::NAME_SERVER;
use super::super::name_server::Hearing;
use super::super::network::{self, Address};
use super::super::notif::Notification;
use super::super::{Answer, Supervisor};
use super::on_host::in_family;
use crate::sys::Sys;

/// As many at once: each is a descriptor of ours.
const MOST: usize = 256;
/// Of the pipe that ends the thread; no socket has it.
const STOP: u64 = 0;

/// The pairs of one sandbox, and the thread that answers.
#[derive(Debug)]
pub(super) struct DatagramPairs {
    pairs: Arc<Pairs>,
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Pairs {
    /// By the number of the caller's end.
    pairs: Mutex<HashMap<u64, Pair>>,
    ready: OwnedFd,
}

#[derive(Debug)]
struct Pair {
    ours: OwnedFd,
    /// What it is taken for.
    domain: AddressFamily,
    /// Whom the caller turned to last, and who that was.
    to: Option<SocketAddr>,
    asker: i32,
}

impl DatagramPairs {
    pub(super) fn new(hearing: Hearing) -> Sys<Self> {
        let ready = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let (ended, stop) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        epoll::add(&ready, &ended, epoll::EventData::new_u64(STOP), epoll::EventFlags::empty())?;
        let pairs = Arc::new(Pairs { pairs: Mutex::default(), ready });
        let served = Arc::clone(&pairs);
        let work = move || {
            served.serve(&hearing);
            drop(ended);
        };
        let thread = std::thread::Builder::new().name("names".to_owned()).spawn(work);
        Ok(Self { pairs, stop: Some(stop), thread: Some(thread.map_err(|_| Errno::AGAIN)?) })
    }

    /// A new one; the caller's end.
    fn make(&self, domain: AddressFamily, flags: SocketFlags) -> Sys<OwnedFd> {
        let mut pairs = self.pairs.pairs.locked();
        if pairs.len() >= MOST {
            return Err(Errno::MFILE);
        }
        let flags = flags | SocketFlags::CLOEXEC;
        let (theirs, ours) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let number = rustix::fs::fstat(&theirs)?.st_ino;
        epoll::add(&self.pairs.ready, &ours, epoll::EventData::new_u64(number), epoll::EventFlags::IN)?;
        pairs.insert(number, Pair { ours, domain, to: None, asker: 0 });
        Ok(theirs)
    }

    /// Does something about the pair of which the caller has this end, if it is one.
    fn with<T>(&self, theirs: &OwnedFd, deed: impl FnOnce(&mut Pair) -> T) -> Option<T> {
        let number = rustix::fs::fstat(theirs).ok()?.st_ino;
        self.pairs.pairs.locked().get_mut(&number).map(deed)
    }

    /// Whom the caller turned to, as the kernel writes it; none when to nobody.
    pub(super) fn peer(&self, theirs: &OwnedFd) -> Option<Option<Vec<u8>>> {
        self.with(theirs, |pair| pair.to.map(|to| in_family(pair.domain, to)))
    }

    /// An address of its own, as the kernel writes it.
    pub(super) fn own(&self, theirs: &OwnedFd) -> Option<Vec<u8>> {
        /// Where ports that nobody chose are.
        const EPHEMERAL: u16 = 0x8000;
        let number = rustix::fs::fstat(theirs).ok()?.st_ino;
        let port = u16::try_from(number & 0x7fff).unwrap_or_default() | EPHEMERAL;
        self.with(theirs, |pair| {
            let ip = match pair.domain {
                AddressFamily::INET => IpAddr::V4(Ipv4Addr::LOCALHOST),
                _ => IpAddr::V6(Ipv6Addr::LOCALHOST),
            };
            in_family(pair.domain, SocketAddr::new(ip, port))
        })
    }
}

impl Drop for DatagramPairs {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Pairs {
    fn serve(&self, hearing: &Hearing) {
        let mut events = Vec::with_capacity(16);
        loop {
            events.clear();
            let waited = epoll::wait(&self.ready, rustix::buffer::spare_capacity(&mut events), None);
            match waited {
                Err(Errno::INTR) => continue,
                Err(_) => return,
                Ok(_) => {}
            }
            for event in &events {
                match event.data.u64() {
                    STOP => return,
                    number => self.hear(number, hearing),
                }
            }
        }
    }

    /// Takes one message of that pair. One whose other end is closed goes.
    fn hear(&self, number: u64, hearing: &Hearing) {
        let mut message = [0_u8; 4096];
        let mut pairs = self.pairs.locked();
        let Some(pair) = pairs.get(&number) else { return };
        let length = match recv(&pair.ours, &mut message[..], RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
            Ok((_, length)) if length > 0 => length,
            Err(Errno::AGAIN | Errno::INTR) => return,
            // An empty message looks like the end; only of the end nothing can be sent.
            Ok(_) if send(&pair.ours, &[], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) != Err(Errno::PIPE) => {
                return;
            }
            Ok(_) | Err(_) => {
                pairs.remove(&number);
                return;
            }
        };
        let to = pair.to.unwrap_or_else(|| (Ipv4Addr::UNSPECIFIED, NAME_SERVER).into());
        if to.port() == NAME_SERVER
            && let Some(answer) = hearing.answer(&message[..length.min(message.len())], to, pair.asker)
        {
            let _ = send(&pair.ours, &answer, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
    }
}

impl Supervisor<'_> {
    /// Gives the caller what it takes for a socket for datagrams; refuses those of other protocols.
    pub(in super::super) fn make_datagrams(&mut self, notification: &Notification) -> Answer {
        let tid = notification.tid;
        let Some(way) = self.way_out.clone().filter(|way| way.is_by_name()) else {
            return self.refuse_datagrams(tid);
        };
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the kernel takes the low 32 bits of int arguments"
        )]
        let [domain, kind, protocol] = [0, 1, 2].map(|index: usize| notification.args[index] as i32);
        if protocol != 0 && protocol != libc::IPPROTO_UDP {
            return self.refuse_datagrams(tid);
        }
        let domain = if domain == libc::AF_INET { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags =
            if kind & libc::SOCK_NONBLOCK == 0 { SocketFlags::empty() } else { SocketFlags::NONBLOCK };
        let hearing = self.name_lookups.hearing(Some(way.names()));
        match way.datagram_pairs(hearing).and_then(|datagrams| datagrams.make(domain, flags)) {
            Ok(theirs) => Answer::Give(theirs, kind & libc::SOCK_CLOEXEC != 0),
            Err(errno) => Answer::Done(Err(errno)),
        }
    }

    /// Connects such a socket, or sends to an address. None when it is another one.
    pub(in super::super) fn turn_datagrams(
        &mut self,
        tid: i32,
        theirs: &OwnedFd,
        address: &Address,
        operation: Operation,
    ) -> Option<Answer> {
        let way = self.way_out.clone()?;
        let datagrams = way.known_pairs()?;
        datagrams.with(theirs, |_| ())?;
        let to = match address {
            Address::Internet(to) => Some(*to),
            Address::Path(_) | Address::Abstract(_) | Address::Other => None,
        };
        match to {
            Some(to) if to.port() == NAME_SERVER => self.name_lookups.turned_to(),
            Some(to) if network::is_loopback(to) => return Some(Answer::Done(Err(Errno::CONNREFUSED))),
            Some(to) if operation == Operation::Send => return Some(self.refuse_datagram(to)),
            Some(to) if !self.stands_for_a_name(to) => return Some(network::refuse_address(operation, to)),
            Some(_) | None => {}
        }
        datagrams.with(theirs, |pair| (pair.to, pair.asker) = (to, tid));
        // What is sent to an address goes to our end, whatever the address is by then.
        Some(if operation == Operation::Send { Answer::Continue } else { Answer::Done(Ok(0)) })
    }

    /// Binds such a socket. Where only one end hears, any address will do but one at which others look for it.
    pub(in super::super) fn bind_datagrams(
        &self,
        tid: i32,
        socket: i32,
        address: SocketAddr,
    ) -> Option<Answer> {
        let datagrams = self.way_out.as_ref()?.known_pairs()?;
        datagrams.with(&network::take_descriptor(tid, socket)?, |_| ())?;
        Some(if address.ip().is_unspecified() || address.port() == 0 {
            Answer::Done(Ok(0))
        } else {
            network::refuse_address(Operation::Bind, address)
        })
    }
}
