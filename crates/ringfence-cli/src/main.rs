//! The `ringfence` command: what a person at a terminal uses.
//!
//! | module | what it holds |
//! |---|---|
//! | [`approve`] | asking the person at the terminal |
//! | [`args`] | the command line, as data |
//! | [`run`] | `ringfence run` |
//! | [`report`] | errors and refusals in words, and exit codes |
//!
//! Results go to stdout, everything about ringfence itself to stderr. Exit codes are documented in
//! `docs/cli.md`.
#![forbid(unsafe_code)]

mod approve;
mod args;
mod report;
mod run;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let args = args::Cli::parse();
    let result = match args.command {
        args::Command::Run(run) => run::run(run),
    };
    match result {
        Ok(code) => code,
        Err(error) => report::failure(&error),
    }
}
