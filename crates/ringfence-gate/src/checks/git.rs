//! What git can be told to run.

use ringfence_model::ViolationKind;

use super::{Check, Report};
use crate::finding::Rule;
use crate::shell::Cmd;
use crate::shell_internals::{Inner, option_value};
use crate::value::Arg;

const SETTING: Rule = Rule::ask("git-setting-runs", "leave out the setting; git runs the program it names");
const WIDE: Rule = Rule::ask("git-setting-wide", "set it for this repository only");

/// Settings of git whose value is a program or leads to one.
const KEYS: &[&str] = &[
    "core.pager",
    "core.editor",
    "core.sshcommand",
    "core.fsmonitor",
    "core.hookspath",
    "core.askpass",
    "core.gitproxy",
    "core.alternaterefscommand",
    "core.attributesfile",
    "core.worktree",
    "sequence.editor",
    "diff.external",
    "credential.helper",
    "gpg.program",
    "gpg.ssh.program",
    "init.templatedir",
    "include.path",
    "protocol.ext.allow",
    "uploadpack.packobjectshook",
    "interactive.difffilter",
    "web.browser",
    "sendemail.smtpserver",
    "sendemail.tocmd",
    "ssh.variant",
    "trailer.",
    "gc.recentobjectshook",
    "protocol.allow",
    "http.proxy",
    "https.proxy",
    "http.sslverify",
    "http.sslcainfo",
    "http.curloptresolve",
    "remote.origin.url",
    "remote.origin.pushurl",
];
const ENDINGS: &[&str] = &[
    ".textconv",
    ".command",
    ".cmd",
    ".clean",
    ".smudge",
    ".process",
    ".driver",
    ".helper",
    ".vcs",
    ".uploadpack",
    ".receivepack",
    ".program",
    ".sshcommand",
    ".proxycommand",
    ".path",
    ".insteadof",
    ".pushinsteadof",
    ".proxy",
    ".sslverify",
];

fn runs(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    KEYS.contains(&key.as_str())
        || key.starts_with("alias.")
        || key.starts_with("pager.")
        || key.starts_with("includeif.")
        || key.starts_with("filter.")
        || key.starts_with("url.")
        || ENDINGS.iter().any(|ending| key.ends_with(ending))
}

/// Settings that make git run programs.
#[derive(Debug)]
pub(super) struct Git;

impl Check for Git {
    fn name(&self) -> &'static str {
        "git"
    }

    fn kind(&self) -> ViolationKind {
        ViolationKind::DangerousPattern
    }

    fn command(&self, cmd: &Cmd<'_>, report: &mut Report<'_>) {
        if cmd.name != "git" {
            return;
        }
        let Some(at) = subcommand(cmd.rest()) else { return };
        if !cmd.rest()[at].is("config") {
            return;
        }
        let rest = &cmd.rest()[at + 1..];
        let asks = rest.iter().any(|arg| {
            matches!(
                arg.known(),
                Some(
                    "--get"
                        | "--get-all"
                        | "--list"
                        | "-l"
                        | "--get-regexp"
                        | "get"
                        | "list"
                        | "--show-origin"
                        | "--name-only"
                )
            )
        });
        let words: Vec<&Arg> = rest
            .iter()
            .filter(|arg| !arg.val.prefix().starts_with('-') && !arg.is("set") && !arg.is("unset"))
            .collect();
        if asks
            || words.len() < 2
                && !rest
                    .iter()
                    .any(|arg| arg.val.prefix().starts_with("--unset") || arg.is("--edit") || arg.is("-e"))
        {
            return;
        }
        if let Some(key) = words.first() {
            let harmless = words.get(1).and_then(|value| value.known()).is_some_and(|value| {
                matches!(
                    value,
                    "cat" | "less" | "true" | "false" | ":" | "vim" | "nano" | "vi" | "emacs" | "cache"
                ) && !key.is("core.hooksPath")
            });
            if key.known().is_none_or(runs) && !harmless {
                report.add(SETTING, key.span, format!("`{}` makes git run a program", key.show()));
            }
        }
        if rest.iter().any(|arg| arg.is("--global") || arg.is("--system") || arg.is("--file") || arg.is("-f"))
        {
            report.add(WIDE, cmd.span, "the setting holds for more than this repository");
        }
    }
}

/// Where git's sub-command stands, behind its own options.
pub(crate) fn subcommand(args: &[Arg]) -> Option<usize> {
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        match arg.known() {
            Some(
                "-C" | "-c" | "--git-dir" | "--work-tree" | "--namespace" | "--exec-path" | "--config-env"
                | "--super-prefix" | "--attr-source",
            ) => at += 2,
            Some(word) if word.starts_with('-') => at += 1,
            _ => return Some(at),
        }
    }
    None
}

/// Adds what git's options and sub-commands run.
pub(crate) fn inner(args: &[Arg], inner: &mut Vec<Inner>) {
    let own = subcommand(args).unwrap_or(args.len());
    let mut iter = args[..own].iter();
    while let Some(arg) = iter.next() {
        if let Some(("--config-env", setting)) = arg.val.split_once('=') {
            setting_runs(&Arg::new(setting, arg.span), inner);
        } else if arg.is("-c") || arg.is("--config-env") {
            let Some(setting) = iter.next() else { break };
            setting_runs(setting, inner);
        } else if let Some((name, value)) = arg.val.split_once('=')
            && name == "--exec-path"
        {
            inner.push(Inner::opaque(
                "option-runs",
                arg.span,
                format!("git takes its programs from `{}`", value.lossy("…")),
            ));
        }
    }
    let Some(sub) = args.get(own).and_then(Arg::known) else {
        if let Some(arg) = args.get(own) {
            inner.push(Inner::opaque(
                "unknown-command",
                arg.span,
                "the git command is not known before it runs",
            ));
        }
        return;
    };
    let rest = &args[own + 1..];
    let mut shell = |value: Option<Arg>, what: &str| {
        if let Some(value) = value {
            inner.push(Inner::opaque("option-runs", value.span, format!("`{what}` runs `{}`", value.show())));
            inner.push(Inner::shell(value));
        }
    };
    match sub {
        "rebase" => shell(option_value(rest, "-x", "--exec"), "git rebase --exec"),
        "difftool" => shell(option_value(rest, "-x", "--extcmd"), "git difftool --extcmd"),
        "grep" => {
            let pager = rest.iter().find_map(|arg| {
                let glued = arg
                    .val
                    .split_once('=')
                    .filter(|(name, _)| crate::shell::args::abbreviates(name, "--open-files-in-pager"))
                    .map(|(_, value)| value);
                let letter = arg
                    .known()
                    .filter(|word| word.starts_with("-O") && word.len() > 2)
                    .map(|_| arg.val.skip(2));
                glued.or(letter).map(|value| Arg::new(value, arg.span))
            });
            shell(pager, "git grep --open-files-in-pager");
        }
        "fetch" | "pull" | "clone" | "ls-remote" | "fetch-pack" => {
            shell(option_value(rest, "\0", "--upload-pack"), "git --upload-pack");
            if sub == "clone" || sub == "ls-remote" {
                shell(
                    option_value(rest, "-u", "--upload-pack").filter(|_| sub == "clone"),
                    "git --upload-pack",
                );
            }
        }
        "push" | "send-pack" | "archive" => {
            shell(option_value(rest, "\0", "--receive-pack"), "git --receive-pack");
            shell(option_value(rest, "\0", "--exec"), "git --exec");
        }
        "submodule" => {
            if let Some(at) = rest.iter().position(|arg| arg.is("foreach")) {
                let words: Vec<Arg> = rest[at + 1..]
                    .iter()
                    .filter(|arg| !arg.is("--recursive") && !arg.is("-q"))
                    .cloned()
                    .collect();
                if words.len() == 1 {
                    inner.push(Inner::shell(words[0].clone()));
                } else if !words.is_empty() {
                    inner.push(Inner::command(words));
                }
            }
        }
        "bisect" if rest.first().is_some_and(|arg| arg.is("run")) && rest.len() > 1 => {
            inner.push(Inner::command(rest[1..].to_vec()));
        }
        "filter-branch" => {
            if let Some(first) = rest.first() {
                inner.push(Inner::opaque(
                    "option-runs",
                    first.span,
                    "`git filter-branch` runs commands on the whole history",
                ));
            }
        }
        _ => {}
    }
    if sub == "clone"
        && let Some(setting) = option_value(rest, "-c", "--config")
    {
        setting_runs(&setting, inner);
    }
    for arg in rest {
        if arg.val.prefix().starts_with("ext::") || arg.val.prefix().starts_with("fd::") {
            inner.push(Inner::opaque("option-runs", arg.span, "this address makes git run a command"));
        }
    }
}

fn setting_runs(setting: &Arg, inner: &mut Vec<Inner>) {
    let Some((key, value)) = setting.val.split_once('=') else {
        if setting.known().is_none() {
            inner.push(Inner::opaque(
                "option-runs",
                setting.span,
                "a git setting is not known before it runs",
            ));
        }
        return;
    };
    if !runs(key)
        || value.known().is_some_and(|value| matches!(value, "" | "cat" | "less" | "true" | "false" | ":"))
    {
        return;
    }
    inner.push(Inner::opaque(
        "option-runs",
        setting.span,
        format!("`{key}` makes git run `{}`", value.lossy("…")),
    ));
    if let Some(text) = value.known() {
        let text = text.strip_prefix('!').unwrap_or(text);
        if !text.is_empty() && text.contains(' ') {
            inner.push(Inner::shell(Arg::new(crate::value::Val::text(text), setting.span)));
        }
    }
}
