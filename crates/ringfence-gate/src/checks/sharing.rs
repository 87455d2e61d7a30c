//! What leaves this machine for good, and what shows or sends secrets without a file.

use ringfence_model::ViolationKind;

use super::{Check, Report};
use crate::finding::Rule;
use crate::shell::{Brief, Cmd};

const PUBLISH: Rule = Rule::ask("publish", "let a person publish: it cannot be taken back");
const LOSS: Rule = Rule::ask("lasting-loss", "name what is to go, and let a person see it");
const SECRET: Rule = Rule::ask("secret-shown", "let the program that needs the secret read it itself");
const SENT: Rule = Rule::ask("environment-sent", "send only the values that are needed");
const TUNNEL: Rule = Rule::ask("tunnel", "let a person open ways into this machine");
const SETTING: Rule = Rule::ask("tool-setting", "set it for one command, or in a file of the project");

/// A program, and words that must all be among its arguments.
type Words = (&'static [&'static str], &'static [&'static [&'static str]]);

const PUBLISHING: &[Words] = &[
    (
        &["npm", "pnpm", "yarn", "bun", "cargo", "poetry", "uv", "hatch", "flit", "vsce", "lerna"],
        &[&["publish"]],
    ),
    (&["cargo"], &[&["yank"], &["owner", "--add"]]),
    (&["npm"], &[&["unpublish"], &["deprecate"], &["owner", "add"]]),
    (&["twine"], &[&["upload"]]),
    (&["gem"], &[&["push"], &["yank"]]),
    (&["gh"], &[&["release", "create"], &["repo", "delete"], &["release", "delete"]]),
];

const LOSING: &[Words] = &[
    (&["aws"], &[&["s3", "rm", "--recursive"], &["s3", "rb"], &["s3", "sync", "--delete"]]),
    (&["gcloud", "az", "doctl", "flyctl", "heroku"], &[&["delete"], &["destroy"], &["apps:destroy"]]),
    (&["gsutil"], &[&["rm", "-r"], &["rb"]]),
    (&["git"], &[&["update-ref", "-d"], &["reflog", "expire", "--expire=now"], &["reflog", "delete"]]),
    (&["mysqladmin", "mariadb-admin"], &[&["drop"]]),
    (&["redis-cli", "valkey-cli"], &[&["flushall"], &["FLUSHALL"], &["flushdb"], &["FLUSHDB"]]),
];

const SHOWING: &[Words] = &[
    (&["gpg", "gpg2"], &[&["--export-secret-keys"], &["--export-secret-subkeys"]]),
    (&["security"], &[&["find-generic-password"], &["find-internet-password"], &["dump-keychain"]]),
    (&["gh"], &[&["auth", "token"], &["auth", "status", "--show-token"], &["auth", "status", "-t"]]),
    (&["gcloud"], &[&["auth", "print-access-token"], &["auth", "print-identity-token"]]),
    (&["az"], &[&["account", "get-access-token"]]),
    (
        &["aws"],
        &[&["configure", "get"], &["sts", "get-session-token"], &["secretsmanager", "get-secret-value"]],
    ),
    (&["pass", "op", "bw", "vault"], &[&["show"], &["read"], &["get"]]),
    (&["secret-tool"], &[&["lookup"], &["search"]]),
    (&["git"], &[&["credential", "fill"], &["credential-store", "get"]]),
];

const SETTINGS: &[Words] =
    &[(&["npm", "pnpm", "yarn"], &[&["config", "set"]]), (&["pip", "pip3"], &[&["config", "set"]])];

/// Settings of package managers that decide what runs, and from where.
const STEERING: &[&str] = &[
    "script-shell",
    "node-options",
    "shell",
    "prefix",
    "registry",
    "globalconfig",
    "userconfig",
    "init-module",
    "cafile",
    "strict-ssl",
    "git",
    "editor",
    "index-url",
    "extra-index-url",
    "trusted-host",
];

const SENDERS: &[&str] =
    &["curl", "wget", "nc", "ncat", "netcat", "socat", "ssh", "mail", "sendmail", "telnet"];

/// Programs that send what they are told to a server of databases.
const DATABASES: &[&str] = &[
    "psql",
    "mysql",
    "mariadb",
    "mysqladmin",
    "mariadb-admin",
    "mongosh",
    "mongo",
    "redis-cli",
    "valkey-cli",
    "sqlcmd",
    "usql",
    "cockroach",
    "clickhouse-client",
];

const NETCATS: &[&str] = &["nc", "ncat", "netcat", "nc.traditional", "nc.openbsd", "pnetcat"];

/// Publishing, loss elsewhere, secrets that programs print.
#[derive(Debug)]
pub(super) struct Sharing;

impl Check for Sharing {
    fn name(&self) -> &'static str {
        "sharing"
    }

    fn kind(&self) -> ViolationKind {
        ViolationKind::CommandBlocked
    }

    fn command(&self, cmd: &Cmd<'_>, report: &mut Report<'_>) {
        let name = cmd.name;
        // What only shows what it would do. To clients of servers, `-h` is the host.
        let helps = !DATABASES.contains(&name) && cmd.has("-h");
        let dry = helps || ["--dry-run", "--help", "--dryrun"].iter().any(|word| cmd.has(word));
        if !dry && among(cmd, PUBLISHING) {
            report.add(PUBLISH, cmd.span, format!("`{name}` publishes for everybody"));
        }
        if !dry && among(cmd, LOSING) {
            report.add(LOSS, cmd.span, format!("`{name}` removes what cannot be brought back"));
        }
        if DATABASES.contains(&name)
            && (cmd.rest().iter().any(|arg| drops_database(&arg.val.lossy(" ")))
                || cmd.input.text.as_ref().is_some_and(|text| drops_database(&text.lossy(" "))))
        {
            report.add(LOSS, cmd.span, format!("`{name}` removes a whole database"));
        }
        let cluster_secret = name == "kubectl"
            && cmd.has("get")
            && cmd.rest().iter().any(|arg| is_secret_kind(arg.val.prefix()))
            && cmd
                .rest()
                .iter()
                .any(|arg| arg.val.prefix().starts_with("-o") || arg.val.prefix().starts_with("--o"));
        if cluster_secret || among(cmd, SHOWING) {
            report.add(SECRET, cmd.span, format!("`{name}` shows a secret"));
        }
        let steers = |word: &str| {
            let key = word.split('=').next().unwrap_or(word);
            let key = key.strip_prefix("global.").or_else(|| key.strip_prefix("install.")).unwrap_or(key);
            STEERING.contains(&key.rsplit(':').next().unwrap_or(key))
        };
        if among(cmd, SETTINGS) && cmd.rest().iter().any(|arg| steers(arg.val.prefix())) {
            report.add(SETTING, cmd.span, format!("`{name}` will run or fetch something else from now on"));
        }
        if SENDERS.contains(&name) && cmd.input.upstream.iter().any(shows_environment) {
            report.add(SENT, cmd.span, "the environment, which may hold secrets, is sent away");
        }
        if matches!(name, "ssh" | "autossh") && cmd.rest().iter().any(|arg| opens_tunnel(arg.val.prefix())) {
            report.add(TUNNEL, cmd.span, "`ssh` opens a way from elsewhere into this machine");
        }
        let runs = |word: &str| {
            let kind = word.split(':').next().unwrap_or_default().to_ascii_uppercase();
            word.contains(':') && ["EXEC", "SYSTEM", "SHELL"].contains(&kind.as_str())
        };
        if NETCATS.contains(&name) && cmd.rest().iter().any(|arg| hands_over(arg.val.prefix())) {
            report.add(TUNNEL, cmd.span, format!("`{name}` lets somebody else talk to a program here"));
        }
        if name == "socat" && cmd.rest().iter().any(|arg| runs(arg.val.prefix())) {
            report.add(TUNNEL, cmd.span, "`socat` lets somebody else talk to a program here");
        }
    }
}

/// Whether an option of netcat names a program for whoever is at the other end.
fn hands_over(word: &str) -> bool {
    match word.strip_prefix("--") {
        Some(long) => ["exec", "sh-exec", "lua-exec"].contains(&long.split('=').next().unwrap_or(long)),
        None => word.strip_prefix('-').is_some_and(|letters| letters.contains(['e', 'c'])),
    }
}

/// Whether a text for a client drops all that a database, or a schema, holds.
fn drops_database(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c == ';').filter(|w| !w.is_empty()).collect();
    words.windows(2).any(|pair| pair[0] == "drop" && matches!(pair[1], "database" | "schema"))
        || text.contains(".dropdatabase(")
}

fn among(cmd: &Cmd<'_>, table: &[Words]) -> bool {
    let named = table.iter().filter(|(names, _)| names.contains(&cmd.name));
    named.flat_map(|(_, lists)| lists.iter()).any(|words| words.iter().all(|word| cmd.has(word)))
}

fn is_secret_kind(word: &str) -> bool {
    let kind = word.split('/').next().unwrap_or_default();
    kind.split(',').any(|kind| matches!(kind, "secret" | "secrets"))
}

/// `-R`, alone or behind letters that take no value.
fn opens_tunnel(word: &str) -> bool {
    let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-')).unwrap_or_default();
    letters.trim_start_matches(|letter| "46AaCfGgKkMNnqsTtVvXxYy".contains(letter)).starts_with('R')
}

fn shows_environment(before: &Brief) -> bool {
    matches!(before.name.as_str(), "printenv" | "env" | "export" | "declare" | "set")
}
