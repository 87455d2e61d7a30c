//! The `ringfence` command: what a person at a terminal uses.
//!
//! | module | what it holds |
//! |---|---|
//! | [`advice`] | what a person in `ringfence shell` is told about what they type |
//! | [`answer`] | answering the questions of agents that have nobody else to ask |
//! | [`args`] | the command line, as data |
//! | [`gate`] | how refusals of the gate are told |
//! | [`run`], [`session`], `mcp`, [`doctor`], [`explain`], [`check`], [`config`], [`log`], [`violations`], [`grants`], [`rules`], [`kits`], [`sandboxes`], [`completions`] | the commands |
//! | [`output`] | text, tables, JSON and colours on standard output |
//! | [`places`] | where the files are |
//! | [`report`] | errors and refusals in words, and exit codes |
//! | [`settings`] | the command line as a layer of the configuration |
//! | [`since`] | moments and ages |
//!
//! Results go to stdout, everything about ringfence itself to stderr. Exit codes are documented in
//! `docs/cli.md`.
#![forbid(unsafe_code)]

mod advice;
mod answer;
mod args;
mod check;
mod completions;
mod config;
mod doctor;
mod explain;
mod gate;
mod grants;
mod kits;
mod log;
#[cfg(all(feature = "mcp", target_os = "linux"))]
mod mcp;
mod output;
mod places;
mod report;
mod rules;
mod run;
mod sandboxes;
#[cfg(target_os = "linux")]
mod session;
mod settings;
mod since;
mod violations;

use std::io::Write as _;
use std::process::ExitCode;

use clap::error::ErrorKind as Parsing;
use ringfence::model::Result;

use args::Command;

fn main() -> ExitCode {
    // Bwrap executes this inside a sandbox; no person calls it.
    #[cfg(target_os = "linux")]
    if std::env::args_os().nth(1).is_some_and(|first| first == ringfence::local::STAGE_ARGUMENT) {
        ringfence::local::run_stage();
    }
    // The guest holds commands in a container; whoever made the container starts it, no person does.
    #[cfg(target_os = "linux")]
    if std::env::args_os().nth(1).is_some_and(|first| first == ringfence::local::guest::GUEST_ARGUMENT) {
        return guest();
    }
    // The reader reads code for the gate, locked in; no person calls it either.
    if std::env::args_os().nth(1).is_some_and(|first| first == ringfence::gate::READ_CODE) {
        return ringfence::gate::serve_reader();
    }
    // Most commands run in a sandbox of the kernel's. It is begun while the rest finds out what kind of.
    #[cfg(target_os = "linux")]
    if args::is_run() {
        ringfence::local::begin_sandbox();
    }
    // A program that makes many sandboxes clones them from what it is now, not from what it has grown to by then.
    #[cfg(target_os = "linux")]
    if args::keeps_sandboxes() {
        ringfence::local::begin_prefork_server();
    }
    let command = match args::parse() {
        Ok(command) => command,
        Err(error) => return misread(&error),
    };
    let is_run = matches!(command, Command::Run(_) | Command::Shell(_));
    let prints_json = matches!(&command, Command::Run(run) if run.json);
    match execute(command) {
        Err(error) if prints_json && !output::nobody_reads(&error) => report::failure_as_json(&error),
        Ok(code) => code,
        Err(error) if output::nobody_reads(&error) => ExitCode::SUCCESS,
        Err(error) if is_run => report::failure(&error),
        Err(error) => report::failure_of_inquiry(&error),
    }
}

#[cfg(target_os = "linux")]
fn guest() -> ExitCode {
    let input = std::io::BufReader::new(std::io::stdin());
    // Standard output has told the caller what went wrong.
    match ringfence::local::guest::serve(input, std::io::stdout(), std::env::vars_os().collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(report::OWN_FAILURE),
    }
}

fn execute(command: Command) -> Result<ExitCode> {
    match command {
        Command::Run(args) => run::run(args),
        Command::Shell(args) => run::shell(*args),
        #[cfg(target_os = "linux")]
        Command::Session(args) => session::session(&args),
        #[cfg(not(target_os = "linux"))]
        Command::Session(_) => Err(ringfence::model::Error::new(
            ringfence::model::ErrorKind::SandboxDenied,
            "sessions are not possible on this system yet",
        )),
        #[cfg(all(feature = "mcp", target_os = "linux"))]
        Command::Mcp(args) => mcp::mcp(*args),
        Command::Approve(args) => answer::approve(&args),
        Command::Deny(args) => answer::deny(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Explain(args) => explain::explain(&args),
        Command::Check(args) => check::check(&args),
        Command::Config(args) => config::config(&args),
        Command::Log(args) => log::log(&args),
        Command::Violations(args) => violations::violations(&args),
        Command::Grants(args) => grants::grants(&args),
        Command::Rules(args) => rules::rules(&args),
        Command::Kits(args) => kits::kits(&args),
        Command::List(args) => sandboxes::list(&args),
        Command::Recreate(args) => sandboxes::recreate(&args),
        Command::Prune(args) => sandboxes::prune(&args),
        Command::Completions(args) => completions::completions(&args),
    }
}

/// The command that a word which is none was probably meant to be.
fn similar(error: &clap::Error) -> Option<(String, String)> {
    use clap::CommandFactory as _;
    let word = match error.get(clap::error::ContextKind::InvalidSubcommand)? {
        clap::error::ContextValue::String(word) => word.clone(),
        _ => return None,
    };
    let all = args::Cli::command();
    // The parser's own measure makes `grants` of `rn`.
    let near = ringfence::config::closest(&word, all.get_subcommands().map(clap::Command::get_name))?;
    Some((word.clone(), near.to_owned()))
}

/// Prints help, or what is wrong with the command line. The exit codes of `run` are the command's own, but
/// for ringfence's: a wrong option of `run` is one of those.
fn misread(error: &clap::Error) -> ExitCode {
    match similar(error) {
        Some((word, known)) => {
            let _ = writeln!(
                std::io::stderr(),
                "error: there is no command '{word}'\n\n  tip: did you mean '{known}'?\n\nFor more information, try '--help'."
            );
        }
        None => drop(error.print()),
    }
    let is_run = std::env::args_os().nth(1).is_some_and(|first| first == "run");
    match error.kind() {
        Parsing::DisplayHelp | Parsing::DisplayVersion => ExitCode::SUCCESS,
        _ if is_run => ExitCode::from(report::OWN_FAILURE),
        _ => ExitCode::from(report::MISUSED),
    }
}
