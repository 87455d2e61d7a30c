//! The commands for agents that speak a protocol, and for the person who answers their questions.

use clap::Args;

#[cfg(all(feature = "mcp", target_os = "linux"))]
pub(crate) use server::*;

#[derive(Debug, Args)]
#[command(after_help = APPROVE_EXAMPLES)]
pub(crate) struct Approve {
    /// The request's id, or a part of it that no other has; without it, the one that is pending, or a list of them
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,
    /// List the pending requests, also when there is only one
    #[arg(long, conflicts_with = "id")]
    pub(crate) list: bool,
}

const APPROVE_EXAMPLES: &str = "\
Examples:
  ringfence approve                  answer the pending request, or list them if there are several
  ringfence approve 3f2a91           show the question, and answer it by a key

It needs a terminal: an agent has none.";

#[derive(Debug, Args)]
#[command(after_help = DENY_EXAMPLES)]
pub(crate) struct Deny {
    /// The request's id, or a part of it that no other has
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Words for the agent: why not, or what to do instead
    #[arg(long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
}

const DENY_EXAMPLES: &str = "\
Examples:
  ringfence deny 3f2a91
  ringfence deny 3f2a91 --message 'use the test account'";

#[cfg(all(feature = "mcp", target_os = "linux"))]
mod server {
    use std::net::SocketAddr;
    use std::path::PathBuf;

    use clap::{Args, Subcommand, ValueEnum};

    use super::super::Sandbox;

    #[derive(Debug, Args)]
    #[command(after_help = MCP_EXAMPLES, args_conflicts_with_subcommands = true)]
    pub(crate) struct Mcp {
        #[command(subcommand)]
        pub(crate) command: Option<McpCommand>,
        /// Serve many clients on this address by streamable HTTP instead, at /mcp, to whoever has the token
        #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = "127.0.0.1:0")]
        pub(crate) http: Option<SocketAddr>,
        /// The file with the bearer token for --http [default: a new token, printed on standard error]
        #[arg(long, value_name = "FILE", requires = "http")]
        pub(crate) token_file: Option<PathBuf>,
        /// With --http: end a session in which for so long no connection was open and no call ran [default: 300]
        #[arg(long, value_name = "SECONDS", requires = "http", value_parser = clap::value_parser!(u64).range(1..))]
        pub(crate) idle: Option<u64>,
        /// Work in the sandbox of this session, such as agent:main:chat, by the configured mode and scope
        #[arg(long, value_name = "KEY")]
        pub(crate) session: Option<String>,
        #[command(flatten)]
        pub(crate) sandbox: Sandbox,
    }

    const MCP_EXAMPLES: &str = "\
Examples:
  ringfence mcp                              serve one client on standard input and output
  ringfence mcp --project ~/work/app         there, whatever roots the client has
  ringfence mcp --http 127.0.0.1:8800        streamable HTTP, with a token";

    #[derive(Debug, Subcommand)]
    pub(crate) enum McpCommand {
        /// Write the server into a client's configuration, keeping what is there
        Install(InstallMcp),
    }

    #[derive(Debug, Args)]
    #[command(after_help = INSTALL_EXAMPLES)]
    pub(crate) struct InstallMcp {
        /// The client
        #[arg(long, value_name = "NAME")]
        pub(crate) client: Client,
        /// Print the configuration as it would be, and write nothing
        #[arg(long)]
        pub(crate) print: bool,
        /// The project to work in [default: the client's roots, or where it starts the server]
        #[arg(long, value_name = "DIR")]
        pub(crate) project: Option<PathBuf>,
    }

    const INSTALL_EXAMPLES: &str = "\
Examples:
  ringfence mcp install --client claude-code
  ringfence mcp install --client codex --print";

    #[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
    pub(crate) enum Client {
        /// ~/.claude.json
        ClaudeCode,
        /// ~/.codex/config.toml
        Codex,
        /// ~/.cursor/mcp.json
        Cursor,
        /// mcp.json of the user's profile
        Vscode,
        /// ~/.gemini/settings.json
        Gemini,
    }
}
