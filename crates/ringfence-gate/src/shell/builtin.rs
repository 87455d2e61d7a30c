//! Commands that change the shell itself.

use std::rc::Rc;

use ringfence_bash::Span;

use super::eval::Eval;
use super::run::Invocation;
use super::state::{Var, Written};
use crate::path::AbsPath;
use crate::value::{Arg, Val};

impl Eval<'_> {
    /// What a builtin does to the state of the shell.
    pub(crate) fn builtin(&mut self, name: &str, call: &Invocation<'_>) {
        let args = call.args.get(1..).unwrap_or_default();
        self.evaluated_names(name, args);
        match name {
            "cd" | "pushd" => self.change_directory(args),
            "popd" => self.st.cwd = self.st.previous.clone(),
            "export" | "declare" | "typeset" | "readonly" | "local" => self.declare(args, call),
            "unset" => {
                for name in args.iter().filter_map(Arg::known).filter(|word| !word.starts_with('-')) {
                    self.st.set(name, Var::Scalar(Val::default()));
                }
            }
            "set" => self.set(args),
            "shift" => self.shift(args),
            "read" | "mapfile" | "readarray" | "getopts" => self.read(name, args, call),
            "printf" => self.printf(args, call),
            "eval" => self.evaluate(args, call),
            "source" | "." => self.source(args),
            "trap" => self.trap(args),
            "alias" => self.alias(args),
            _ => {}
        }
    }

    /// Names and sums that a builtin evaluates: the subscript in `read 'a[$(cmd)]'` runs what is in it.
    fn evaluated_names(&mut self, name: &str, args: &[Arg]) {
        let evaluated: Vec<Arg> = match name {
            "read" | "mapfile" | "readarray" | "getopts" | "unset" | "declare" | "typeset" | "local"
            | "export" | "readonly" | "let" | "wait" => args.to_vec(),
            "test" | "[" | "printf" => args
                .windows(2)
                .filter(|pair| pair[0].is("-v") || name != "printf" && pair[0].is("-R"))
                .map(|pair| pair[1].clone())
                .chain(args.first().filter(|arg| arg.val.prefix().starts_with("-v")).cloned())
                .collect(),
            _ => return,
        };
        for arg in evaluated {
            if let Some(text) = arg.known().map(str::to_owned) {
                self.evaluated(&text, arg.span);
            }
        }
    }

    /// A text that runs the substitution in its subscript as soon as the shell takes it for a name or a number.
    pub(crate) fn evaluated(&mut self, text: &str, span: Span) {
        let Some((name, subscript)) = text.split_once('[') else { return };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let begins = name.rsplit(|c: char| !is_name(c)).next().unwrap_or_default();
        if begins.is_empty() {
            return;
        }
        let inside = match (subscript.find("$("), subscript.find('`')) {
            (Some(at), _) => subscript[at + 2..].rsplit_once(')').map_or("", |(inside, _)| inside),
            (None, Some(at)) => subscript[at + 1..].split('`').next().unwrap_or_default(),
            (None, None) => return,
        };
        let span = self.place(span);
        self.nested(inside, span, None, false);
        let message = format!("the shell runs what is in `{text}` when it takes it for a name or a number");
        self.out.trouble("evaluated-name", span, &message);
    }

    fn change_directory(&mut self, args: &[Arg]) {
        let target = args.iter().find(|arg| arg.is("-") || !arg.val.prefix().starts_with('-'));
        let next: Option<Rc<str>> = match target {
            None => self.st.home().map(Rc::from),
            Some(arg) if arg.is("-") => self.st.previous.clone(),
            Some(arg) => {
                AbsPath::of(&arg.val, self.st.cwd.as_deref()).and_then(|path| path.known()).map(Rc::from)
            }
        };
        self.st.previous = std::mem::replace(&mut self.st.cwd, next);
    }

    fn declare(&mut self, args: &[Arg], call: &Invocation<'_>) {
        let mut nameref = false;
        for arg in args {
            if let Some(option) = arg.known().filter(|word| word.starts_with('-')) {
                nameref |= option.contains('n');
                continue;
            }
            if let Some((name, value)) = arg.val.split_once('=') {
                let name = name.trim_end_matches('+');
                self.assigned(name, &value, arg.span);
                if let (true, Some(meant)) = (nameref, value.known().map(str::to_owned)) {
                    // What is set through the reference cannot be told.
                    self.assigned(&meant, &Val::unknown(), arg.span);
                }
                if matches!(self.st.vars.get(name), Some(Var::Array(_))) && value.has_unknown() {
                    // An array, taken in already.
                    continue;
                }
                let known = !nameref && !arg.val.prefix().contains("+=");
                self.st.set(name, if known { Var::Scalar(value) } else { Var::Unknown });
            } else if arg.known().is_none() {
                // Which variable is set cannot be told.
                self.emit(&[], "", &[], &[], call.span);
            }
        }
    }

    fn set(&mut self, args: &[Arg]) {
        let at = args.iter().position(|arg| !arg.val.prefix().starts_with(['-', '+']) || arg.is("--"));
        let Some(at) = at else { return };
        let values = &args[at..];
        let values = if values.first().is_some_and(|arg| arg.is("--")) { &values[1..] } else { values };
        // `set -o pipefail` sets no parameters.
        if at > 0 && args[at - 1].known().is_some_and(|word| word.ends_with('o')) && values.len() <= 1 {
            return;
        }
        let zero = Val::text("bash");
        let values = std::iter::once(zero).chain(values.iter().map(|arg| arg.val.clone())).collect();
        self.st.positional = Some(Rc::new(values));
    }

    fn shift(&mut self, args: &[Arg]) {
        let count = match args.first() {
            None => Some(1),
            Some(arg) => arg.known().and_then(|word| word.parse::<usize>().ok()),
        };
        match (count, self.st.positional.as_mut()) {
            (Some(count), Some(values)) if values.len() > count => {
                Rc::make_mut(values).drain(1..=count);
            }
            _ => self.st.positional = None,
        }
    }

    fn read(&mut self, name: &str, args: &[Arg], call: &Invocation<'_>) {
        let mut skip = false;
        for arg in args {
            let word = arg.known().unwrap_or_default();
            if std::mem::take(&mut skip) {
                continue;
            }
            if word.starts_with('-') {
                skip = word.ends_with(['d', 'i', 'n', 'N', 'p', 't', 'u', 'O', 's', 'c', 'C'])
                    && word.len() == 2
                    && word != "-s";
                continue;
            }
            if !word.is_empty() && (name != "getopts" || !word.contains(':')) {
                self.assigned(word, &Val::unknown(), call.span);
                self.st.set(word, Var::Unknown);
            }
        }
    }

    fn printf(&mut self, args: &[Arg], call: &Invocation<'_>) {
        if let [flag, name, rest @ ..] = args
            && flag.is("-v")
            && let Some(name) = name.known()
        {
            let mut words = vec![Arg::new(Val::text("printf"), call.span)];
            words.extend(rest.iter().cloned());
            let value =
                super::output::known("printf", &words, &self.input, None).unwrap_or_else(Val::unknown);
            self.assigned(name, &value, call.span);
            self.st.set(name, Var::Scalar(value));
        }
    }

    fn evaluate(&mut self, args: &[Arg], call: &Invocation<'_>) {
        let args = match args.first() {
            Some(first) if first.is("--") => &args[1..],
            _ => args,
        };
        let words: Option<Vec<&str>> = args.iter().map(Arg::known).collect();
        match words {
            Some(words) if words.is_empty() => {}
            Some(words) => {
                let span = args[0].span.to(args[args.len() - 1].span);
                self.nested(&words.join(" "), span, None, true);
            }
            None => {
                self.out.trouble(
                    "eval-unknown",
                    call.span,
                    "`eval` runs text that is not known before it runs",
                );
            }
        }
    }

    fn source(&mut self, args: &[Arg]) {
        let Some(file) = args.first() else { return };
        if file.val.is_process() || file.known().is_none() {
            let message = format!("the script to be sourced is not known before it runs: `{}`", file.show());
            self.out.trouble("source-unknown", file.span, &message);
            return;
        }
        let Some(path) = AbsPath::of(&file.val, self.st.cwd.as_deref()).and_then(|path| path.known()) else {
            return;
        };
        if matches!(path.as_str(), "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0") {
            self.out.trouble("source-unknown", file.span, "standard input is sourced as a script");
            return;
        }
        match self.st.written.get(&path).cloned() {
            Some(Written::Text(text)) => self.nested(&text, file.span, None, true),
            Some(Written::Foreign) => {
                self.out.trouble("run-fetched", file.span, "fetched or decoded text is sourced as a script");
            }
            None => {}
        }
    }

    fn trap(&mut self, args: &[Arg]) {
        let Some(action) = args.iter().find(|arg| !arg.is("--")) else { return };
        if args.len() < 2
            || action.is("-")
            || action.is("")
            || action.known().is_some_and(|word| word.starts_with('-'))
        {
            return;
        }
        self.later(action, "`trap` runs text that is not known before it runs");
    }

    fn alias(&mut self, args: &[Arg]) {
        for arg in args {
            if let Some((_, value)) = arg.val.split_once('=') {
                self.later(
                    &Arg::new(value, arg.span),
                    "an alias stands for text that is not known before it runs",
                );
            }
        }
    }

    /// A text that runs at another time, when variables may hold something else.
    fn later(&mut self, text: &Arg, unknown: &str) {
        match text.known().map(str::to_owned) {
            Some(known) => self.nested(&known, text.span, None, false),
            None => self.out.trouble("unknown-text", text.span, unknown),
        }
    }
}
