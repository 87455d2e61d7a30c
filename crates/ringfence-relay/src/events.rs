//! What the relay tells.

use std::net::SocketAddr;
use std::time::Duration;

use ringfence_model::{Host, HostRule};

/// Who wants to know. Called from the relay's own thread, which carries nothing meanwhile: be quick.
pub trait Events: Send + Sync {
    /// A connection begins to be carried.
    fn opened(&self, opened: &Opened) {
        let _ = opened;
    }

    /// It ended; each one that was opened ends once.
    fn closed(&self, closed: &Closed) {
        let _ = closed;
    }

    /// Something within a connection was refused. What [`Relay::dial`](crate::Relay::dial) refuses is its error alone.
    fn refused(&self, refused: &Refused) {
        let _ = refused;
    }
}

/// Nobody wants to know.
impl Events for () {}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    pub host: Host,
    pub port: u16,
    /// None behind the host's proxy.
    pub address: Option<SocketAddr>,
    pub program: Option<String>,
    pub pid: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    pub host: Host,
    pub port: u16,
    /// None behind the host's proxy.
    pub address: Option<SocketAddr>,
    pub program: Option<String>,
    pub pid: Option<u32>,
    pub bytes_out: u64,
    pub bytes_in: u64,
    pub duration: Duration,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Sandbox,
    Host,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Both ends said their last.
    Finished,
    /// That end broke it off.
    Reset(End),
    /// By the look at its first bytes, or at a request.
    Refused,
    /// More bytes out than all connections together may send.
    TooManyBytes,
    /// The relay ended first.
    Stopped,
    /// The relay itself could not.
    Failed(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Who was to be reached.
    pub host: Host,
    pub port: u16,
    /// Who the program named instead, or what it asked for, as it is shown to a person.
    pub named: Option<String>,
    pub program: Option<String>,
    pub pid: Option<u32>,
    /// Which did not allow it, if it is a rule about requests.
    pub rule: Option<HostRule>,
    /// One sentence.
    pub why: String,
}
