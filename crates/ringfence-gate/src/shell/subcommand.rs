//! Options and operands of ordinary programs that run something.

use super::args::abbreviates;
use super::unwrap::{Inner, split_words};
use super::wrapper::option_value;
use crate::code::{self, Language};
use crate::value::{Arg, Val};

/// What the value of such an option is.
#[derive(Clone, Copy)]
enum Takes {
    /// A text for a shell.
    Shell,
    /// A program, perhaps with arguments, without a shell.
    Program,
    /// Something that makes a program run, in a form of its own.
    Opaque,
}

/// An option that runs something: programs, letter, long name, what it takes.
struct Runs(&'static [&'static str], &'static str, &'static str, Takes);

const OPTIONS: &[Runs] = &[
    Runs(&["tar", "gtar", "bsdtar"], "-I", "--use-compress-program", Takes::Shell),
    Runs(&["tar", "gtar"], "-F", "--info-script", Takes::Shell),
    Runs(&["tar", "gtar"], "", "--new-volume-script", Takes::Shell),
    Runs(&["tar", "gtar"], "", "--to-command", Takes::Shell),
    Runs(&["tar", "gtar"], "", "--rsh-command", Takes::Shell),
    Runs(&["tar", "gtar"], "", "--rmt-command", Takes::Shell),
    Runs(&["tar", "gtar"], "", "--checkpoint-action", Takes::Opaque),
    Runs(&["rsync"], "-e", "--rsh", Takes::Program),
    Runs(&["rsync"], "", "--rsync-path", Takes::Shell),
    Runs(&["sort", "gsort"], "", "--compress-program", Takes::Program),
    Runs(&["wget"], "", "--use-askpass", Takes::Program),
    Runs(&["wget"], "-e", "--execute", Takes::Opaque),
    Runs(&["gcc", "g++", "cc", "c++", "clang", "clang++"], "-wrapper", "-wrapper", Takes::Opaque),
    Runs(&["php"], "-d", "--define", Takes::Opaque),
    Runs(&["cargo"], "", "--config", Takes::Opaque),
    Runs(&["make", "gmake"], "", "--eval", Takes::Opaque),
    Runs(&["zip"], "-TT", "--unzip-command", Takes::Shell),
    Runs(&["split", "gsplit"], "", "--filter", Takes::Shell),
    Runs(&["man"], "-P", "--pager", Takes::Shell),
    Runs(&["man"], "-H", "--html", Takes::Shell),
    Runs(&["ssh", "scp", "sftp"], "-o", "--", Takes::Opaque),
    Runs(&["scp", "sftp"], "-S", "--", Takes::Program),
    Runs(&["ssh-keygen", "ssh-add"], "-D", "--", Takes::Opaque),
    Runs(&["node", "nodejs", "bun"], "-r", "--require", Takes::Opaque),
    Runs(&["node"], "", "--import", Takes::Opaque),
    Runs(&["node"], "", "--loader", Takes::Opaque),
    Runs(&["gdb", "lldb"], "-p", "--pid", Takes::Opaque),
    Runs(&["ctags"], "", "--options", Takes::Opaque),
    Runs(&["openssl"], "-engine", "--engine", Takes::Opaque),
    Runs(&["curl"], "-K", "--config", Takes::Opaque),
    Runs(&["dstat", "aria2c"], "", "--on-download-complete", Takes::Shell),
];

/// Values of options that make nothing run.
fn is_harmless(name: &str, value: &Val) -> bool {
    let Some(value) = value.known() else { return false };
    let plain = [
        "zstd", "xz", "gzip", "pigz", "bzip2", "lz4", "lzip", "pbzip2", "lzop", "ssh", "cat", "less", "more",
    ];
    let word = value.split_whitespace().next().unwrap_or_default();
    match name {
        "php" => {
            !value.contains("auto_") && !value.contains("extension") && !value.contains("disable_functions")
        }
        "cargo" => {
            !["wrapper", "runner", "linker", "rustc", "rustdoc", "credential", "alias", "include"]
                .iter()
                .any(|key| value.contains(key))
                && value.contains('=')
        }
        "ssh" | "scp" | "sftp" => {
            let key = value.to_ascii_lowercase();
            ![
                "proxycommand",
                "localcommand",
                "knownhostscommand",
                "proxyjump",
                "pkcs11",
                "include",
                "sendenv",
            ]
            .iter()
            .any(|bad| key.contains(bad))
        }
        "node" | "nodejs" | "bun" => !value.starts_with('/') && !value.contains(".."),
        "wget" => value.starts_with("robots"),
        "make" | "gmake" => false,
        _ => plain.contains(&word) && !value.contains([';', '|', '&', '`', '$']),
    }
}

/// Adds what options of `name` run.
pub(crate) fn options(name: &str, first: &Arg, args: &[Arg], inner: &mut Vec<Inner>) {
    for Runs(names, short, long, takes) in OPTIONS {
        if !names.contains(&name) {
            continue;
        }
        let short: &&str = if short.is_empty() { &"\0" } else { short };
        // Tar writes old-style letters and -C dir; only an option by itself counts.
        let Some(value) = option_value(args, short, long) else { continue };
        if !matches!(*short, "-S" | "-D") && is_harmless(name, &value.val) {
            continue;
        }
        match takes {
            Takes::Shell => inner.push(Inner::shell(value.clone())),
            Takes::Program => match value.known().and_then(split_words) {
                Some(words) => {
                    inner.push(Inner::command(
                        words.into_iter().map(|w| Arg::new(Val::text(w), value.span)).collect(),
                    ));
                }
                None => inner.push(Inner::shell(value.clone())),
            },
            Takes::Opaque => {}
        }
        let shown = if short.starts_with('-') && args.iter().any(|arg| arg.val.prefix().starts_with(short)) {
            short
        } else {
            long
        };
        inner.push(Inner::opaque(
            "option-runs",
            value.span,
            format!("`{name} {shown}` runs `{}`", value.show()),
        ));
    }
    match name {
        "git" => super::super::checks::git::inner(args, inner),
        "awk" | "gawk" | "mawk" | "nawk" | "original-awk" => awk(args, inner),
        "sed" | "gsed" => sed(args, inner),
        "vim" | "vi" | "nvim" | "ex" | "view" | "gvim" | "rvim" | "less" | "more" | "ed" => {
            editor(name, args, inner)
        }
        "psql" | "mysql" | "sqlite3" | "sqlite" | "mariadb" => client(args, inner),
        "gdb" | "lldb" => debugger(args, inner),
        "make" | "gmake" => make(first, args, inner),
        _ => {}
    }
}

fn awk(args: &[Arg], inner: &mut Vec<Inner>) {
    let options = super::args::Options {
        short: "Fvfieo",
        long: &["--field-separator", "--assign", "--file", "--include"],
    };
    let has_file = option_value(args, "-f", "--file").is_some();
    let program = super::args::operands(args, options).into_iter().next().cloned();
    if let (Some(program), false) = (program, has_file) {
        inner.push(Inner::Code { language: Language::Other("awk"), text: program });
    }
}

fn sed(args: &[Arg], inner: &mut Vec<Inner>) {
    let options = super::args::Options { short: "eflE", long: &["--expression", "--file", "--line-length"] };
    let mut programs: Vec<Arg> = option_value(args, "-e", "--expression").into_iter().collect();
    if programs.is_empty() && option_value(args, "-f", "--file").is_none() {
        programs.extend(
            super::args::operands(args, super::args::Options { short: "fl", ..options })
                .first()
                .map(|arg| (*arg).clone()),
        );
    }
    for program in programs {
        let Some(text) = program.known() else { continue };
        if let Some(what) = code::sed_runs(text) {
            if let code::Sed::Shell(command) = &what {
                inner.push(Inner::shell(Arg::new(Val::text(command.clone()), program.span)));
            }
            if what.is_writing_outside() || matches!(what, code::Sed::Shell(_)) {
                inner.push(Inner::opaque(
                    "option-runs",
                    program.span,
                    "this `sed` program runs commands or writes other files",
                ));
            }
        }
    }
}

fn editor(name: &str, args: &[Arg], inner: &mut Vec<Inner>) {
    let mut iter = args.iter();
    while let Some(arg) = iter.next() {
        let command = match arg.known() {
            Some("-c" | "--cmd" | "-S") => iter.next().and_then(Arg::known),
            Some(word) => word.strip_prefix('+').or_else(|| word.strip_prefix("-c")),
            None => None,
        };
        let Some(command) = command else { continue };
        let bang = command.find('!').map(|at| &command[at + 1..]);
        let runs = bang
            .is_some_and(|rest| !rest.is_empty() && !command.starts_with("wq") && !command.ends_with('!'));
        let words = [
            "system(",
            "py ",
            "py3 ",
            "python",
            "lua ",
            "perl ",
            "ruby ",
            "terminal",
            "term ",
            "job_start",
            "w !",
            "r !",
        ];
        if runs || words.iter().any(|word| command.contains(word)) {
            if let Some(text) = bang.filter(|_| runs) {
                inner.push(Inner::shell(Arg::new(Val::text(text.trim()), arg.span)));
            }
            inner.push(Inner::opaque("option-runs", arg.span, format!("`{name}` is told to run a command")));
        }
    }
}

fn client(args: &[Arg], inner: &mut Vec<Inner>) {
    for arg in args {
        let Some(word) = arg.known() else { continue };
        for line in word.lines() {
            let line = line.trim_start();
            let command = line
                .strip_prefix("\\!")
                .or_else(|| line.strip_prefix(".system"))
                .or_else(|| line.strip_prefix(".shell"))
                .or_else(|| line.strip_prefix("system "));
            if let Some(command) = command {
                inner.push(Inner::shell(Arg::new(Val::text(command.trim()), arg.span)));
                inner.push(Inner::opaque(
                    "option-runs",
                    arg.span,
                    "the client is told to run a shell command",
                ));
            }
        }
    }
}

fn debugger(args: &[Arg], inner: &mut Vec<Inner>) {
    let mut iter = args.iter();
    while let Some(arg) = iter.next() {
        let is_command = arg.known().is_some_and(|word| {
            matches!(word, "-ex" | "-iex" | "-o" | "--one-line") || abbreviates(word, "--eval-command")
        });
        if arg.is("--args") {
            let rest: Vec<Arg> = iter.cloned().collect();
            if !rest.is_empty() {
                inner.push(Inner::command(rest));
            }
            return;
        }
        if !is_command {
            continue;
        }
        let Some(value) = iter.next() else { return };
        let text = value.known().unwrap_or("!");
        let shell = text
            .strip_prefix('!')
            .or_else(|| text.strip_prefix("shell "))
            .or_else(|| text.strip_prefix("platform shell "));
        if let Some(shell) = shell {
            inner.push(Inner::shell(Arg::new(Val::text(shell.trim()), value.span)));
        }
        if shell.is_some()
            || text.starts_with("python")
            || text.starts_with("source")
            || text.contains("system(")
        {
            inner.push(Inner::opaque("option-runs", value.span, "the debugger is told to run a command"));
        }
    }
}

fn make(first: &Arg, args: &[Arg], inner: &mut Vec<Inner>) {
    for arg in args {
        if let Some((name, value)) = arg.val.split_once('=')
            && matches!(name, "SHELL" | ".SHELLFLAGS" | "MAKEFLAGS")
        {
            let harmless =
                value.known().is_some_and(|word| matches!(word, "/bin/sh" | "/bin/bash" | "bash" | "sh"));
            if !harmless {
                inner.push(Inner::opaque(
                    "option-runs",
                    arg.span,
                    format!("`make` is told which shell to use: `{}`", arg.show()),
                ));
            }
        }
    }
    let file = option_value(args, "-f", "--file");
    if file.is_some_and(|file| file.is("-") || file.is("/dev/stdin") || file.val.has_unknown()) {
        inner.push(Inner::opaque("option-runs", first.span, "`make` reads its rules from standard input"));
    }
}
