//! The front door, and the one thread behind it.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringfence_model::{AddressKind, Host, HostDecision, HostRule, LockExt as _, NetworkPolicy};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};

use crate::carry;
use crate::datagrams::{self, DatagramSocket};
use crate::dial::{self, DialError, Upstream};
use crate::events::Events;
use crate::inspect::Inspected;
use crate::proxy;
use crate::pump::Pipes;
use crate::rate::Rate;
use crate::resolve::Resolver;
use crate::settings::Settings;

/// A connection somebody wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub host: Host,
    pub port: u16,
    /// For the record only.
    pub program: Option<String>,
    pub pid: Option<u32>,
    /// A person said yes to exactly this name. It does not lift what is blocked.
    pub by_person: bool,
}

impl Wanted {
    #[must_use]
    pub fn new(host: Host, port: u16) -> Self {
        Self { host, port, program: None, pid: None, by_person: false }
    }
}

/// What the policy says of a host and port, before anybody looks the name up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    Allowed(HostRule),
    /// A service on the host's own loopback whose port is named.
    HostPort,
    /// In no list, and a person may be asked.
    Ask,
    /// By this rule, or because nothing allows it.
    Denied(Option<HostRule>),
    /// The port is blocked for every host.
    DeniedPort,
}

impl Decision {
    /// Without looking anything up.
    #[must_use]
    pub fn of(policy: &NetworkPolicy, host: &Host, port: u16) -> Self {
        match policy.decide_host(host, port) {
            HostDecision::Allowed(rule) => Self::Allowed(rule.clone()),
            HostDecision::Denied(Some(rule)) => Self::Denied(Some(rule.clone())),
            // Only as itself: a name from elsewhere that leads to it is somebody's trick.
            _ if policy.host_ports.contains(&port) && is_this_machine(host) => Self::HostPort,
            HostDecision::Ask => Self::Ask,
            HostDecision::Denied(None) => Self::Denied(None),
            HostDecision::DeniedPort => Self::DeniedPort,
        }
    }
}

/// The way out of one sandbox. Clones are the same relay; with the last one its connections end.
#[derive(Clone)]
pub struct Relay {
    shared: Arc<Shared>,
    thread: Arc<Mutex<Option<Thread>>>,
}

/// What connections know of their relay. They do not keep it alive.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) events: Arc<dyn Events>,
    pub(crate) pipes: Pipes,
    pub(crate) bytes_out: AtomicU64,
    /// Nobody is inside any more: what was said is still carried, and nothing else is waited for.
    pub(crate) is_ending: watch::Sender<bool>,
    connections: AtomicUsize,
    /// Sockets for datagrams that may still hold some.
    serving: AtomicUsize,
    begun: Rate,
    /// Told with each connection that ends.
    ended: (Mutex<()>, Condvar),
    pub(crate) resolver: Resolver,
    pub(crate) inspected: Inspected,
    #[cfg(feature = "inspect")]
    pub(crate) tls: crate::tls::Tls,
}

/// A place among the connections that may be at once.
pub(crate) struct Slot(Arc<Shared>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
        self.0.tell_end();
    }
}

/// Datagrams are being carried. The relay's end waits for what was said.
pub(crate) struct Serving(Arc<Shared>);

impl Serving {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        shared.serving.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(shared))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.serving.fetch_sub(1, Ordering::Relaxed);
        self.0.tell_end();
    }
}

impl Shared {
    fn tell_end(&self) {
        let _told = self.ended.0.locked();
        self.ended.1.notify_all();
    }

    fn is_busy(&self) -> bool {
        self.connections.load(Ordering::Relaxed) + self.serving.load(Ordering::Relaxed) > 0
    }

    /// Whether so many more may go out. They are counted also when not.
    pub(crate) fn may_send(&self, count: u64) -> bool {
        let before = self.bytes_out.fetch_add(count, Ordering::Relaxed);
        self.settings.limits.bytes_out.is_none_or(|most| before.saturating_add(count) <= most)
    }

    /// Whether they may, without counting them.
    pub(crate) fn could_send(&self, count: u64) -> bool {
        let sent = self.bytes_out.load(Ordering::Relaxed);
        self.settings.limits.bytes_out.is_none_or(|most| sent.saturating_add(count) <= most)
    }

    /// Those of the addresses that may be connected to; an error when there is none.
    pub(crate) fn vetted(
        &self,
        wanted: &Wanted,
        rule: Option<&HostRule>,
        addresses: &[std::net::IpAddr],
    ) -> Result<Vec<std::net::IpAddr>, DialError> {
        let policy = &self.settings.policy;
        let is_host_port = self.decide(&wanted.host, wanted.port) == Decision::HostPort;
        let mut why = None;
        let mut vetted = Vec::new();
        for address in addresses {
            if is_host_port && AddressKind::of(*address) == AddressKind::Loopback {
                vetted.push(*address);
                continue;
            }
            match policy.refusal_of_address(&wanted.host, rule, *address) {
                None => vetted.push(*address),
                Some(refusal) => why = why.or(Some(refusal)),
            }
        }
        match why {
            Some(why) if vetted.is_empty() => Err(DialError::Address { why }),
            _ => Ok(vetted),
        }
    }

    /// A place among the connections, if there is one and another one may be begun now.
    pub(crate) fn slot(self: &Arc<Self>) -> Result<Slot, DialError> {
        let limits = &self.settings.limits;
        if let Some(most) = limits.bytes_out
            && self.bytes_out.load(Ordering::Relaxed) >= most
        {
            return Err(DialError::TooManyBytes { most });
        }
        let most = limits.connections;
        let before = self.connections.fetch_add(1, Ordering::Relaxed);
        // It is given back also when there was none left.
        let slot = Slot(Arc::clone(self));
        if before >= most {
            return Err(DialError::TooManyConnections { most });
        }
        if let Some(most) = limits.connections_per_minute
            && !self.begun.take(most, Instant::now())
        {
            return Err(DialError::TooFast { most });
        }
        Ok(slot)
    }

    pub(crate) fn decide(&self, host: &Host, port: u16) -> Decision {
        Decision::of(&self.settings.policy, host, port)
    }
}

/// Whether nobody but this machine says where it is.
fn is_local(host: &Host) -> bool {
    is_this_machine(host) || matches!(host, Host::Name(name) if name.ends_with(".localhost"))
}

fn is_this_machine(host: &Host) -> bool {
    match host {
        Host::Name(name) => name == "localhost",
        Host::Address(address) => AddressKind::of(*address) == AddressKind::Loopback,
    }
}

impl Relay {
    /// Nothing runs until the first connection is carried.
    #[must_use]
    pub fn new(settings: Settings, events: Arc<dyn Events>) -> Self {
        let shared = Shared {
            resolver: Resolver::new(settings.resolver.clone(), settings.limits.look_up),
            inspected: Inspected::of(&settings.policy, &settings.secrets),
            #[cfg(feature = "inspect")]
            tls: crate::tls::Tls::new(settings.authority.clone(), settings.roots.clone()),
            settings,
            events,
            pipes: Pipes::default(),
            bytes_out: AtomicU64::new(0),
            is_ending: watch::Sender::new(false),
            connections: AtomicUsize::new(0),
            serving: AtomicUsize::new(0),
            begun: Rate::default(),
            ended: Default::default(),
        };
        Self { shared: Arc::new(shared), thread: Arc::default() }
    }

    /// What the policy says, without looking anything up.
    #[must_use]
    pub fn decide(&self, host: &Host, port: u16) -> Decision {
        self.shared.decide(host, port)
    }

    /// Connects, and waits for it: looks the name up once, vets every address, and connects to exactly a vetted one.
    /// It says no to what [`decide`](Self::decide) does not allow, unless a person said yes.
    pub fn dial(&self, wanted: &Wanted) -> Result<Upstream, DialError> {
        let Wanted { host, port, .. } = wanted;
        let (decision, place) = (self.decide(host, *port), host.with_port(*port));
        let rule = match decision {
            Decision::Allowed(rule) => Some(rule),
            Decision::HostPort => None,
            Decision::Ask | Decision::Denied(None) if wanted.by_person => None,
            Decision::Ask | Decision::Denied(None) => {
                return Err(DialError::Denied {
                    why: format!("{place} is not on the list of allowed hosts"),
                });
            }
            Decision::Denied(Some(rule)) => {
                return Err(DialError::Denied { why: format!("{place} is blocked by `{rule}`") });
            }
            Decision::DeniedPort => {
                return Err(DialError::Denied { why: format!("port {port} is blocked") });
            }
        };
        let inspect = self.shared.inspected.for_host(host, *port);
        let inspect = inspect.map_err(|why| DialError::Denied { why })?.map(Arc::from);
        if inspect.is_some() && !cfg!(feature = "inspect") {
            let why = format!("requests to {place} are to be inspected, which this build cannot do");
            return Err(DialError::Denied { why });
        }
        let slot = self.shared.slot()?;
        let limits = &self.shared.settings.limits;
        let failed = |error| DialError::Connect { host: place.clone(), error };
        let way = self.shared.settings.proxy.way_to(host, *port);
        if !is_local(host)
            && let Some(proxy) = way.map_err(|why| DialError::Proxy { why })?
        {
            if let Host::Address(address) = host {
                self.shared.vetted(wanted, rule.as_ref(), &[*address])?;
            }
            let addresses = self.shared.resolver.look_up(&proxy.host)?;
            let deadline = Instant::now() + limits.connect;
            let (socket, _) = dial::connect(&addresses, proxy.port, deadline).map_err(|error| {
                DialError::Proxy { why: format!("{} cannot be reached: {error}", proxy.host) }
            })?;
            let wanted = wanted.clone();
            if *port == 80 {
                // Proxies make tunnels to a few ports, and to this one mostly not; they take its requests.
                return Ok(Upstream { socket, wanted, address: None, inspect, proxy: Some(proxy), slot });
            }
            let socket = proxy::tunnel(socket, &proxy, host, *port, deadline)
                .map_err(|why| DialError::Proxy { why })?;
            return Ok(Upstream { socket, wanted, address: None, inspect, proxy: None, slot });
        }
        let addresses = self.shared.resolver.look_up(host)?;
        let vetted = self.shared.vetted(wanted, rule.as_ref(), &addresses)?;
        let (socket, address) =
            dial::connect(&vetted, *port, Instant::now() + limits.connect).map_err(failed)?;
        let (wanted, address) = (wanted.clone(), Some(address));
        Ok(Upstream { socket, wanted, address, inspect, proxy: None, slot })
    }

    /// Carries bytes between the two until both ends said their last. Takes both over and returns at once.
    pub fn carry(&self, inside: OwnedFd, upstream: Upstream) {
        let task = carry::carry(Arc::clone(&self.shared), inside, upstream);
        match self.handle() {
            Ok(handle) => drop(handle.spawn(task)),
            // Both ends are closed with the task that holds them.
            Err(_) => drop(task),
        }
    }

    /// Whether datagrams go to that port of that host. Only the rule is looked at.
    #[must_use]
    pub fn decide_datagrams(&self, host: &Host, port: u16) -> Decision {
        match self.shared.settings.policy.decide_datagrams(host, port) {
            HostDecision::Allowed(rule) => Decision::Allowed(rule.clone()),
            HostDecision::Denied(rule) => Decision::Denied(rule.cloned()),
            HostDecision::DeniedPort => Decision::DeniedPort,
            HostDecision::Ask => Decision::Denied(None),
        }
    }

    /// Carries datagrams between whoever inside sends to this socket and the host that it stands for, for as long as
    /// this relay lives. Each sender has a connection of its own. Takes the sockets over and returns at once.
    pub fn carry_datagrams(&self, inside: DatagramSocket, wanted: Wanted) {
        let serving = Serving::new(&self.shared);
        let task = datagrams::serve(Arc::clone(&self.shared), serving, inside, wanted);
        match self.handle() {
            Ok(handle) => drop(handle.spawn(task)),
            Err(_) => drop(task),
        }
    }

    /// Nobody is inside any more. What was said there is carried to its end, in that time at most.
    pub fn finish(&self, most: Duration) {
        self.shared.is_ending.send_replace(true);
        let deadline = Instant::now() + most;
        let (lock, changed) = &self.shared.ended;
        let mut guard = lock.locked();
        while self.shared.is_busy() {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else { return };
            guard = changed.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn handle(&self) -> std::io::Result<Handle> {
        let mut thread = self.thread.locked();
        if let Some(thread) = &*thread {
            return Ok(thread.handle.clone());
        }
        let started = Thread::start()?;
        let handle = started.handle.clone();
        *thread = Some(started);
        Ok(handle)
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay")
            .field("settings", &self.shared.settings)
            .field("connections", &self.shared.connections)
            .finish_non_exhaustive()
    }
}

/// Where connections are carried. They end with it.
struct Thread {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Thread {
    fn start() -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("ringfence-relay".to_owned()).spawn(move || {
            // Also when the sender is gone.
            let _ = runtime.block_on(stopped);
        })?;
        Ok(Self { handle, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // What panicked there has been said there.
            let _ = thread.join();
        }
    }
}
