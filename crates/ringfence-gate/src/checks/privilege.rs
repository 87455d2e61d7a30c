//! Becoming somebody else.

use ringfence_model::ViolationKind;

use super::{Check, Report};
use crate::finding::Rule;
use crate::shell::Cmd;

const DENY: Rule =
    Rule::deny("privilege", "run the command as yourself; what it needs can be granted by path or host");
const ASK: Rule = Rule::ask("privilege-maybe", "run the command as yourself");

const DENIED: &[&str] = &[
    "sudo", "su", "doas", "pkexec", "run0", "sudoedit", "gosu", "su-exec", "dzdo", "pfexec", "kdesu", "gksu",
    "gksudo", "kdesudo", "sudo-rs", "please",
];
const ASKED: &[&str] = &[
    "runuser",
    "sg",
    "newgrp",
    "setpriv",
    "capsh",
    "setcap",
    "nsenter",
    "chroot",
    "machinectl",
    "visudo",
    "unshare",
    "setuidgid",
    "polkit-agent-helper-1",
    "userhelper",
    "s6-setuidgid",
    "passwd",
    "chpasswd",
    "gpasswd",
    "chsh",
    "chfn",
];

/// `sudo` and its like are refused; what may be used to the same end is asked.
#[derive(Debug)]
pub(super) struct Privilege;

impl Check for Privilege {
    fn name(&self) -> &'static str {
        "privilege"
    }

    fn kind(&self) -> ViolationKind {
        ViolationKind::CommandBlocked
    }

    fn command(&self, cmd: &Cmd<'_>, report: &mut Report<'_>) {
        if DENIED.contains(&cmd.name) {
            report.add(DENY, cmd.span, format!("`{}` runs commands with other rights", cmd.name));
        } else if ASKED.contains(&cmd.name) && !only_asks(cmd) {
            report.add(ASK, cmd.span, format!("`{}` changes who or what a command runs as", cmd.name));
        }
    }
}

fn only_asks(cmd: &Cmd<'_>) -> bool {
    cmd.args.len() == 2 && (cmd.has("--help") || cmd.has("--version"))
}
