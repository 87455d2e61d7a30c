//! A connection to a host, after its end.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who was reached, by whom, and how much was said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Connection {
    /// A name, or an address where one was written.
    pub host: String,
    pub port: u16,
    /// Where the name led; none behind a proxy of the host's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub address: Option<SocketAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Process id inside the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Milliseconds since the Unix epoch.
    pub started_ms: u64,
    pub bytes_out: u64,
    pub bytes_in: u64,
    pub duration_ms: u64,
    /// What ended it, in words; none when both sides had said all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The rule that allowed it, as it was written, and where; none when a person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

impl Connection {
    /// `host:port`.
    #[must_use]
    pub fn resource(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl std::fmt::Display for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { bytes_out, bytes_in, duration_ms, .. } = self;
        write!(f, "{}: {bytes_out} bytes out, {bytes_in} in, {duration_ms} ms", self.resource())?;
        match &self.problem {
            Some(problem) => write!(f, "; {problem}"),
            None => Ok(()),
        }
    }
}
