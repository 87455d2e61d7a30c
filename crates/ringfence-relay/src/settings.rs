//! What the relay is told.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ringfence_model::NetworkPolicy;

use crate::inspect::Secret;

/// Everything a relay depends on. It reads no environment and no configuration.
#[derive(Debug, Clone)]
pub struct Settings {
    pub policy: NetworkPolicy,
    pub proxy: HostProxy,
    pub limits: Limits,
    /// The host's `getent`, which is asked for addresses: a static program cannot look names up by itself.
    pub resolver: PathBuf,
    /// The values of the credentials that the policy's rules name.
    pub secrets: Vec<Secret>,
    /// Files with the certificates that the host trusts; the first that is there is read.
    pub roots: Vec<PathBuf>,
    /// Whom programs must trust for hosts that are inspected.
    #[cfg(feature = "inspect")]
    pub authority: crate::tls::Authority,
}

impl Settings {
    /// With the policy's own limits, and everything else as it usually is.
    #[must_use]
    pub fn new(policy: NetworkPolicy) -> Self {
        let usual = Limits::default();
        let count = |most: Option<u64>| most.and_then(|most| usize::try_from(most).ok());
        Self {
            limits: Limits {
                connections: count(policy.max_connections).unwrap_or(usual.connections),
                connections_per_minute: count(policy.max_connections_per_minute),
                bytes_out: policy.max_bytes_out,
                ..usual
            },
            policy,
            proxy: HostProxy::default(),
            resolver: usual_resolver(),
            secrets: Vec::new(),
            roots: ROOTS.map(PathBuf::from).into(),
            #[cfg(feature = "inspect")]
            authority: crate::tls::Authority::default(),
        }
    }
}

/// Where distributions keep the certificates that they trust.
pub const ROOTS: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

fn usual_resolver() -> PathBuf {
    const PLACES: [&str; 3] = ["/usr/bin/getent", "/bin/getent", "/run/current-system/sw/bin/getent"];
    let found = PLACES.into_iter().find(|place| Path::new(place).exists());
    PathBuf::from(found.unwrap_or(PLACES[0]))
}

/// The host's own proxy, as the variables of its environment say it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct HostProxy {
    /// `HTTPS_PROXY`.
    pub https: Option<String>,
    /// `HTTP_PROXY`: for port 80.
    pub http: Option<String>,
    /// `ALL_PROXY`: where the other two say nothing.
    pub all: Option<String>,
    /// `NO_PROXY`.
    pub none_for: Option<String>,
}

impl std::fmt::Debug for HostProxy {
    /// Without the values, which may hold passwords.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostProxy")
            .field("https", &self.https.is_some())
            .field("http", &self.http.is_some())
            .field("all", &self.all.is_some())
            .field("none_for", &self.none_for)
            .finish()
    }
}

/// How much at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// At once.
    pub connections: usize,
    /// Begun within any minute.
    pub connections_per_minute: Option<usize>,
    /// By all connections together, from the sandbox outwards.
    pub bytes_out: Option<u64>,
    /// For all addresses of a host together, and for a proxy's answer.
    pub connect: Duration,
    pub look_up: Duration,
    /// From the first byte to a whole ClientHello or request line.
    pub first_bytes: Duration,
    /// After so long without a datagram either way the next one begins another connection.
    pub datagrams_idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            connections_per_minute: None,
            bytes_out: None,
            connect: Duration::from_secs(30),
            look_up: Duration::from_secs(10),
            first_bytes: Duration::from_secs(10),
            datagrams_idle: Duration::from_secs(180),
        }
    }
}
