//! Judges commands and code before they run: allow, ask or deny, with reasons.
//!
//! The gate is advice and approval, never the boundary: that is the fence's. It is pure: no input, no output,
//! no state that grows, the same request gives the same verdict.
#![forbid(unsafe_code)]

pub mod checks;
mod code;
pub mod finding;
mod gate;
pub mod path;
pub mod policy;
pub mod risk;
pub mod rules;
pub mod shell;
pub mod value;

pub use code::Language;
pub use finding::{ByteSpan, Decision, Finding, Rule};
pub use gate::{Gate, Options, Request, Verdict};

pub(crate) use shell::internals as shell_internals;
pub(crate) use shell::internals::{find_found, is_shell, is_wrapper};
