//! The ledger from outside: real files, real processes.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod child;
mod processes;
mod prune;
mod records;
mod registry;
mod sample;
mod trouble;
mod writer;
