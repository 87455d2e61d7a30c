//! The tools of an agent against the real fence.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "tests")]

mod agent_run;
mod asking;
mod calls;
mod code;
mod escalation;
mod events;
mod executors;
mod files;
mod jobs;
mod managed;
mod retry;
mod steps;
mod world;
