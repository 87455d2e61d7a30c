//! Texts that expand and whose extent is known: arguments of `${…}`, arithmetic,
//! subscripts, here-document bodies, patterns.

use crate::error::Result;
use crate::parser::Parser;
use crate::word::{Glob, Part, PartKind};
use crate::wordlex::utf8_len;

/// Where a `$` or a backquote stands, which decides what may follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dollar {
    /// Unquoted.
    Plain,
    /// Between double quotes.
    Double,
    /// In the argument of a double-quoted `${…}`, or in arithmetic: quotes inside
    /// mean different things to different versions of bash.
    Doubtful,
    /// In a here-document.
    HereDoc,
}

/// What a quote does in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quote {
    /// It quotes.
    Quotes,
    /// It is a character like any other.
    Text,
    /// Bash's reader pairs it, but what is between expands all the same.
    Pairs,
}

/// What a backslash quotes in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escape {
    /// Any character.
    Any,
    /// These and a newline; before others it stands for itself.
    Only(&'static [u8]),
}

/// The rules of a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextMode {
    single: Quote,
    double: Quote,
    escape: Escape,
    /// `<(…)` and `>(…)` run.
    process: bool,
    /// `*`, `?` and `[` are pattern characters.
    glob: bool,
    dollar: Dollar,
}

impl TextMode {
    /// The argument of an unquoted `${…}`.
    pub(crate) const ARGUMENT: TextMode = TextMode {
        single: Quote::Quotes,
        double: Quote::Quotes,
        escape: Escape::Any,
        process: true,
        glob: true,
        dollar: Dollar::Plain,
    };
    /// The inside of an extended pattern or of the parentheses of a regular expression.
    pub(crate) const PATTERN: TextMode = TextMode::ARGUMENT;
    /// The word of a double-quoted `${x:-…}`.
    pub(crate) const QUOTED_ARGUMENT: TextMode = TextMode {
        single: Quote::Pairs,
        double: Quote::Quotes,
        escape: Escape::Only(b"$`\"\\}"),
        process: false,
        glob: false,
        dollar: Dollar::Doubtful,
    };
    /// The pattern of a double-quoted `${x#…}`, where quotes do quote.
    pub(crate) const QUOTED_PATTERN: TextMode = TextMode { dollar: Dollar::Doubtful, ..TextMode::ARGUMENT };
    /// The body of a here-document whose delimiter is not quoted.
    pub(crate) const HERE_DOC: TextMode = TextMode {
        single: Quote::Text,
        double: Quote::Text,
        escape: Escape::Only(b"$`\\"),
        process: false,
        glob: false,
        dollar: Dollar::HereDoc,
    };
    /// Arithmetic, which expands as if double-quoted.
    pub(crate) const ARITH: TextMode = TextMode {
        single: Quote::Pairs,
        double: Quote::Quotes,
        escape: Escape::Any,
        process: false,
        glob: false,
        dollar: Dollar::Doubtful,
    };
    /// A subscript, which is arithmetic or a key.
    pub(crate) const SUBSCRIPT: TextMode =
        TextMode { single: Quote::Quotes, process: true, ..TextMode::ARITH };
}

/// Parts under construction, with the text not yet made into one.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    parts: Vec<Part>,
    lit: String,
    lit_start: usize,
    lit_end: usize,
}

impl Parts {
    pub(crate) fn text(&mut self, text: &str, start: usize, end: usize) {
        if self.lit.is_empty() {
            self.lit_start = start;
        }
        self.lit.push_str(text);
        self.lit_end = end;
    }

    pub(crate) fn part(&mut self, parser: &Parser<'_>, part: Part) {
        self.flush(parser);
        self.parts.push(part);
    }

    fn flush(&mut self, parser: &Parser<'_>) {
        if !self.lit.is_empty() {
            let span = parser.span(self.lit_start, self.lit_end);
            self.parts.push(Part { span, kind: PartKind::Lit(std::mem::take(&mut self.lit)) });
        }
    }

    pub(crate) fn finish(mut self, parser: &Parser<'_>) -> Vec<Part> {
        self.flush(parser);
        self.parts
    }
}

impl Parser<'_> {
    /// Parses the text from here to `end`, which becomes the position.
    pub(crate) fn text(&mut self, end: usize, mode: TextMode) -> Result<Vec<Part>> {
        self.enter(self.pos)?;
        let parts = self.within(end, |parser| {
            let mut parts = Parts::default();
            parser.text_into(&mut parts, mode)?;
            Ok(parts.finish(parser))
        })?;
        self.leave();
        self.pos = end;
        Ok(parts)
    }

    fn text_into(&mut self, parts: &mut Parts, mode: TextMode) -> Result<()> {
        while let Some(byte) = self.peek()? {
            let at = self.pos;
            match byte {
                b'\\' => self.text_escape(parts, mode)?,
                b'\'' if mode.single == Quote::Quotes => {
                    let part = self.single_quoted()?;
                    parts.part(self, part);
                }
                b'\'' if mode.single == Quote::Pairs => self.paired_single(parts, mode)?,
                b'"' if mode.double == Quote::Quotes => {
                    let part = self.double_quoted()?;
                    parts.part(self, part);
                }
                b'`' => {
                    let part = self.backquoted(mode.dollar)?;
                    parts.part(self, part);
                }
                b'$' => match self.dollar(mode.dollar)? {
                    Some(part) => parts.part(self, part),
                    None => {
                        self.pos += 1;
                        parts.text("$", at, self.pos);
                    }
                },
                b'<' | b'>' if mode.process && self.at_process_substitution() => {
                    let part = self.process_substitution()?;
                    parts.part(self, part);
                }
                b'*' | b'?' | b'[' if mode.glob => {
                    self.pos += 1;
                    let glob = match byte {
                        b'*' => Glob::Star,
                        b'?' => Glob::Question,
                        _ => Glob::Bracket,
                    };
                    parts.part(self, Part { span: self.span_from(at), kind: PartKind::Glob(glob) });
                }
                _ => {
                    self.pos += utf8_len(byte);
                    let text = self.slice(at, self.pos);
                    parts.text(&text, at, self.pos);
                }
            }
        }
        Ok(())
    }

    fn text_escape(&mut self, parts: &mut Parts, mode: TextMode) -> Result<()> {
        let at = self.pos;
        let next = self.byte(at + 1);
        match mode.escape {
            Escape::Any => {
                let part = self.escaped_char()?;
                parts.part(self, part);
            }
            Escape::Only(set) if next.is_some_and(|b| set.contains(&b)) => {
                self.pos += 2;
                let text = self.slice(at + 1, self.pos);
                parts.text(&text, at, self.pos);
            }
            Escape::Only(_) => {
                self.pos += 1;
                parts.text("\\", at, self.pos);
            }
        }
        Ok(())
    }

    /// Takes `'…'` where the quotes are text, but bash's reader wants them in pairs.
    ///
    /// What is between is read twice by bash, under different rules. Only if both
    /// readings see the same is it more than an unknown.
    fn paired_single(&mut self, parts: &mut Parts, mode: TextMode) -> Result<()> {
        let open = self.pos;
        let mut close = open + 1;
        let mut clear = true;
        loop {
            self.tick()?;
            match self.byte(close) {
                None => return Err(self.unterminated(open, "a single quote")),
                Some(b'\'') => break,
                Some(b'"' | b'`' | b'\\' | b'{' | b'}') => clear = false,
                // In arithmetic, parentheses decide where it ends.
                Some(b'(' | b')') => clear &= mode.escape != Escape::Any,
                Some(_) => {}
            }
            close += 1;
        }
        self.pos = close + 1;
        if !clear {
            let kind = PartKind::Unsupported("text between quotes that do not quote");
            parts.part(self, Part { span: self.span_from(open), kind });
            return Ok(());
        }
        parts.text("'", open, open + 1);
        self.pos = open + 1;
        // There is no quote in between, so this does not come back here.
        self.within(close, |parser| parser.text_into(parts, TextMode { single: Quote::Text, ..mode }))?;
        self.pos = close + 1;
        parts.text("'", close, self.pos);
        Ok(())
    }
}
