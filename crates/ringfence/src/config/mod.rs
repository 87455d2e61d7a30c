//! The configuration: one file `sandbox.json` in ringfence's home, sections for agents in it, a file of the
//! project's own that may only tighten, presets below and the call above.
//!
//! [`load`] merges all of it and never reads the process's own environment; [`Loaded::policy`] turns the
//! result into the policy of a sandbox; the rest checks files, says
//! where each value came from, and writes what a person granted for good.

pub mod builtin;
mod diagnostic;
mod expand;
mod load;
mod merge;
mod policy;
mod profile;
mod source;
mod tighten;

pub use diagnostic::{Diagnostic, DiagnosticKind, Severity};
pub use expand::{EnvMap, Expanded, Expander};
pub use load::{BadFile, HOME_VARIABLE, LoadOptions, Loaded, load, ringfence_home};
pub use policy::{PolicyInputs, is_path_readable, is_path_writable, policy};
pub use ringfence_model::config::*;
