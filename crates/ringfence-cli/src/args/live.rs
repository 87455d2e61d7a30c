//! The commands that keep a shell.

use clap::Args;

use super::Sandbox;

#[derive(Debug, Args)]
#[command(after_help = SESSION_EXAMPLES)]
pub(crate) struct Session {
    #[command(flatten)]
    pub(crate) sandbox: Sandbox,
    /// Work in the sandbox of this session, such as agent:main:chat, by the configured mode and scope
    #[arg(long, value_name = "KEY")]
    pub(crate) session: Option<String>,
    /// Send a line for every step of a command too: requested, asked, decided, started, finished
    #[arg(long)]
    pub(crate) events: bool,
}

const SESSION_EXAMPLES: &str = "\
Examples:
  echo '{\"id\":1,\"command\":\"cd /tmp; pwd\"}' | ringfence session

The protocol is described in docs/session.md.";

#[derive(Debug, Args)]
#[command(after_help = SHELL_EXAMPLES)]
pub(crate) struct Shell {
    #[command(flatten)]
    pub(crate) sandbox: Sandbox,
}

const SHELL_EXAMPLES: &str = "\
Examples:
  ringfence shell
  ringfence shell --allow-read ~/data";
