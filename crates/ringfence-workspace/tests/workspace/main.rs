//! Workspaces from outside: real files, real links, real races.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod attacks;
mod files;
mod guarded;
mod links;
mod media;
mod model;
mod patches;
mod races;
mod room;
mod sessions;
