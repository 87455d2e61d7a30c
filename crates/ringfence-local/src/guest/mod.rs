//! A local fence that is used from outside of the place it is in: by a provider whose sandboxes are containers or machines.
//!
//! The program runs inside, told what to do on standard input and telling on standard output, one JSON object on each line
//! ([`wire`]). Everything else is the local fence as always: shells that remember, exact violations, limits, and calls that
//! wait for a person. It ends, with all that runs in it, when its input does.
//!
//! **Invariant:** what is said here is not believed where it matters outside: a guest speaks for the sandbox it is in.

#[cfg(target_os = "linux")]
mod carrier;
#[cfg(target_os = "linux")]
pub mod for_guest;
pub mod job_wire;
#[cfg(target_os = "linux")]
mod meter;
pub mod out_wire;
#[cfg(target_os = "linux")]
mod serve;
#[cfg(target_os = "linux")]
mod through_user;
pub mod wire;

#[cfg(target_os = "linux")]
pub use serve::serve;

/// The first argument of a program that shall be a guest; nothing a person would call.
pub const GUEST_ARGUMENT: &str = "__ringfence_guest";
