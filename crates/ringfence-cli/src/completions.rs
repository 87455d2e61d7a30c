//! `ringfence completions`: scripts for shells, from the definition of the command line itself.

use std::process::ExitCode;

use clap::CommandFactory as _;
use ringfence::model::Result;

use crate::args::{Cli, Completions};
use crate::output;

pub(crate) fn completions(args: &Completions) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "ringfence", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
