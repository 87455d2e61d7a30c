//! Built-in lists of programs, which a configuration takes by name.

use ringfence_model::config::Entry;

use crate::rules::{CommandRule, List, RuleError};

/// What a restricted agent works with.
const DEFAULT_ALLOWED: [&str; 43] = [
    "ls", "cat", "head", "tail", "find", "grep", "wc", "file", "stat", "pwd", "cd", "mkdir", "sed", "awk",
    "sort", "uniq", "cut", "tr", "diff", "git", "cargo", "rustc", "npm", "node", "python", "python3", "pip",
    "pip3", "make", "cmake", "tar", "zip", "unzip", "gzip", "gunzip", "echo", "date", "which", "env", "true",
    "false", "test", "[",
];
/// What it does not start.
const DEFAULT_BLOCKED: [&str; 36] = [
    "rm", "rmdir", "mv", "cp", "chmod", "chown", "chgrp", "kill", "killall", "pkill", "apt", "apt-get",
    "yum", "dnf", "brew", "sudo", "su", "doas", "nc", "netcat", "ncat", "telnet", "sh", "bash", "zsh",
    "fish", "csh", "tcsh", "eval", "exec", "source", ".", "dd", "mkfs", "fdisk", "parted",
];
/// Looking only.
const STRICT_ALLOWED: [&str; 10] =
    ["ls", "cat", "head", "tail", "grep", "wc", "pwd", "echo", "true", "false"];

/// Programs that no list of allowed ones lets through.
const ALWAYS_BLOCKED: [&str; 7] = ["sudo", "su", "doas", "dd", "mkfs", "fdisk", "parted"];

/// Whether a program never runs where only those of a list may.
pub(crate) fn is_always_blocked(name: &str) -> bool {
    ALWAYS_BLOCKED.contains(&name) || name.starts_with("mkfs.")
}

/// The rules of an entry of `allowedCommands` or `blockedCommands`: a command, or a built-in list by its name.
pub(crate) fn rules(entry: &Entry, list: List) -> Result<Vec<CommandRule>, RuleError> {
    let Some(name) = entry.text.strip_prefix('@') else { return Ok(vec![CommandRule::parse(entry, list)?]) };
    let programs: &[&str] = match (name, list) {
        ("default", List::Allow) => &DEFAULT_ALLOWED,
        ("strict", List::Allow) => &STRICT_ALLOWED,
        ("default", List::Deny) => &DEFAULT_BLOCKED,
        _ => {
            let known = match list {
                List::Allow => "`@default` and `@strict`",
                List::Deny => "`@default`",
            };
            let message = format!("no built-in list of that name; there is {known}");
            return Err(RuleError { entry: entry.text.clone(), message });
        }
    };
    let parse = |program: &&str| {
        let entry = Entry { text: (*program).to_owned(), source: entry.source.clone() };
        CommandRule::parse(&entry, list)
    };
    programs.iter().map(parse).collect()
}
