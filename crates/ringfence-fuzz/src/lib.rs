//! What fuzzing feeds to parsers of text that the other side writes, and what must hold then.
//!
//! Each target is a function of bytes that panics when a promise is broken. The programs in `fuzz/` hand it to libFuzzer,
//! which needs a nightly compiler. The tests of this crate run it with any compiler: on the seeds, and on a fixed number of
//! mutations of them, the same ones each time. `RINGFENCE_FUZZ_ROUNDS` asks for more.
//!
//! | target | who writes the bytes |
//! |---|---|
//! | [`bash_parse`] | the model: a command line |
//! | [`gate_judge`] | the model: a command line or code |
//! | [`patch`] | the model: the text of `apply_patch` |
//! | [`policy_pattern`] | a project: patterns of its `sandbox.json` |
//! | [`guest_wire`] | a program inside a container that took the guest's place |
//! | [`fuse_wire`] | the kernel, for programs inside |
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a broken promise must end the run")]

mod bash;
#[cfg(target_os = "linux")]
mod fuse;
mod gate;
mod guest;
mod patching;
mod pattern;

pub use bash::bash_parse;
#[cfg(target_os = "linux")]
pub use fuse::fuse_wire;
pub use gate::gate_judge;
pub use guest::guest_wire;
pub use patching::patch;
pub use pattern::policy_pattern;

#[cfg(test)]
mod tests;
