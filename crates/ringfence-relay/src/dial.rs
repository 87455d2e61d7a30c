//! From a name to a connected socket.

use std::fmt;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::inspect::Allowed;
use crate::proxy::Proxy;
use crate::relay::{Slot, Wanted};

/// How long an address is tried alone before the next one is tried beside it.
const ALONE: Duration = Duration::from_millis(250);

/// Why nothing was connected. Its text is one sentence for a report, [`errno`](Self::errno) what the program gets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DialError {
    /// By the policy, or because nobody said yes.
    #[error("{why}")]
    Denied { why: String },
    /// The name is allowed and leads only to addresses that are not.
    #[error("{why}")]
    Address { why: String },
    #[error("no host `{host}` was found")]
    NoSuchHost { host: String },
    #[error("looking up `{host}` took too long")]
    LookUpLate { host: String },
    #[error("names of hosts cannot be looked up: `{}` cannot be run: {kind}", program.display())]
    NoResolver { program: PathBuf, kind: ErrorKind },
    #[error("{host} cannot be reached: {error}")]
    Connect { host: String, error: Errno },
    #[error("more than {most} connections at once (`network.maxConnections`)")]
    TooManyConnections { most: usize },
    #[error("more than {most} connections in a minute (`network.maxConnectionsPerMinute`)")]
    TooFast { most: usize },
    #[error("more than {most} bytes were sent out of the sandbox (`network.maxBytesOut`)")]
    TooManyBytes { most: u64 },
    /// The host's own proxy cannot be used, or refuses.
    #[error("the host's proxy: {why}")]
    Proxy { why: String },
}

impl DialError {
    /// Whether it is by policy or a limit, and not something that any network could say.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Denied { .. }
            | Self::Address { .. }
            | Self::TooManyConnections { .. }
            | Self::TooFast { .. }
            | Self::TooManyBytes { .. } => true,
            Self::NoSuchHost { .. }
            | Self::LookUpLate { .. }
            | Self::NoResolver { .. }
            | Self::Connect { .. }
            | Self::Proxy { .. } => false,
        }
    }

    /// What a `connect` fails with.
    #[must_use]
    pub fn errno(&self) -> i32 {
        let errno = match self {
            Self::Denied { .. } | Self::Address { .. } | Self::TooManyBytes { .. } => Errno::ACCESS,
            Self::NoSuchHost { .. } | Self::NoResolver { .. } => Errno::HOSTUNREACH,
            Self::LookUpLate { .. } => Errno::TIMEDOUT,
            Self::Connect { error, .. } => match *error {
                Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::TIMEDOUT => *error,
                _ => Errno::HOSTUNREACH,
            },
            Self::TooManyConnections { .. } | Self::TooFast { .. } | Self::Proxy { .. } => Errno::CONNREFUSED,
        };
        errno.raw_os_error()
    }
}

/// A connection to the host that was wanted, and to no other. Closed when it is dropped.
pub struct Upstream {
    pub(crate) socket: OwnedFd,
    pub(crate) wanted: Wanted,
    /// None behind the host's proxy.
    pub(crate) address: Option<SocketAddr>,
    /// When requests are inspected.
    pub(crate) inspect: Option<Arc<[Allowed]>>,
    /// When it is connected to a proxy, which takes requests.
    pub(crate) proxy: Option<Proxy>,
    pub(crate) slot: Slot,
}

impl Upstream {
    /// Where it is connected to; none behind the host's proxy.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("wanted", &self.wanted)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// To the first of these addresses that answers, each given a short time alone.
pub(crate) fn connect(
    addresses: &[IpAddr],
    port: u16,
    deadline: Instant,
) -> Result<(OwnedFd, SocketAddr), Errno> {
    let mut left = addresses.iter().map(|address| SocketAddr::new(*address, port));
    let mut trying: Vec<(OwnedFd, SocketAddr)> = Vec::new();
    let mut error = Errno::HOSTUNREACH;
    loop {
        let next = left.next();
        let is_last = next.is_none();
        if let Some(address) = next {
            match begin(address) {
                Ok(socket) => trying.push((socket, address)),
                Err(errno) => error = errno,
            }
        }
        // Until one answers, one fails, or it is another's turn.
        let turn = if is_last { deadline } else { deadline.min(Instant::now() + ALONE) };
        while !trying.is_empty() {
            let wait = turn.saturating_duration_since(Instant::now());
            let mut polled: Vec<_> =
                trying.iter().map(|(socket, _)| PollFd::new(socket, PollFlags::OUT)).collect();
            let timeout = Timespec::try_from(wait).map_err(|_| Errno::INVAL)?;
            rustix::io::retry_on_intr(|| rustix::event::poll(&mut polled, Some(&timeout)))?;
            let ready = polled.iter().position(|polled| !polled.revents().is_empty());
            let Some(ready) = ready else { break };
            let (socket, address) = trying.swap_remove(ready);
            match sockopt::socket_error(&socket)? {
                Ok(()) => return Ok((socket, address)),
                Err(errno) => error = errno,
            }
            if !is_last {
                break;
            }
        }
        if Instant::now() >= deadline {
            return Err(Errno::TIMEDOUT);
        }
        if is_last && trying.is_empty() {
            return Err(error);
        }
    }
}

fn begin(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(socket),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_first_address_that_answers_is_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let addresses: Vec<IpAddr> =
            ["127.0.0.9", "127.0.0.8", "127.0.0.1"].map(|text| text.parse().unwrap()).into();
        let (_socket, address) = connect(&addresses, port, Instant::now() + Duration::from_secs(5)).unwrap();
        assert_eq!(address.ip(), addresses[2]);
        let error = connect(&addresses[..2], port, Instant::now() + Duration::from_secs(5)).unwrap_err();
        assert_eq!(error, Errno::CONNREFUSED);
    }

    #[test]
    fn what_a_program_gets_is_what_connect_can_fail_with() {
        let connect = |error| DialError::Connect { host: "a.example".to_owned(), error }.errno();
        assert_eq!(connect(Errno::CONNREFUSED), Errno::CONNREFUSED.raw_os_error());
        assert_eq!(connect(Errno::IO), Errno::HOSTUNREACH.raw_os_error());
        assert_eq!(DialError::Denied { why: String::new() }.errno(), Errno::ACCESS.raw_os_error());
    }
}
