//! Ringfence for programs: what an AI agent wants to run runs inside a fence, and what was stopped is said exactly.
//!
//! One command in a fresh sandbox:
//!
//! ```no_run
#![doc = include_str!("../examples/run.rs")]
//! ```
//!
//! A shell that remembers, and what happens meanwhile:
//!
//! ```no_run
#![doc = include_str!("../examples/session.rs")]
//! ```
//!
//! A person decides:
//!
//! ```no_run
#![doc = include_str!("../examples/approve.rs")]
//! ```
//!
//! | here | for |
//! |---|---|
//! | [`Ringfence`] | everything for one project: [`run`](Ringfence::run), [`session`](Ringfence::session), [`tools`](Ringfence::tools) |
//! | [`permission`] | questions, answers, and who answers |
//! | [`tools`] | what an agent calls: commands, code, files |
//! | [`fence`] | what a provider of sandboxes of your own implements |
//! | [`gate`] | who reads Python and JavaScript before they run |
//! | [`model`] | the data of all of it |
//!
//! Calls block; `run_async` is for callers that must not. Every call goes one way, through the core that the command line
//! and the servers use, too: judge, ask, run, retry, record.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod front;
pub mod permission;
pub mod tools;

pub use config::EnvMap;
pub use front::{Builder, Ringfence, Session};
pub use permission::{Answer, Permission};
pub use ringfence_fence as fence;
pub use ringfence_model as model;
pub use ringfence_model::{Decision, Error, ErrorKind, ExecRequest, ExecResult, Result, Violation};
pub use session::event::SessionEvent;

// The rooms behind the front door, for ringfence's own programs: they change whenever those do.
#[doc(hidden)]
pub mod config;
#[doc(hidden)]
pub mod containers;
pub mod gate;
#[doc(hidden)]
pub mod housekeeping;
#[doc(hidden)]
pub mod manager;
#[doc(hidden)]
pub mod pool;
#[doc(hidden)]
pub mod session;
#[doc(hidden)]
pub mod setup;
#[doc(hidden)]
pub mod unsandboxed;

#[doc(hidden)]
#[cfg(feature = "docker")]
pub use ringfence_docker as docker;
#[doc(hidden)]
pub use ringfence_ledger as ledger;
#[doc(hidden)]
pub use ringfence_local as local;
#[doc(hidden)]
pub use ringfence_workspace as workspace;
