//! Ringfence for programs: what a sandbox is configured to be, and (as it grows) the manager that makes
//! sandboxes and the tools an agent calls.
//!
//! | module | what it holds |
//! |---|---|
//! | [`config`] | `sandbox.json`: reading, merging, checking, showing, and the policy that follows from it |
#![forbid(unsafe_code)]

pub mod config;

pub use ringfence_fence as fence;
pub use ringfence_model as model;
