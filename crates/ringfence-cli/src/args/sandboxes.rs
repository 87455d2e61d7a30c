//! Commands about the sandboxes that are there.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
pub(crate) struct ListSandboxes {
    /// Print one JSON value
    #[arg(long)]
    pub(crate) json: bool,
}

const LIST_EXAMPLES: &str = "\
Examples:
  ringfence list
  ringfence list --json | jq -r '.[] | select(.imageMatches == false) | .name'

Exit codes: 0 also when there are none.";

/// Exactly one of them.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Which {
    /// All of them
    #[arg(long)]
    pub(crate) all: bool,
    /// The one of this session
    #[arg(long, value_name = "KEY")]
    pub(crate) session: Option<String>,
    /// Those of this agent and of all its sessions
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = RECREATE_EXAMPLES)]
pub(crate) struct Recreate {
    #[command(flatten)]
    pub(crate) which: Which,
    /// Do not ask
    #[arg(long)]
    pub(crate) force: bool,
    /// Print one JSON value
    #[arg(long, requires = "force")]
    pub(crate) json: bool,
}

const RECREATE_EXAMPLES: &str = "\
Examples:
  ringfence recreate --session agent:main:chat-7
  ringfence recreate --agent work --force
  ringfence recreate --all

Exit codes: 0 they are gone, and made anew when they are needed; 1 one could not be removed, or you said no.";

#[derive(Debug, Args)]
#[command(after_help = PRUNE_EXAMPLES)]
pub(crate) struct PruneSandboxes {
    /// Print one JSON value
    #[arg(long)]
    pub(crate) json: bool,
}

const PRUNE_EXAMPLES: &str = "\
Examples:
  ringfence prune
  ringfence prune --json | jq '.failed[].error'

Exit codes: 0 nothing is left to remove; 1 one could not be removed, or a provider did not answer.";
