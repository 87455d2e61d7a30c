//! Ways to run something without saying so.

use ringfence_model::ViolationKind;

use super::{Check, Report};
use crate::finding::Rule;
use crate::path::base_name;
use crate::shell::Cmd;
use crate::value::Arg;

/// The name of the check, also for what the evaluator itself cannot tell.
pub(super) const NAME: &str = "evasion";

const COMMAND: Rule = Rule::ask("unknown-command", "write the command's name");
const COPY: Rule = Rule::ask("renamed-program", "run the program under its own name");
const BUILTIN: Rule = Rule::ask("redefined-command", "run the program under its own name");
const WRAPPED: Rule = Rule::ask("wrapped-command", "run the command itself, so that it can be judged");
const SHELL: Rule = Rule::ask("shell-option", "leave the shell's options as they are");

/// Programs that are dangerous under another name.
const DANGEROUS: &[&str] = &[
    "rm",
    "sudo",
    "su",
    "doas",
    "pkexec",
    "dd",
    "mkfs",
    "shutdown",
    "reboot",
    "halt",
    "poweroff",
    "shred",
    "chmod",
    "chown",
    "bash",
    "sh",
    "dash",
    "zsh",
    "systemctl",
    "mount",
    "insmod",
    "modprobe",
    "kill",
    "init",
    "busybox",
    "find",
    "env",
    "python3",
    "perl",
];

/// Programs that are known to do no more with their words than they say.
const KNOWN: &[&str] = &[
    "echo",
    "printf",
    "grep",
    "egrep",
    "fgrep",
    "rg",
    "ag",
    "git",
    "ls",
    "man",
    "cargo",
    "npm",
    "pnpm",
    "yarn",
    "pgrep",
    "pkill",
    "which",
    "type",
    "command",
    "test",
    "[",
    "cat",
    "head",
    "tail",
    "make",
    "just",
    "pytest",
    "go",
    "node",
    "python",
    "python3",
    "sed",
    "awk",
    "jq",
    "killall",
    "apt",
    "apt-get",
    "brew",
    "pip",
    "pip3",
    "whatis",
    "apropos",
    "whereis",
    "touch",
    "mkdir",
    "cp",
    "mv",
    "rm",
    "kill",
    "wc",
    "sort",
    "basename",
    "dirname",
    "tldr",
    "info",
    "help",
    "set",
    "export",
    "local",
    "declare",
    "expr",
    "case",
    "return",
    "read",
    "tr",
    "cut",
    "diff",
    "gh",
    "ctest",
    "jest",
    "vitest",
    "mvn",
    "gradle",
    "alias",
    "unset",
    "trap",
    "history",
    "logger",
    "ringfence",
    "docker",
    "ps",
    "comm",
    "paste",
    "let",
    "cd",
    "eval",
    "bash",
    "sh",
    "find",
    "xargs",
];

/// Unknown names in command position, copies of programs, redefined commands, unknown wrappers.
#[derive(Debug)]
pub(super) struct Evasion;

impl Check for Evasion {
    fn name(&self) -> &'static str {
        NAME
    }

    fn kind(&self) -> ViolationKind {
        ViolationKind::DangerousPattern
    }

    fn command(&self, cmd: &Cmd<'_>, report: &mut Report<'_>) {
        let Some(first) = cmd.args.first() else { return };
        if cmd.name.is_empty() && (first.known().is_none() || !first.is("")) {
            report.add(
                COMMAND,
                first.span,
                format!("the command is not known before it runs: `{}`", first.show()),
            );
            return;
        }
        match cmd.name {
            "cp" | "ln" | "install" | "mv" => {
                for source in cmd.rest() {
                    if let Some(path) = source.known()
                        && path.contains("bin/")
                        && DANGEROUS.contains(&base_name(path))
                    {
                        report.add(COPY, source.span, format!("`{path}` gets another name"));
                    }
                }
            }
            "hash" if cmd.has("-p") => {
                report.add(BUILTIN, cmd.span, "a name is made to stand for another program")
            }
            "enable" if cmd.has("-f") || cmd.has("-n") => {
                report.add(BUILTIN, cmd.span, "builtins of the shell are replaced")
            }
            "alias" => {
                for arg in cmd.rest() {
                    if let Some((name, _)) = arg.val.split_once('=')
                        && (KNOWN.contains(&name) || DANGEROUS.contains(&name))
                    {
                        report.add(BUILTIN, arg.span, format!("an alias takes the place of `{name}`"));
                    }
                }
            }
            "shopt" if cmd.has("expand_aliases") => report.add(SHELL, cmd.span, "aliases are switched on"),
            "complete" if cmd.has("-C") || cmd.has("-F") => {
                report.add(BUILTIN, cmd.span, "completing a word is made to run a command");
            }
            "bind" if cmd.has("-x") => report.add(BUILTIN, cmd.span, "a key is made to run a command"),
            name if !KNOWN.contains(&name) => wrapped(cmd, report),
            _ => {}
        }
    }
}

/// Whether a program is known to do no more with its words than it says.
pub(crate) fn takes_words_only(name: &str) -> bool {
    KNOWN.contains(&name)
}

/// A program that nobody knows, with a dangerous command line behind it.
fn wrapped(cmd: &Cmd<'_>, report: &mut Report<'_>) {
    if crate::is_wrapper(cmd.name) {
        return;
    }
    let rest = cmd.rest();
    for (index, arg) in rest.iter().enumerate() {
        let begins = index < 2 || rest[index - 1].is("--") || rest[index - 1].val.prefix().starts_with('-');
        // Text with blanks, or a directory, names no program.
        let program = |word: &&str| !word.contains(char::is_whitespace) && !word.ends_with('/');
        let Some(name) = arg.known().filter(program).map(base_name) else { continue };
        let tail = &rest[index..];
        let bad = match name {
            "sudo" | "doas" | "pkexec" => tail.len() > 1,
            "rm" if begins => tail.len() > 2 && is_removal(tail),
            _ => false,
        };
        if bad {
            let span = arg.span.to(rest[rest.len() - 1].span);
            report.add(WRAPPED, span, format!("`{}` seems to run `{name}`", cmd.name));
            return;
        }
    }
}

fn is_removal(tail: &[Arg]) -> bool {
    tail.iter().skip(1).any(|arg| arg.val.prefix().starts_with('-'))
        && tail.iter().skip(1).any(|arg| arg.val.prefix().starts_with('/'))
}
