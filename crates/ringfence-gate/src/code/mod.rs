//! Code in other languages than the shell's.

mod literal;
mod names;
mod other;
mod queries;
mod tree;

use ringfence_bash::Span;

use crate::checks::Context;
use crate::finding::Finding;
use crate::shell::Place;

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

/// Judges a text into `context`. The one way in, so that it can move into a process of its own.
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
        Language::Python | Language::JavaScript => tree::judge(language, text, place, cwd, level, context),
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

/// Judges code within a text, with checks like those of `context`.
pub(crate) fn judge_within(
    language: Language,
    text: &str,
    place: Place<'_>,
    cwd: Option<&str>,
    level: usize,
    context: &Context,
) -> Vec<Finding> {
    let mut inner = context.fork();
    if level > 12 {
        inner.trouble("too-deep", Span::default(), "texts within texts go too deep to be judged");
    } else {
        judge(language, text, place, cwd, level, &mut inner);
    }
    inner.findings.into_sorted()
}
