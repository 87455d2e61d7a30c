//! The way out of a sandbox: connections by host name, as the supervisor wants them and the relay makes them.

use std::fmt::Debug;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringfence_linux::supervisor::{DatagramSocket, NoWay, Outside, Reach, Upstream, Wanted};
use ringfence_model::{
    Connection, Filesystem, Host as Reached, LockExt as _, NetworkPolicy, Operation, Policy, Violation,
    ViolationKind,
};
use ringfence_relay::{
    Closed, Decision, DialError, End, Events, HostProxy, Outcome, Refused, Relay, Settings,
};
use rustix::io::Errno;

use crate::host::Host;
use crate::inspection::{Inspection, TRUSTED, is_out_of_reach};

/// What was said before the end and is not carried by then is lost.
pub(crate) const LONGEST: Duration = Duration::from_secs(5);

/// Who makes connections for a fence that is itself in a place without a network.
pub(crate) trait Elsewhere: Send + Sync + Debug {
    /// None where nobody does.
    fn way(&self, policy: &NetworkPolicy) -> Option<Arc<dyn Outside>>;
}

/// None where policy lets nobody out, and no person does.
pub(crate) fn of(
    policy: &Policy,
    host: &Host,
    inspection: Option<&Inspection>,
    elsewhere: Option<&dyn Elsewhere>,
    is_asked: bool,
) -> Option<Arc<dyn Outside>> {
    let is_by_name = policy.network.is_by_name();
    if !is_by_name && !is_asked {
        return None;
    }
    if let Some(elsewhere) = elsewhere {
        return elsewhere.way(&policy.network);
    }
    let news = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&news);
    let relay = relay(policy, host, inspection, move |violation| keep(&mut told.locked(), violation));
    Some(Arc::new(ByName { is_by_name, relay: Mutex::new(Some(relay)), news }))
}

/// One whose news `tell` hears.
pub(crate) fn relay(
    Policy { network, filesystem, .. }: &Policy,
    host: &Host,
    inspection: Option<&Inspection>,
    tell: impl Fn(Violation) + Send + Sync + 'static,
) -> Relay {
    let mut settings = Settings::new(network.clone());
    settings.proxy = proxy(host);
    if let Some(resolver) = resolver(host, filesystem) {
        settings.resolver = resolver;
    }
    if let Some(inspection) = inspection {
        inspection.tell(&mut settings);
        // As every program of the person's that is told so.
        let named = host.variable(TRUSTED).map(PathBuf::from);
        let named = named.filter(|file| file.is_absolute() && file.is_file());
        settings.roots.splice(..0, named.filter(|file| is_out_of_reach(filesystem, file)));
    }
    Relay::new(settings, Arc::new(Told(tell)))
}

/// The one that the person's own programs would run, unless somebody inside could have made it.
fn resolver(host: &Host, filesystem: &Filesystem) -> Option<PathBuf> {
    let found = host.path.iter().filter_map(|directory| directory.join("getent").canonicalize().ok());
    found.filter(|program| program.is_file()).find(|program| is_out_of_reach(filesystem, program))
}

/// As programs on the host are told of it.
fn proxy(host: &Host) -> HostProxy {
    let value = |name: &str| {
        let names = [name.to_ascii_lowercase(), name.to_owned()];
        let found = names.iter().find_map(|name| host.environment.get(std::ffi::OsStr::new(name)));
        found.and_then(|value| value.to_str()).filter(|value| !value.is_empty()).map(str::to_owned)
    };
    HostProxy {
        https: value("HTTPS_PROXY"),
        http: value("HTTP_PROXY"),
        all: value("ALL_PROXY"),
        none_for: value("NO_PROXY"),
    }
}

#[derive(Debug)]
struct ByName {
    is_by_name: bool,
    /// None when it has ended.
    relay: Mutex<Option<Relay>>,
    news: Arc<Mutex<Vec<Violation>>>,
}

impl ByName {
    fn relay(&self) -> Option<Relay> {
        self.relay.locked().clone()
    }
}

impl Outside for ByName {
    fn is_by_name(&self) -> bool {
        self.is_by_name
    }

    fn decide(&self, host: &Reached, port: u16) -> Reach {
        self.relay().map_or(Reach::Denied(None), |relay| reach(relay.decide(host, port), port))
    }

    fn is_host_port(&self, address: std::net::IpAddr, port: u16) -> bool {
        self.decide(&Reached::Address(address), port) == Reach::Allowed
    }

    fn dial(&self, wanted: &Wanted) -> Result<Box<dyn Upstream>, NoWay> {
        let relay = self.relay().ok_or(NoWay { errno: Errno::NETUNREACH, refused: None })?;
        match relay.dial(&of_relay(wanted)) {
            Ok(upstream) => Ok(Box::new(Dialled { relay, upstream })),
            Err(error) => Err(no_way(&error)),
        }
    }

    fn decide_datagrams(&self, host: &Reached, port: u16) -> Reach {
        self.relay().map_or(Reach::Denied(None), |relay| reach(relay.decide_datagrams(host, port), port))
    }

    fn carry_datagrams(&self, wanted: &Wanted, inside: DatagramSocket) {
        let DatagramSocket { socket, errors } = inside;
        if let Some(relay) = self.relay() {
            let inside = ringfence_relay::DatagramSocket { socket, errors };
            relay.carry_datagrams(inside, of_relay(wanted));
        }
    }

    fn news(&self) -> Vec<Violation> {
        std::mem::take(&mut *self.news.locked())
    }

    fn end(&self) {
        let relay = self.relay.locked().take();
        if let Some(relay) = relay {
            relay.finish(LONGEST);
        }
    }
}

fn of_relay(wanted: &Wanted) -> ringfence_relay::Wanted {
    let Wanted { host, port, program, pid, by_person } = wanted.clone();
    ringfence_relay::Wanted { host, port, program, pid, by_person }
}

struct Dialled {
    relay: Relay,
    upstream: ringfence_relay::Upstream,
}

impl Upstream for Dialled {
    fn carry(self: Box<Self>, inside: OwnedFd) {
        self.relay.carry(inside, self.upstream);
    }
}

/// As the supervisor takes it.
pub(crate) fn reach(decision: Decision, port: u16) -> Reach {
    match decision {
        Decision::Allowed(_) | Decision::HostPort => Reach::Allowed,
        Decision::Ask => Reach::Ask,
        Decision::Denied(rule) => Reach::Denied(rule.map(|rule| (rule.to_string(), rule.source))),
        Decision::DeniedPort => Reach::DeniedPort(format!("port {port} is blocked")),
    }
}

pub(crate) fn no_way(error: &DialError) -> NoWay {
    NoWay {
        errno: Errno::from_raw_os_error(error.errno()),
        // What any network could say is nobody's refusal.
        refused: error.is_refusal().then(|| error.to_string()),
    }
}

/// What was told, and nobody has taken yet.
pub(crate) fn keep(news: &mut Vec<Violation>, violation: Violation) {
    /// Who makes more between two calls is up to something.
    const MOST: usize = 10_000;
    if news.len() < MOST {
        news.push(violation);
    }
}

/// The relay's events, as they are told.
struct Told<F>(F);

impl<F: Fn(Violation) + Send + Sync> Events for Told<F> {
    fn closed(&self, closed: &Closed) {
        let problem = match &closed.outcome {
            Outcome::Finished | Outcome::Refused => None,
            Outcome::Reset(End::Sandbox) => Some("the program broke it off".to_owned()),
            Outcome::Reset(End::Host) => Some("the host broke it off".to_owned()),
            Outcome::TooManyBytes => Some("more was sent than may leave the sandbox".to_owned()),
            Outcome::Stopped => Some("the sandbox ended".to_owned()),
            Outcome::Failed(why) => Some(why.clone()),
        };
        let duration_ms = u64::try_from(closed.duration.as_millis()).unwrap_or(u64::MAX);
        (self.0)(Violation::connected(Connection {
            host: closed.host.to_string(),
            port: closed.port,
            address: closed.address,
            program: closed.program.clone(),
            pid: closed.pid,
            started_ms: ringfence_model::now_ms().saturating_sub(duration_ms),
            bytes_out: closed.bytes_out,
            bytes_in: closed.bytes_in,
            duration_ms,
            problem,
            rule: None,
        }));
    }

    fn refused(&self, refused: &Refused) {
        let host = refused.host.with_port(refused.port);
        let resource = refused.named.clone().unwrap_or_else(|| host.clone());
        (self.0)(Violation {
            program: refused.program.clone(),
            pid: refused.pid,
            time_ms: ringfence_model::now_ms(),
            message: format!("connect to {host}: {}", refused.why),
            rule: refused.rule.as_ref().map(ToString::to_string),
            rule_source: refused.rule.as_ref().map(|rule| rule.source.clone()),
            ..Violation::new(ViolationKind::NetworkViolation, Operation::Connect, resource)
        });
    }
}
