//! Provider `local`: the operating system's own sandbox.
//!
//! [`Fence`] is the one of the system that this was built for: [`fence::LocalFence`] on Linux,
//! [`seatbelt::Seatbelt`] on macOS. Both have the same functions.
#![forbid(unsafe_code)]

pub mod approval;
#[cfg(target_os = "linux")]
mod asker;
#[cfg(target_os = "linux")]
mod base_mounts;
#[cfg(target_os = "linux")]
mod bwrap;
pub mod capture;
mod command;
pub mod complete;
pub mod doctor;
pub mod environment;
#[cfg(target_os = "linux")]
pub mod fence;
#[cfg(target_os = "linux")]
mod fence_plan;
pub mod git;
pub mod guest;
#[cfg(target_os = "linux")]
mod helper;
pub mod host;
#[cfg(target_os = "linux")]
mod host_view;
#[cfg(target_os = "linux")]
mod inspection;
#[cfg(target_os = "linux")]
pub mod launcher;
pub mod limit_violations;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(target_os = "linux")]
mod memory_watch;
mod names;
#[cfg(target_os = "linux")]
mod not_promised;
pub mod offload;
mod own_directory;
pub mod platform;
pub mod printed;
pub mod prompt;
#[cfg(target_os = "linux")]
pub mod provider;
mod relay;
#[cfg(target_os = "linux")]
pub mod scan;
pub mod seatbelt;
#[cfg(target_os = "linux")]
mod select;
#[cfg(target_os = "linux")]
pub mod shell;
mod streams;
#[cfg(target_os = "linux")]
mod synthetic_etc;
mod system;
pub mod terminal;
pub mod terminal_notices;
pub mod toolchains;
#[cfg(target_os = "linux")]
mod traps;
#[cfg(target_os = "linux")]
mod tripwire;
pub mod verdict;
#[cfg(target_os = "linux")]
pub mod view;
mod wake;
#[cfg(target_os = "linux")]
mod way_out;

#[cfg(target_os = "linux")]
pub use fence::LocalFence as Fence;
#[cfg(target_os = "linux")]
pub use ringfence_linux::bwrap::{STAGE_ARGUMENT, run_stage};
#[cfg(target_os = "linux")]
pub use ringfence_linux::confine::confine;
#[cfg(target_os = "linux")]
pub use ringfence_linux::prefork::one::forget as forget_sandbox;
#[cfg(not(target_os = "linux"))]
pub use seatbelt::Seatbelt as Fence;
pub use streams::{CallersTerminal, Keyboard, Streams};

/// For a program whose first act is to make a sandbox, while it has one thread only: begins it before its policy is
/// known. See [`ringfence_linux::prefork::one`].
#[cfg(target_os = "linux")]
pub fn begin_sandbox() {
    ringfence_linux::prefork::one::begin(base_mounts::base_mounts());
}

/// For a program that makes sandboxes as long as it runs, first thing in its main thread: they are made from what it is
/// now, and not from what it has grown to; and it may have as many descriptors open as many sandboxes need. See
/// [`ringfence_linux::prefork::server`].
#[cfg(target_os = "linux")]
pub fn begin_prefork_server() {
    ringfence_linux::prefork::server::begin();
    ringfence_linux::open_files::raise();
    ringfence_linux::cgroup::expect_many();
}
