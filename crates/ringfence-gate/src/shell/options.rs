//! Options and operands of ordinary programs that run something: the one walker over the table of them.

use super::args::abbreviates;
use super::command::Input;
use super::table::{Mark, Row, Spelling, Takes, general_rows, rows};
use super::unwrap::{Inner, split_words};
use crate::value::{Arg, Val};

/// Programs that do what their option is for.
const PACKERS: &[&str] = &[
    "zstd", "xz", "gzip", "pigz", "bzip2", "lz4", "lzip", "pbzip2", "lzop", "brotli", "pixz", "lbzip2",
    "unzstd", "gunzip", "pzstd", "compress", "lzma",
];
const PAGERS: &[&str] = &["less", "more", "most", "cat", "bat", "delta", "head", "never"];
const SHELLS: &[&str] =
    &["/bin/sh", "/bin/bash", "bash", "sh", "/usr/bin/bash", "/bin/dash", "dash", "zsh", "/bin/zsh"];
const EDITORS: &[&str] = &["vim", "vi", "nano", "emacs", "code"];

/// Programs whose words are taken apart elsewhere.
const STARTERS: &[&str] =
    &["env", "xargs", "gxargs", "find", "gfind", "fd", "fdfind", "parallel", "watch", "busybox", "toybox"];

/// Programs whose long options may be shortened.
const SHORTENING: &[&str] = &[
    "tar",
    "gtar",
    "bsdtar",
    "cpio",
    "gcpio",
    "sort",
    "gsort",
    "split",
    "gsplit",
    "rsync",
    "wget",
    "wget2",
    "curl",
    "man",
    "zip",
    "diff",
    "make",
    "gmake",
    "gdb",
    "emacs",
    "psql",
    "mysql",
    "mariadb",
    "strace",
    "nano",
    "less",
    "git",
    "dpkg",
    "tcpdump",
    "nmap",
    "zsh",
    "date",
    "hg",
    "openvpn",
    "gpg",
    "gpg2",
    "lftp",
    "ftp",
    "gawk",
    "perf",
    "patch",
    "enscript",
    "xz",
    "gzip",
    "logrotate",
    "mkfs",
    "fuser",
    "flock",
    "mutt",
];

/// What the table says about one value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    No,
    Yes,
    /// If the value is a file outside of the project.
    Outside,
}

/// The words of a command, as the table speaks of them.
struct Words<'a> {
    name: &'a str,
    args: &'a [Arg],
    /// Where options end: at `--`.
    end: usize,
    /// Which of the words are no options and no values of known ones.
    operands: Vec<usize>,
    /// Where the first of them stands.
    first: usize,
    /// Whether long options may be shortened.
    shortens: bool,
}

/// Adds what the table says about `name` with these words.
pub(crate) fn options(name: &str, first: &Arg, args: &[Arg], input: &Input, inner: &mut Vec<Inner>) {
    let mut rows: Vec<&Row> = rows(name).collect();
    // Without an option, a text or code among its words, nothing general can be said.
    let is_plain = input.text.is_none()
        && !args.iter().any(|arg| arg.val.prefix().starts_with('-') || arg.is("eval") || arg.is("exec"));
    let is_judged = || {
        crate::checks::takes_words_only(name)
            || STARTERS.contains(&name)
            || crate::is_wrapper(name)
            || super::interpreter::is_one(name)
    };
    if !is_plain && !is_judged() {
        rows.extend(general_rows());
    }
    if rows.is_empty() || args.is_empty() && input.text.is_none() && !rows.iter().any(|row| row.is_always()) {
        return;
    }
    let end = args.iter().position(|arg| arg.is("--") || arg.is("--args")).unwrap_or(args.len());
    let shortens = SHORTENING.contains(&name);
    let operands = operands(&rows, args, end, shortens);
    let first_operand = operands.first().copied().unwrap_or(args.len());
    let words = Words { name, args, end, operands, first: first_operand, shortens };
    for row in rows {
        let Some(with) = words.with(row) else { continue };
        for spec in &row.options {
            let last = if spec.is_own { words.first.min(end) } else { end };
            for (value, at, shown) in words.values(&spec.spelling, row, with, last, first, input) {
                words.apply(row, value, at, &shown, inner);
            }
        }
    }
}

/// Words that are no options, and no values of options that the table knows.
fn operands(rows: &[&Row], args: &[Arg], end: usize, shortens: bool) -> Vec<usize> {
    let mut operands = vec![];
    let mut is_value = false;
    for (at, arg) in args.iter().enumerate() {
        if at == end {
            continue;
        }
        let word = arg.val.prefix();
        let is_option = at < end && word.len() > 1 && word.starts_with(['-', '+']);
        if !std::mem::take(&mut is_value) && !is_option {
            operands.push(at);
        }
        if is_option {
            is_value = rows.iter().filter(|row| !row.is_general).flat_map(|row| &row.options).any(|spec| {
                !matches!(spec.spelling, Spelling::Word("-E" | "-x"))
                    && option(&spec.spelling, arg, shortens).is_some_and(|value| value.is_none())
            });
        }
    }
    operands
}

/// Whether a word is this option: its glued value, or nothing if that stands in the next word.
fn option(spelling: &Spelling, arg: &Arg, shortens: bool) -> Option<Option<Val>> {
    let word = arg.val.prefix();
    match spelling {
        Spelling::Letter(letter) => {
            let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'))?;
            if letters.starts_with(*letter) {
                let glued = arg.val.skip(1 + letter.len_utf8());
                return Some(Some(glued).filter(|val| !val.segs().is_empty()));
            }
            // `-sSd@file`: behind other letters, with a value that can be no letter.
            if let Some((before, behind)) = letters.split_once(*letter)
                && before.len() <= 5
                && before.chars().all(|c| c.is_ascii_alphabetic())
                && behind.starts_with(['@', '/', '.', '~', '!', '|', '{', '(', '=', '"', ':'])
            {
                return Some(Some(arg.val.skip(1 + before.len() + letter.len_utf8())));
            }
            let cluster = letters.len() <= 5 && letters.chars().all(|c| c.is_ascii_alphabetic());
            (cluster && letters.ends_with(*letter) && arg.known().is_some()).then_some(None)
        }
        Spelling::Long(long) => match arg.val.split_once('=') {
            Some((name, value)) => {
                (name == *long || shortens && abbreviates(name, long)).then_some(Some(value))
            }
            None => (word == *long || shortens && abbreviates(word, long)).then_some(None),
        },
        Spelling::Word(exact) => {
            if arg.is(exact) {
                return Some(None);
            }
            let (name, value) = arg.val.split_once('=')?;
            (name == *exact && exact.starts_with('-')).then_some(Some(value))
        }
        Spelling::Glued(before) => word.starts_with(before).then(|| Some(arg.val.skip(before.len()))),
        Spelling::Pattern(before, "") if !word.contains('=') => {
            word.starts_with(before).then(|| Some(arg.val.skip(before.len())))
        }
        Spelling::Pattern(before, behind) => {
            let (name, value) = match arg.val.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word, None),
            };
            let rest = name.strip_prefix(before)?;
            let fits = behind
                .split('*')
                .try_fold(rest, |rest, piece| rest.find(piece).map(|at| &rest[at + piece.len()..]));
            let is_open = behind.is_empty() || behind.ends_with('*');
            fits.is_some_and(|left| left.is_empty() || is_open).then_some(value)
        }
        _ => None,
    }
}

/// A value, where it stands among the words, and the option for people.
type Found = (Option<Arg>, usize, String);

impl Words<'_> {
    /// Where the word of the column `with` stands; nothing if it is not there.
    fn with(&self, row: &Row) -> Option<usize> {
        if row.with.is_empty() {
            return Some(0);
        }
        let is = |arg: &Arg| arg.known().is_some_and(|word| row.with.contains(&word));
        if row.with.iter().any(|word| word.starts_with('-')) {
            return self.args[..self.end].iter().position(is);
        }
        self.operands.iter().take(3).copied().find(|at| is(&self.args[*at]))
    }

    fn values(
        &self,
        spelling: &Spelling,
        row: &Row,
        with: usize,
        last: usize,
        first: &Arg,
        input: &Input,
    ) -> Vec<Found> {
        let shown = |at: usize| format!("{} {}", self.name, self.args[at].show());
        let behind = |at: &&usize| row.with.is_empty() || **at > with;
        let word = |at: usize| (Some(self.args[at].clone()), at, self.name.to_owned());
        match spelling {
            Spelling::Operand => self.operands.iter().filter(behind).map(|at| word(*at)).collect(),
            Spelling::First => self.operands.iter().find(behind).map(|at| word(*at)).into_iter().collect(),
            Spelling::Last => {
                self.operands.iter().rev().find(behind).map(|at| word(*at)).into_iter().collect()
            }
            Spelling::Each => (0..self.args.len()).map(word).collect(),
            Spelling::Tail => {
                let tail = |at: usize| {
                    let arg = &self.args[at];
                    let (_, value) = arg.val.split_once('=').or_else(|| arg.val.split_once(':'))?;
                    arg.val
                        .prefix()
                        .starts_with('-')
                        .then(|| (Some(Arg::new(value, arg.span)), at, shown(at)))
                };
                (0..self.end).filter_map(tail).collect()
            }
            Spelling::With => vec![(Some(self.args[with].clone()), with, shown(with))],
            Spelling::Always => vec![(Some(first.clone()), 0, self.name.to_owned())],
            Spelling::Stdin => input
                .text
                .iter()
                .map(|text| (Some(Arg::new(text.clone(), first.span)), 0, self.name.to_owned()))
                .collect(),
            Spelling::Word("--") => {
                (self.end < self.args.len()).then(|| (None, self.end, shown(self.end))).into_iter().collect()
            }
            _ => {
                let last = if *spelling == Spelling::Long("--args") { self.args.len() } else { last };
                let mut found = vec![];
                for (at, arg) in self.args.iter().enumerate().take(last) {
                    let Some(glued) = option(spelling, arg, self.shortens && !row.is_general) else {
                        continue;
                    };
                    // A word that another option is by its full name is no row of letters.
                    let is_letter = matches!(spelling, Spelling::Letter(_)) && glued.is_none();
                    if is_letter && arg.val.prefix().len() > 2 && self.is_named(arg) {
                        continue;
                    }
                    let value = match glued {
                        Some(value) => Some(Arg::new(value, arg.span)),
                        None => self.args.get(at + 1).cloned(),
                    };
                    let option = arg.val.prefix().split('=').next().unwrap_or_default();
                    found.push((value, at, format!("{} {option}", self.name)));
                }
                found
            }
        }
    }

    /// Whether the table has an option that is written just so: `-ex` is not `-e -x`.
    fn is_named(&self, arg: &Arg) -> bool {
        rows(self.name).flat_map(|row| &row.options).any(|spec| match spec.spelling {
            Spelling::Word(word) => arg.is(word),
            _ => false,
        })
    }

    fn apply(&self, row: &Row, value: Option<Arg>, at: usize, shown: &str, inner: &mut Vec<Inner>) {
        if row.takes == Takes::Rest {
            let begin = match &value {
                // An operand is the command itself.
                Some(value) if self.args.get(at).is_some_and(|arg| arg == value) => at,
                _ => at + 1,
            };
            let rest = self.args.get(begin..).unwrap_or_default();
            if !rest.is_empty() {
                inner.push(Inner::command(rest.to_vec()));
            }
            return;
        }
        let alone = row.only.contains(&Mark::Alone);
        let span =
            value.as_ref().map_or(self.args.get(at).map_or_else(Default::default, |a| a.span), |v| v.span);
        let holds = match &value {
            _ if alone => Holds::Yes,
            None => return,
            Some(value) if value.val.is_process() && matches!(row.takes, Takes::Load | Takes::Settings) => {
                Holds::Yes
            }
            Some(value) => holds(row, &value.val),
        };
        let holds = match (&value, holds) {
            (Some(value), Holds::Yes) if is_fine(row, &value.val) => Holds::No,
            (Some(value), Holds::Yes)
                if row.fine.contains(&"@inside")
                    && !value.show().contains("://")
                    && !value.val.is_process() =>
            {
                Holds::Outside
            }
            (_, holds) => holds,
        };
        let idle =
            row.takes == Takes::Send && self.stays_here() || row.takes == Takes::Changes && self.is_dry();
        if holds == Holds::No || idle {
            return;
        }
        let what = value.as_ref().map(Arg::show).unwrap_or_default();
        let message = match row.takes {
            Takes::Shell | Takes::Program | Takes::Judged | Takes::Perhaps => {
                format!("`{shown}` runs `{what}`")
            }
            Takes::Script => format!("`{shown}` is told to run something: `{what}`"),
            Takes::Load => format!("`{shown}` loads code that is not judged: `{what}`"),
            Takes::Settings => format!("`{shown}` takes settings that decide what it runs: `{what}`"),
            Takes::Source => format!("`{shown}` takes programs from elsewhere: `{what}`"),
            Takes::Send => format!("`{shown}` sends data to another machine: `{what}`"),
            Takes::Changes | Takes::Rest => format!("`{shown}` changes something outside of the project"),
        };
        let rule = match row.takes {
            Takes::Send => "data-sent",
            Takes::Source => "foreign-source",
            Takes::Changes | Takes::Rest => "machine-changed",
            _ => "option-runs",
        };
        if let Some(value) = &value {
            judged(row, value, inner);
        }
        match (holds, value) {
            (_, Some(text)) if row.takes == Takes::Perhaps => {
                // A letter may mean anything; a whole word means what it says.
                let is_sure = shown.contains(" --");
                inner.push(Inner::Perhaps { text, message, is_sure });
            }
            _ if row.takes == Takes::Judged => {}
            (Holds::Outside, Some(path)) => inner.push(Inner::Outside { path, rule, message }),
            _ => inner.push(Inner::opaque(rule, span, message)),
        }
    }

    /// Whether nothing is done, and only told.
    fn is_dry(&self) -> bool {
        let dry = [
            "--dry-run",
            "--dry-run=client",
            "--dry-run=server",
            "--help",
            "--version",
            "--simulate",
            "--check",
            "--syntax-check",
            "--list-tasks",
            "--list-hosts",
        ];
        self.args[..self.end].iter().any(|arg| arg.known().is_some_and(|word| dry.contains(&word)))
    }

    /// Whether the only addresses among the words are of this machine.
    fn stays_here(&self) -> bool {
        let addresses = || self.operands.iter().map(|at| self.args[*at].val.prefix());
        addresses().any(is_loopback) && !addresses().any(|word| word.contains("://") && !is_loopback(word))
    }
}

/// Whether an address is of this machine.
pub(crate) fn is_loopback(address: &str) -> bool {
    let host = address.split_once("://").map_or(address, |(_, rest)| rest);
    let host = host.rsplit_once('@').map_or(host, |(_, rest)| rest);
    let rest = ["localhost", "127.0.0.1", "[::1]", "0.0.0.0", "host.docker.internal"]
        .iter()
        .find_map(|local| host.strip_prefix(local));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '/', '?']))
}

/// Adds what can be judged of a value.
fn judged(row: &Row, value: &Arg, inner: &mut Vec<Inner>) {
    match row.takes {
        Takes::Shell | Takes::Judged => inner.push(Inner::shell(value.clone())),
        Takes::Program => match value.known().and_then(split_words) {
            Some(words) => {
                let words = words.into_iter().map(|word| Arg::new(Val::text(word), value.span));
                inner.push(Inner::command(words.collect()));
            }
            None => inner.push(Inner::shell(value.clone())),
        },
        Takes::Script => {
            let Some(text) = value.known() else { return };
            for line in text.lines().map(script_line) {
                let shell = ["!", "shell ", ".shell ", ".system ", "\\!", "system ", "platform shell "];
                if let Some(command) = shell.iter().find_map(|mark| line.strip_prefix(mark)) {
                    inner.push(Inner::shell(Arg::new(Val::text(command.trim()), value.span)));
                }
            }
        }
        _ => {}
    }
}

/// A line without what may stand before a command: blanks, a colon, `silent`.
fn script_line(line: &str) -> &str {
    let line = line.trim_start_matches([' ', '\t', ':']);
    line.strip_prefix("silent")
        .map_or(line, |rest| rest.trim_start_matches(['!', ' '].as_slice()))
        .trim_start()
}

fn holds(row: &Row, value: &Val) -> Holds {
    if row.only.is_empty() {
        return Holds::Yes;
    }
    let text = value.lossy("\u{fffd}").to_lowercase();
    let mut outside = false;
    for mark in &row.only {
        let yes = match mark {
            Mark::Alone => true,
            Mark::Path => text.contains('/'),
            Mark::File => {
                text.starts_with(['.', '/', '~']) || text.starts_with("file:") || text.starts_with("data:")
            }
            Mark::Url => text.contains("://") || text.starts_with("git+"),
            Mark::Remote => is_remote(&text),
            Mark::Outside => {
                outside |= !text.contains("://");
                false
            }
            Mark::Code => {
                outside |= is_code(&text);
                false
            }
            Mark::Text(mark) => text.contains(mark.as_str()),
            Mark::LineStart(mark) => text
                .lines()
                .any(|line| line.starts_with(mark.as_str()) || script_line(line).starts_with(mark.as_str())),
        };
        if yes {
            return Holds::Yes;
        }
    }
    // A script that is not known may do all of it.
    if row.takes == Takes::Script
        && !row.is_general
        && value.known().is_none()
        && value.prefix().is_empty()
        && !value.segs().is_empty()
    {
        return if value.has_glob() { Holds::No } else { Holds::Yes };
    }
    if outside { Holds::Outside } else { Holds::No }
}

/// Whether a file is a library or a script, by its ending.
fn is_code(name: &str) -> bool {
    let endings = [
        "so", "dll", "dylib", "jar", "node", "ko", "wasm", "py", "rb", "pl", "lua", "js", "mjs", "cjs", "sh",
        "bash", "el", "vim", "nse", "tcl", "scm", "vd", "jl", "php", "groovy", "conf", "cfg", "rc", "ef",
    ];
    let has_ending = name.rsplit_once('.').is_some_and(|(_, ending)| endings.contains(&ending));
    let recipes = [
        "procfile",
        "rakefile",
        "gemfile",
        "tiltfile",
        "makefile",
        "justfile",
        "taskfile",
        "brewfile",
        "vagrantfile",
        "fastfile",
        "podfile",
        "capfile",
        "guardfile",
        "earthfile",
        "snakefile",
    ];
    has_ending || recipes.contains(&crate::path::base_name(name))
}

/// `host:path`, but no path with a colon in it.
fn is_remote(text: &str) -> bool {
    text.split_once(':').is_some_and(|(host, _)| {
        !host.is_empty() && !host.contains('/') && !host.starts_with(['-', '.']) && !is_loopback(host)
    })
}

fn is_fine(row: &Row, value: &Val) -> bool {
    let Some(text) = value.known() else { return false };
    let word = text.split_whitespace().next().unwrap_or_default();
    let named = |fine: &&str| match *fine {
        "@packers" => PACKERS.contains(&word),
        "@pagers" => PAGERS.contains(&word),
        "@shells" => SHELLS.contains(&text.trim()),
        "@editors" => EDITORS.contains(&word),
        "@name" => !text.contains(['/', '\\']) && !text.starts_with(['.', '~']),
        "@inside" => false,
        fine => {
            word == fine
                || word.split(['=', ',']).next() == Some(fine)
                || fine.starts_with('/') && word.starts_with(fine)
        }
    };
    let runs = matches!(row.takes, Takes::Shell | Takes::Program);
    row.fine.iter().any(named) && !(runs && text.contains([';', '|', '&', '`', '$', '\n']))
}
