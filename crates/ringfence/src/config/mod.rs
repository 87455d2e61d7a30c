//! The configuration: one file `sandbox.json` in ringfence's home, sections for agents in it, a file of the
//! project's own that may only tighten, presets below and the call above.
//!
//! `load` merges all of it and never reads the process's own environment; [`Loaded::policy`] turns the
//! result into the policy of a sandbox; `check` finds everything that is wrong with a file;
//! [`Loaded::show`] says where each value came from; [`add_permanent_grant`] writes what a person granted
//! for good.

pub mod builtin;
mod check;
mod diagnostic;
pub(crate) mod expand;
mod grants;
mod hosts;
pub mod kits;
mod load;
mod merge;
mod merge_hosts;
mod policy;
mod profile;
mod rules;
pub mod runs_later;
pub mod sets;
mod show;
mod source;
mod tighten;
mod words;

#[cfg(test)]
mod tests;

pub use check::{check, check_text, refuse_errors, schema};
pub use diagnostic::{Diagnostic, DiagnosticKind, Severity};
pub use expand::{EnvMap, Expanded, Expander};
pub use grants::{
    Change, add_never_ask, add_permanent_grant, agent_names, never_asked, permanent_grants, provider_named,
    remove_never_ask, revoke_permanent_grant,
};
pub use hosts::{HostList, forget_host, is_same_host, keep_host, kept_hosts};
pub use load::{BadFile, HOME_VARIABLE, LoadOptions, Loaded, load, ringfence_home};
pub use policy::{PolicyInputs, policy};
pub use ringfence_model::config::*;
pub use rules::{add_rule, remove_rule};
pub use show::Shown;
#[doc(hidden)]
pub use words::closest;
