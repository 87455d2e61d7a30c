//! What a program starts in its turn.

use ringfence_bash::Span;

use super::command::{Assigned, Input};
use super::{find, interpreter, subcommand, wrapper};
use crate::code::Language;
use crate::value::{Arg, Seg, Val};

/// Something that a program runs.
#[derive(Debug)]
pub(crate) enum Inner {
    /// A command, as words.
    Command { args: Vec<Arg>, assigned: Vec<Assigned> },
    /// A text for a shell, with `$0` and what follows if they are given.
    Shell { text: Arg, positional: Option<Vec<Val>> },
    /// Code.
    Code { language: Language, text: Arg },
    /// A script in a file.
    File { language: Language, path: Arg },
    /// A text that may be one for a shell.
    Perhaps { text: Arg, message: String, is_sure: bool },
    /// A file that matters if it lies outside of the project.
    Outside { path: Arg, rule: &'static str, message: String },
    /// Something that cannot be told.
    Opaque { rule: &'static str, span: Span, message: String },
}

impl Inner {
    pub(crate) fn command(args: Vec<Arg>) -> Self {
        Self::Command { args, assigned: vec![] }
    }

    pub(crate) fn shell(text: Arg) -> Self {
        Self::Shell { text, positional: None }
    }

    pub(crate) fn opaque(rule: &'static str, span: Span, message: impl Into<String>) -> Self {
        Self::Opaque { rule, span, message: message.into() }
    }
}

/// What `name` with these words (the name first) runs.
pub(crate) fn unwrap(name: &str, args: &[Arg], input: &Input) -> Vec<Inner> {
    let Some((first, rest)) = args.split_first() else { return vec![] };
    let mut inner = match name {
        "env" => env(rest),
        "xargs" | "gxargs" => xargs(rest, input),
        "find" | "gfind" | "fd" | "fdfind" => find::commands(name, rest),
        "parallel" => parallel(rest),
        "watch" => watch(rest),
        "busybox" | "toybox" => vec![Inner::command(rest.to_vec())],
        _ => match wrapper::inner(name, rest) {
            Some(inner) => inner,
            None => interpreter::inner(name, first, rest, input),
        },
    };
    if matches!(name, "ssh" | "slogin" | "mosh") {
        wrapper::remote_input(first, rest, input, &mut inner);
    }
    subcommand::options(name, first, rest, input, &mut inner);
    if first.known().is_some_and(|word| word.contains('/')) && inner.is_empty() {
        inner.push(Inner::File { language: Language::Unknown, path: first.clone() });
    }
    inner
}

fn env(args: &[Arg]) -> Vec<Inner> {
    let mut assigned = vec![];
    let mut rest = args;
    while let Some((arg, more)) = rest.split_first() {
        let prefix = arg.val.prefix();
        let value_next = |more: &[Arg]| more.first().cloned();
        if arg.is("--") {
            rest = more;
            break;
        }
        if let Some(long) = prefix.strip_prefix("--") {
            let (long, glued) = match arg.val.split_once('=') {
                Some((name, value)) => (name.trim_start_matches('-').to_owned(), Some(value)),
                None => (long.to_owned(), None),
            };
            if long.len() >= 2 && "split-string".starts_with(&long) {
                let (value, more) = match glued {
                    Some(value) => (Arg::new(value, arg.span), more),
                    None => match value_next(more) {
                        Some(value) => (value, &more[1..]),
                        None => return vec![],
                    },
                };
                return split_string(&value, more);
            }
            let takes = glued.is_none()
                && (long.starts_with("un") || long.starts_with("ch") || long.starts_with("argv"));
            rest = if takes { more.get(1..).unwrap_or_default() } else { more };
            continue;
        }
        if prefix.starts_with('-') && prefix.len() > 1 {
            let mut skip = 0;
            for (at, letter) in prefix.char_indices().skip(1) {
                let glued = arg.val.skip(at + letter.len_utf8());
                match letter {
                    'S' => {
                        let (value, more) = if glued.segs().is_empty() {
                            match value_next(more) {
                                Some(value) => (value, &more[1..]),
                                None => return vec![],
                            }
                        } else {
                            (Arg::new(glued, arg.span), more)
                        };
                        return split_string(&value, more);
                    }
                    'u' | 'C' | 'P' | 'a' => {
                        skip = usize::from(glued.segs().is_empty());
                        break;
                    }
                    _ => {}
                }
            }
            rest = more.get(skip..).unwrap_or_default();
            continue;
        }
        if arg.is("-") {
            rest = more;
            continue;
        }
        match arg.val.split_once('=') {
            Some((name, value)) => {
                assigned.push(Assigned { name: name.to_owned(), value, span: arg.span });
                rest = more;
            }
            None => break,
        }
    }
    if rest.is_empty() && assigned.is_empty() {
        return vec![];
    }
    vec![Inner::Command { args: if rest.is_empty() { vec![] } else { rest.to_vec() }, assigned }]
}

/// `env -S` splits by rules of its own; what is plain is read as a shell would read it.
fn split_string(text: &Arg, more: &[Arg]) -> Vec<Inner> {
    let Some(known) = text.known() else {
        return vec![Inner::opaque(
            "unknown-text",
            text.span,
            "`env -S` gets text that is not known before it runs",
        )];
    };
    let mut args = vec![Arg::new(Val::text("env"), text.span)];
    match split_words(known) {
        Some(words) => args.extend(words.into_iter().map(|word| Arg::new(Val::text(word), text.span))),
        None => {
            return vec![Inner::opaque(
                "unknown-text",
                text.span,
                "`env -S` gets text that cannot be split into words",
            )];
        }
    }
    args.extend(more.iter().cloned());
    vec![Inner::command(args)]
}

/// Splits a text at blanks, with quotes. `None` if something in it would expand.
pub(crate) fn split_words(text: &str) -> Option<Vec<String>> {
    let script = ringfence_bash::parse(text).ok()?;
    let commands = script.simple_commands();
    let [only] = commands.as_slice() else { return None };
    if !only.command.redirects.is_empty() {
        return None;
    }
    let mut words = vec![];
    for assignment in &only.simple.assignments {
        match &assignment.value {
            ringfence_bash::Value::Scalar(word) => {
                words.push(format!("{}={}", assignment.name, word.as_literal()?));
            }
            ringfence_bash::Value::Array(_) => return None,
        }
    }
    for word in &only.simple.words {
        words.push(word.as_literal()?);
    }
    Some(words)
}

fn xargs(args: &[Arg], input: &Input) -> Vec<Inner> {
    let mut rest = args;
    let mut replace: Option<String> = None;
    let mut from_file = false;
    while let Some((arg, more)) = rest.split_first() {
        let Some(word) = arg.known() else { break };
        if word == "--" {
            rest = more;
            break;
        }
        if !word.starts_with('-') || word.len() < 2 {
            break;
        }
        rest = more;
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) =
                long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            from_file |= name.starts_with("arg-f");
            if name.starts_with("rep") {
                replace = Some(value.unwrap_or("{}").to_owned());
            }
            let takes = ["arg-file", "max-args", "max-procs", "max-chars", "delimiter", "process-slot-var"];
            if value.is_none() && takes.iter().any(|option| name.len() > 4 && option.starts_with(name)) {
                rest = rest.get(1..).unwrap_or_default();
            }
            continue;
        }
        for (at, letter) in word.char_indices().skip(1) {
            let glued = &word[at + letter.len_utf8()..];
            match letter {
                'i' => {
                    replace = Some(if glued.is_empty() { "{}".to_owned() } else { glued.to_owned() });
                    break;
                }
                'e' | 'l' => break,
                'I' | 'J' | 'a' | 'E' | 'L' | 'n' | 'P' | 's' | 'd' | 'R' | 'S' => {
                    let value = if glued.is_empty() {
                        let value = rest.first().and_then(Arg::known).unwrap_or_default().to_owned();
                        rest = rest.get(1..).unwrap_or_default();
                        value
                    } else {
                        glued.to_owned()
                    };
                    match letter {
                        'I' | 'J' => replace = Some(value),
                        'a' => from_file = true,
                        _ => {}
                    }
                    break;
                }
                _ => {}
            }
        }
    }
    if rest.is_empty() {
        return vec![];
    }
    let text = input.text.as_ref().and_then(Val::known).filter(|_| !from_file);
    match replace {
        Some(mark) => {
            let lines: Vec<Option<&str>> = match text {
                Some(text) => text.lines().take(8).map(Some).collect(),
                None => vec![None],
            };
            let line = |value: &Option<&str>| {
                let value = value.map_or_else(Val::unknown, Val::text);
                rest.iter().map(|arg| Arg::new(replaced(&arg.val, &mark, &value), arg.span)).collect()
            };
            lines.iter().map(|value| Inner::command(line(value))).collect()
        }
        None => {
            let mut args = rest.to_vec();
            let span = args[args.len() - 1].span;
            match text {
                Some(text) => {
                    let words = text.split(['\n', ' ', '\t', '\0']).filter(|word| !word.is_empty());
                    args.extend(words.take(64).map(|word| Arg::new(Val::text(word), span)));
                }
                None => args.push(Arg::new(Val::unknown(), span)),
            }
            vec![Inner::command(args)]
        }
    }
}

/// Puts `value` wherever `mark` stands in known text.
pub(crate) fn replaced(val: &Val, mark: &str, value: &Val) -> Val {
    let mut out = Val::default();
    for seg in val.segs() {
        match seg {
            Seg::Text(text) if !mark.is_empty() => {
                for (index, piece) in text.split(mark).enumerate() {
                    if index > 0 {
                        out.extend(value);
                    }
                    out.push_text(piece);
                }
            }
            seg => out.push(seg.clone()),
        }
    }
    out
}

fn parallel(args: &[Arg]) -> Vec<Inner> {
    let skip = args
        .iter()
        .position(|arg| !arg.val.prefix().starts_with('-') || arg.val.prefix().starts_with(":::"))
        .unwrap_or(args.len());
    let rest = &args[skip..];
    let cut = rest.iter().position(|arg| arg.val.prefix().starts_with(":::")).unwrap_or(rest.len());
    let (command, values) = rest.split_at(cut);
    let Some(first) = command.first() else {
        let of_file = values.first().is_some_and(|mark| mark.is("::::"))
            || args.iter().any(|arg| arg.is("-a") || arg.is("--arg-file"));
        if let (Some(last), true) = (args.last(), of_file || values.is_empty()) {
            return vec![Inner::opaque("unknown-script", last.span, "`parallel` runs the lines of a file")];
        }
        // Each value is a command.
        return values.iter().skip(1).map(|value| Inner::shell(value.clone())).collect();
    };
    let span = first.span.to(command[command.len() - 1].span);
    let mut text = Val::default();
    for (index, arg) in command.iter().enumerate() {
        if index > 0 {
            text.push_text(" ");
        }
        text.extend(&arg.val);
    }
    let unknown = [Arg::new(Val::unknown(), span)];
    let values: Vec<&Arg> = match values.get(1..) {
        Some(values) if !values.is_empty() => values.iter().take(16).collect(),
        _ => unknown.iter().collect(),
    };
    let mut inner = vec![];
    for value in values {
        let mut full = replaced(&text, "{}", &value.val);
        for mark in ["{.}", "{/}", "{//}", "{/.}", "{#}", "{%}"] {
            full = replaced(&full, mark, &value.val);
        }
        if full == text {
            full.push_text(" ");
            full.extend(&value.val);
        }
        // Even without the value, the words of the command itself are known.
        if full.known().is_none() && command.iter().all(|arg| arg.known().is_some()) {
            let mut args: Vec<Arg> = command.to_vec();
            if command.len() == 1
                && let Some(words) = command[0].known().and_then(split_words)
            {
                args = words.into_iter().map(|word| Arg::new(Val::text(word), span)).collect();
            }
            args.push(Arg::new(value.val.clone(), span));
            inner.push(Inner::command(args));
        } else {
            inner.push(Inner::shell(Arg::new(full, span)));
        }
    }
    inner
}

fn watch(args: &[Arg]) -> Vec<Inner> {
    let options = super::args::Options { short: "ns", long: &["--interval", "--equexit", "--shotsdir"] };
    let at = wrapper::skip_options(args, options);
    joined(&args[at..]).map(Inner::shell).into_iter().collect()
}

/// Several words as one text, as programs do that hand their words to a shell.
pub(crate) fn joined(args: &[Arg]) -> Option<Arg> {
    let (first, rest) = args.split_first()?;
    let mut text = first.val.clone();
    let mut span = first.span;
    for arg in rest {
        text.push_text(" ");
        text.extend(&arg.val);
        span = span.to(arg.span);
    }
    Some(Arg::new(text, span))
}
