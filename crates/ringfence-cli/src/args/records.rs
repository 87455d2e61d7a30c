//! Commands that read what the ledger remembers, and grants.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::since::Since;

/// How records are printed.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Format {
    /// Print one JSON value
    #[arg(long)]
    pub(crate) json: bool,
    /// Print one JSON value per line and record
    #[arg(long, conflicts_with = "json")]
    pub(crate) jsonl: bool,
}

/// The project and the session that records are of.
#[derive(Debug, Clone, Args)]
pub(crate) struct Of {
    /// Only of the project in this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) project: Option<PathBuf>,
    /// Only of this session
    #[arg(long, value_name = "KEY")]
    pub(crate) session: Option<String>,
}

impl Of {
    /// The project as records name it.
    pub(crate) fn project(&self) -> Option<String> {
        let project = self.project.as_ref()?;
        let found = project.canonicalize().or_else(|_| std::path::absolute(project));
        Some(found.unwrap_or_else(|_| project.clone()).display().to_string())
    }
}

const HOW_SINCE: &str = "Only since then: an age (90s, 30m, 2h, 3d, 1w), a day (2026-11-01, today, yesterday) or a moment \
    (2026-11-01T09:30)";

#[derive(Debug, Args)]
#[command(after_help = LOG_EXAMPLES)]
pub(crate) struct Log {
    #[arg(long, value_name = "WHEN", help = HOW_SINCE)]
    pub(crate) since: Option<Since>,
    /// At most so many, the newest ones
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    pub(crate) limit: usize,
    /// Only what failed, was interrupted or never started
    #[arg(long)]
    pub(crate) failed: bool,
    /// Only commands that the fence stopped
    #[arg(long)]
    pub(crate) blocked: bool,
    #[command(flatten)]
    pub(crate) of: Of,
    #[command(flatten)]
    pub(crate) format: Format,
}

const LOG_EXAMPLES: &str = "\
Examples:
  ringfence log
  ringfence log --since 2h --failed
  ringfence log --since 2026-11-01 --limit 1000 --jsonl | jq -r .command";

#[derive(Debug, Args)]
#[command(after_help = VIOLATIONS_EXAMPLES)]
pub(crate) struct Violations {
    #[arg(long, value_name = "WHEN", help = HOW_SINCE)]
    pub(crate) since: Option<Since>,
    /// Only of this kind
    #[arg(long, value_name = "KIND", value_parser = crate::violations::KINDS)]
    pub(crate) kind: Option<String>,
    /// Only this severe or worse
    #[arg(long, value_name = "LEVEL", value_parser = crate::violations::SEVERITIES)]
    pub(crate) severity: Option<String>,
    /// Only about this path and what is below it, or about this host or address
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Option<String>,
    /// Only of the command with this id in `ringfence log`
    #[arg(long, value_name = "ID")]
    pub(crate) of_command: Option<String>,
    #[command(flatten)]
    pub(crate) of: Of,
    /// At most so many, the newest ones
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    pub(crate) limit: usize,
    /// Count them instead of listing them
    #[arg(long, conflicts_with_all = ["kind", "severity", "path", "of_command", "project", "session", "jsonl"])]
    pub(crate) summary: bool,
    #[command(flatten)]
    pub(crate) format: Format,
}

const VIOLATIONS_EXAMPLES: &str = "\
Examples:
  ringfence violations --since today
  ringfence violations --project . --path ~/.ssh
  ringfence violations --severity high --json | jq '.[].violation.resource'
  ringfence violations --summary --since 1w";

#[derive(Debug, Args)]
pub(crate) struct Grants {
    #[command(subcommand)]
    pub(crate) command: GrantsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GrantsCommand {
    /// List what a person granted and still holds
    List(ListGrants),
    /// Grant access to a path or a host from now on
    Add(AddGrant),
    /// Take a grant back, or be asked again about what was never to be asked
    Revoke(RevokeGrant),
}

#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
pub(crate) struct ListGrants {
    /// Print one JSON value
    #[arg(long)]
    pub(crate) json: bool,
}

const LIST_EXAMPLES: &str = "\
Examples:
  ringfence grants list
  ringfence grants list --json | jq -r '.[].path'";

#[derive(Debug, Args)]
#[command(after_help = GRANT_EXAMPLES)]
pub(crate) struct AddGrant {
    /// The file or directory
    #[arg(value_name = "PATH", required_unless_present = "host")]
    pub(crate) path: Option<std::path::PathBuf>,
    /// A host instead, perhaps with a port: `example.com:443`
    #[arg(long, value_name = "HOST", conflicts_with_all = ["path", "write", "recursive"])]
    pub(crate) host: Option<String>,
    /// Let it be written, too
    #[arg(long)]
    pub(crate) write: bool,
    /// With everything below it
    #[arg(long)]
    pub(crate) recursive: bool,
}

const GRANT_EXAMPLES: &str = "\
Examples:
  ringfence grants add ~/.npmrc
  ringfence grants add --write --recursive ~/.cache/pip
  ringfence grants add --host example.com:443

A grant of a path beats the deny list. It is written to your sandbox.json, a host to its allowedHosts.";

#[derive(Debug, Args)]
#[command(after_help = REVOKE_EXAMPLES)]
pub(crate) struct RevokeGrant {
    /// The path or host that was granted, or the id of the grant
    #[arg(value_name = "PATH|HOST|ID")]
    pub(crate) which: String,
}

const REVOKE_EXAMPLES: &str = "\
Examples:
  ringfence grants revoke ~/.config/gh/hosts.yml
  ringfence grants revoke example.com:443
  ringfence grants revoke 01998f3e-7a10-7cc0-8000-1f2e3d4c5b6a

Exit codes: 0 taken back, 1 there is no such grant.";
