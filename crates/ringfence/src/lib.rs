//! Ringfence for programs: what a sandbox is configured to be, and (as it grows) the manager that makes
//! sandboxes and the tools an agent calls.
//!
//! | module | what it holds |
//! |---|---|
//! | [`manager`] | which sandbox a session works in |
//! | [`pool`] | sandboxes that are made before they are needed |
//! | [`tools`] | what an agent calls: commands, code, files |
//! | [`session`] | the core that every command goes through: judge, ask, run, retry, record |
//! | [`permission`] | asking a person, and what follows from the answer |
//! | [`unsandboxed`] | running without a fence, when a person configured that |
//! | [`setup`] | from a project, a home and flags to a policy, in one call |
//! | [`gate`] | whether a command may run: judged, asked about, refused, and how that is recorded |
//! | [`housekeeping`] | the register of sandboxes: listing, removing, pruning |
//! | [`containers`] | what the provider `docker` is told |
//! | [`config`] | `sandbox.json`: reading, merging, checking, showing, and the policy that follows from it |
#![forbid(unsafe_code)]

pub mod config;
pub mod containers;
pub mod gate;
pub mod housekeeping;
pub mod manager;
pub mod permission;
pub mod pool;
pub mod session;
pub mod setup;
pub mod tools;
pub mod unsandboxed;

#[cfg(feature = "docker")]
pub use ringfence_docker as docker;
pub use ringfence_fence as fence;
pub use ringfence_ledger as ledger;
pub use ringfence_local as local;
pub use ringfence_model as model;
pub use ringfence_workspace as workspace;
