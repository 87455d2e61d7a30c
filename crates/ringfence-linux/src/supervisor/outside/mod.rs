//! The way out, by host name.
//!
//! The sandbox's network is empty and stays so. A name that is asked for inside gets an address which stands for it
//! ([`names`]); nobody else hears of the name. Who connects to such an address means the name, and what the policy says
//! of it is known before anything leaves the machine: then somebody else ([`Outside`]) looks the name up, connects, and
//! moves the bytes between that connection and a socket that meets the caller's own ([`sockets`]).
//!
//! A call that does not wait gets its answer at once, and its socket is connecting meanwhile, as on any network. One that
//! waits is answered when the connection is there, or cannot be.

mod answers;
mod datagram_pairs;
mod datagrams;
mod names;
mod on_host;
mod ports;
mod receiving;
mod sockets;

use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use ringfence_model::{Access, DenyReason, Host, LockExt as _, Operation, RuleLayer, RuleSource, Violation};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{SocketType, sockopt};

use datagram_pairs::DatagramPairs;
pub use datagrams::DatagramSocket;
pub(super) use names::Names;
use names::is_in_range;
use on_host::OnHost;
pub(super) use on_host::is_ours;
use sockets::{Begun, Meeting, Sockets};

use super::name_lookup::NAME_SERVER;
use super::name_server::Hearing;
use super::notif::{self, Notification};
use super::{Answer, Denial, Resource, Supervisor, describe};

/// Refusals of connections that are being made are looked for so often.
const SOON: Duration = Duration::from_millis(20);

/// What policy says of a host, before anybody looks it up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    Allowed,
    /// A person may be asked.
    Ask,
    /// By this rule, or because nothing allows it.
    Denied(Option<(String, RuleSource)>),
    /// The port is not reached on any host that is allowed without one, for this reason.
    DeniedPort(String),
}

/// A connection that somebody inside wants.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub host: Host,
    pub port: u16,
    /// Who wants it: as it would be told of a refusal.
    pub program: Option<String>,
    pub pid: Option<u32>,
    /// A person said yes to exactly this host and port.
    pub by_person: bool,
}

impl Wanted {
    /// By whoever a refusal would name.
    fn by(violation: &Violation, host: &Host, port: u16) -> Self {
        Self {
            host: host.clone(),
            port,
            program: violation.program.clone(),
            pid: violation.pid,
            by_person: false,
        }
    }
}

/// Why there is no connection.
#[derive(Debug, Clone)]
pub struct NoWay {
    /// What the caller hears.
    pub errno: Errno,
    /// Why policy refuses it after all, if so: the name leads to an address that nobody reaches.
    pub refused: Option<String>,
}

/// Who makes connections for a sandbox.
pub trait Outside: Send + Sync + Debug {
    /// Whether hosts have names inside. Else a person may be asked about single addresses all the same.
    fn is_by_name(&self) -> bool;

    fn decide(&self, host: &Host, port: u16) -> Reach;

    /// Whether that port of the machine's own loopback may be reached from inside.
    fn is_host_port(&self, address: IpAddr, port: u16) -> bool;

    /// Looks the host up and connects to it. Takes as long as it takes.
    fn dial(&self, wanted: &Wanted) -> Result<Box<dyn Upstream>, NoWay>;

    /// The same of datagrams; nobody is asked about them.
    fn decide_datagrams(&self, host: &Host, port: u16) -> Reach;

    /// Carries datagrams between whoever inside sends to that socket and the host, from now on. Returns at once.
    fn carry_datagrams(&self, wanted: &Wanted, inside: DatagramSocket);

    /// What came of connections since the last time.
    fn news(&self) -> Vec<Violation>;

    /// Ends all of them.
    fn end(&self);
}

/// A connection to a host.
pub trait Upstream: Send {
    /// Moves bytes between it and `inside` until both have ended. Returns at once.
    fn carry(self: Box<Self>, inside: OwnedFd);
}

/// The way out of one sandbox.
#[derive(Debug)]
pub(super) struct WayOut {
    outside: Arc<dyn Outside>,
    names: Arc<Mutex<Names>>,
    sockets: OnceLock<Option<Sockets>>,
    /// Where the sandbox has no network of its own.
    on_host: Option<OnHost>,
    datagram_pairs: OnceLock<Option<DatagramPairs>>,
}

impl WayOut {
    /// `is_shared`: the sandbox's network is that of the host.
    pub(super) fn new(outside: Arc<dyn Outside>, is_shared: bool) -> Self {
        let names = Arc::new(Mutex::new(Names::new()));
        let on_host = is_shared.then(OnHost::default);
        Self { outside, names, sockets: OnceLock::new(), on_host, datagram_pairs: OnceLock::new() }
    }

    pub(super) fn is_by_name(&self) -> bool {
        self.outside.is_by_name()
    }

    /// Which host the address stands for.
    fn host(&self, address: IpAddr) -> Option<Host> {
        match address {
            IpAddr::V4(v4) if is_in_range(v4) => {
                self.names.locked().name(v4).map(|name| Host::Name(name.to_owned()))
            }
            address => Some(Host::Address(address)),
        }
    }

    pub(super) fn names(&self) -> Arc<Mutex<Names>> {
        Arc::clone(&self.names)
    }

    fn datagram_pairs(&self, hearing: Hearing) -> Result<&DatagramPairs, Errno> {
        let made = self.datagram_pairs.get_or_init(|| DatagramPairs::new(hearing).ok());
        made.as_ref().ok_or(Errno::NOBUFS)
    }

    /// Those that were made, if any was.
    fn known_pairs(&self) -> Option<&DatagramPairs> {
        self.datagram_pairs.get()?.as_ref()
    }

    /// For whoever answers look-ups. What stands for them has to be there before somebody looks for a way to it.
    pub(super) fn names_for(&self, tid: i32) -> Option<Arc<Mutex<Names>>> {
        if !self.outside.is_by_name() {
            return None;
        }
        let _ = self.sockets(tid);
        Some(self.names())
    }

    /// Why it could not connect, by whoever knows.
    fn socket_error(&self, socket: &OwnedFd) -> Result<(), Errno> {
        match self.on_host.as_ref().and_then(|on_host| on_host.take_error(socket)) {
            Some(errno) => Err(errno),
            None => sockopt::socket_error(socket).and_then(|error| error),
        }
    }

    fn sockets(&self, tid: i32) -> Result<&dyn Meeting, Errno> {
        if let Some(on_host) = &self.on_host {
            return Ok(on_host);
        }
        self.own_sockets(tid).map(|sockets| sockets as &dyn Meeting)
    }

    /// Those in the sandbox's own network, where it has one.
    fn own_sockets(&self, tid: i32) -> Result<&Sockets, Errno> {
        if self.on_host.is_some() {
            return Err(Errno::NETUNREACH);
        }
        self.sockets.get_or_init(|| Sockets::of(tid).ok()).as_ref().ok_or(Errno::NETUNREACH)
    }
}

/// A connection to be made for the caller's socket.
#[derive(Debug)]
pub(super) struct Outgoing {
    way: Arc<WayOut>,
    wanted: Wanted,
    /// As which it is told if it is refused.
    violation: Violation,
    tid: i32,
    /// Where the caller connects to, and the same as the kernel takes it.
    to: SocketAddr,
    address: Vec<u8>,
    state: Mutex<State>,
    waits: Waits,
}

/// How long the caller waits until it is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    Never,
    /// As the socket's own limit says (`SO_SNDTIMEO`).
    For(Duration),
    Always,
}

#[derive(Debug)]
enum State {
    /// The caller's own socket.
    Fresh(OwnedFd),
    /// It is connecting, and nobody holds it but the caller.
    Begun(Begun),
    Over,
}

/// Where the answer to the call goes.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) listener: Arc<OwnedFd>,
    pub(super) id: u64,
}

impl Outgoing {
    fn new(
        way: Arc<WayOut>,
        tid: i32,
        host: &Host,
        own: OwnedFd,
        (to, address): (SocketAddr, Vec<u8>),
    ) -> Result<Arc<Self>, Errno> {
        let waits = match sockopt::socket_timeout(&own, sockopt::Timeout::Send)? {
            _ if rustix::fs::fcntl_getfl(&own)?.contains(OFlags::NONBLOCK) => Waits::Never,
            Some(limit) => Waits::For(limit),
            None => Waits::Always,
        };
        let violation = describe::violation(tid, denial(host, to.port(), None));
        let wanted = Wanted::by(&violation, host, to.port());
        let state = Mutex::new(State::Fresh(own));
        Ok(Arc::new(Self { way, wanted, violation, tid, to, address, state, waits }))
    }

    /// Lets the caller's socket connect, without an end for now, and answers a call that does not wait.
    pub(super) fn begin(&self, call: &Call) {
        if self.waits == Waits::Always {
            return;
        }
        let mut state = self.state.locked();
        let State::Fresh(socket) = &*state else { return };
        let waiting = rustix::io::fcntl_dupfd_cloexec(socket, 0);
        let begun = self
            .way
            .sockets(self.tid)
            .and_then(|sockets| sockets.begin(socket, self.to, self.address.clone()));
        let errno = match begun {
            Ok(begun) => {
                *state = State::Begun(begun);
                if let (Waits::For(limit), Ok(socket)) = (self.waits, waiting)
                    && self.answer_within(limit, socket, call.clone()).is_ok()
                {
                    return;
                }
                Errno::INPROGRESS
            }
            Err(errno) => {
                *state = State::Over;
                errno
            }
        };
        drop(state);
        // An answer that cannot be delivered belongs to a caller that is gone.
        let _ = notif::refuse(call.listener.as_fd(), call.id, errno);
    }

    /// Answers for a socket that is connecting, at the latest after its own limit, as the kernel does.
    fn answer_within(&self, limit: Duration, socket: OwnedFd, call: Call) -> Result<(), Errno> {
        let way = Arc::clone(&self.way);
        dialling(move || {
            let mut fds = [PollFd::new(&socket, PollFlags::OUT)];
            let limit = Timespec::try_from(limit).ok();
            let ready = rustix::io::retry_on_intr(|| poll(&mut fds, limit.as_ref()));
            let connected = match ready {
                Ok(0) => Err(Errno::INPROGRESS),
                Ok(_) => way.socket_error(&socket),
                Err(errno) => Err(errno),
            };
            let _ = match connected {
                Ok(()) => notif::succeed(call.listener.as_fd(), call.id, 0),
                Err(errno) => notif::refuse(call.listener.as_fd(), call.id, errno),
            };
        })
    }

    /// Makes the connection. Takes its time. What comes back is why policy refuses it after all.
    pub(super) fn make(&self, call: &Call, by_person: bool) -> Option<Violation> {
        let wanted = Wanted { by_person, ..self.wanted.clone() };
        match self.way.outside.dial(&wanted) {
            Ok(upstream) => match self.met() {
                Ok(inside) => {
                    upstream.carry(inside);
                    if self.waits == Waits::Always {
                        let _ = notif::succeed(call.listener.as_fd(), call.id, 0);
                    }
                }
                // The caller has given up.
                Err(errno) => self.fail(call, errno),
            },
            Err(no_way) => {
                self.fail(call, no_way.errno);
                return no_way.refused.map(|why| Violation { message: why, ..self.violation.clone() });
            }
        }
        None
    }

    /// The socket that is connected with the caller's.
    fn met(&self) -> Result<OwnedFd, Errno> {
        let sockets = self.way.sockets(self.tid)?;
        let mut state = self.state.locked();
        let begun = match std::mem::replace(&mut *state, State::Over) {
            State::Begun(begun) => begun,
            State::Fresh(socket) => sockets.begin(&socket, self.to, self.address.clone())?,
            State::Over => return Err(Errno::SRCH),
        };
        drop(state);
        sockets.meet(begun)
    }

    /// Tells the caller that there is no connection.
    pub(super) fn fail(&self, call: &Call, errno: Errno) {
        let state = std::mem::replace(&mut *self.state.locked(), State::Over);
        if let State::Begun(begun) = state
            && let Ok(sockets) = self.way.sockets(self.tid)
        {
            sockets.refuse(&begun, errno);
        }
        if self.waits == Waits::Always {
            let _ = notif::refuse(call.listener.as_fd(), call.id, errno);
        }
    }
}

impl Supervisor<'_> {
    /// Connects the caller's socket by the name that the address stands for. None when this is not about the way out.
    pub(super) fn connect_out(
        &mut self,
        listener: BorrowedFd<'_>,
        notification: &Notification,
        own: OwnedFd,
        (to, address): (SocketAddr, Vec<u8>),
    ) -> Result<Answer, OwnedFd> {
        let Some(way) = self.way_out.clone() else { return Err(own) };
        let is_stream = sockopt::socket_type(&own) == Ok(SocketType::STREAM);
        let is_loopback = super::network::is_loopback(to);
        // Whoever it is: the sandbox's own name server answers there.
        let is_name_server = !is_loopback && to.port() == NAME_SERVER && !self.stands_for_a_name(to);
        if !is_stream
            || is_name_server
            || !way.outside.is_by_name()
            || (is_loopback && !way.outside.is_host_port(to.ip(), to.port()))
        {
            return Err(own);
        }
        let Some(host) = way.host(to.ip()) else {
            return Ok(super::network::refuse_address(Operation::Connect, to));
        };
        let reach = if is_loopback { Reach::Allowed } else { way.outside.decide(&host, to.port()) };
        let outgoing = match Outgoing::new(way, notification.tid, &host, own, (to, address)) {
            Ok(outgoing) => outgoing,
            Err(errno) => return Ok(Answer::Done(Err(errno))),
        };
        match reach {
            Reach::Allowed => Ok(self.go_out(listener, notification, outgoing)),
            Reach::Ask => {
                self.outgoing = Some(outgoing);
                Ok(Answer::Deny(denial(&host, to.port(), None)))
            }
            Reach::Denied(rule) => Ok(Answer::Deny(denial(&host, to.port(), rule))),
            Reach::DeniedPort(why) => Ok(Answer::Deny(denial_of_port(&host, to.port(), why))),
        }
    }

    /// Refuses an address, unless a person says yes to it.
    pub(super) fn refuse_or_ask(
        &mut self,
        notification: &Notification,
        own: OwnedFd,
        (to, address): (SocketAddr, Vec<u8>),
    ) -> Answer {
        let is_stream = sockopt::socket_type(&own) == Ok(SocketType::STREAM);
        if let Some(way) = self.way_out.clone().filter(|_| is_stream) {
            let host = Host::Address(to.ip());
            self.outgoing = Outgoing::new(way, notification.tid, &host, own, (to, address)).ok();
        }
        super::network::refuse_address(Operation::Connect, to)
    }

    fn go_out(
        &mut self,
        listener: BorrowedFd<'_>,
        notification: &Notification,
        outgoing: Arc<Outgoing>,
    ) -> Answer {
        // More than the connections that there may be at once: those are refused with a word.
        const THREADS: usize = 4096;
        let Some(listener) = self.listener_for(THREADS, listener) else {
            return Answer::Done(Err(Errno::AGAIN));
        };
        let call = Call { listener, id: notification.id };
        outgoing.begin(&call);
        let (its, its_call, untold) = (Arc::clone(&outgoing), call.clone(), Arc::clone(&self.untold));
        let work = move || {
            if let Some(violation) = its.make(&its_call, false) {
                untold.locked().push(violation);
            }
        };
        if let Err(errno) = dialling(work) {
            // A call that does not wait has its answer, and its socket would connect for ever.
            outgoing.fail(&call, errno);
        }
        Answer::Later
    }

    /// Whether the address stands for a name.
    pub(super) fn stands_for_a_name(&self, address: SocketAddr) -> bool {
        let is_by_name = self.way_out.as_ref().is_some_and(|way| way.outside.is_by_name());
        is_by_name && matches!(address.ip(), IpAddr::V4(ip) if is_in_range(ip))
    }

    /// After how long one of them may be to be told.
    pub(super) fn patience_with_dialling(&self) -> Option<Duration> {
        (Arc::strong_count(&self.untold) > 1).then_some(SOON)
    }

    /// Tells of connections: those that were refused after a look at where they lead, and those that have ended.
    pub(super) fn tell_connections(&self) {
        let Some(way) = &self.way_out else { return };
        let untold = std::mem::take(&mut *self.untold.locked());
        untold.into_iter().chain(way.outside.news()).for_each(|violation| self.reporter.tell(violation));
    }

    /// The same, when nobody connects any more.
    pub(super) fn end_connections(&self) {
        if let Some(way) = &self.way_out {
            way.outside.end();
        }
        self.tell_connections();
    }
}

/// On a thread of its own: nobody else shall wait for a network.
pub(super) fn dialling(work: impl FnOnce() + Send + 'static) -> Result<(), Errno> {
    const STACK: usize = 256 << 10;
    let builder = std::thread::Builder::new().name("dial".to_owned()).stack_size(STACK);
    builder.spawn(work).map(drop).map_err(|_| Errno::AGAIN)
}

fn denial_of_port(host: &Host, port: u16, why: String) -> Denial {
    let rule = Some((why, RuleSource::layer(RuleLayer::BuiltIn)));
    Denial { reason: DenyReason::Unlisted, ..denial(host, port, rule) }
}

fn denial(host: &Host, port: u16, rule: Option<(String, RuleSource)>) -> Denial {
    Denial {
        operation: Operation::Connect,
        resource: Resource::Host(host.clone(), port),
        access: Access::Connect,
        reason: if rule.is_some() { DenyReason::Denied } else { DenyReason::Unlisted },
        rule,
        missing: false,
    }
}
