//! The way out of a sandbox: connections by host name.

use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use ringfence_linux::supervisor::{NoWay, Outside, Reach, Upstream, Wanted};
use ringfence_model::{Host, HostDecision, NetworkPolicy};
use rustix::io::Errno;

/// None where policy lets nobody out.
pub(crate) fn of(policy: &NetworkPolicy) -> Option<Arc<dyn Outside>> {
    policy.is_by_name().then(|| Arc::new(ByName { policy: policy.clone() }) as Arc<dyn Outside>)
}

#[derive(Debug)]
struct ByName {
    policy: NetworkPolicy,
}

struct Plain(TcpStream);

impl Outside for ByName {
    fn decide(&self, host: &Host, port: u16) -> Reach {
        match self.policy.decide_host(host, port) {
            HostDecision::Allowed(_) => Reach::Allowed,
            HostDecision::Ask => Reach::Ask,
            HostDecision::Denied(rule) => {
                Reach::Denied(rule.map(|rule| (rule.to_string(), rule.source.clone())))
            }
            HostDecision::DeniedPort => Reach::DeniedPort(format!("port {port} is blocked")),
        }
    }

    fn is_host_port(&self, port: u16) -> bool {
        self.policy.host_ports.contains(&port)
    }

    fn dial(&self, wanted: &Wanted) -> Result<Box<dyn Upstream>, NoWay> {
        let out = std::process::Command::new("getent").arg("ahosts").arg(wanted.host.to_string()).output();
        let text = String::from_utf8(out.map(|o| o.stdout).unwrap_or_default()).unwrap_or_default();
        let ip: std::net::IpAddr = text
            .split_whitespace()
            .next()
            .and_then(|w| w.parse().ok())
            .ok_or(NoWay { errno: Errno::HOSTUNREACH, refused: None })?;
        let stream = TcpStream::connect(SocketAddr::new(ip, wanted.port)).map_err(|e| NoWay {
            errno: Errno::from_io_error(&e).unwrap_or(Errno::HOSTUNREACH),
            refused: None,
        })?;
        Ok(Box::new(Plain(stream)))
    }
}

impl Upstream for Plain {
    fn carry(self: Box<Self>, inside: OwnedFd) {
        let inside = TcpStream::from(inside);
        inside.set_nonblocking(false).unwrap();
        let (mut a, mut b) = (inside.try_clone().unwrap(), self.0.try_clone().unwrap());
        let (mut c, mut d) = (self.0, inside);
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut a, &mut b);
            let _ = b.shutdown(std::net::Shutdown::Write);
        });
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut c, &mut d);
            let _ = d.shutdown(std::net::Shutdown::Write);
        });
    }
}
