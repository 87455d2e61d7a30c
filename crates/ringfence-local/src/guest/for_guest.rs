//! Connections for a guest: asked for by lines, made and looked at here, carried in pieces.
//!
//! A guest is believed nothing that matters: policy is asked again, and whether a person said yes is known here.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ringfence_model::{Host as Reached, LockExt as _, Policy};
use ringfence_relay::{Relay, Wanted};
use rustix::io::Errno;

use super::carrier::Carrier;
use super::out_wire::{OutOrder, OutWord};
use crate::host::Host;
use crate::offload::spawn;
use crate::way_out::{LONGEST, no_way, relay};

type Tell = Arc<dyn Fn(OutOrder) + Send + Sync>;

/// As many are dialled at once; a guest that wants more is up to something.
const MOST_DIALLED: usize = 2048;
/// So are as many ways out: each shell and each job has one.
const MOST_WAYS: usize = 1024;

/// The ways out of one guest.
pub struct ForGuest {
    policy: Policy,
    host: Host,
    tell: Tell,
    carrier: Carrier,
    ways: Mutex<BTreeMap<u64, Relay>>,
    dialling: AtomicUsize,
    yes: Mutex<Yes>,
}

/// Hosts, with their ports, that a person said yes to.
#[derive(Default)]
struct Yes {
    for_now: BTreeSet<String>,
    always: BTreeSet<String>,
}

impl std::fmt::Debug for ForGuest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ForGuest").finish_non_exhaustive()
    }
}

impl ForGuest {
    /// `policy` is the host's, and so is `environment`.
    pub fn new(
        policy: Policy,
        environment: BTreeMap<OsString, OsString>,
        tell: impl Fn(OutOrder) + Send + Sync + 'static,
    ) -> std::io::Result<Arc<Self>> {
        let tell: Tell = Arc::new(tell);
        let said = Arc::clone(&tell);
        let carrier = Carrier::start(move |id, piece| said(OutOrder::Piece { id, piece }))?;
        Ok(Arc::new(Self {
            policy,
            host: Host::from_environment(environment),
            tell,
            carrier,
            ways: Mutex::default(),
            dialling: AtomicUsize::new(0),
            yes: Mutex::default(),
        }))
    }

    /// What the guest says. Returns at once.
    pub fn hear(self: &Arc<Self>, word: OutWord) {
        match word {
            OutWord::Dial { way, id, host, port, program, pid, by_person } => {
                let by_person = by_person && self.has_said_yes(&host, port);
                let wanted = Reached::parse(&host)
                    .map(|host| Wanted { host, port, program, pid, by_person })
                    .ok_or(Errno::INVAL);
                if let Err(errno) = wanted.and_then(|wanted| self.begin(way, id, wanted)) {
                    (self.tell)(OutOrder::NoWay { id, errno: errno.raw_os_error(), refused: None });
                }
            }
            OutWord::Piece { id, piece } => self.carrier.hear(id, piece),
            OutWord::End { way } => {
                let relay = self.ways.locked().remove(&way);
                let tell = Arc::clone(&self.tell);
                let ended = move || {
                    if let Some(relay) = relay {
                        relay.finish(LONGEST);
                    }
                    tell(OutOrder::Ended { way });
                };
                // The guest has a limit of its own for this.
                let _ = spawn(ended);
            }
        }
    }

    fn has_said_yes(&self, host: &str, port: u16) -> bool {
        let Some(place) = Reached::parse(host).map(|host| host.with_port(port)) else { return false };
        let yes = self.yes.locked();
        yes.for_now.contains(&place) || yes.always.contains(&place)
    }

    /// A person said yes to this host and port: until the [next command](Self::next_command), or as long as this lives.
    pub fn says_yes(&self, place: &str, only_now: bool) {
        let mut yes = self.yes.locked();
        let places = if only_now { &mut yes.for_now } else { &mut yes.always };
        places.insert(place.to_owned());
    }

    /// Everything that ran has ended, and something else begins.
    pub fn next_command(&self) {
        self.yes.locked().for_now.clear();
    }

    /// The guest is gone. What it said is carried to its end, if that does not take too long.
    pub fn end(&self) {
        self.carrier.end_all();
        let ways = std::mem::take(&mut *self.ways.locked());
        ways.values().for_each(|relay| relay.finish(LONGEST));
    }

    /// Dials on a thread of its own.
    fn begin(self: &Arc<Self>, way: u64, id: u64, wanted: Wanted) -> Result<(), Errno> {
        let relay = self.way(way)?;
        if self.dialling.fetch_add(1, Ordering::Relaxed) >= MOST_DIALLED {
            self.dialling.fetch_sub(1, Ordering::Relaxed);
            return Err(Errno::AGAIN);
        }
        let its = Arc::clone(self);
        let work = move || {
            its.dial(&relay, id, &wanted);
            its.dialling.fetch_sub(1, Ordering::Relaxed);
        };
        spawn(work).map_err(|_| {
            self.dialling.fetch_sub(1, Ordering::Relaxed);
            Errno::AGAIN
        })
    }

    fn way(&self, number: u64) -> Result<Relay, Errno> {
        let mut ways = self.ways.locked();
        if let Some(relay) = ways.get(&number) {
            return Ok(relay.clone());
        }
        if ways.len() >= MOST_WAYS {
            return Err(Errno::NETUNREACH);
        }
        let tell = Arc::clone(&self.tell);
        let news = move |violation| tell(OutOrder::News { way: number, violation: Box::new(violation) });
        let relay = relay(&self.policy, &self.host, None, news);
        ways.insert(number, relay.clone());
        Ok(relay)
    }

    fn dial(&self, relay: &Relay, id: u64, wanted: &Wanted) {
        let refuse = |errno: Errno, refused| {
            (self.tell)(OutOrder::NoWay { id, errno: errno.raw_os_error(), refused });
        };
        let upstream = match relay.dial(wanted) {
            Ok(upstream) => upstream,
            Err(error) => {
                let no_way = no_way(&error);
                return refuse(no_way.errno, no_way.refused);
            }
        };
        let Ok((ours, inside)) = connected() else { return refuse(Errno::NFILE, None) };
        if !self.carrier.expect(id) {
            return refuse(Errno::INVAL, None);
        }
        (self.tell)(OutOrder::Dialled { id });
        relay.carry(inside, upstream);
        self.carrier.carry(id, ours);
    }
}

/// Two sockets that are connected with each other. Those of a network say when something was broken off.
fn connected() -> std::io::Result<(OwnedFd, OwnedFd)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let ours = TcpStream::connect(listener.local_addr()?)?;
    let own = ours.local_addr()?;
    loop {
        let (other, from) = listener.accept()?;
        // Anybody on this machine can connect to it meanwhile.
        if from == own {
            ours.set_nodelay(true)?;
            other.set_nodelay(true)?;
            return Ok((ours.into(), other.into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// One for a guest that may reach nothing but what a person says yes to, and what it is told.
    fn asking() -> (Arc<ForGuest>, mpsc::Receiver<OutOrder>) {
        let mut policy = Policy::default();
        policy.network.ask = true;
        let (tell, told) = mpsc::channel();
        let tell = move |order| drop(tell.send(order));
        (ForGuest::new(policy, BTreeMap::new(), tell).unwrap(), told)
    }

    fn dial(id: u64, host: &str, port: u16) -> OutWord {
        let host = host.to_owned();
        OutWord::Dial { way: 0, id, host, port, program: None, pid: None, by_person: true }
    }

    #[test]
    fn a_guest_is_not_believed_that_a_person_said_yes() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let (guests, told) = asking();
        let mut id = 0;
        let mut is_made = |port| {
            id += 1;
            guests.hear(dial(id, "127.0.0.1", port));
            loop {
                match told.recv().unwrap() {
                    OutOrder::Dialled { id: its } if its == id => return true,
                    OutOrder::NoWay { id: its, .. } if its == id => return false,
                    _ => {}
                }
            }
        };
        assert!(!is_made(port));
        guests.says_yes(&format!("127.0.0.1:{port}"), true);
        assert!(is_made(port));
        assert!(!is_made(port ^ 1), "yes is about one port");
        guests.next_command();
        assert!(!is_made(port), "it was for that command");
        guests.says_yes(&format!("127.0.0.1:{port}"), false);
        guests.next_command();
        assert!(is_made(port));
        guests.hear(OutWord::End { way: 0 });
        guests.end();
    }

    #[test]
    fn no_guest_takes_more_than_its_share() {
        let (guests, told) = asking();
        guests.hear(dial(1, "not a host", 80));
        assert!(matches!(told.recv().unwrap(), OutOrder::NoWay { id: 1, .. }));
        for way in 0..=MOST_WAYS as u64 {
            let known = guests.way(way);
            assert_eq!(known.is_ok(), way < MOST_WAYS as u64);
        }
    }
}
