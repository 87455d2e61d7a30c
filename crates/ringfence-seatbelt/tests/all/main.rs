//! The profile, read back and evaluated the way the kernel does it.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod adapter;
mod denial;
mod equivalence;
mod golden;
mod injection;
mod profile;
mod sbpl;
