//! Which files a command writes, moves or changes, by its words.

use crate::shell::Cmd;
use crate::shell::args::{Item, Options, items, operands};
use crate::value::{Arg, Val};

/// How a file is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// Written, made or replaced.
    Write,
    /// Moved away.
    Move,
    /// Its rights changed.
    Rights,
}

/// Options with a value of the programs below, where operands matter.
fn options(name: &str) -> Options {
    match name {
        "cp" | "mv" | "install" | "ln" => Options {
            short: "tSmgo",
            long: &["--target-directory", "--suffix", "--mode", "--group", "--owner"],
        },
        "rsync" | "scp" => {
            Options { short: "efoPiFcJlS", long: &["--rsh", "--exclude", "--include", "--filter"] }
        }
        "touch" => Options { short: "drt", long: &["--date", "--reference"] },
        "truncate" => Options { short: "sr", long: &["--size", "--reference"] },
        "mkdir" => Options { short: "m", long: &["--mode"] },
        "sed" | "gsed" => Options { short: "efl", long: &["--expression", "--file"] },
        _ => Options::default(),
    }
}

/// Calls `each` with every file that `cmd` writes.
pub(crate) fn for_each(cmd: &Cmd<'_>, mut each: impl FnMut(&Arg, How)) {
    for redir in cmd.redirs.iter().filter(|redir| redir.writes()) {
        if let Some(target) = &redir.target
            && !target.known().is_some_and(|word| word.chars().all(|c| c.is_ascii_digit() || c == '-'))
        {
            each(target, How::Write);
        }
    }
    let rest = cmd.rest();
    match cmd.name {
        "tee" | "touch" | "truncate" | "mkdir" | "sponge" | "vim" | "vi" | "nvim" | "nano" | "emacs"
        | "ed" | "ex" => {
            operands(rest, options(cmd.name)).into_iter().for_each(|arg| each(arg, How::Write));
        }
        "cp" | "mv" | "install" | "ln" | "rsync" | "scp" => {
            let mut named = vec![];
            let mut into = None;
            for item in items(rest, options(cmd.name)) {
                match item {
                    Item::Operand(arg) => named.push(arg),
                    Item::Option { name, value: Some(value), arg }
                        if name == "-t" || name.starts_with("--target") =>
                    {
                        into = Some(Arg::new(value, arg.span));
                    }
                    Item::Option { .. } => {}
                }
            }
            let target = into.or_else(|| {
                if named.len() > 1 || cmd.name == "install" { named.pop().cloned() } else { None }
            });
            if let Some(target) = target {
                each(&target, How::Write);
                // Into a directory, the names stay.
                for source in &named {
                    if let Some(name) = source.known().map(crate::path::base_name)
                        && target.val.prefix().ends_with('/')
                    {
                        let mut val = target.val.clone();
                        val.push_text(name);
                        each(&Arg::new(val, target.span), How::Write);
                    }
                }
            }
            if cmd.name == "mv" {
                named.into_iter().for_each(|arg| each(arg, How::Move));
            }
        }
        "chmod" | "chown" | "chgrp" | "chattr" | "setfacl" => {
            operands(rest, Options::default()).into_iter().skip(1).for_each(|arg| each(arg, How::Rights));
        }
        "dd" => {
            for arg in rest {
                if let Some(("of", value)) = arg.val.split_once('=') {
                    each(&Arg::new(value, arg.span), How::Write);
                }
            }
        }
        "sed" | "gsed" | "perl" => {
            let in_place = rest.iter().any(|arg| {
                let word = arg.val.prefix();
                word.starts_with("--in-place")
                    || (word.starts_with('-') && !word.starts_with("--") && word.contains('i'))
            });
            if in_place {
                operands(rest, options(cmd.name)).into_iter().skip(1).for_each(|arg| each(arg, How::Write));
            }
        }
        "curl" | "wget" | "sort" | "gcc" | "cc" | "clang" | "ld" | "xxd" => {
            let letters = if cmd.name == "wget" { "OPao" } else { "o" };
            let named = Options {
                short: if cmd.name == "wget" { "OPaoU" } else { "oHdFXuAebT" },
                long: &["--output", "--output-document", "--directory-prefix"],
            };
            for item in items(rest, named) {
                if let Item::Option { name, value: Some(value), arg } = item
                    && (letters.contains(name.trim_start_matches('-')) && name.len() == 2
                        || name.starts_with("--output")
                        || name.starts_with("--directory-p"))
                {
                    each(&Arg::new(value, arg.span), How::Write);
                }
            }
        }
        "find" | "gfind" => {
            for pair in rest.windows(2) {
                if pair[0]
                    .known()
                    .is_some_and(|word| matches!(word, "-fprint" | "-fprintf" | "-fls" | "-fprint0"))
                {
                    each(&pair[1], How::Write);
                }
            }
        }
        "unzip" | "tar" | "gtar" | "git" => {
            let (short, long) = if cmd.name == "unzip" { ("-d", "-d") } else { ("-C", "--directory") };
            if cmd.name != "git" {
                for pair in rest.windows(2) {
                    if pair[0].is(short) || pair[0].is(long) {
                        each(&pair[1], How::Write);
                    }
                }
            }
        }
        _ => {}
    }
}

/// Whether a value is a file name at all, and not a descriptor.
pub(crate) fn is_nothing(val: &Val) -> bool {
    val.segs().is_empty()
}
