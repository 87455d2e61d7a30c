//! Provider `local`: the operating system's own sandbox.
#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

pub mod capture;
pub mod complete;
pub mod environment;
pub mod git;
pub mod host;
pub mod native;
mod relay;
pub mod scan;
pub mod terminal;
pub mod toolchains;
pub mod view;
