//! Programs whose words are code of their own: `awk`, `sed`, `make`, `python -m timeit`.

use super::command::Input;
use super::unwrap::Inner;
use super::wrapper::option_value;
use crate::code::{self, Language};
use crate::value::{Arg, Val};

/// Adds what options and operands of `name` run.
pub(crate) fn options(name: &str, first: &Arg, args: &[Arg], input: &Input, inner: &mut Vec<Inner>) {
    super::options::options(name, first, args, input, inner);
    match name {
        "git" => super::super::checks::git::inner(args, inner),
        "awk" | "gawk" | "mawk" | "nawk" | "original-awk" => awk(args, inner),
        "sed" | "gsed" => sed(args, inner),
        "make" | "gmake" => make(first, args, inner),
        _ if name.starts_with("python") || name.starts_with("pypy") => module(args, inner),
        _ => {}
    }
}

/// `python -m`: modules that run code of their words, and those that are programs.
fn module(args: &[Arg], inner: &mut Vec<Inner>) {
    let Some(at) = args.iter().position(|arg| arg.is("-m")) else { return };
    if args[..at].iter().any(|arg| !arg.val.prefix().starts_with('-')) {
        return;
    }
    match args.get(at + 1).and_then(Arg::known) {
        Some("timeit") => {
            let rest = &args[at + 2..];
            let options = super::args::Options { short: "nrsu", long: &["--setup", "--number", "--repeat"] };
            let setup = option_value(rest, "-s", "--setup");
            let statements = super::args::operands(rest, options).into_iter().cloned();
            for text in setup.into_iter().chain(statements) {
                inner.push(Inner::Code { language: Language::Python, text });
            }
        }
        Some("pip" | "pip3" | "twine" | "pipx" | "uv" | "ansible" | "coverage" | "mitmproxy") => {
            inner.push(Inner::command(args[at + 1..].to_vec()));
        }
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

fn make(first: &Arg, args: &[Arg], inner: &mut Vec<Inner>) {
    let file = option_value(args, "-f", "--file");
    if file.is_some_and(|file| file.is("-") || file.is("/dev/stdin") || file.val.has_unknown()) {
        inner.push(Inner::opaque("option-runs", first.span, "`make` reads its rules from standard input"));
    }
}
