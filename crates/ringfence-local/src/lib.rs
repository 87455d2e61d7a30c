//! Provider `local`: the operating system's own sandbox.
#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

pub mod approval;
mod asker;
mod built;
mod bwrap;
pub mod capture;
mod choice;
mod command;
pub mod complete;
pub mod doctor;
pub mod environment;
pub mod git;
pub mod host;
mod host_view;
pub mod launcher;
mod limits;
pub mod native;
mod own_directory;
pub mod prompt;
mod reached;
mod relay;
pub mod scan;
mod streams;
mod system;
pub mod terminal;
pub mod toolchains;
mod verdict;
pub mod view;
mod wake;

pub use ringfence_linux::bwrap::{STAGE_ARGUMENT, run_stage};
