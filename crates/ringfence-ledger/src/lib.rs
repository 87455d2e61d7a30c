//! The ledger: what happened, remembered exactly.
//!
//! One SQLite file holds every execution, violation, decision, grant and event, and the registry of
//! sandboxes that outlive a command. Two doors lead to it:
//!
//! - [`Writer`] records. It owns a thread and a bounded queue, so that recording costs its caller a
//!   queue push and nothing else; opening the file and writing happen while the command runs. One for a program
//!   that runs a single command appends to a file beside the ledger instead, which the next to open that takes
//!   in. Whatever goes wrong with the disk is reported once and never stops a command.
//! - [`Ledger`] asks and changes. It is synchronous: queries for people, the sandbox registry with its
//!   cross-process states, grants, export. Its errors are the caller's.
//!
//! | module | what it holds |
//! |---|---|
//! | [`record`] | the records as plain data |
//! | [`writer`] | the thread that writes them |
//! | `spool` | those that nobody has taken in yet |
//! | [`query`] | reading them back |
//! | [`registry`] | sandboxes: reserve → ready → removing, leases |
//! | [`prune`] | which of them are old, and which the provider knows but the registry does not |
//! | [`export`] | everything as JSON lines |
//! | [`redact`] | keeping known secrets out of all of it |
//!
//! **Invariant:** the library knows no home directory, no environment and no terminal; it gets a path.
//! **Invariant:** a row is written by one statement or one transaction; no reader sees half a change.
#![forbid(unsafe_code)]

mod error;
mod id;
mod insert;
mod migrate;
mod owner;
mod scribe;
mod spool;
mod sql;
mod store;

pub mod export;
pub mod prune;
pub mod query;
pub mod record;
pub mod redact;
pub mod registry;
pub mod writer;

pub use export::Exported;
pub use id::{ExecutionId, GrantId};
pub use prune::{Adoption, FoundSandbox, PruneCandidate, PrunePolicy, PruneReason};
pub use query::{About, ExecutionFilter, GrantSet, ViolationCounts, ViolationFilter};
pub use record::{Decided, Event, Execution, ExecutionEnd, ExecutionStart, Granted, LedgerViolation, Status};
pub use redact::{Nothing, Redact, Secrets};
pub use registry::{
    Lease, NewSandbox, RemovalGuard, Reservation, Sandbox, SandboxFilter, SandboxKind, SandboxState,
};
pub use scribe::RECORDS_LOST;
pub use store::Ledger;
pub use writer::{Writer, WriterOptions};

pub use ringfence_model::now_ms;
