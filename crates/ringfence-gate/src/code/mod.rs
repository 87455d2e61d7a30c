//! Code in other languages than the shell's.

mod literal;
mod loops;
mod names;
mod other;
mod queries;
pub mod reading;
mod steps;
mod tree;

use ringfence_bash::Span;

use crate::checks::Context;
use crate::risk;
use crate::shell::Place;
use reading::{MOST_STEPS, Question, What};

pub(crate) use other::{Sed, sed_runs};
pub(crate) use tree::is_deep;

/// More bytes than this are not looked at.
pub(crate) const MOST_BYTES: usize = 256 * 1024;

/// The language of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    /// bash, or a shell that is read like it.
    Shell,
    /// Python.
    Python,
    /// JavaScript.
    JavaScript,
    /// A language of which only words are looked at.
    Other(&'static str),
    /// Not known.
    Unknown,
}

impl Language {
    /// The name, for people and on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shell => "shell",
            Self::Python => "python",
            Self::JavaScript => "javascript",
            Self::Other(name) => name,
            Self::Unknown => "unknown",
        }
    }

    /// The language by one of its names.
    pub fn by_name(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "shell" | "bash" | "sh" => Some(Self::Shell),
            "python" | "python3" | "py" => Some(Self::Python),
            "javascript" | "js" | "node" => Some(Self::JavaScript),
            _ => None,
        }
    }
}

/// What code that forks without end is judged as.
pub(crate) const FORK_BOMB: &str = "fork_bomb() { fork_bomb | fork_bomb & }; fork_bomb";

/// Judges a text into `context`.
pub(crate) fn judge(
    language: Language,
    text: &str,
    place: Place<'_>,
    cwd: Option<&str>,
    level: usize,
    context: &mut Context,
) {
    match language {
        Language::Shell => crate::gate::judge_shell(text, place, cwd, level, context),
        Language::Python | Language::JavaScript => judge_code(language, text, place, cwd, level, context),
        Language::Other(name) => other::judge(name, text, place, cwd, level, context),
        Language::Unknown => {
            let end = u32::try_from(text.len()).unwrap_or(u32::MAX);
            context.trouble(
                "unknown-language",
                Span::new(0, end),
                "code in an unknown language cannot be judged",
            );
        }
    }
}

/// Has code read, and judges what it does.
fn judge_code(
    language: Language,
    text: &str,
    place: Place<'_>,
    cwd: Option<&str>,
    level: usize,
    context: &mut Context,
) {
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    let whole = Span::new(0, length);
    context.text(text);
    if text.len() > MOST_BYTES {
        return context.trouble("too-large", whole, "the code is too long to be judged");
    }
    if is_deep(text) {
        return context.trouble("too-deep", whole, "brackets are nested too deep to be judged");
    }
    let Some(reader) = context.reader() else {
        let message = format!("nothing here reads {} code", language.name());
        return context.trouble("unread", whole, &message);
    };
    let reading = reader.read(&Question {
        language: language.name().to_owned(),
        code: text.to_owned(),
        home: place.home.to_owned(),
        project: place.project.to_owned(),
        cwd: cwd.map(str::to_owned),
    });
    let mut reading = match reading {
        Ok(reading) => reading,
        Err(why) => return context.trouble("unread", whole, &format!("the code could not be read: {why}")),
    };
    if !reading.complete {
        context.trouble("unparseable", whole, &format!("this is not {} as it can be read", language.name()));
    }
    if let Some(word) = look_alike(text, &reading.texts) {
        let message = format!("`{word}` mixes letters of several alphabets");
        context.trouble("look-alike", whole, &message);
    }
    if reading.steps.len() > MOST_STEPS {
        context.trouble("too-many", whole, "the code does too many things to be judged");
    }
    for step in reading.steps.drain(..).take(MOST_STEPS) {
        let span = Span::new(step.start.min(length), step.end.min(length));
        let (inner, text) = match step.what {
            What::Unclear { rule, message } => {
                context.trouble(queries::rule_name(&rule).unwrap_or("unclear"), span, &message);
                continue;
            }
            What::Shell(text) => (Language::Shell, text),
            What::Code(text) => (language, text),
        };
        let judged = judge_within(inner, &text, place, cwd, level + 1, context);
        context.adopt(judged, span);
    }
    context.raise(risk::of_code(language, text, Some(&reading)));
    context.reading = Some(reading);
}

/// A name that mixes alphabets, outside of strings and comments.
fn look_alike<'t>(text: &'t str, texts: &[(u32, u32)]) -> Option<&'t str> {
    if text.is_ascii() {
        return None;
    }
    let mut from = 0;
    let ends = texts.iter().map(|(start, end)| (*start as usize, *end as usize));
    for (start, end) in ends.chain(std::iter::once((text.len(), text.len()))) {
        let code = text.get(from..start).unwrap_or_default();
        let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
        if let Some(word) = words.find(|word| crate::checks::is_mixed(word)) {
            return Some(word);
        }
        from = from.max(end);
    }
    None
}

/// Judges code within a text, with checks like those of `context`.
pub(crate) fn judge_within(
    language: Language,
    text: &str,
    place: Place<'_>,
    cwd: Option<&str>,
    level: usize,
    context: &Context,
) -> Context {
    let mut inner = context.fork();
    if level > 12 {
        inner.trouble("too-deep", Span::default(), "texts within texts go too deep to be judged");
    } else {
        judge(language, text, place, cwd, level, &mut inner);
    }
    inner
}
