//! Programs that run code: from their words, from a file, from standard input.

use super::command::Input;
use super::unwrap::Inner;
use crate::code::Language;
use crate::value::{Arg, Val};

/// Shells whose language is read as bash.
pub(crate) const SHELLS: &[&str] =
    &["sh", "bash", "dash", "zsh", "ksh", "ksh93", "mksh", "ash", "rbash", "rzsh", "yash", "posh", "lksh"];

/// Shells with another language. What can be read is judged; a person is asked in any case.
pub(crate) const OTHER_SHELLS: &[&str] =
    &["fish", "nu", "pwsh", "powershell", "csh", "tcsh", "elvish", "xonsh", "rc", "es", "oil", "osh", "ysh"];

/// An interpreter of code.
struct Interpreter {
    /// How its name begins; digits and dots may follow.
    name: &'static str,
    language: Language,
    /// Letters after which code follows.
    code: &'static str,
    /// Long options, or a sub-command, after which code follows.
    long: &'static [&'static str],
    /// Letters with another value.
    values: &'static str,
    /// Long options with another value in the next word.
    long_values: &'static [&'static str],
    /// Letters after which a module is run, and no script.
    module: &'static str,
}

const fn interpreter(
    name: &'static str,
    language: Language,
    code: &'static str,
    values: &'static str,
) -> Interpreter {
    Interpreter { name, language, code, long: &[], values, long_values: &[], module: "" }
}

const INTERPRETERS: &[Interpreter] = &[
    Interpreter { module: "m", ..interpreter("python", Language::Python, "c", "WXQ") },
    Interpreter { module: "m", ..interpreter("pypy", Language::Python, "c", "WX") },
    Interpreter { module: "m", ..interpreter("ipython", Language::Python, "c", "") },
    Interpreter {
        long: &["--eval", "--print"],
        long_values: &["--require", "--import", "--loader", "--env-file", "--conditions"],
        ..interpreter("node", Language::JavaScript, "ep", "rC")
    },
    Interpreter { long: &["--eval", "--print"], ..interpreter("nodejs", Language::JavaScript, "ep", "rC") },
    Interpreter { long: &["--eval", "--print"], ..interpreter("bun", Language::JavaScript, "ep", "r") },
    Interpreter { long: &["eval"], ..interpreter("deno", Language::JavaScript, "", "") },
    Interpreter { long: &["--eval"], ..interpreter("tsx", Language::JavaScript, "ep", "") },
    interpreter("ts-node", Language::JavaScript, "ep", ""),
    interpreter("perl", Language::Other("perl"), "eE", "IMm"),
    interpreter("ruby", Language::Other("ruby"), "e", "IrC"),
    interpreter("php", Language::Other("php"), "rBRE", "dcSt"),
    interpreter("lua", Language::Other("lua"), "e", "l"),
    interpreter("luajit", Language::Other("lua"), "e", "l"),
    interpreter("tclsh", Language::Other("tcl"), "", ""),
    interpreter("wish", Language::Other("tcl"), "", ""),
    interpreter("expect", Language::Other("tcl"), "c", "f"),
    Interpreter {
        long: &["--eval", "--rpc-eval"],
        ..interpreter("elixir", Language::Other("elixir"), "e", "r")
    },
    Interpreter { long: &["-eval"], ..interpreter("erl", Language::Other("erlang"), "", "") },
    interpreter("guile", Language::Other("scheme"), "c", "l"),
    interpreter("racket", Language::Other("scheme"), "e", "lt"),
    interpreter("emacs", Language::Other("lisp"), "", "l"),
    Interpreter { long: &["--eval"], ..interpreter("sbcl", Language::Other("lisp"), "", "") },
    interpreter("ghc", Language::Other("haskell"), "e", "io"),
    interpreter("runghc", Language::Other("haskell"), "e", ""),
    Interpreter { long: &["--eval"], ..interpreter("julia", Language::Other("julia"), "eE", "p") },
    interpreter("Rscript", Language::Other("r"), "e", ""),
    interpreter("R", Language::Other("r"), "e", ""),
    interpreter("osascript", Language::Other("applescript"), "e", "l"),
    interpreter("scala", Language::Other("scala"), "e", ""),
    interpreter("groovy", Language::Other("groovy"), "e", ""),
    interpreter("jshell", Language::Other("java"), "", ""),
    interpreter("swift", Language::Other("swift"), "e", ""),
    Interpreter { long: &["eval"], ..interpreter("crystal", Language::Other("crystal"), "", "") },
    interpreter("janet", Language::Other("janet"), "e", ""),
];

/// Whether a program is in the table of interpreters, with any version.
pub(crate) fn is_one(name: &str) -> bool {
    SHELLS.contains(&name)
        || OTHER_SHELLS.contains(&name)
        || INTERPRETERS.iter().any(|entry| entry.fits(name))
}

impl Interpreter {
    fn fits(&self, name: &str) -> bool {
        name.strip_prefix(self.name)
            .is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.' || c == '-'))
    }
}

/// What an interpreter runs.
pub(crate) fn inner(name: &str, first: &Arg, args: &[Arg], input: &Input) -> Vec<Inner> {
    if SHELLS.contains(&name) {
        return shell(first, args, input);
    }
    if OTHER_SHELLS.contains(&name) {
        let mut inner = shell(first, args, input);
        if !inner.is_empty() {
            let message = format!("`{name}` has a language of its own, of which only part can be judged");
            inner.push(Inner::opaque("other-shell", first.span, message));
        }
        return inner;
    }
    match INTERPRETERS.iter().find(|entry| entry.fits(name)) {
        Some(entry) => code(entry, first, args, input),
        None => vec![],
    }
}

fn shell(first: &Arg, args: &[Arg], input: &Input) -> Vec<Inner> {
    let mut inner = vec![];
    let mut text_follows = false;
    let mut stdin = false;
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        let Some(word) = arg.known() else { break };
        at += 1;
        match word {
            "--" | "-" => break,
            "--rcfile" | "--init-file" => {
                inner.push(Inner::opaque(
                    "rc-file",
                    arg.span,
                    "a shell starts with a start-up file that the command chooses",
                ));
                at += 1;
            }
            "--command" | "--commands" => text_follows = true,
            _ if word.starts_with("--") => {
                if let Some(value) = word.strip_prefix("--command=") {
                    inner.push(Inner::shell(Arg::new(Val::text(value), arg.span)));
                }
            }
            _ if word.starts_with(['-', '+']) && word.len() > 1 => {
                let letters = &word[1..];
                if letters.eq_ignore_ascii_case("command") || letters.eq_ignore_ascii_case("encodedcommand") {
                    text_follows = true;
                    continue;
                }
                text_follows |= letters.contains('c') && word.starts_with('-');
                stdin |= letters.contains('s') && word.starts_with('-');
                if letters.ends_with(['o', 'O']) {
                    at += 1;
                }
            }
            _ => {
                at -= 1;
                break;
            }
        }
    }
    let rest = args.get(at..).unwrap_or_default();
    if text_follows {
        match rest.split_first() {
            Some((text, values)) => {
                let positional = values.iter().map(|arg| arg.val.clone()).collect();
                inner.push(Inner::Shell { text: text.clone(), positional: Some(positional) });
            }
            None => {
                inner.push(Inner::opaque("unknown-text", first.span, "a shell gets `-c` without a command"))
            }
        }
        return inner;
    }
    if let (Some(file), false) = (rest.first(), stdin) {
        if is_stdin(file) {
            inner.extend(from_input(first, input));
        } else if file.known().is_none() && !file.val.is_process() {
            let message = format!("the script to be run is not known before it runs: `{}`", file.show());
            inner.push(Inner::opaque("unknown-script", file.span, message));
        } else {
            inner.push(Inner::File { language: Language::Shell, path: file.clone() });
        }
        return inner;
    }
    inner.extend(from_input(first, input));
    inner
}

fn is_stdin(file: &Arg) -> bool {
    file.known().is_some_and(|word| matches!(word, "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0"))
}

/// A shell that reads its commands from standard input.
fn from_input(first: &Arg, input: &Input) -> Vec<Inner> {
    let mut inner = vec![];
    if !input.is_given() {
        return inner;
    }
    let piped = !input.upstream.is_empty();
    if let Some(text) = &input.text {
        inner.push(Inner::shell(Arg::new(text.clone(), first.span)));
    }
    if piped {
        let message = "a shell runs the output of the commands before it";
        inner.push(Inner::opaque("pipe-to-shell", first.span, message));
    } else if let Some(file) = &input.file {
        if file.val.is_process() || file.known().is_none() {
            inner.push(Inner::opaque(
                "pipe-to-shell",
                first.span,
                "a shell reads commands that are not known before it runs",
            ));
        } else {
            inner.push(Inner::File { language: Language::Shell, path: file.clone() });
            inner.push(Inner::opaque("pipe-to-shell", first.span, "a shell reads its commands from a file"));
        }
    }
    inner
}

fn code(entry: &Interpreter, first: &Arg, args: &[Arg], input: &Input) -> Vec<Inner> {
    let mut inner = vec![];
    let mut at = 0;
    let mut given = false;
    while let Some(arg) = args.get(at) {
        let prefix = arg.val.prefix();
        at += 1;
        if arg.is("--") || (prefix == "-" && arg.known().is_some()) {
            at -= 1;
            break;
        }
        if let Some((name, value)) = arg.val.split_once('=')
            && entry.long.contains(&name)
        {
            inner.push(Inner::Code { language: entry.language, text: Arg::new(value, arg.span) });
            given = true;
            continue;
        }
        if entry.long.iter().any(|long| arg.is(long)) {
            if let Some(text) = args.get(at) {
                inner.push(Inner::Code { language: entry.language, text: text.clone() });
                given = true;
                at += 1;
            }
            continue;
        }
        if prefix.starts_with("--") {
            if entry.long_values.contains(&prefix) {
                at += 1;
            }
            continue;
        }
        if !prefix.starts_with('-') {
            at -= 1;
            break;
        }
        for (position, letter) in prefix.char_indices().skip(1) {
            let glued = arg.val.skip(position + letter.len_utf8());
            if entry.code.contains(letter) {
                let text = if glued.segs().is_empty() {
                    at += 1;
                    args.get(at - 1).cloned()
                } else {
                    Some(Arg::new(glued, arg.span))
                };
                if let Some(text) = text {
                    inner.push(Inner::Code { language: entry.language, text });
                    given = true;
                }
                break;
            }
            if entry.module.contains(letter) {
                given = true;
                if glued.segs().is_empty() {
                    at += 1;
                }
                break;
            }
            if entry.values.contains(letter) {
                if glued.segs().is_empty() {
                    at += 1;
                }
                break;
            }
            // `-i.bak` takes the rest of the word.
            if letter == 'i' && matches!(entry.name, "perl" | "ruby") {
                break;
            }
        }
        if given && matches!(entry.language, Language::Python) {
            return inner;
        }
    }
    if given {
        return inner;
    }
    let file = args.get(at).filter(|arg| !arg.is("--")).or_else(|| args.get(at + 1));
    match file {
        Some(file) if file.is("-") || is_stdin(file) => {
            inner.extend(code_from_input(entry.language, first, input))
        }
        Some(file) if file.known().is_none() && args.iter().any(|arg| arg.val.is_process()) => {
            let message = "a script that is not known before it runs gets the output of a command";
            inner.push(Inner::opaque("run-output", file.span, message));
        }
        Some(file) => inner.push(Inner::File { language: entry.language, path: file.clone() }),
        None => inner.extend(code_from_input(entry.language, first, input)),
    }
    inner
}

fn code_from_input(language: Language, first: &Arg, input: &Input) -> Vec<Inner> {
    if let Some(text) = &input.text {
        return vec![Inner::Code { language, text: Arg::new(text.clone(), first.span) }];
    }
    if let Some(file) = &input.file {
        return vec![Inner::File { language, path: file.clone() }];
    }
    if input.upstream.is_empty() {
        return vec![];
    }
    let message = format!("the output of the commands before it is run as {}", language.name());
    vec![Inner::opaque("pipe-to-interpreter", first.span, message)]
}
