//! The words of Ringfence, as plain data.
//!
//! Everything here is free of I/O and of platform: a [`Policy`] says what a sandbox may touch, an
//! [`ExecRequest`] what to run, an [`ExecResult`] what happened, a [`Violation`] what was refused and by
//! which rule. Names are camelCase on the wire and in configuration files.
//!
//! | module | what it holds |
//! |---|---|
//! | [`policy`] | the policy of one sandbox, each rule with its origin |
//! | [`pattern`] | the path patterns rules are written in, and their one matcher |
//! | [`decide`] | the one function that answers "may this path be read, written, run?" |
//! | [`limits`] | resource limits, presets, usage |
//! | [`exec`] | request, events and result of one execution, and the assurance it ran under |
//! | [`violation`] | refused accesses: kinds, severities, the bounded store, annotation |
//! | [`grant`] | what a person decided, and the grants that follow from it |
//! | [`config`] | what a configuration file may say, what all layers come to, the builder |
//! | [`environment`] | which variables of the caller reach a command |
//! | [`sensitive`] | names of sensitive files, rules for temporary ones |
//! | [`error`] | one error type; its kinds are the wire names of all refusals and failures |
#![forbid(unsafe_code)]

mod byte_pairs;
pub mod config;
mod connection;
pub mod decide;
mod degradation;
pub mod environment;
pub mod error;
pub mod exec;
pub mod grant;
mod inspect;
pub mod limits;
mod nearest;
mod network;
pub mod pattern;
pub mod policy;
mod rounded;
pub mod sensitive;
mod sync;
pub mod violation;
mod visible;

pub use config::SandboxConfig;
pub use connection::Connection;
pub use decide::{Access, DenyReason, PathDecision, PathOutcome};
pub use degradation::{Degradation, DegradationCode};
pub use error::{Error, ErrorKind, Result};
pub use exec::{
    Assurance, Command, ExecEvent, ExecRequest, ExecResult, Layer, PolicyMode, Stdin, TerminalSize, Usage,
    now_ms, shell_word,
};
pub use grant::{Decision, Grant, GrantScope};
pub use inspect::{Credential, CredentialSource, Inspect, variables_in, with_variables};
pub use limits::Limits;
#[doc(hidden)]
pub use nearest::closest;
pub use network::{AddressKind, Host, HostDecision, HostPattern, HostRule};
pub use pattern::PathPattern;
pub use policy::{Environment, Filesystem, NetworkPolicy, PathRule, Policy, RuleLayer, RuleSource};
pub use rounded::{rounded, rounded_option};
pub use sync::LockExt;
pub use violation::{Operation, Severity, Violation, ViolationKind};
pub use visible::{visible, visible_within};
