//! The core: one way for every command, whichever door it came through.
//!
//! ```text
//! run, session, shell ─┐
//! tools ── MCP         ├─▶ Core::admit ─▶ Core::execute ─▶ result
//! library              ┘    judge, ask     run, ask again, retry
//!                              │               │
//!                              └── Recorder ◀──┘   (ledger and listeners, always without known secrets)
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`core`] | [`Core`]: judge → ask → run → retry → record |
//! | [`questions`] | [`Questions`]: the one place where a person is asked, for the gate, file rules, the fence and tools |
//! | [`recorder`] | [`Recorder`]: what the ledger and listeners are told |
//! | [`event`] | [`SessionEvent`]: what happens around a call, in order |
//! | [`refusal`] | a command that may not run: for people, agents and the ledger |
//! | [`workplace`] | [`Workplace`]: where commands run |
//! | [`managed`], [`pooled`] | sandboxes of a manager and of a pool as workplaces |
//! | [`one_command`] | a fresh sandbox for one command: the local fast path, any provider, or none |
//! | [`attached`] | the caller's terminal, connected to a sandbox elsewhere |
//! | [`shell`] | [`Shell`]: one shell of a session |
//! | [`position`] | where a shell is, from one judged command to the next |
//! | [`result`] | the one result that every tool gives |
//!
//! **Invariant:** no door judges, asks, runs or records by itself.
//! **Invariant:** one command is one row of the ledger, refused or not.

pub mod attached;
pub mod core;
pub mod event;
mod hints;
pub mod managed;
pub mod one_command;
pub mod pooled;
pub mod position;
pub mod questions;
mod quote;
pub mod recorder;
pub mod refusal;
pub mod result;
pub mod shell;
pub mod workplace;

pub use attached::Attached;
pub use core::{Admitted, Core, CoreOptions, Proposal, Ran};
pub use event::SessionEvent;
pub use managed::Managed;
pub use one_command::OneCommand;
pub use pooled::Pooled;
pub use position::Position;
pub use questions::{Ended, Outcome, Questions, Reason};
pub use quote::text_of;
pub use recorder::{Call, Listener, Recorder};
pub use refusal::{Passed, REFUSED, Refusal, Why};
pub use result::ToolResult;
pub use shell::Shell;
pub use workplace::{Runner, Workplace};
