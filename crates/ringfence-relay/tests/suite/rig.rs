//! A relay between a program and a server of ours.

use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use ringfence_model::{Host, HostRule, NetworkPolicy, RuleLayer, RuleSource};
use ringfence_relay::{
    Authority, Closed, DialError, Events, Opened, Refused, Relay, Settings, Upstream, Wanted,
};

pub(crate) const LONG: Duration = Duration::from_secs(30);

/// What the relay told.
#[derive(Default)]
pub(crate) struct Told {
    all: Mutex<(Vec<Opened>, Vec<Closed>, Vec<Refused>)>,
    more: Condvar,
}

impl Events for Told {
    fn opened(&self, opened: &Opened) {
        self.all.lock().unwrap().0.push(opened.clone());
        self.more.notify_all();
    }

    fn closed(&self, closed: &Closed) {
        self.all.lock().unwrap().1.push(closed.clone());
        self.more.notify_all();
    }

    fn refused(&self, refused: &Refused) {
        self.all.lock().unwrap().2.push(refused.clone());
        self.more.notify_all();
    }
}

impl Told {
    fn wait<T>(&self, mut ready: impl FnMut(&(Vec<Opened>, Vec<Closed>, Vec<Refused>)) -> Option<T>) -> T {
        let until = Instant::now() + LONG;
        let mut all = self.all.lock().unwrap();
        loop {
            if let Some(found) = ready(&all) {
                return found;
            }
            let left = until.checked_duration_since(Instant::now()).expect("told in time");
            all = self.more.wait_timeout(all, left).unwrap().0;
        }
    }

    /// The ends of that many connections.
    pub(crate) fn closed(&self, count: usize) -> Vec<Closed> {
        self.wait(|(_, closed, _)| (closed.len() >= count).then(|| closed.clone()))
    }

    /// The first thing that was refused.
    pub(crate) fn refused(&self) -> Refused {
        self.wait(|(_, _, refused)| refused.first().cloned())
    }

    pub(crate) fn nothing_was_refused(&self) {
        let all = self.all.lock().unwrap();
        assert!(all.2.is_empty(), "{:?}", all.2);
    }
}

pub(crate) struct Rig {
    pub(crate) relay: Relay,
    pub(crate) told: Arc<Told>,
    pub(crate) dir: tempfile::TempDir,
    pub(crate) authority: Authority,
}

pub(crate) fn rules(texts: &[&str]) -> Vec<HostRule> {
    let source = RuleSource::layer(RuleLayer::User);
    texts.iter().map(|text| HostRule::parse(text, source.clone()).unwrap()).collect()
}

/// Those hosts are allowed; all names lead to loopback.
pub(crate) fn rig(allowed: &[&str]) -> Rig {
    rig_with(allowed, "echo '127.0.0.1 STREAM'", |_| ())
}

pub(crate) fn rig_with(allowed: &[&str], getent: &str, change: impl FnOnce(&mut Settings)) -> Rig {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = Settings::new(NetworkPolicy { allowed_hosts: rules(allowed), ..Default::default() });
    settings.resolver = dir.path().join("getent");
    std::fs::write(&settings.resolver, format!("#!/bin/sh\n{getent}\n")).unwrap();
    std::fs::set_permissions(&settings.resolver, std::fs::Permissions::from_mode(0o755)).unwrap();
    change(&mut settings);
    let (told, authority) = (Arc::new(Told::default()), settings.authority.clone());
    Rig { relay: Relay::new(settings, Arc::clone(&told) as Arc<dyn Events>), told, dir, authority }
}

pub(crate) fn wanted(host: &str, port: u16) -> Wanted {
    Wanted { program: Some("curl".to_owned()), pid: Some(7), ..Wanted::new(Host::parse(host).unwrap(), port) }
}

impl Rig {
    pub(crate) fn dial(&self, host: &str, port: u16) -> Result<Upstream, DialError> {
        self.relay.dial(&wanted(host, port))
    }

    /// The program's own socket, on the way to that server.
    pub(crate) fn local(&self, host: &str, server: &TcpListener) -> UnixStream {
        let (program, inside) = UnixStream::pair().unwrap();
        program.set_read_timeout(Some(LONG)).unwrap();
        self.relay.carry(inside.into(), self.dial(host, port_of(server)).unwrap());
        program
    }

    pub(crate) fn tcp(&self, host: &str, server: &TcpListener) -> TcpStream {
        let (program, inside) = tcp_pair();
        self.relay.carry(inside.into(), self.dial(host, port_of(server)).unwrap());
        program
    }
}

pub(crate) fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let program = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    program.set_read_timeout(Some(LONG)).unwrap();
    (program, listener.accept().unwrap().0)
}

pub(crate) fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

pub(crate) fn port_of(server: &TcpListener) -> u16 {
    server.local_addr().unwrap().port()
}

pub(crate) fn accept(server: &TcpListener) -> TcpStream {
    let (stream, _) = server.accept().unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}
