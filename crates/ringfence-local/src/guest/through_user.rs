//! The way out of a guest's fence: through whoever uses the guest, who looks names up, connects, and looks at what is said.
//!
//! What policy says of a host is known here too, so that the caller hears it at once; it is decided there again.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak, mpsc};
use std::time::{Duration, Instant};

use ringfence_linux::supervisor::{DatagramSocket, NoWay, Outside, Reach, Upstream, Wanted};
use ringfence_model::{Host, LockExt as _, NetworkPolicy, Violation, ViolationKind};
use ringfence_relay::Decision;
use rustix::io::Errno;

use super::carrier::Carrier;
use super::out_wire::{OutOrder, OutWord};
use crate::way_out::{Elsewhere, LONGEST, keep, reach};

type Say = Arc<dyn Fn(OutWord) + Send + Sync>;
type Dialled = Result<(), NoWay>;

/// All ways out of one guest.
pub(super) struct Ways {
    own: Weak<Self>,
    say: Say,
    carrier: Carrier,
    /// Of ways and connections.
    last: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    dialling: BTreeMap<u64, mpsc::Sender<Dialled>>,
    /// By way; those that have ended are in `ended`.
    news: BTreeMap<u64, Vec<Violation>>,
    ended: BTreeSet<u64>,
    /// Commands that run, and are told of the connections they made.
    running: usize,
    /// Connections that were made, and whose end was told.
    made: usize,
    told: usize,
    /// Which were unsettled when the last command began: nobody waits for their end.
    before: usize,
    /// Nobody answers any more.
    alone: bool,
}

impl std::fmt::Debug for Ways {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ways").finish_non_exhaustive()
    }
}

impl Ways {
    pub(super) fn new(say: impl Fn(OutWord) + Send + Sync + 'static) -> rustix::io::Result<Arc<Self>> {
        let say: Say = Arc::new(say);
        let said = Arc::clone(&say);
        let carrier = Carrier::start(move |id, piece| said(OutWord::Piece { id, piece }))?;
        Ok(Arc::new_cyclic(|own| Self {
            own: Weak::clone(own),
            say,
            carrier,
            last: AtomicU64::new(0),
            state: Mutex::default(),
            changed: Condvar::new(),
        }))
    }

    fn number(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed)
    }

    /// What whoever uses the guest says. Returns at once.
    pub(super) fn hear(&self, order: OutOrder) {
        match order {
            OutOrder::Dialled { id } => {
                // Data may follow at once.
                self.carrier.expect(id);
                self.state.locked().made += 1;
                if !self.dialled(id, Ok(())) {
                    self.carrier.abandon(id);
                }
            }
            OutOrder::NoWay { id, errno, refused } => {
                let errno = Errno::from_raw_os_error(errno);
                self.dialled(id, Err(NoWay { errno, refused }));
            }
            OutOrder::Piece { id, piece } => self.carrier.hear(id, piece),
            OutOrder::News { way, violation } => {
                let mut state = self.state.locked();
                state.told += usize::from(violation.kind == ViolationKind::Connected);
                keep(state.news.entry(way).or_default(), *violation);
            }
            OutOrder::Ended { way } => drop(self.state.locked().ended.insert(way)),
        }
        self.changed.notify_all();
    }

    /// False when nobody waits for it.
    fn dialled(&self, id: u64, outcome: Dialled) -> bool {
        let waiting = self.state.locked().dialling.remove(&id);
        waiting.is_some_and(|waiting| waiting.send(outcome).is_ok())
    }

    /// Nobody answers any more.
    pub(super) fn is_alone(&self) {
        let mut state = self.state.locked();
        state.alone = true;
        state.dialling.clear();
        drop(state);
        self.changed.notify_all();
    }

    /// How many connections nobody inside has anything to say on any more, and whose end was not told.
    fn unsettled(&self, state: &State) -> usize {
        state.made.saturating_sub(state.told + self.carrier.open())
    }

    /// A command begins.
    pub(super) fn begins(&self) {
        let mut state = self.state.locked();
        state.running += 1;
        state.before = self.unsettled(&state);
    }

    /// It has ended: waits until what it said has arrived, and gives what came of its connections.
    pub(super) fn settle(&self) -> Vec<Violation> {
        let mut state = self.wait(LONGEST, |state| self.unsettled(state) <= state.before);
        state.running = state.running.saturating_sub(1);
        std::mem::take(&mut state.news).into_values().flatten().collect()
    }

    /// Until it is so, or somebody is alone, or so much time has passed.
    fn wait(&self, most: Duration, is_so: impl Fn(&State) -> bool) -> std::sync::MutexGuard<'_, State> {
        /// What a socket knows is told by nobody.
        const GLANCE: Duration = Duration::from_millis(10);
        let deadline = Instant::now() + most;
        let mut state = self.state.locked();
        while !is_so(&state) && !state.alone && Instant::now() < deadline {
            state = self.changed.wait_timeout(state, GLANCE).unwrap_or_else(PoisonError::into_inner).0;
        }
        state
    }
}

impl Elsewhere for Ways {
    fn way(&self, policy: &NetworkPolicy) -> Option<Arc<dyn Outside>> {
        let ways = self.own.upgrade()?;
        Some(Arc::new(Way { number: ways.number(), ways, policy: policy.clone() }))
    }
}

/// Where connections are made by nobody.
#[derive(Debug)]
pub(super) struct Nobody;

impl Elsewhere for Nobody {
    fn way(&self, _: &NetworkPolicy) -> Option<Arc<dyn Outside>> {
        None
    }
}

/// Of one supervisor.
#[derive(Debug)]
struct Way {
    ways: Arc<Ways>,
    number: u64,
    policy: NetworkPolicy,
}

impl Outside for Way {
    fn is_by_name(&self) -> bool {
        self.policy.is_by_name()
    }

    fn decide(&self, host: &Host, port: u16) -> Reach {
        reach(Decision::of(&self.policy, host, port), port)
    }

    fn is_host_port(&self, address: IpAddr, port: u16) -> bool {
        self.decide(&Host::Address(address), port) == Reach::Allowed
    }

    /// Only streams are carried between here and there.
    fn decide_datagrams(&self, _: &Host, _: u16) -> Reach {
        Reach::Denied(None)
    }

    fn carry_datagrams(&self, _: &Wanted, _: DatagramSocket) {}

    fn dial(&self, wanted: &Wanted) -> Result<Box<dyn Upstream>, NoWay> {
        let nobody = NoWay { errno: Errno::NETUNREACH, refused: None };
        let id = self.ways.number();
        let (tell, told) = mpsc::channel();
        {
            let mut state = self.ways.state.locked();
            if state.alone {
                return Err(nobody);
            }
            state.dialling.insert(id, tell);
        }
        let Wanted { host, port, program, pid, by_person } = wanted.clone();
        let (way, host) = (self.number, host.to_string());
        (self.ways.say)(OutWord::Dial { way, id, host, port, program, pid, by_person });
        told.recv().unwrap_or(Err(nobody))?;
        Ok(Box::new(Made { ways: Arc::clone(&self.ways), id, is_carried: false }))
    }

    /// How connections ended is kept for the command that runs.
    fn news(&self) -> Vec<Violation> {
        let mut state = self.ways.state.locked();
        let is_kept = |violation: &Violation| violation.kind == ViolationKind::Connected;
        let keeps = state.running > 0;
        let Some(news) = state.news.get_mut(&self.number) else { return vec![] };
        news.extract_if(.., |violation| !(keeps && is_kept(violation))).collect()
    }

    fn end(&self) {
        (self.ways.say)(OutWord::End { way: self.number });
        // Those who carry have a limit of their own.
        let mut state = self.ways.wait(LONGEST * 2, |state| state.ended.contains(&self.number));
        state.ended.remove(&self.number);
    }
}

struct Made {
    ways: Arc<Ways>,
    id: u64,
    is_carried: bool,
}

impl Upstream for Made {
    fn carry(mut self: Box<Self>, inside: OwnedFd) {
        self.is_carried = true;
        self.ways.carrier.carry(self.id, inside);
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if !self.is_carried {
            self.ways.carrier.abandon(self.id);
        }
    }
}
