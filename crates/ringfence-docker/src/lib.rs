//! Provider `docker`: one hardened container for each scope, made when it is needed, used again while its configuration is the
//! same, and cleaned up by itself. It speaks the Engine API, so Podman's socket serves as well.
//!
//! | module | what it holds |
//! |---|---|
//! | [`provider`] | [`DockerProvider`]: makes, lists and destroys sandboxes |
//! | [`sandbox`] | one of them |
//! | [`simple`] | one container for each command |
//! | [`plan`] | from options and policy to a specification |
//! | [`options`] | the configuration, checked: what a container is made of, its name and its hash |
//! | [`images`] | how an image comes here: fetched, or built from a recipe |
//! | [`lifecycle`] | inspect, use again, make anew, or leave alone with a hint |
//! | [`register`] | the ledger's register: who makes a container, who uses it, which ones are ours |
//! | [`guest`] | our own program inside: exact violations, limits, live approval |
//! | `way` | which of the two runs commands |
//! | `plain` | shells where there is no guest: with nothing but `sh` inside |
//! | `filter` | the system calls of a container with a guest |
//! | [`exec`] | the one thing the file bridge needs: a script run in a container |
//! | [`bridge`] | files in a container, with nothing but `sh` inside |
//! | [`engine`] | the client: finding the engine, calls that end, errors for people |
//! | `testing` | a real engine for tests |
#![forbid(unsafe_code)]

pub mod bridge;
pub mod engine;
pub mod exec;
mod filter;
pub mod guest;
pub mod images;
pub mod lifecycle;
pub mod options;
mod plain;
pub mod plan;
pub mod provider;
pub mod register;
pub mod sandbox;
pub mod simple;
#[cfg(feature = "testing")]
pub mod testing;
mod way;

pub use provider::{DockerProvider, KIND};
