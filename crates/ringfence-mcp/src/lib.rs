//! The tools of the façade for any client that speaks the Model Context Protocol.
//!
//! A transport, with no rule of its own: each session of a client has its own [`Tools`](ringfence::tools::Tools), so
//! its own shell, its own grants and its own place in the ledger. What is judged, fenced in, asked and recorded is
//! what the façade judges, fences in, asks and records.
//!
//! | module | what it holds |
//! |---|---|
//! | [`serve`] | standard input and output |
//! | [`http`] | streamable HTTP behind a token |
//! | `attendance` | which sessions somebody still attends |
//! | `server` | the protocol's requests, each passed on |
//! | `session` | one client: where it works, its tools, its end |
//! | `call` | one call: progress, questions, cancellation |
//! | `calls` | which call a question or an event belongs to |
//! | `elicit` | questions to the person at the client |
//! | `extra` | `sandbox_status` and `request_permission` |
//! | `offer` | how tools and results look to the client |
//! | `schema` | schemas as every client takes them |
//! | `log` | what the client is told besides results |
//! | `roots` | the client's project directories |
//! | `resources` | files of the workspace and the session's records |
//!
//! **Invariant:** no message that a model can cause answers a question. Answers come from the client's elicitation,
//! or from a file in ringfence's own directory, which no sandbox can reach.
#![forbid(unsafe_code)]
// The tools of a project are, so far, those of the fence on Linux.
#![cfg(target_os = "linux")]

mod attendance;
mod call;
mod calls;
mod elicit;
mod extra;
pub mod http;
mod log;
mod offer;
mod options;
mod resources;
mod roots;
mod schema;
pub mod serve;
mod server;
mod session;

pub use options::{Loader, Options, Projects};
