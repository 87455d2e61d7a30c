//! What a word stands for, where that can be read off the text.

use crate::word::{Glob, Part, PartKind, Word};

/// A stretch of a word's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Text that is known.
    Text(String),
    /// An unquoted pattern character.
    Glob(Glob),
    /// A home directory: the name after the tilde.
    Tilde(String),
    /// Something that only running can tell.
    Unknown,
}

impl Word {
    /// Returns the value of a word that always stands for one and the same text,
    /// with the quotes removed.
    ///
    /// `None` if anything in it expands or may expand: parameters, substitutions,
    /// braces, patterns, tildes, and `$"…"`, which a message catalogue may change.
    pub fn as_literal(&self) -> Option<String> {
        let mut text = String::new();
        literal_into(&self.parts, &mut text).then_some(text)
    }

    /// Returns the text of a word that is written without any quoting.
    pub fn bare(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part { kind: PartKind::Lit(text), .. }] => Some(text),
            _ => None,
        }
    }

    /// Tells whether any part of the word is quoted, escapes included.
    pub fn has_quotes(&self) -> bool {
        self.parts.iter().any(|part| {
            matches!(
                part.kind,
                PartKind::Escaped(_)
                    | PartKind::SingleQ(_)
                    | PartKind::DoubleQ(_)
                    | PartKind::AnsiC { .. }
                    | PartKind::LocaleQ(_)
            )
        })
    }

    /// Returns the word's value in stretches, known and unknown. Texts side by side
    /// are joined, so a word that is wholly literal gives at most one.
    pub fn segments(&self) -> Vec<Segment> {
        let mut segments = Vec::new();
        segments_into(&self.parts, &mut segments);
        segments
    }

    /// Returns the source text of the word.
    pub fn raw<'s>(&self, source: &'s str) -> Option<&'s str> {
        self.span.text(source)
    }
}

fn literal_into(parts: &[Part], out: &mut String) -> bool {
    for part in parts {
        match &part.kind {
            PartKind::Lit(text) | PartKind::Escaped(text) | PartKind::SingleQ(text) => out.push_str(text),
            PartKind::AnsiC { decoded: Some(text), .. } => out.push_str(text),
            PartKind::DoubleQ(parts) => {
                if !literal_into(parts, out) {
                    return false;
                }
            }
            _ => return false,
        }
    }
    true
}

fn segments_into(parts: &[Part], out: &mut Vec<Segment>) {
    for part in parts {
        let segment = match &part.kind {
            PartKind::Lit(text) | PartKind::Escaped(text) | PartKind::SingleQ(text) => {
                Segment::Text(text.clone())
            }
            PartKind::AnsiC { decoded: Some(text), .. } => Segment::Text(text.clone()),
            PartKind::DoubleQ(parts) => {
                segments_into(parts, out);
                continue;
            }
            PartKind::Glob(glob) => Segment::Glob(*glob),
            PartKind::Tilde(user) => Segment::Tilde(user.clone()),
            _ => Segment::Unknown,
        };
        match (out.last_mut(), segment) {
            (Some(Segment::Text(text)), Segment::Text(more)) => text.push_str(&more),
            (_, segment) => out.push(segment),
        }
    }
}

/// Returns the value of a text that is one literal word, with the quotes removed:
/// `unquote(r"r\m")` is `rm`.
pub fn unquote(text: &str) -> Option<String> {
    let script = crate::parse(text).ok()?;
    let mut commands = script.simple_commands();
    let only = commands.pop().filter(|_| commands.is_empty())?;
    match only.simple.words.as_slice() {
        [word] if only.simple.assignments.is_empty() && only.command.redirects.is_empty() => {
            word.as_literal()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Segment, unquote};
    use crate::word::Glob;

    #[test]
    fn unquotes_what_always_means_the_same() {
        for (text, want) in [
            ("rm", Some("rm")),
            (r"r\m", Some("rm")),
            ("'r'\"m\"", Some("rm")),
            ("$'\\x72'm", Some("rm")),
            ("r\\\nm", Some("rm")),
            (r#""a\$b\"c\d""#, Some(r#"a$b"c\d"#)),
            ("''", Some("")),
            ("a#b", Some("a#b")),
            ("[", Some("[")),
            ("{}", Some("{}")),
            ("a~", Some("a~")),
            ("$x", None),
            ("a*", None),
            ("[a]", None),
            ("~/x", None),
            ("{a,b}", None),
            ("$\"a\"", None),
            ("`a`", None),
            ("a b", None),
            ("a=b", None),
            ("a >b", None),
            ("a\\", None),
        ] {
            assert_eq!(unquote(text).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn segments_keep_what_is_known() {
        let script = crate::parse("rm ~root/\"a b\"'c'*$x").unwrap();
        let commands = script.simple_commands();
        let want = [
            Segment::Tilde("root".to_owned()),
            Segment::Text("/a bc".to_owned()),
            Segment::Glob(Glob::Star),
            Segment::Unknown,
        ];
        assert_eq!(commands[0].simple.words[1].segments(), want);
    }
}
