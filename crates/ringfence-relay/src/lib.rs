//! The way out of a sandbox, by the names of hosts.
//!
//! A sandbox's network namespace is empty. Whoever supervises it knows for each `connect` which name was meant, and
//! holds a socket whose other end is the program's own. This crate looks the name up once, vets every address it leads
//! to, connects to exactly a vetted one ([`Relay::dial`]), and carries bytes both ways ([`Relay::carry`]).
//!
//! What the program says first is looked at, so that an allowed name is no way to another one at the same address:
//!
//! | first bytes | what is done |
//! |---|---|
//! | TLS | the name in the ClientHello must be the allowed one; then bytes are carried as they are |
//! | HTTP/1 | each request of the connection must be to the allowed name; others are answered with 403 |
//! | HTTP/2 without TLS | refused |
//! | anything else | carried as it is |
//!
//! With an *address* that was allowed as such, TLS may name nobody, and both may name the address or a host that the
//! policy allows by itself.
//!
//! A rule that is inspected ([`HostRule::inspect`](ringfence_model::HostRule)) allows HTTP alone. Its TLS ends at the relay, under a certificate of an
//! authority of this sandbox ([`Settings::authority`]) whose key is nowhere but in memory;
//! towards the host it is TLS again, with the host's name verified. Each request is judged by method and path, and a
//! credential that the program never sees is added; where the host sends it back, a placeholder stands in its place.
//! What follows an agreed change of protocol (WebSocket) is carried as it is, and not searched.
//!
//! What the look does not see: the name within an encrypted ClientHello (the outer one is judged), and requests inside
//! of TLS, unless the rule is inspected (feature `inspect`). Behind a proxy of the host's the proxy looks names up, and
//! their addresses cannot be vetted here.
//!
//! | module | what it holds |
//! |---|---|
//! | `relay` | the front door, and the one thread behind it |
//! | `settings` | what the relay is told |
//! | `events` | what the relay tells |
//! | `resolve` | names to addresses, by the host's `getent` |
//! | `dial` | from a name to a connected socket |
//! | `proxy` | the host's own proxy |
//! | `look`, `hello` | what the first bytes are; pure |
//! | `carry` | one connection from its first byte to its end |
//! | `datagrams` | datagrams of rules that allow them |
//! | `pump` | bytes from one socket to another |
//! | `rate` | how many in a minute; pure |
//! | `requests` | one request: judged, completed, its answer searched |
//! | `http1`, `http2` | requests from one side to the other |
//! | `inspect` | which requests a rule allows; pure |
//! | `inspected`, `tls` | TLS that ends here |
//! | `scrub` | a secret on its way back |
//! | `socket`, `stream` | sockets of any kind in the runtime |
//!
//! **Invariant:** no byte of a connection goes out before its first bytes are judged. Only the beginning of a line that no
//! usual request begins with goes ahead, when the program waits for an answer to it; it never becomes a request then.
#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

mod carry;
mod datagrams;
mod dial;
mod events;
pub mod hello;
mod http1;
#[cfg(feature = "inspect")]
mod http2;
mod inspect;
#[cfg(feature = "inspect")]
mod inspected;
pub mod look;
mod proxy;
mod pump;
mod rate;
mod relay;
mod requests;
mod resolve;
mod scrub;
mod settings;
mod socket;
mod stream;
#[cfg(feature = "inspect")]
mod tls;

pub use datagrams::DatagramSocket;
pub use dial::{DialError, Upstream};
pub use events::{Closed, End, Events, Opened, Outcome, Refused};
pub use inspect::{Hidden, Secret};
pub use relay::{Decision, Relay, Wanted};
pub use settings::{HostProxy, Limits, ROOTS, Settings};
#[cfg(feature = "inspect")]
pub use tls::Authority;
