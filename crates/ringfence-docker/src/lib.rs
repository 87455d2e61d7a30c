//! Provider `docker`: one hardened container for each scope, made when it is needed, used again while its configuration is the
//! same, and cleaned up by itself. It speaks the Engine API, so Podman's socket serves as well.
//!
//! | module | what it holds |
//! |---|---|
//! | [`exec`] | the one thing the file bridge needs: a script run in a container |
//! | [`options`] | the configuration, checked: what a container is made of, its name and its hash |
//! | [`bridge`] | files in a container, with nothing but `sh` inside |
//! | [`engine`] | the client: finding the engine, calls that end, errors for people |
#![forbid(unsafe_code)]

pub mod bridge;
pub mod engine;
pub mod exec;
pub mod options;
