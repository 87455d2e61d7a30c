//! From a word to the fields that it becomes.

use ringfence_bash::{Brace, Direction, Glob, Param, ParamOp, Part, PartKind, Span, ValueOp, Word};

use super::eval::Eval;
use super::state::Var;
use crate::value::{Arg, Seg, Val};

/// More words than this from one brace expansion are not followed.
const MOST_BRACES: usize = 256;

/// Fields under construction.
#[derive(Default)]
struct Fields {
    done: Vec<Val>,
    current: Val,
    /// There is a field even if nothing is in it, because something was quoted.
    started: bool,
    /// A bracket expression was opened and not closed.
    in_class: bool,
}

impl Fields {
    fn text(&mut self, text: &str) {
        let text = match self.in_class {
            true if text.contains(']') => {
                self.in_class = false;
                crate::value::after_class(text)
            }
            true => return,
            false => text,
        };
        self.current.push_text(text);
        self.started = true;
    }

    fn seg(&mut self, seg: Seg) {
        self.current.push(seg);
        self.started = true;
    }

    fn cut(&mut self) {
        if self.started {
            self.done.push(std::mem::take(&mut self.current));
            self.started = false;
        }
    }

    /// A value that is split at blanks, as the shell does outside of quotes.
    fn split(&mut self, val: &Val) {
        for seg in val.segs() {
            match seg {
                Seg::Text(text) => {
                    let mut rest = text.as_str();
                    while let Some(at) = rest.find([' ', '\t', '\n']) {
                        if at > 0 {
                            self.globbed(&rest[..at]);
                        }
                        self.cut();
                        rest = &rest[at + 1..];
                    }
                    if !rest.is_empty() {
                        self.globbed(rest);
                    }
                }
                seg => self.seg(seg.clone()),
            }
        }
    }

    fn globbed(&mut self, text: &str) {
        self.current.extend(&Val::text(text).with_globs());
        self.started = true;
    }
}

impl Eval<'_> {
    /// All fields that `words` become, in order.
    pub(crate) fn args(&mut self, words: &[Word]) -> Vec<Arg> {
        let mut args = Vec::with_capacity(words.len());
        for word in words {
            self.fields(word, &mut args);
        }
        args
    }

    fn fields(&mut self, word: &Word, args: &mut Vec<Arg>) {
        if let Some(text) = word.bare() {
            args.push(Arg::new(Val::text(text), self.place(word.span)));
            return;
        }
        let has_brace = word.parts.iter().any(|part| matches!(part.kind, PartKind::Brace(_)));
        if !has_brace {
            self.brace_free(word, args);
            return;
        }
        match word.expand_braces(MOST_BRACES) {
            Some(words) => words.iter().for_each(|word| self.brace_free(word, args)),
            None => {
                self.parts_for_effect(&word.parts);
                args.push(Arg::new(Val::unknown(), self.place(word.span)));
            }
        }
    }

    fn brace_free(&mut self, word: &Word, args: &mut Vec<Arg>) {
        let mut fields = Fields::default();
        self.parts(&word.parts, &mut fields, Quoted::No);
        fields.cut();
        let span = self.place(word.span);
        args.extend(fields.done.into_iter().map(|val| Arg::new(val, span)));
    }

    /// The value of a word that is neither split nor matched against files.
    pub(crate) fn value(&mut self, word: &Word) -> Val {
        let mut fields = Fields::default();
        self.parts(&word.parts, &mut fields, Quoted::Value);
        self.one(fields)
    }

    /// The text of a here-document.
    pub(crate) fn body(&mut self, word: &Word) -> Val {
        let mut fields = Fields::default();
        self.parts(&word.parts, &mut fields, Quoted::Yes);
        self.one(fields)
    }

    fn one(&mut self, mut fields: Fields) -> Val {
        fields.cut();
        let mut done = fields.done.into_iter();
        let mut val = done.next().unwrap_or_default();
        for more in done {
            val.push_text(" ");
            val.extend(&more);
        }
        val
    }

    /// Runs the substitutions of `parts`, whatever they stand for.
    pub(crate) fn parts_for_effect(&mut self, parts: &[Part]) {
        self.parts(parts, &mut Fields::default(), Quoted::Yes);
    }

    fn parts(&mut self, parts: &[Part], fields: &mut Fields, quoted: Quoted) {
        for part in parts {
            self.part(part, fields, quoted);
        }
    }

    fn part(&mut self, part: &Part, fields: &mut Fields, quoted: Quoted) {
        match &part.kind {
            PartKind::Lit(text) | PartKind::Escaped(text) | PartKind::SingleQ(text) => fields.text(text),
            PartKind::AnsiC { decoded: Some(text), .. } => fields.text(text),
            PartKind::AnsiC { decoded: None, .. } => fields.seg(Seg::Unknown),
            PartKind::DoubleQ(parts) | PartKind::LocaleQ(parts) => {
                // `"$@"` alone gives no field when there are none; `""` gives one.
                fields.started |= !is_only_at(parts);
                self.parts(parts, fields, Quoted::Yes);
                if let PartKind::LocaleQ(_) = part.kind {
                    fields.seg(Seg::Unknown);
                }
            }
            PartKind::Param(param) => self.param(param, part.span, fields, quoted),
            PartKind::CmdSub(sub) => {
                let val = self.substitution(&sub.script);
                self.splice(&val, fields, quoted);
            }
            PartKind::ProcSub(sub) => {
                match sub.direction {
                    Direction::Read => self.process_read(&sub.script),
                    Direction::Write => self.process_write(&sub.script),
                }
                fields.seg(Seg::Process);
            }
            PartKind::Arith(parts) => {
                self.parts_for_effect(parts);
                fields.seg(Seg::Star);
            }
            PartKind::Brace(Brace::List(words)) => {
                for word in words {
                    self.parts_for_effect(&word.parts);
                }
                fields.seg(Seg::Unknown);
            }
            PartKind::Brace(Brace::Range(text)) => {
                // Only where braces do not expand: in values.
                fields.text(&format!("{{{text}}}"));
            }
            PartKind::Glob(glob) => {
                if quoted == Quoted::No && !fields.in_class {
                    fields.seg(match glob {
                        Glob::Star => Seg::Star,
                        Glob::Question | Glob::Bracket => Seg::One,
                    });
                    fields.in_class = *glob == Glob::Bracket;
                } else if fields.in_class {
                    // `[*]`: a member of the class.
                } else {
                    fields.text(glob.as_char().encode_utf8(&mut [0; 4]));
                }
            }
            PartKind::ExtGlob(glob) => {
                self.parts_for_effect(&glob.parts);
                fields.seg(Seg::Unknown);
            }
            PartKind::Tilde(name) => match self.tilde(name) {
                Some(home) => fields.text(&home),
                None => fields.seg(Seg::Unknown),
            },
            PartKind::Array(items) => {
                for item in items {
                    if let Some(index) = &item.index {
                        self.parts_for_effect(index);
                    }
                    self.value(&item.value);
                }
                fields.seg(Seg::Unknown);
            }
            PartKind::Unsupported(what) => {
                self.not_understood(part.span, what);
                fields.seg(Seg::Unknown);
            }
        }
    }

    fn tilde(&self, name: &str) -> Option<String> {
        match name {
            "" => self.st.home().map(str::to_owned),
            "+" => self.st.cwd.as_deref().map(str::to_owned),
            "-" => self.st.previous.as_deref().map(str::to_owned),
            "root" => Some("/root".to_owned()),
            user if user.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') => {
                let home = self.cx.home;
                if crate::path::base_name(home) == user {
                    Some(home.to_owned())
                } else {
                    Some(format!("/home/{user}"))
                }
            }
            _ => None,
        }
    }

    fn splice(&mut self, val: &Val, fields: &mut Fields, quoted: Quoted) {
        if quoted == Quoted::No {
            if self.st.default_ifs {
                fields.split(val);
            } else {
                fields.seg(Seg::Unknown);
            }
        } else {
            fields.current.extend(val);
            fields.started |= !val.segs().is_empty();
        }
    }

    fn param(&mut self, param: &Param, span: Span, fields: &mut Fields, quoted: Quoted) {
        if let Some(index) = &param.index {
            self.parts_for_effect(index);
        }
        let args: Vec<Val> = param.args.iter().map(|word| self.value(word)).collect();
        match param.op {
            ParamOp::Plain | ParamOp::Value(ValueOp::Error) => {
                self.plain(param, fields, quoted);
                return;
            }
            ParamOp::Length => {
                fields.seg(Seg::Star);
                return;
            }
            ParamOp::Value(ValueOp::Transform(letter)) => self.transformed(letter, span),
            ParamOp::Value(ValueOp::Assign) => {
                let value = args.first().cloned().unwrap_or_default();
                self.assigned(&param.name, &value, span);
                if self.st.vars.contains_key(&param.name) {
                    self.plain(param, fields, quoted);
                    return;
                }
                // The environment may have it already.
                self.st.set(&param.name, Var::Unknown);
            }
            ParamOp::Value(ValueOp::Default) => {
                let known =
                    matches!(self.st.vars.get(&param.name), Some(Var::Scalar(val)) if !val.segs().is_empty());
                if known {
                    self.plain(param, fields, quoted);
                    return;
                }
                if let (Some(Var::Scalar(_)), Some(value)) = (self.st.vars.get(&param.name), args.first()) {
                    let value = value.clone();
                    self.splice(&value, fields, quoted);
                    return;
                }
            }
            ParamOp::Value(op @ (ValueOp::RemoveSuffix | ValueOp::RemovePrefix)) => {
                if let Some(val) = self.trimmed(param, args.first(), op) {
                    return self.splice(&val, fields, quoted);
                }
            }
            ParamOp::Value(_) | ParamOp::Indirect(_) | ParamOp::Prefix => {}
        }
        fields.seg(Seg::Unknown);
    }

    /// `${x%…}` and `${x#…}` of a known value with a pattern that is plain text.
    fn trimmed(&self, param: &Param, pattern: Option<&Val>, op: ValueOp) -> Option<Val> {
        let value = match (self.st.vars.get(&param.name), param.name.as_str()) {
            (Some(Var::Scalar(val)), _) => val.known()?,
            (None, "PWD") => self.st.cwd.as_deref()?,
            _ => return None,
        };
        let pattern = pattern?.known().filter(|pattern| !pattern.contains(['*', '?', '[', '\\']))?;
        let rest = match op {
            ValueOp::RemoveSuffix => value.strip_suffix(pattern),
            _ => value.strip_prefix(pattern),
        };
        Some(Val::text(rest.unwrap_or(value)))
    }

    fn plain(&mut self, param: &Param, fields: &mut Fields, quoted: Quoted) {
        let name = param.name.as_str();
        if matches!(name, "@" | "*") {
            return self.all_positional(name, fields, quoted);
        }
        if let Ok(number) = name.parse::<usize>() {
            let val = match &self.st.positional {
                Some(values) => values.get(number).cloned().unwrap_or_default(),
                None => Val::unknown(),
            };
            return self.splice(&val, fields, quoted);
        }
        if let Some(index) = &param.index {
            return self.element(name, index, fields, quoted);
        }
        let val = match self.st.vars.get(name) {
            Some(Var::Scalar(val)) => val.clone(),
            Some(Var::Array(values)) => values.first().cloned().unwrap_or_default(),
            Some(Var::Unknown) => Val::unknown(),
            None => match name {
                "PWD" => self.st.cwd.as_deref().map_or_else(Val::unknown, Val::text),
                "OLDPWD" => self.st.previous.as_deref().map_or_else(Val::unknown, Val::text),
                "#" | "?" | "$" | "!" | "-" | "UID" | "EUID" | "PPID" | "RANDOM" | "SECONDS" | "LINENO"
                | "BASHPID" | "EPOCHSECONDS" | "SRANDOM" | "COLUMNS" | "LINES" => Val::star(),
                _ => Val::unknown(),
            },
        };
        self.splice(&val, fields, quoted);
    }

    fn all_positional(&mut self, name: &str, fields: &mut Fields, quoted: Quoted) {
        let Some(values) = self.st.positional.clone() else {
            fields.seg(Seg::Unknown);
            return;
        };
        let values = values.get(1..).unwrap_or_default();
        self.list(values, name == "@" && quoted == Quoted::Yes, fields, quoted);
    }

    fn element(&mut self, name: &str, index: &[Part], fields: &mut Fields, quoted: Quoted) {
        let index = match index {
            [Part { kind: PartKind::Lit(text), .. }] => text.as_str(),
            [Part { kind: PartKind::Glob(Glob::Star), .. }] => "*",
            _ => "?",
        };
        let Some(Var::Array(values)) = self.st.vars.get(name).cloned() else {
            fields.seg(Seg::Unknown);
            return;
        };
        match index {
            "@" | "*" => self.list(&values, index == "@" && quoted == Quoted::Yes, fields, quoted),
            number => match number.parse::<usize>() {
                Ok(number) => {
                    let val = values.get(number).cloned().unwrap_or_default();
                    self.splice(&val, fields, quoted);
                }
                Err(_) => fields.seg(Seg::Unknown),
            },
        }
    }

    /// Several values: fields of their own for `"$@"` and outside of quotes, else one.
    fn list(&mut self, values: &[Val], apart: bool, fields: &mut Fields, quoted: Quoted) {
        for (index, val) in values.iter().enumerate() {
            if index > 0 {
                if apart || quoted == Quoted::No {
                    fields.cut();
                } else {
                    fields.text(" ");
                }
            }
            if apart {
                fields.started = true;
            }
            self.splice(val, fields, quoted);
        }
    }
}

/// Where parts stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quoted {
    /// Values are split and patterns match files.
    No,
    /// In double quotes or a here-document.
    Yes,
    /// The value of an assignment: not split.
    Value,
}

fn is_only_at(parts: &[Part]) -> bool {
    matches!(parts, [Part { kind: PartKind::Param(param), .. }]
        if param.name == "@" || param.index.as_ref().is_some_and(|index| matches!(index.as_slice(), [Part { kind: PartKind::Lit(text), .. }] if text == "@")))
}
