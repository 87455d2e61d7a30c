//! Running a simple command, as far as reading goes.

use ringfence_bash::{Command, PartKind, Simple, Span};

use super::command::{Assigned, Brief, Redir};
use super::eval::Eval;
use super::output;
use super::state::{Var, Written};
use super::unwrap::{Inner, unwrap};
use crate::code::{self, Language};
use crate::finding::Decision;
use crate::path::base_name;
use crate::value::{Arg, Val};

/// How many programs may start one another in one command.
const MOST_WRAPPERS: usize = 16;

/// A command on its way through its wrappers.
pub(crate) struct Invocation<'a> {
    pub(crate) args: Vec<Arg>,
    pub(crate) assigned: Vec<Assigned>,
    pub(crate) redirs: &'a [Redir],
    pub(crate) span: Span,
    pub(crate) depth: usize,
}

impl Eval<'_> {
    pub(crate) fn simple(&mut self, command: &Command, simple: &Simple) -> Vec<Brief> {
        let span = self.place(command.span);
        let mut assigned = vec![];
        let mut vars = vec![];
        for assignment in &simple.assignments {
            if let Some(index) = &assignment.index {
                self.parts_for_effect(index);
            }
            let mut var = self.assignment_value(&assignment.value);
            if assignment.append || assignment.index.is_some() {
                var = self.appended(&assignment.name, &var, assignment.index.is_some());
            }
            let value = match &var {
                Var::Scalar(val) => val.clone(),
                Var::Array(_) | Var::Unknown => Val::unknown(),
            };
            if let Some(text) = value.known().filter(|text| text.contains('[')).map(str::to_owned) {
                self.evaluated(&text, assignment.span);
            }
            assigned.push(Assigned {
                name: assignment.name.clone(),
                value,
                span: self.place(assignment.span),
            });
            vars.push((assignment.name.as_str(), var.clone()));
            if simple.words.is_empty() {
                // Later assignments of the same row see it.
                self.st.set(&assignment.name, var);
            }
        }
        self.array_arguments(simple);
        let args = self.args(&simple.words);
        let redirs = self.redirects(&command.redirects);
        if args.is_empty() {
            self.emit(&[], "", &assigned, &redirs, span);
            for (name, var) in vars {
                self.st.set(name, var);
            }
            self.remember(&redirs, &[]);
            return vec![];
        }
        let before = self.input.clone();
        self.redirect_input(&redirs);
        let briefs = self.invoke(Invocation { args, assigned, redirs: &redirs, span, depth: 0 });
        self.input = before;
        self.remember(&redirs, &briefs);
        briefs
    }

    fn appended(&self, name: &str, var: &Var, element: bool) -> Var {
        match (self.st.vars.get(name), var) {
            _ if element => Var::Unknown,
            (Some(Var::Scalar(old)), Var::Scalar(new)) => {
                let mut val = old.clone();
                val.extend(new);
                Var::Scalar(val)
            }
            (Some(Var::Array(old)), Var::Array(new)) => Var::Array(old.iter().chain(new).cloned().collect()),
            _ => Var::Unknown,
        }
    }

    /// `declare -a x=(…)`: the one place where an array stands in an argument.
    fn array_arguments(&mut self, simple: &Simple) {
        for word in &simple.words {
            if let [name, array] = word.parts.as_slice()
                && let (PartKind::Lit(name), PartKind::Array(items)) = (&name.kind, &array.kind)
                && let Some(name) = name.strip_suffix('=')
            {
                let var = self.assignment_value(&ringfence_bash::Value::Array(items.clone()));
                self.st.set(name, var);
            }
        }
    }

    /// Runs a command with its words resolved.
    pub(crate) fn invoke(&mut self, call: Invocation<'_>) -> Vec<Brief> {
        let Some(first) = call.args.first() else { return vec![] };
        if call.depth > MOST_WRAPPERS {
            self.out.trouble(
                "too-deep",
                call.span,
                "programs that start one another go too deep to be judged",
            );
            return vec![];
        }
        let Some(word) = first.known().map(str::to_owned) else {
            self.emit(&call.args, "", &call.assigned, call.redirs, call.span);
            return vec![Brief { name: String::new(), foreign: true, output: None }];
        };
        if let Some(function) = self.st.functions.get(&word).cloned() {
            self.emit(&[], "", &call.assigned, call.redirs, call.span);
            for set in &call.assigned {
                self.st.set(&set.name, Var::Scalar(set.value.clone()));
            }
            return self.call(&function, &call.args);
        }
        let name = base_name(&word).to_owned();
        self.emit(&call.args, &name, &call.assigned, call.redirs, call.span);
        self.fetched(&name, &call.args);
        self.builtin(&name, &call);
        if matches!(name.as_str(), "make" | "gmake") {
            self.recipes(call.span);
        }
        let briefs = self.unwrapped(&name, &call);
        let output = output::known(&name, &call.args, &self.input, self.st.cwd.as_deref());
        if briefs.is_empty() || output.is_some() {
            let foreign = output::is_foreign(&name, &call.args);
            return vec![Brief { name, foreign, output }];
        }
        briefs
    }

    /// Remembers files that are brought from the network or decoded.
    fn fetched(&mut self, name: &str, args: &[Arg]) {
        if !output::is_foreign(name, args) && !matches!(name, "tee" | "dd") {
            return;
        }
        let foreign = output::is_foreign(name, args) || self.input.upstream.iter().any(|brief| brief.foreign);
        let mut files = vec![];
        for pair in args.windows(2) {
            let flag = pair[0].known().unwrap_or_default();
            if flag.starts_with('-') && flag.ends_with(['o', 'O'])
                || flag == "-out"
                || flag.starts_with("--output")
            {
                files.push(pair[1].val.clone());
            }
        }
        for arg in &args[1..] {
            match arg.val.split_once('=') {
                Some((flag, value)) if flag.starts_with("--output") || flag == "of" => files.push(value),
                _ if name == "tee" && !arg.val.prefix().starts_with('-') => files.push(arg.val.clone()),
                _ => {}
            }
            // `curl -O`, `wget URL`: the file takes its name from the address.
            let is_address = |word: &&str| {
                word.contains("://") || name == "wget" && !word.starts_with('-') && word.contains('/')
            };
            if let Some(address) = arg.known().filter(is_address) {
                files.push(Val::text(base_name(address)));
                for pair in args.windows(2).filter(|pair| pair[0].is("-P") || pair[0].is("--output-dir")) {
                    let mut file = pair[1].val.clone();
                    file.push_text("/");
                    file.push_text(base_name(address));
                    files.push(file);
                }
            }
        }
        for file in files {
            let path = crate::path::AbsPath::of(&file, self.st.cwd.as_deref()).and_then(|path| path.known());
            let Some(path) = path else { continue };
            let known = if name == "tee" {
                self.input.text.as_ref().and_then(Val::known).map(str::to_owned)
            } else {
                None
            };
            if foreign || known.is_some() {
                let append = args.iter().any(|arg| arg.is("-a"));
                self.wrote(path, known.as_deref(), foreign, append);
            }
        }
    }

    /// A makefile that the text wrote itself: its recipes are judged.
    fn recipes(&mut self, span: Span) {
        for file in ["Makefile", "makefile", "GNUmakefile"] {
            let path = crate::path::AbsPath::of(&Val::text(file), self.st.cwd.as_deref())
                .and_then(|path| path.known());
            let Some(Written::Text(text)) = path.and_then(|path| self.st.written.get(&path).cloned()) else {
                continue;
            };
            for line in text.lines().filter(|line| line.starts_with('\t')).take(64) {
                let command = line.trim_start_matches(['\t', '@', '-', '+']).replace("$$", "$");
                // Variables of make look like substitutions; those without blanks are taken for variables.
                let command = make_variables(&command);
                self.nested(&command, span, None, false);
            }
        }
    }

    fn unwrapped(&mut self, name: &str, call: &Invocation<'_>) -> Vec<Brief> {
        let mut briefs = vec![];
        for inner in unwrap(name, &call.args, &self.input) {
            match inner {
                Inner::Command { args, assigned } => {
                    let span =
                        args.first().map_or(call.span, |first| first.span.to(args[args.len() - 1].span));
                    let inner = Invocation { args, assigned, redirs: &[], span, depth: call.depth + 1 };
                    briefs.extend(self.invoke(inner));
                }
                Inner::Shell { text, positional } => self.shell_text(&text, positional),
                Inner::Code { language, text } => self.code(language, &text),
                Inner::File { language, path } => self.file(language, &path),
                Inner::Perhaps { text, message, is_sure } => {
                    let from = if is_sure { Decision::Ask } else { Decision::Deny };
                    if self.verdict_on(&text) >= from {
                        self.out.trouble("wrapped-command", text.span, &message);
                    }
                }
                Inner::Outside { path, rule, message } => {
                    if self.is_outside(&path, rule) {
                        self.out.trouble(rule, path.span, &message);
                    }
                }
                Inner::Opaque { rule, span, message } => self.out.trouble(rule, span, &message),
            }
        }
        briefs
    }

    /// The verdict on a text if it is one for a shell. What no shell could read is no such text.
    fn verdict_on(&self, text: &Arg) -> Decision {
        let Some(text) = text.known().filter(|_| self.level < 4) else { return Decision::Allow };
        let text = text.trim_start_matches([':', '!', ' ']);
        if ringfence_bash::parse(text).is_err() {
            return Decision::Allow;
        }
        let mut inner = self.out.fork();
        crate::gate::judge_shell(text, self.cx, self.st.cwd.as_deref(), self.level + 1, &mut inner);
        inner.findings.decision()
    }

    /// Whether a file lies outside of the project and, if it is only read, outside of what belongs to the system.
    fn is_outside(&self, path: &Arg, rule: &str) -> bool {
        let Some(path) = crate::path::AbsPath::of(&path.val, self.st.cwd.as_deref()) else { return false };
        let system = ["/usr", "/bin", "/lib", "/lib64", "/sbin", "/opt", "/nix", "/etc"];
        let is_read = rule != "machine-changed" && system.iter().any(|dir| path.within(dir));
        !self.cx.works_in(&path) && !is_read
    }

    fn shell_text(&mut self, text: &Arg, positional: Option<Vec<Val>>) {
        match text.known() {
            Some(known) => {
                let known = known.to_owned();
                self.nested(&known, text.span, positional, false);
            }
            None => {
                let message =
                    format!("a shell gets text that is not known before it runs: `{}`", text.show());
                self.out.trouble("unknown-text", text.span, &message);
            }
        }
    }

    fn code(&mut self, language: Language, text: &Arg) {
        match text.known() {
            Some(known) => {
                let judged = code::judge_within(
                    language,
                    known,
                    self.cx,
                    self.st.cwd.as_deref(),
                    self.level + 1,
                    self.out,
                );
                self.out.adopt(judged, text.span);
            }
            None => {
                let message = format!("{} gets code that is not known before it runs", language.name());
                self.out.trouble("unknown-text", text.span, &message);
            }
        }
    }

    /// A file that is run as a script: judged by what the text wrote to it, if it did.
    fn file(&mut self, language: Language, path: &Arg) {
        if path.val.is_process() {
            let message = "the output of a command is run as a script";
            self.out.trouble("run-output", path.span, message);
            return;
        }
        let Some(known) = crate::path::AbsPath::of(&path.val, self.st.cwd.as_deref()).and_then(|p| p.known())
        else {
            return;
        };
        match self.st.written.get(&known).cloned() {
            None => {}
            Some(Written::Foreign) => {
                let message = format!("`{}` was fetched or decoded just before, and is run", path.show());
                self.out.trouble("run-fetched", path.span, &message);
            }
            Some(Written::Text(text)) => {
                let language = match (language, text.lines().next()) {
                    (Language::Unknown, Some(first)) if first.contains("python") => Language::Python,
                    (Language::Unknown, Some(first)) if first.contains("node") => Language::JavaScript,
                    (Language::Unknown, _) => Language::Shell,
                    (language, _) => language,
                };
                if language == Language::Shell {
                    self.nested(&text, path.span, None, false);
                } else {
                    self.code(language, &Arg::new(Val::text(&*text), path.span));
                }
            }
        }
    }

    /// Remembers what the text writes to files, in case it runs them.
    fn remember(&mut self, redirs: &[Redir], briefs: &[Brief]) {
        for redir in redirs.iter().filter(|redir| redir.writes()) {
            let Some(target) = &redir.target else { continue };
            let Some(path) =
                crate::path::AbsPath::of(&target.val, self.st.cwd.as_deref()).and_then(|p| p.known())
            else {
                continue;
            };
            let append = matches!(
                redir.op,
                ringfence_bash::RedirectOp::Append | ringfence_bash::RedirectOp::AppendBoth
            );
            let foreign = briefs.iter().chain(self.input.upstream.iter()).any(|brief| brief.foreign);
            let text = match briefs {
                [only] => only.output.as_ref().and_then(Val::known),
                _ => None,
            };
            self.wrote(path, text, foreign, append);
        }
    }

    pub(crate) fn wrote(&mut self, path: String, text: Option<&str>, foreign: bool, append: bool) {
        let written = std::rc::Rc::make_mut(&mut self.st.written);
        match (text, written.get(&path)) {
            (_, Some(Written::Foreign)) if append => {}
            (Some(text), Some(Written::Text(old))) if append => {
                let joined = format!("{old}{text}");
                written.insert(path, Written::Text(joined.into()));
            }
            (Some(text), _) => {
                written.insert(path, Written::Text(text.into()));
            }
            (None, _) if foreign => {
                written.insert(path, Written::Foreign);
            }
            (None, _) if append => {}
            (None, _) => {
                written.remove(&path);
            }
        }
    }

    /// Notes that a variable is set in passing: `${x:=…}`, `read x`, `for x`.
    pub(crate) fn assigned(&mut self, name: &str, value: &Val, span: Span) {
        let assigned = [Assigned { name: name.to_owned(), value: value.clone(), span: self.place(span) }];
        self.emit(&[], "", &assigned, &[], span);
    }

    /// `${x@P}` runs what the value holds.
    pub(crate) fn transformed(&mut self, letter: char, span: Span) {
        if letter == 'P' {
            let message = "`@P` expands the value as a prompt, and runs what is in it";
            self.out.trouble("prompt-expansion", self.place(span), message);
        }
    }

    pub(crate) fn not_understood(&mut self, span: Span, what: &str) {
        self.out.trouble("unsupported", self.place(span), &format!("this is not understood: {what}"));
    }
}

/// `$(NAME)` and `$@` of make, as variables of the shell.
fn make_variables(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("$(") {
        out.push_str(&rest[..at]);
        let after = &rest[at + 2..];
        match after.split_once(')') {
            Some((name, tail))
                if !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') =>
            {
                out.push_str("${");
                out.push_str(name);
                out.push('}');
                rest = tail;
            }
            _ => {
                out.push_str("$(");
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}
