//! What would run again later: start-up files, hooks, timers, services.

use ringfence_model::{Access, ViolationKind};

use super::writes::{self, How};
use super::{Check, Report};
use crate::finding::Rule;
use crate::path::AbsPath;
use crate::shell::Cmd;

const FILE: Rule = Rule::ask("runs-later", "let a person make this change");
const TIMER: Rule = Rule::ask("timer", "let a person make this change");
const SERVICE: Rule = Rule::ask("service", "let a person start or stop services");
const HISTORY: Rule = Rule::ask("history", "leave the history of the shell as it is");

/// Names of files and directories that some program runs by itself.
const RUN_LATER: &[&str] = &[
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".inputrc",
    ".xinitrc",
    ".xprofile",
    ".xsessionrc",
    ".config/fish",
    ".config/autostart",
    ".config/systemd",
    ".config/environment.d",
    ".local/bin",
    ".local/share/systemd",
    ".git/hooks",
    ".git/config",
    ".gitconfig",
    ".config/git",
    ".envrc",
    ".direnvrc",
    ".vimrc",
    ".exrc",
    ".config/nvim",
    ".gdbinit",
    ".lldbinit",
    ".pythonrc",
    ".irbrc",
    ".pdbrc",
    ".tmux.conf",
    ".screenrc",
    ".ssh",
    ".pam_environment",
    "LaunchAgents",
    "LaunchDaemons",
    ".bash_completion",
    "sitecustomize.py",
    "usercustomize.py",
    ".Xresources",
    ".mailcap",
    ".vscode/settings.json",
    ".vscode/tasks.json",
    ".idea",
];

/// Files and directories of the system, likewise.
const SYSTEM: &[&str] = &["/etc/cron", "/var/spool/cron", "/etc/profile", "/etc/rc", "/etc/init"];

/// Files whose loss hides what was done.
const HISTORIES: &[&str] = &[
    ".bash_history",
    ".zsh_history",
    ".history",
    ".python_history",
    ".node_repl_history",
    ".local/share/fish/fish_history",
];

/// Variables that say what the history keeps.
pub(super) const KEEPS_HISTORY: &[&str] =
    &["HISTFILE", "HISTSIZE", "HISTFILESIZE", "HISTCONTROL", "HISTIGNORE"];

fn runs_later(path: &AbsPath) -> bool {
    let shown = path.show();
    RUN_LATER.iter().any(|name| path.holds(name)) || SYSTEM.iter().any(|dir| shown.starts_with(dir))
}

/// Start-up files, hooks, timers, services; the history.
#[derive(Debug)]
pub(super) struct Persistence;

impl Check for Persistence {
    fn name(&self) -> &'static str {
        "persistence"
    }

    fn kind(&self) -> ViolationKind {
        ViolationKind::DangerousPattern
    }

    fn command(&self, cmd: &Cmd<'_>, report: &mut Report<'_>) {
        writes::for_each(cmd, |target, how| {
            if writes::is_nothing(&target.val) {
                return;
            }
            let Some(path) = cmd.path(&target.val) else { return };
            let shown = path.show();
            // A rule that names such a file was written by somebody who wants it written.
            let meant = |rule: String| runs_later(&AbsPath::literal(&rule));
            let granted = cmd.place.allowing(&path, Access::Write).is_some_and(meant);
            if runs_later(&path)
                && !granted
                && (how != How::Rights || path.holds(".git/hooks") || !cmd.place.works_below(&path))
            {
                report.add_about(
                    path.known(),
                    FILE,
                    target.span,
                    format!("`{shown}` makes programs run later"),
                );
            }
            if HISTORIES.iter().any(|name| path.holds(name)) {
                report.add(HISTORY, target.span, format!("`{shown}` holds the history of a shell"));
            }
        });
        match cmd.name {
            "crontab" if !cmd.has("-l") => {
                report.add(TIMER, cmd.span, "`crontab` sets commands to run later")
            }
            "at" | "batch" | "atrm" if !cmd.has("-l") => {
                report.add(TIMER, cmd.span, format!("`{}` sets commands to run later", cmd.name))
            }
            "systemd-run" | "launchctl" | "schtasks" | "initctl" | "rc-update" | "update-rc.d"
            | "chkconfig" => {
                report.add(
                    SERVICE,
                    cmd.span,
                    format!("`{}` starts things outside of this session", cmd.name),
                );
            }
            "loginctl"
                if cmd.sub().is_some_and(|verb| {
                    !verb.starts_with("list") && !verb.contains("show") && !verb.contains("status")
                }) =>
            {
                report.add(SERVICE, cmd.span, "`loginctl` changes sessions of the machine");
            }
            "ssh-copy-id" => report.add(FILE, cmd.span, "a key is installed on another machine"),
            "systemctl" => {
                let asks = [
                    "status",
                    "show",
                    "list-units",
                    "list-unit-files",
                    "list-timers",
                    "is-active",
                    "is-enabled",
                    "is-failed",
                    "cat",
                    "help",
                    "list-sockets",
                    "list-dependencies",
                    "get-default",
                    "show-environment",
                    "list-jobs",
                ];
                if !cmd.sub().is_none_or(|verb| asks.contains(&verb)) {
                    report.add(SERVICE, cmd.span, "`systemctl` changes services");
                }
            }
            "service" if cmd.args.len() > 2 && !cmd.has("status") => {
                report.add(SERVICE, cmd.span, "`service` changes services")
            }
            "history"
                if cmd.rest().iter().any(|arg| {
                    arg.val.prefix().starts_with("-c")
                        || arg.val.prefix().starts_with("-d")
                        || arg.is("-w")
                        || arg.is("-r")
                }) =>
            {
                report.add(HISTORY, cmd.span, "the history of the shell is changed");
            }
            "fc" if cmd.has("-s") || cmd.rest().is_empty() => {
                report.add(HISTORY, cmd.span, "a command of the history is run again")
            }
            "set" if cmd.rest().windows(2).any(|pair| pair[0].is("+o") && pair[1].is("history")) => {
                report.add(HISTORY, cmd.span, "the history of the shell is switched off");
            }
            "unset"
                if cmd
                    .rest()
                    .iter()
                    .any(|arg| arg.known().is_some_and(|name| KEEPS_HISTORY.contains(&name))) =>
            {
                report.add(HISTORY, cmd.span, "the history of the shell is not kept any more");
            }
            "journalctl"
                if cmd.rest().iter().any(|arg| {
                    arg.val.prefix().starts_with("--vacuum") || arg.is("--rotate") || arg.is("--flush")
                }) =>
            {
                report.add(HISTORY, cmd.span, "the journal of the machine is shortened");
            }
            "wevtutil" | "logrotate" => {
                report.add(HISTORY, cmd.span, format!("`{}` changes logs of the machine", cmd.name))
            }
            _ => {}
        }
    }
}
