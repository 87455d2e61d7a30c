//! What a word stands for, as far as the text tells.

use ringfence_bash::Span;

/// A stretch of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seg {
    /// Text that is known.
    Text(String),
    /// Any text without a slash: `*`, a number that only running can tell.
    Star,
    /// Any one character but a slash: `?`, `[…]`.
    One,
    /// Anything: a variable that the text does not set, the output of a command.
    Unknown,
    /// The output of a command, as a file: `<(…)`.
    Process,
}

/// The value of one word after expansion: known text, pattern characters, gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Val {
    segs: Vec<Seg>,
}

/// The longest text of a value.
const MOST_TEXT: usize = 256 * 1024;
/// The most stretches of a value.
const MOST_SEGS: usize = 128;

impl Val {
    /// A value that is wholly known.
    pub fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { segs: if text.is_empty() { vec![] } else { vec![Seg::Text(text)] } }
    }

    /// A value of which nothing is known.
    pub fn unknown() -> Self {
        Self { segs: vec![Seg::Unknown] }
    }

    /// Any text without a slash.
    pub fn star() -> Self {
        Self { segs: vec![Seg::Star] }
    }

    /// The stretches, in order; texts side by side are joined.
    pub fn segs(&self) -> &[Seg] {
        &self.segs
    }

    /// Adds a stretch at the end.
    pub fn push(&mut self, seg: Seg) {
        match seg {
            Seg::Text(text) => self.push_text(&text),
            seg => {
                self.segs.push(seg);
                self.bound();
            }
        }
    }

    /// Adds text at the end.
    pub fn push_text(&mut self, text: &str) {
        match self.segs.last_mut() {
            Some(Seg::Text(last)) => last.push_str(text),
            _ if text.is_empty() => {}
            _ => self.segs.push(Seg::Text(text.to_owned())),
        }
        self.bound();
    }

    /// What grows beyond all measure is not followed any more.
    fn bound(&mut self) {
        let long = matches!(self.segs.last(), Some(Seg::Text(text)) if text.len() > MOST_TEXT);
        if long || self.segs.len() > MOST_SEGS {
            self.segs = vec![Seg::Unknown];
        }
    }

    /// Adds another value at the end.
    pub fn extend(&mut self, other: &Val) {
        for seg in &other.segs {
            self.push(seg.clone());
        }
    }

    /// The text, if all of it is known.
    pub fn known(&self) -> Option<&str> {
        match self.segs.as_slice() {
            [] => Some(""),
            [Seg::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Whether any of it can only be told by running.
    pub fn has_unknown(&self) -> bool {
        self.segs.iter().any(|seg| matches!(seg, Seg::Unknown | Seg::Process))
    }

    /// Whether it is a file that a command writes while it is read.
    pub fn is_process(&self) -> bool {
        self.segs.contains(&Seg::Process)
    }

    /// Whether pattern characters are in it.
    pub fn has_glob(&self) -> bool {
        self.segs.iter().any(|seg| matches!(seg, Seg::Star | Seg::One))
    }

    /// The known text that it begins with.
    pub fn prefix(&self) -> &str {
        match self.segs.first() {
            Some(Seg::Text(text)) => text,
            _ => "",
        }
    }

    /// All known stretches, gaps as `replacement`.
    pub fn lossy(&self, replacement: &str) -> String {
        let mut out = String::new();
        for seg in &self.segs {
            match seg {
                Seg::Text(text) => out.push_str(text),
                Seg::Star => out.push('*'),
                Seg::One => out.push('?'),
                Seg::Unknown | Seg::Process => out.push_str(replacement),
            }
        }
        out
    }

    /// The value without its first `count` bytes, which must be known text.
    #[must_use]
    pub fn skip(&self, count: usize) -> Val {
        let mut rest = self.clone();
        if count == 0 {
            return rest;
        }
        if let Some(Seg::Text(text)) = rest.segs.first_mut() {
            *text = text.get(count..).unwrap_or_default().to_owned();
            if text.is_empty() {
                rest.segs.remove(0);
            }
        }
        rest
    }

    /// Cuts at the first `at` in the text that it begins with.
    pub fn split_once(&self, at: char) -> Option<(&str, Val)> {
        let prefix = self.prefix();
        let position = prefix.find(at)?;
        Some((&prefix[..position], self.skip(position + at.len_utf8())))
    }

    /// Pattern characters in known text become patterns, as after an unquoted expansion.
    #[must_use]
    pub fn with_globs(&self) -> Val {
        let mut out = Val::default();
        for seg in &self.segs {
            match seg {
                Seg::Text(text) => {
                    let mut rest = text.as_str();
                    while let Some(c) = rest.chars().next() {
                        rest = &rest[c.len_utf8()..];
                        match c {
                            '*' => out.push(Seg::Star),
                            '?' => out.push(Seg::One),
                            '[' if rest.get(1..).is_some_and(|rest| rest.contains(']')) => {
                                rest = after_class(rest);
                                out.push(Seg::One);
                            }
                            c => out.push_text(c.encode_utf8(&mut [0; 4])),
                        }
                    }
                }
                seg => out.push(seg.clone()),
            }
        }
        out
    }
}

/// What follows a bracket expression, of which the opening bracket is gone.
pub(crate) fn after_class(text: &str) -> &str {
    // A bracket right at the beginning belongs to the class.
    let first = text.chars().next().map_or(0, char::len_utf8);
    text[first..].find(']').map_or("", |at| &text[first + at + 1..])
}

/// A word of a command after expansion, and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arg {
    /// What it stands for.
    pub val: Val,
    /// Where it stands in the text.
    pub span: Span,
}

impl Arg {
    /// An argument that stands at `span`.
    pub fn new(val: Val, span: Span) -> Self {
        Self { val, span }
    }

    /// The text, if all of it is known.
    pub fn known(&self) -> Option<&str> {
        self.val.known()
    }

    /// Whether it is exactly `text`.
    pub fn is(&self, text: &str) -> bool {
        self.known() == Some(text)
    }

    /// Known stretches with `…` for gaps, for people.
    pub fn show(&self) -> String {
        self.val.lossy("…")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_join_and_split() {
        let mut val = Val::text("A=");
        val.push_text("x");
        val.push(Seg::Unknown);
        assert_eq!(val.known(), None);
        let (name, rest) = val.split_once('=').unwrap();
        assert_eq!((name, rest.lossy("…")), ("A", "x…".to_owned()));
        assert_eq!(Val::text("a*?").with_globs().segs().len(), 3);
        assert_eq!(Val::text("").known(), Some(""));
    }
}
