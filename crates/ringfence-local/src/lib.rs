//! Provider `local`: the operating system's own sandbox.
#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

pub mod approval;
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
pub mod prompt;
mod relay;
pub mod scan;
pub mod terminal;
pub mod toolchains;
pub mod view;
