//! Commands that look at the machine, the policy and the configuration.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Profile, Sandbox};

#[derive(Debug, Args)]
#[command(after_help = DOCTOR_EXAMPLES)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) sandbox: Sandbox,
    /// Also prove every profile with real commands: what is denied is refused, the host's loopback is not reached
    #[arg(long)]
    pub(crate) profiles: bool,
    /// Print one JSON value
    #[arg(long)]
    pub(crate) json: bool,
}

const DOCTOR_EXAMPLES: &str = "\
Examples:
  ringfence doctor
  ringfence doctor --json | jq '.checks[] | select(.status != \"ok\")'
  ringfence doctor --profiles --json | jq .profiles

Exit codes: 0 `ringfence run` can start a fence here, 1 it cannot.";

#[derive(Debug, Args)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub(crate) struct Explain {
    /// The path, as a command would name it; or a host, perhaps with a port, where no path has that name
    #[arg(
        value_name = "PATH|HOST",
        required_unless_present_any = ["session", "host"],
        conflicts_with_all = ["session", "host"]
    )]
    pub(crate) path: Option<PathBuf>,
    /// Instead of a path: a host, perhaps with a port [default port: 443]
    #[arg(long, value_name = "HOST", conflicts_with_all = ["session", "write", "execute"])]
    pub(crate) host: Option<String>,
    /// Instead of a path: where this session works, in which sandbox, and which keys decide it
    #[arg(long, value_name = "KEY")]
    pub(crate) session: Option<String>,
    /// May it be written?
    #[arg(long, conflicts_with_all = ["execute", "session"])]
    pub(crate) write: bool,
    /// May it be run?
    #[arg(long, conflicts_with = "session")]
    pub(crate) execute: bool,
    #[command(flatten)]
    pub(crate) sandbox: Sandbox,
    /// Print one JSON value
    #[arg(long)]
    pub(crate) json: bool,
}

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  ringfence explain ~/.ssh/id_rsa
  ringfence explain --write .git/hooks/pre-commit
  ringfence explain --allow-read ~/data ~/data/set.csv
  ringfence explain --session agent:main:chat-7 --json
  ringfence explain example.com:8443

Exit codes: 0 allowed; 1 denied, asked about, or private (the name exists inside, the host's file does not). With --session: 0 it is
sandboxed, 1 it is not.";

#[derive(Debug, Args)]
#[command(after_help = CHECK_CODE_EXAMPLES)]
pub(crate) struct Check {
    /// The command, or the code
    #[arg(
        value_name = "COMMAND",
        required_unless_present = "jsonl",
        conflicts_with = "jsonl",
        allow_hyphen_values = true
    )]
    pub(crate) code: Option<String>,
    /// The language: shell, python or javascript
    #[arg(long, value_name = "LANGUAGE", default_value = "shell")]
    pub(crate) language: String,
    /// The preset to start from
    #[arg(long, value_name = "PROFILE")]
    pub(crate) profile: Option<Profile>,
    /// The home directory that is meant [default: yours]
    #[arg(long, value_name = "DIR")]
    pub(crate) home: Option<String>,
    /// The working directory that is meant, which is the project [default: the current directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<String>,
    /// Print one JSON value
    #[arg(long)]
    pub(crate) json: bool,
    /// Judge each line of standard input, an object with id, language, code and perhaps cwd; print one for each
    #[arg(long)]
    pub(crate) jsonl: bool,
}

const CHECK_CODE_EXAMPLES: &str = "\
Examples:
  ringfence check 'rm -rf build && make'
  ringfence check --language python 'import os; os.system(\"ls\")'
  ringfence check --json 'curl -s https://example.com | sh' | jq .findings

Exit codes: 0 allow, 10 ask, 11 deny; with --jsonl 0.";

#[derive(Debug, Args)]
#[command(after_help = KITS_EXAMPLES)]
pub(crate) struct Kits {
    /// The kit to show [default: a list of all]
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Print one JSON value
    #[arg(long)]
    pub(crate) json: bool,
}

const KITS_EXAMPLES: &str = "\
Examples:
  ringfence kits
  ringfence kits claude-code
  ringfence kits codex --json | jq '.kit.hosts'
  ringfence run --kit claude-code -- claude";

#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Name everything that is wrong with the configuration
    Check(CheckConfig),
    /// Print the merged configuration
    Show(Box<ShowConfig>),
    /// Print the JSON schema of sandbox.json, for editors
    #[command(after_help = SCHEMA_EXAMPLES)]
    Schema,
    /// List the sets of hosts, which hosts they are on this machine, and where each was found
    Sets(ConfigSets),
    /// Print where your sandbox.json is, or would be
    Path(ConfigPath),
}

#[derive(Debug, Args)]
#[command(after_help = SETS_EXAMPLES)]
pub(crate) struct ConfigSets {
    /// Print one JSON value
    #[arg(long)]
    pub(crate) json: bool,
}

const SETS_EXAMPLES: &str = "\
Examples:
  ringfence config sets
  ringfence config sets --json | jq '.[] | select(.name == \"npm\").hosts'";

const SCHEMA_EXAMPLES: &str = "\
Examples:
  ringfence config schema > ~/.ringfence/schema.json";

#[derive(Debug, Args)]
#[command(after_help = CHECK_EXAMPLES)]
pub(crate) struct CheckConfig {
    /// Files to check [default: those that `ringfence run` would read here]
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The project whose own file is checked too [default: the current directory]
    #[arg(long, value_name = "DIR", conflicts_with = "files")]
    pub(crate) project: Option<PathBuf>,
    /// The agent whose section of the configuration applies
    #[arg(long, value_name = "NAME", conflicts_with = "files")]
    pub(crate) agent: Option<String>,
    /// Print one JSON value
    #[arg(long)]
    pub(crate) json: bool,
}

const CHECK_EXAMPLES: &str = "\
Examples:
  ringfence config check
  ringfence config check ci/sandbox.json deploy/sandbox.json

Exit codes: 0 nothing is wrong (warnings may be there), 2 something is.";

#[derive(Debug, Args)]
#[command(after_help = SHOW_EXAMPLES)]
pub(crate) struct ShowConfig {
    /// Show where each value came from
    #[arg(long)]
    pub(crate) origin: bool,
    #[command(flatten)]
    pub(crate) sandbox: Sandbox,
    /// Print one JSON value
    #[arg(long)]
    pub(crate) json: bool,
}

const SHOW_EXAMPLES: &str = "\
Examples:
  ringfence config show
  ringfence config show --origin --profile prod
  ringfence config show --json | jq .limits";

#[derive(Debug, Args)]
#[command(after_help = PATH_EXAMPLES)]
pub(crate) struct ConfigPath {
    /// Print all places: your file, the project's, the ledger
    #[arg(long)]
    pub(crate) json: bool,
}

const PATH_EXAMPLES: &str = "\
Examples:
  $EDITOR \"$(ringfence config path)\"
  ringfence config path --json | jq -r .ledger.path";

#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  ringfence completions bash > ~/.local/share/bash-completion/completions/ringfence
  ringfence completions zsh > ~/.zfunc/_ringfence
  ringfence completions fish > ~/.config/fish/completions/ringfence.fish";
