//! One connection from its first byte to its end.

use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringfence_model::{Host, HostRule, LockExt as _, visible_within};

use crate::dial::Upstream;
use crate::events::{Closed, End, Opened, Outcome, Refused};
use crate::hello;
use crate::http1;
use crate::inspect::Allowed;
use crate::look::{Speech, is_like_request, look};
use crate::proxy::Proxy;
use crate::pump::{Flow, Stop, pump};
use crate::relay::{Decision, Shared, Slot, Wanted};
use crate::requests::Requests;
use crate::socket::{Peer, Socket};
use crate::stream::Stream;

/// How much of a name that the program chose is shown.
const LONGEST_SHOWN: usize = 100;
/// The same of a method, a host and a path together.
const LONGEST_NAMED: usize = 500;

/// After such a silence the other end is waited for, and what nobody begins a request with has to get there.
const SILENCE: Duration = Duration::from_millis(200);

/// When nothing more was sent for so long, there is nothing more.
const STILL: Duration = Duration::from_millis(250);

/// What is known of a connection. Its end is told when it is dropped.
pub(crate) struct Connection {
    pub(crate) shared: Arc<Shared>,
    pub(crate) wanted: Wanted,
    address: Option<std::net::SocketAddr>,
    /// When requests are inspected.
    pub(crate) inspect: Option<Arc<[Allowed]>>,
    /// When requests go to a proxy.
    pub(crate) proxy: Option<Proxy>,
    pub(crate) out: Flow,
    pub(crate) into: Flow,
    since: Instant,
    outcome: std::sync::Mutex<Outcome>,
    _slot: Slot,
}

impl Connection {
    /// One that begins, and its socket.
    pub(crate) fn new(shared: Arc<Shared>, upstream: Upstream) -> (Self, OwnedFd) {
        let Upstream { socket, wanted, address, inspect, proxy, slot } = upstream;
        shared.events.opened(&Opened {
            host: wanted.host.clone(),
            port: wanted.port,
            address,
            program: wanted.program.clone(),
            pid: wanted.pid,
        });
        let connection = Self {
            out: Flow::outwards(Arc::clone(&shared)),
            into: Flow::inwards(),
            shared,
            wanted,
            address,
            inspect,
            proxy,
            since: Instant::now(),
            // Unless something else is said before it is dropped.
            outcome: std::sync::Mutex::new(Outcome::Stopped),
            _slot: slot,
        };
        (connection, socket)
    }

    /// Whether a name that the program used for its peer is the one it may reach. A host that was allowed by its
    /// address has the names that the policy allows by themselves and that are not inspected.
    pub(crate) fn is_allowed(&self, named: &Host) -> bool {
        *named == self.wanted.host
            || matches!(self.wanted.host, Host::Address(_))
                && matches!(self.shared.decide(named, self.wanted.port), Decision::Allowed(_))
                && matches!(self.shared.inspected.for_host(named, self.wanted.port), Ok(None))
    }

    pub(crate) fn refuse(&self, named: Option<&str>, why: String) {
        self.refuse_by(None, named, why);
    }

    pub(crate) fn refuse_by(&self, rule: Option<HostRule>, named: Option<&str>, why: String) {
        self.shared.events.refused(&Refused {
            host: self.wanted.host.clone(),
            port: self.wanted.port,
            named: named.map(|named| visible_within(named, LONGEST_NAMED)),
            program: self.wanted.program.clone(),
            pid: self.wanted.pid,
            rule,
            why,
        });
        self.end_with(Outcome::Refused);
    }

    pub(crate) fn end_with(&self, outcome: Outcome) {
        let mut own = self.outcome.locked();
        // What was refused stays so, however the connection ends then.
        if *own != Outcome::Refused {
            *own = outcome;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let outcome = self.outcome.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.shared.events.closed(&Closed {
            host: self.wanted.host.clone(),
            port: self.wanted.port,
            address: self.address,
            program: self.wanted.program.take(),
            pid: self.wanted.pid,
            bytes_out: self.out.count(),
            bytes_in: self.into.count(),
            duration: self.since.elapsed(),
            outcome: outcome.clone(),
        });
    }
}

pub(crate) async fn carry(shared: Arc<Shared>, inside: OwnedFd, upstream: Upstream) {
    let (connection, socket) = Connection::new(shared, upstream);
    let is_near = connection.address.is_some_and(|address| address.ip().is_loopback());
    let peer = if is_near { Peer::Near } else { Peer::Far };
    let (inside, outside) = match (Socket::new(inside, Peer::Near), Socket::new(socket, peer)) {
        (Ok(inside), Ok(outside)) => (Arc::new(inside), Arc::new(outside)),
        (Err(error), _) | (_, Err(error)) => {
            return connection.end_with(Outcome::Failed(error.to_string()));
        }
    };
    // In this order: both ends are closed before it is told.
    let connection = Arc::new(connection);
    let told = Arc::clone(&connection);
    let outcome = both_ways(connection, &inside, &outside).await;
    if outcome != Outcome::Finished {
        inside.reset_when_dropped();
        outside.reset_when_dropped();
    }
    drop((inside, outside));
    told.end_with(outcome);
}

async fn both_ways(connection: Arc<Connection>, inside: &Arc<Socket>, outside: &Arc<Socket>) -> Outcome {
    let pipes = &connection.shared.pipes;
    // What the host says is never held back by the look.
    let mut inwards = std::pin::pin!(pump(outside, inside, &connection.into, pipes));
    let mut said = None;
    let first = {
        let mut look = std::pin::pin!(first_bytes(&connection, inside, outside));
        loop {
            tokio::select! {
                first = &mut look => break first,
                stop = &mut inwards, if said.is_none() => match stop {
                    Stop::Ended => {
                        inside.finish_writing();
                        said = Some(stop);
                    }
                    Stop::Writing => said = Some(stop),
                    Stop::Reading | Stop::TooMany => return Outcome::Reset(End::Host),
                },
            }
        }
    };
    let first = match first {
        First::Carried(bytes) => bytes,
        First::Requests(bytes) => {
            if said.is_some() || connection.into.count() > 0 {
                return spoke_first(&connection);
            }
            let program = Stream::new(Arc::clone(inside), bytes, connection.into.clone());
            let host = Stream::new(Arc::clone(outside), Vec::new(), connection.out.clone());
            let served = http1::serve(Requests::new(&connection, /* is_tls */ false), program, host);
            return or_all_is_said(&connection, inside, served).await;
        }
        #[cfg(feature = "inspect")]
        First::Inspected(bytes, hello) => {
            if said.is_some() || connection.into.count() > 0 {
                return spoke_first(&connection);
            }
            let served = crate::inspected::serve(&connection, inside, outside, bytes, hello);
            return or_all_is_said(&connection, inside, served).await;
        }
        First::Over(outcome) => return outcome,
    };
    if !connection.out.add(first.len()) {
        return Outcome::TooManyBytes;
    }
    let mut outwards = std::pin::pin!(async {
        match outside.send_all(&first).await {
            Ok(()) => {
                drop(first);
                pump(inside, outside, &connection.out, pipes).await
            }
            Err(_) => Stop::Writing,
        }
    });
    let mut outcome = match said {
        Some(Stop::Writing) => Outcome::Reset(End::Sandbox),
        _ => Outcome::Finished,
    };
    let mut is_out = false;
    let mut is_ending = connection.shared.is_ending.subscribe();
    // Who cannot be written to any more may have said something before; that is still passed on.
    while said.is_none() || !is_out {
        tokio::select! {
            stop = &mut inwards, if said.is_none() => {
                match stop {
                    Stop::Ended => inside.finish_writing(),
                    Stop::Writing => outcome = Outcome::Reset(End::Sandbox),
                    Stop::Reading | Stop::TooMany => return Outcome::Reset(End::Host),
                }
                said = Some(stop);
            }
            stop = &mut outwards, if !is_out => {
                match stop {
                    Stop::Ended => outside.finish_writing(),
                    Stop::Writing => outcome = Outcome::Reset(End::Host),
                    Stop::Reading => return Outcome::Reset(End::Sandbox),
                    Stop::TooMany => return Outcome::TooManyBytes,
                }
                is_out = true;
            }
            // The other end says nothing more that anybody would hear.
            _ = is_ending.wait_for(|is_ending| *is_ending), if is_out => return outcome,
        }
    }
    outcome
}

/// Requests are served to their end. When the sandbox ends before, nobody is left who would hear an answer: then it is
/// enough that all of a request is on its way.
async fn or_all_is_said(
    connection: &Connection,
    inside: &Socket,
    served: impl Future<Output = Outcome>,
) -> Outcome {
    let said = async {
        let mut is_ending = connection.shared.is_ending.subscribe();
        // Whoever ends it is gone, too.
        let _ = is_ending.wait_for(|is_ending| *is_ending).await;
        loop {
            let before = connection.out.count();
            tokio::time::sleep(STILL).await;
            if connection.out.count() == before && inside.is_read() {
                return;
            }
        }
    };
    tokio::select! {
        outcome = served => outcome,
        () = said => Outcome::Finished,
    }
}

/// Nobody who is asked by HTTP does.
fn spoke_first(connection: &Connection) -> Outcome {
    let why = format!("{} spoke before it was asked, and is asked by HTTP", connection.wanted.host);
    connection.refuse(None, why);
    Outcome::Refused
}

/// What the program said first, judged.
enum First {
    /// These, and all that follows, as it is.
    Carried(Vec<u8>),
    /// These begin a request.
    Requests(Vec<u8>),
    /// TLS that ends here.
    #[cfg(feature = "inspect")]
    Inspected(Vec<u8>, hello::Hello),
    /// Nothing more of it.
    Over(Outcome),
}

async fn first_bytes(connection: &Connection, inside: &Socket, outside: &Socket) -> First {
    let mut bytes = vec![0; 4096];
    match inside.receive(&mut bytes).await {
        Ok(0) => return First::Carried(Vec::new()),
        Ok(count) => bytes.truncate(count),
        Err(_) => return First::Over(Outcome::Reset(End::Sandbox)),
    }
    let judged: Pin<Box<dyn Future<Output = First> + Send>> =
        Box::pin(judged(connection, inside, outside, bytes));
    judged.await
}

async fn judged(connection: &Connection, inside: &Socket, outside: &Socket, mut bytes: Vec<u8>) -> First {
    let host = &connection.wanted.host;
    let is_free = connection.inspect.is_none() && connection.proxy.is_none();
    // The program may be silent for as long as it likes; once it speaks it comes to the point.
    let deadline = tokio::time::Instant::now() + connection.shared.settings.limits.first_bytes;
    // So many are with the host already, which cannot be a request any more then.
    let mut passed = 0;
    let mut part = vec![0; 16 * 1024];
    loop {
        let speech = look(&bytes);
        let refused = match speech {
            Speech::Other | Speech::Tls if connection.proxy.is_some() => Some(format!(
                "something else than HTTP to {host} on port 80, which the host's proxy does not take"
            )),
            Speech::Other if connection.inspect.is_none() => return First::Carried(bytes.split_off(passed)),
            Speech::Other => {
                Some(format!("something else than HTTP to {host}, whose requests are inspected"))
            }
            Speech::Http1 if passed == 0 => return First::Requests(bytes),
            Speech::Http1 => Some(format!("a request to {host} that came in pieces")),
            Speech::Http2 => Some(format!("HTTP/2 without TLS to {host}: its requests are not looked at")),
            Speech::Http0 => Some(format!("a request to {host} that names no host")),
            Speech::Endless => Some(format!("a first line to {host} that does not end")),
            Speech::Unclear => None,
            Speech::Tls => match hello::read(&bytes) {
                Ok(None) => None,
                Err(error) => Some(format!("TLS to {host} whose beginning cannot be read: {error}")),
                Ok(Some(hello)) => match refusal_of_name(connection, hello.name.as_deref()) {
                    #[cfg(feature = "inspect")]
                    None if connection.inspect.is_some() => return First::Inspected(bytes, hello),
                    None => return First::Carried(bytes),
                    Some(why) => {
                        connection.refuse(hello.name.as_deref(), why);
                        return First::Over(Outcome::Refused);
                    }
                },
            },
        };
        if let Some(why) = refused {
            connection.refuse(None, why);
            return First::Over(Outcome::Refused);
        }
        let received = if speech == Speech::Unclear && is_free && !is_like_request(&bytes) {
            match tokio::time::timeout(SILENCE, inside.receive(&mut part)).await {
                Ok(received) => received,
                Err(_) => {
                    let rest = &bytes[passed..];
                    if !connection.out.add(rest.len()) {
                        return First::Over(Outcome::TooManyBytes);
                    }
                    if outside.send_all(rest).await.is_err() {
                        return First::Over(Outcome::Reset(End::Host));
                    }
                    passed = bytes.len();
                    inside.receive(&mut part).await
                }
            }
        } else {
            match tokio::time::timeout_at(deadline, inside.receive(&mut part)).await {
                Ok(received) => received,
                Err(_) => {
                    connection.refuse(None, format!("what was said first to {host} did not come to an end"));
                    return First::Over(Outcome::Refused);
                }
            }
        };
        match received {
            // It will never be a request or a handshake.
            Ok(0) if speech == Speech::Unclear && is_free => {
                return First::Carried(bytes.split_off(passed));
            }
            Ok(0) => {
                connection.refuse(None, format!("what was said first to {host} ended within its beginning"));
                return First::Over(Outcome::Refused);
            }
            Ok(count) => bytes.extend_from_slice(&part[..count]),
            Err(_) => return First::Over(Outcome::Reset(End::Sandbox)),
        }
    }
}

/// Why TLS may not be begun under that name, if so.
fn refusal_of_name(connection: &Connection, name: Option<&str>) -> Option<String> {
    let host = &connection.wanted.host;
    match (name, host) {
        (None, Host::Address(_)) => None,
        (None, Host::Name(_)) => Some(format!("TLS to {host} that names no host")),
        (Some(name), _) => {
            let is_allowed = Host::parse(name).is_some_and(|named| connection.is_allowed(&named));
            (!is_allowed).then(|| {
                format!("TLS to {host} that asks for {} instead", visible_within(name, LONGEST_SHOWN))
            })
        }
    }
}
