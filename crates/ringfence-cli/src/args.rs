//! The command line, as data. Parsing does nothing; the commands do.

mod agents;
mod inspect;
mod live;
mod records;
#[cfg(test)]
mod reference;
mod rules;
mod sandboxes;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, FromArgMatches as _, Parser, Subcommand, ValueEnum};

pub(crate) use agents::{Approve, Deny};
#[cfg(all(feature = "mcp", target_os = "linux"))]
pub(crate) use agents::{Client, InstallMcp, Mcp, McpCommand};
pub(crate) use inspect::{
    Check, CheckConfig, Completions, Config, ConfigCommand, ConfigPath, ConfigSets, Doctor, Explain, Kits,
    ShowConfig,
};
pub(crate) use live::{Session, Shell};
pub(crate) use records::{AddGrant, Format, Grants, GrantsCommand, ListGrants, Log, RevokeGrant, Violations};
pub(crate) use rules::{AddRule, ListRules, RemoveRule, Rules, RulesCommand, TestRules};
pub(crate) use sandboxes::{ListSandboxes, PruneSandboxes, Recreate, Which};

/// Run what an agent wants to run, so that normal work is never disturbed and harm never leaves the fence
#[derive(Debug, Parser)]
#[command(name = "ringfence", version, about, max_term_width = 100, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The command that was asked for.
pub(crate) fn parse() -> std::result::Result<Command, clap::Error> {
    match parse_run() {
        Some(command) => Ok(command),
        None => Cli::try_parse().map(|cli| cli.command),
    }
}

/// Whether a command is to be run, as far as the first word tells.
pub(crate) fn is_run() -> bool {
    std::env::args_os().nth(1).is_some_and(|first| first == "run")
}

/// Whether sandboxes are to be made for as long as the program runs.
#[cfg(target_os = "linux")]
pub(crate) fn keeps_sandboxes() -> bool {
    std::env::args_os().nth(1).is_some_and(|first| first == "session" || first == "mcp")
}

/// Reads `ringfence run …` without the other commands: describing them all to the parser takes longer than
/// anything else before a sandbox is made. A line that does not fit is none: the whole parser has the words for it.
fn parse_run() -> Option<Command> {
    if !is_run() {
        return None;
    }
    let command = Run::augment_args(clap::Command::new("run")).no_binary_name(true);
    let matches = command.try_get_matches_from(std::env::args_os().skip(2)).ok()?;
    Run::from_arg_matches(&matches).ok().map(|run| Command::Run(Box::new(run)))
}

const EXAMPLES: &str = "\
Examples:
  ringfence run -- cargo test             run a command in the project, fenced in
  ringfence run -c 'make && ./app'        run shell text
  ringfence run --json -- npm test        one JSON result with what was refused
  ringfence doctor                        what this machine can enforce, and what is missing
  ringfence explain ~/.ssh/id_rsa         may it be read, and which rule says so
  ringfence violations --since 1h         what was refused in the last hour";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command in a sandbox
    Run(Box<Run>),
    /// Open a sandboxed shell on your terminal
    Shell(Box<Shell>),
    /// Keep sandboxed shells for a program: JSON lines on standard input and output
    Session(Box<Session>),
    /// Serve the tools to a client of the Model Context Protocol
    #[cfg(all(feature = "mcp", target_os = "linux"))]
    Mcp(Box<Mcp>),
    /// Answer a pending request
    Approve(Approve),
    /// Refuse a pending request
    Deny(Deny),
    /// Try what this machine can enforce; say what is missing and how to get it
    Doctor(Box<Doctor>),
    /// Say what may be done to a path or a host inside, or where a session works, and which rule says so
    Explain(Box<Explain>),
    /// Judge a command or code without running it: allow, ask or deny, and why
    Check(Check),
    /// Check, show and describe the configuration
    Config(Config),
    /// List what was run
    Log(Log),
    /// List what was refused
    Violations(Violations),
    /// List and take back what a person granted
    Grants(Grants),
    /// Keep rules: commands that pass, or are refused, without a question
    Rules(Rules),
    /// List the kits, which let whole agents live inside; or show one, with the reasons
    Kits(Kits),
    /// List the sandboxes that are there
    List(ListSandboxes),
    /// Remove sandboxes, so that they are made anew with the current configuration
    Recreate(Recreate),
    /// Remove sandboxes that nobody used for long, and find unregistered ones
    Prune(PruneSandboxes),
    /// Print a completion script for a shell
    Completions(Completions),
}

/// Options of a sandbox; shared by every command that makes or explains one.
#[derive(Debug, Clone, Args)]
pub(crate) struct Sandbox {
    /// The project: writable, and where the command starts [default: the current directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) project: Option<PathBuf>,
    /// The provider that makes the sandbox [default: from the configuration, local]
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
    /// The preset to start from
    #[arg(long, value_name = "PROFILE")]
    pub(crate) profile: Option<Profile>,
    /// The agent whose section of the configuration applies
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Give an agent what it needs to live inside, such as claude-code: its state, hosts and variables
    #[arg(long, value_name = "NAME")]
    pub(crate) kit: Vec<String>,
    /// Also show this path, read-only
    #[arg(long, value_name = "PATH")]
    pub(crate) allow_read: Vec<String>,
    /// Also show this path, writable
    #[arg(long, value_name = "PATH")]
    pub(crate) allow_write: Vec<String>,
    /// Refuse this path or pattern, whatever allows it
    #[arg(long, value_name = "PATH")]
    pub(crate) deny: Vec<String>,
    /// Let this host be reached: a name, *.below, .domain, an address, with :port; a set such as npm; or host-port:5432
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
    /// Refuse this host or set, whatever allows it
    #[arg(long, value_name = "HOST")]
    pub(crate) block_host: Vec<String>,
    /// Ask about hosts that are in no list
    #[arg(long)]
    pub(crate) ask_hosts: bool,
    /// How exactly refusals are reported
    #[arg(long, value_name = "LEVEL")]
    pub(crate) precision: Option<Precision>,
    /// The launcher that builds the fence [default: from the configuration, the strongest that works here]
    #[arg(long, value_name = "LAUNCHER")]
    pub(crate) launcher: Option<Launcher>,
    /// Refuse to run unless this layer holds, such as namespaces, landlock or supervisor
    #[arg(long, value_name = "LAYER")]
    pub(crate) require: Vec<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Launcher {
    /// The strongest that works here: native, bwrap, landlock
    Auto,
    /// Namespaces and mounts made by ringfence itself
    Native,
    /// Namespaces and mounts made by the system's bwrap
    Bwrap,
    /// No namespaces: Landlock, seccomp and the supervisor, for use inside containers
    Landlock,
    /// No network, and nothing else: files are not fenced in
    NetworkOnly,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Profile {
    /// No fence at all; the configuration calls it dev, too
    #[value(alias = "dev")]
    Unfenced,
    /// A full fence, with room for builds: the default, and the one for development
    Balanced,
    /// A full fence, with tight limits and every sensitive file refused
    Prod,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Precision {
    /// Every refused read, write, program and connection
    Full,
    /// Refused changes and connections
    Writes,
    /// Nothing is reported; the fence is the same
    Off,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Ask {
    /// About everything that is refused
    On,
    /// Only about what is on the deny list
    DenyOnly,
    /// Refuse without asking
    Never,
}

#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) sandbox: Sandbox,
    /// Run in the sandbox of this session, such as agent:main:chat, by the configured mode and scope
    #[arg(long, value_name = "KEY")]
    pub(crate) session: Option<String>,
    /// Pass a variable of yours on (NAME), or set one (NAME=VALUE)
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
    /// End the command after so many seconds, or 500ms, 5m, 2h (exit code 124)
    #[arg(long, value_name = "TIME", value_parser = crate::settings::seconds)]
    pub(crate) timeout: Option<f64>,
    /// Memory of all processes together, such as 512M or 2G
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// Processes and threads at once
    #[arg(long, value_name = "COUNT")]
    pub(crate) processes: Option<u64>,
    /// CPU seconds of each process
    #[arg(long, value_name = "SECONDS")]
    pub(crate) cpu: Option<u64>,
    /// The largest file that may be written, such as 100M
    #[arg(long, value_name = "SIZE")]
    pub(crate) file_size: Option<String>,
    /// Bytes kept of each output stream with --json, such as 1M
    #[arg(long, value_name = "SIZE")]
    pub(crate) output: Option<String>,
    /// Print one JSON result instead of passing output through
    #[arg(long)]
    pub(crate) json: bool,
    /// Whether to ask you when something is refused [default: on, at a terminal]
    #[arg(long, value_name = "WHEN")]
    pub(crate) ask: Option<Ask>,
    /// Run it whatever the gate says; the fence stays. For people, not for agents
    #[arg(long)]
    pub(crate) no_gate: bool,
    /// Do not give the command a terminal even if you have one
    #[arg(long)]
    pub(crate) no_tty: bool,
    /// Say nothing about refusals on stderr
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Run this shell text with bash
    #[arg(short = 'c', value_name = "TEXT", conflicts_with = "argv")]
    pub(crate) shell: Option<String>,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true, required_unless_present = "shell")]
    pub(crate) argv: Vec<OsString>,
    /// It is `ringfence shell`.
    #[arg(skip)]
    pub(crate) is_shell: bool,
}

const RUN_EXAMPLES: &str = "\
Examples:
  ringfence run -- python3 script.py
  ringfence run --allow-read ~/data --memory 2G --timeout 60 -- ./analyse ~/data
  ringfence run --json -c 'cat ~/.ssh/id_rsa; true' | jq .violations

Exit codes: the command's own; 124 timeout, 125 ringfence itself failed, 126 cannot be run or refused by the
gate, 127 not found, 128+n ended by signal n.";
