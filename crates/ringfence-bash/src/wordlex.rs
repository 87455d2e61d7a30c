//! Unquoted words.

use crate::error::Result;
use crate::extent::Bracket;
use crate::finish::{Piece, Pieces};
use crate::parser::{Parser, is_break};
use crate::text::{Dollar, TextMode};
use crate::word::{ExtGlob, Glob, Part, PartKind, Word};

/// What a word is for, which decides what in it is special.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WordMode {
    /// The first word of a command.
    Command,
    /// An argument, an array element, a file name: braces expand.
    Argument,
    /// The value of an assignment: tildes after colons, no braces.
    Value,
    /// A pattern, a delimiter, a term of `[[`: no braces.
    Pattern,
    /// The right side of `==` in `[[`, where extended patterns are always on.
    CondPattern,
    /// The right side of `=~` in `[[`, where parentheses and bars are text.
    Regex,
}

impl WordMode {
    fn braces(self) -> bool {
        matches!(self, WordMode::Command | WordMode::Argument)
    }
}

impl Parser<'_> {
    /// Parses a word, if one stands here.
    pub(crate) fn word(&mut self, mode: WordMode) -> Result<Option<Word>> {
        let first = self.peek()?;
        let start = self.pos;
        if first == Some(b'#') && mode != WordMode::Value {
            return Ok(None);
        }
        let mut pieces = Pieces::new(mode.braces());
        // Tildes expand at the start of a word and of its parts in an assignment.
        let mut tilde = true;
        let mut assigns = mode == WordMode::Value;
        while let Some(byte) = self.peek()? {
            let at = self.pos;
            let was_tilde = std::mem::replace(&mut tilde, false);
            match byte {
                b'<' | b'>' if self.at_process_substitution() => {
                    pieces.part(self.process_substitution()?);
                }
                b'(' | b'|' if mode == WordMode::Regex => self.regex_text(byte, &mut pieces)?,
                _ if is_break(byte) => break,
                b'?' | b'*' | b'+' | b'@' | b'!' if self.at_extglob(mode) => {
                    pieces.part(self.extglob_part(mode)?);
                }
                b'\\' => self.escape(&mut pieces)?,
                b'\'' => pieces.part(self.single_quoted()?),
                b'"' => pieces.part(self.double_quoted()?),
                b'`' => pieces.part(self.backquoted(Dollar::Plain)?),
                b'$' => self.dollar_piece(&mut pieces)?,
                b'*' | b'?' => {
                    self.pos += 1;
                    let glob = if byte == b'*' { Glob::Star } else { Glob::Question };
                    pieces.part(Part { span: self.span_from(at), kind: PartKind::Glob(glob) });
                }
                b'~' if was_tilde => match self.tilde(assigns)? {
                    Some(part) => pieces.part(part),
                    None => self.text_run(&mut pieces)?,
                },
                b'{' | b'}' | b',' | b'[' | b']' => {
                    self.pos += 1;
                    pieces.special(byte, at);
                    tilde = matches!(byte, b'{' | b',');
                }
                b'=' | b':' => {
                    self.pos += 1;
                    assigns |= byte == b'=' && pieces.is_assignment_prefix();
                    tilde = assigns;
                    pieces.text(char::from(byte), at, self.pos);
                }
                _ => self.text_run(&mut pieces)?,
            }
        }
        if pieces.is_empty() {
            return Ok(None);
        }
        let parts = self.finish(pieces)?;
        Ok(Some(Word { span: self.span_from(start), parts }))
    }

    /// Takes a run of ordinary characters; at least one.
    fn text_run(&mut self, pieces: &mut Pieces) -> Result<()> {
        let at = self.pos;
        self.pos += 1;
        loop {
            self.tick()?;
            match self.byte(self.pos) {
                Some(b)
                    if b >= 0x80
                        || b.is_ascii_alphanumeric()
                        || matches!(b, b'_' | b'-' | b'/' | b'.' | b'%') =>
                {
                    self.pos += 1;
                }
                _ => break,
            }
        }
        let text = self.slice(at, self.pos);
        pieces.str(&text, at, self.pos);
        Ok(())
    }

    /// Takes a backslash and the character behind it.
    fn escape(&mut self, pieces: &mut Pieces) -> Result<()> {
        let part = self.escaped_char()?;
        pieces.part(part);
        Ok(())
    }

    /// Parses a backslash with what it quotes, outside of quotes.
    pub(crate) fn escaped_char(&mut self) -> Result<Part> {
        let at = self.pos;
        self.pos += 1;
        let from = self.pos;
        // A backslash at the very end stands for itself, or for nothing, depending on
        // how bash is given the text.
        let Some(byte) = self.byte(from) else {
            let kind = PartKind::Unsupported("a backslash at the end of the text");
            return Ok(Part { span: self.span_from(at), kind });
        };
        self.pos += utf8_len(byte);
        let text = self.slice(from, self.pos);
        Ok(Part { span: self.span_from(at), kind: PartKind::Escaped(text) })
    }

    fn dollar_piece(&mut self, pieces: &mut Pieces) -> Result<()> {
        let at = self.pos;
        match self.dollar(Dollar::Plain)? {
            Some(part) => pieces.part(part),
            None => {
                self.pos += 1;
                pieces.text('$', at, self.pos);
            }
        }
        Ok(())
    }

    /// Parses a tilde prefix; `None` if bash would not expand it.
    fn tilde(&mut self, assigns: bool) -> Result<Option<Part>> {
        let at = self.pos;
        self.pos += 1;
        let from = self.pos;
        while let Some(b) = self.byte(self.pos) {
            self.tick()?;
            if !(b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-' | b'+')) {
                break;
            }
            self.pos += 1;
        }
        let ends = match self.look(0) {
            None | Some(b'/' | b',' | b'}') => true,
            Some(b':') => assigns,
            Some(b) => is_break(b),
        };
        if !ends {
            self.pos = at;
            return Ok(None);
        }
        let user = self.slice(from, self.pos);
        Ok(Some(Part { span: self.span_from(at), kind: PartKind::Tilde(user) }))
    }

    fn at_extglob(&self, mode: WordMode) -> bool {
        (self.extglob() || mode == WordMode::CondPattern) && self.look(1) == Some(b'(')
    }

    /// Parses `@(…)` and its like.
    fn extglob_part(&mut self, mode: WordMode) -> Result<Part> {
        let at = self.pos;
        let op = self.byte(at).map_or('@', char::from);
        if mode == WordMode::Command {
            // Without `extglob`, this is `!` and a subshell, or defines a function.
            return Err(self.unsupported(at, "an extended pattern as a command's name"));
        }
        self.skip(2);
        let close = self.extent(Bracket::Pattern, self.pos)?;
        let parts = self.text(close, TextMode::PATTERN)?;
        self.pos = close + 1;
        Ok(Part { span: self.span_from(at), kind: PartKind::ExtGlob(Box::new(ExtGlob { op, parts })) })
    }

    /// Takes a bar, or parentheses with what is between, as text of a regular expression.
    fn regex_text(&mut self, byte: u8, pieces: &mut Pieces) -> Result<()> {
        let at = self.pos;
        self.pos += 1;
        pieces.text(char::from(byte), at, self.pos);
        if byte == b'(' {
            let close = self.extent(Bracket::Pattern, self.pos)?;
            for part in self.text(close, TextMode::PATTERN)? {
                pieces.part(part);
            }
            self.pos = close + 1;
            pieces.text(')', close, self.pos);
        }
        Ok(())
    }
}

/// Returns the length of the character that begins with `byte`.
pub(crate) fn utf8_len(byte: u8) -> usize {
    match byte {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    }
}

impl Pieces {
    /// Tells whether what came so far could stand before the `=` of an assignment.
    fn is_assignment_prefix(&self) -> bool {
        let [Piece::Text { text, .. }] = self.as_slice() else { return false };
        crate::compound::is_identifier(text.strip_suffix('+').unwrap_or(text))
    }
}
