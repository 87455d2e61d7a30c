//! The parser's state: a cursor, its limits, and what is still to be read.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use crate::error::{Error, ErrorKind, Result};
use crate::span::{Derived, Span};
use crate::tree::Script;
use crate::word::Word;
use crate::{Extglob, Options};

/// A here-document whose body has not come yet.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) end_line: String,
    pub(crate) quoted: bool,
    pub(crate) strip_tabs: bool,
    pub(crate) opened: Span,
    pub(crate) slot: Arc<OnceLock<Word>>,
}

/// What a text and the texts derived from it share.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Bytes looked at so far, by all parts of the parser.
    pub(crate) steps: u64,
    /// Where the work stops; see [`Parser::tick`].
    pub(crate) max_steps: u64,
    pub(crate) depth: usize,
    pub(crate) max_depth: usize,
}

/// Whether patterns such as `@(a|b)` are read, which bash decides at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patterns {
    /// Never, as in a shell that was just started.
    Off,
    /// Not yet: a `shopt -s extglob` in the text turns them on for later lines.
    Follow,
    /// `shopt -s extglob` was seen on this line.
    NextLine,
    /// From the start.
    On,
}

/// The parser of one text: the source itself or a text derived from it.
#[derive(Debug)]
pub(crate) struct Parser<'a> {
    text: &'a [u8],
    map: Option<&'a [u32]>,
    pub(crate) pos: usize,
    /// One past the last byte that may be read. Constructs whose extent is known
    /// beforehand are parsed under a smaller end, which they cannot overrun.
    pub(crate) end: usize,
    pub(crate) budget: &'a mut Budget,
    pub(crate) pending: Vec<Pending>,
    /// Inside `$(…)` or `<(…)`, where bash ends a here-document on `EOF)` as well.
    pub(crate) in_paren: bool,
    /// How many double-quoted `${…}` we are in; there, bash's rule for `\"` in
    /// backquotes depends on the version.
    pub(crate) quoted_args: u32,
    pub(crate) patterns: Patterns,
    /// Substitutions that were parsed while looking for an extent, by the
    /// position after the parenthesis, so that none is parsed twice.
    pub(crate) parsed: HashMap<usize, (Script, usize)>,
    /// Extents found so far, by opening position and kind of bracket.
    pub(crate) extents: HashMap<(usize, u8), usize>,
}

impl<'a> Parser<'a> {
    pub(crate) fn new(text: &'a [u8], options: &Options, budget: &'a mut Budget) -> Self {
        let patterns = match options.extglob {
            Extglob::Off => Patterns::Off,
            Extglob::FollowShopt => Patterns::Follow,
            Extglob::On => Patterns::On,
        };
        Parser {
            text,
            map: None,
            pos: 0,
            end: text.len(),
            budget,
            pending: Vec::new(),
            in_paren: false,
            quoted_args: 0,
            patterns,
            parsed: HashMap::new(),
            extents: HashMap::new(),
        }
    }

    /// Runs `parse` on a derived text, with its positions mapped back.
    pub(crate) fn on_derived<T>(
        &mut self,
        derived: &Derived,
        parse: impl FnOnce(&mut Parser<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut inner = Parser {
            text: &derived.text,
            map: Some(&derived.map),
            pos: 0,
            end: derived.text.len(),
            budget: &mut *self.budget,
            pending: Vec::new(),
            in_paren: false,
            quoted_args: self.quoted_args,
            patterns: self.patterns,
            parsed: HashMap::new(),
            extents: HashMap::new(),
        };
        parse(&mut inner)
    }

    /// Counts a byte that is looked at.
    ///
    /// Linear time is a promise that is kept by force: a construct that made the
    /// parser look at bytes again and again would end in an error, not in a wait.
    pub(crate) fn tick(&mut self) -> Result<()> {
        self.budget.steps += 1;
        if self.budget.steps > self.budget.max_steps {
            return Err(self.error(
                ErrorKind::TooMuchWork,
                self.pos,
                "the text takes too much work to parse",
            ));
        }
        Ok(())
    }

    /// Goes one level deeper; every recursion of the parser passes here.
    pub(crate) fn enter(&mut self, at: usize) -> Result<()> {
        if self.budget.depth >= self.budget.max_depth {
            return Err(self.error(ErrorKind::TooDeep, at, "constructs are nested too deeply"));
        }
        self.budget.depth += 1;
        Ok(())
    }

    /// Comes back from a level.
    pub(crate) fn leave(&mut self) {
        self.budget.depth -= 1;
    }

    /// Goes on after an error in a text that bash itself reads only when it runs, so
    /// that the rest still counts. A limit is never passed over.
    pub(crate) fn recover(&mut self, depth: usize, error: Error) -> Result<()> {
        match error.kind() {
            ErrorKind::Syntax | ErrorKind::Unterminated | ErrorKind::Unsupported => {
                self.budget.depth = depth;
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Returns the byte at `at`, if it may be read.
    pub(crate) fn byte(&self, at: usize) -> Option<u8> {
        if at < self.end { self.text.get(at).copied() } else { None }
    }

    /// Tells whether a line continuation stands at `at`.
    pub(crate) fn continuation(&self, at: usize) -> bool {
        self.byte(at) == Some(b'\\') && self.byte(at + 1) == Some(b'\n')
    }

    /// Returns the next byte, passing over line continuations.
    pub(crate) fn peek(&mut self) -> Result<Option<u8>> {
        self.tick()?;
        while self.continuation(self.pos) {
            self.tick()?;
            self.pos += 2;
        }
        Ok(self.byte(self.pos))
    }

    /// Returns the `n`th byte from here (0 is the next), without line continuations.
    pub(crate) fn look(&self, n: usize) -> Option<u8> {
        self.byte(self.look_at(n))
    }

    /// Returns the position of the `n`th byte from here, without line continuations.
    pub(crate) fn look_at(&self, n: usize) -> usize {
        let mut at = self.pos;
        for left in (0..=n).rev() {
            while self.continuation(at) {
                at += 2;
            }
            if left > 0 {
                at += 1;
            }
        }
        at
    }

    /// Moves past `n` bytes, line continuations not counted.
    pub(crate) fn skip(&mut self, n: usize) {
        for _ in 0..n {
            while self.continuation(self.pos) {
                self.pos += 2;
            }
            self.pos = (self.pos + 1).min(self.end);
        }
    }

    /// Moves past blanks and line continuations.
    pub(crate) fn blanks(&mut self) -> Result<()> {
        while matches!(self.peek()?, Some(b' ' | b'\t')) {
            self.pos += 1;
        }
        Ok(())
    }

    /// Moves past blanks and a comment, if one starts here.
    pub(crate) fn blanks_and_comment(&mut self) -> Result<()> {
        self.blanks()?;
        if self.byte(self.pos) == Some(b'#') {
            while self.byte(self.pos).is_some_and(|b| b != b'\n') {
                self.tick()?;
                self.pos += 1;
            }
        }
        Ok(())
    }

    /// Moves past blanks, comments and newlines, reading here-documents on the way.
    /// Tells whether there was a newline.
    pub(crate) fn newlines(&mut self) -> Result<bool> {
        let mut any = false;
        loop {
            self.blanks_and_comment()?;
            if self.byte(self.pos) != Some(b'\n') {
                return Ok(any);
            }
            self.newline()?;
            any = true;
        }
    }

    /// Returns the text between two positions; they must be character boundaries.
    pub(crate) fn slice(&self, start: usize, end: usize) -> String {
        String::from_utf8_lossy(self.text.get(start..end).unwrap_or_default()).into_owned()
    }

    /// Returns the bytes between two positions.
    pub(crate) fn bytes(&self, start: usize, end: usize) -> &'a [u8] {
        self.text.get(start..end).unwrap_or_default()
    }

    /// Returns the source position of a position in this text.
    pub(crate) fn origin(&self, at: usize) -> u32 {
        let origin = match self.map {
            Some(map) => map.get(at).or(map.last()).copied(),
            None => u32::try_from(at.min(self.text.len())).ok(),
        };
        origin.unwrap_or(u32::MAX)
    }

    /// Makes a span in the source from two positions in this text.
    pub(crate) fn span(&self, start: usize, end: usize) -> Span {
        Span::new(self.origin(start), self.origin(end.max(start)))
    }

    /// Makes a span from `start` to here.
    pub(crate) fn span_from(&self, start: usize) -> Span {
        self.span(start, self.pos)
    }

    /// Makes an error about the byte at `at`.
    pub(crate) fn error(&self, kind: ErrorKind, at: usize, message: impl Into<String>) -> Error {
        Error::new(kind, self.span(at, (at + 1).min(self.text.len())), message)
    }

    /// Makes an error about something that we will not guess.
    pub(crate) fn unsupported(&self, at: usize, construct: &str) -> Error {
        self.error(ErrorKind::Unsupported, at, format!("{construct} is not supported"))
    }

    /// Makes an error about something opened at `at` and never closed.
    pub(crate) fn unterminated(&self, at: usize, what: &str) -> Error {
        self.error(ErrorKind::Unterminated, at, format!("{what} is not closed"))
    }

    /// Makes an error about what stands here.
    pub(crate) fn unexpected(&mut self, wanted: &str) -> Error {
        let at = self.look_at(0);
        let found = match self.byte(at) {
            None => "the end of the text".to_owned(),
            Some(b'\n') => "the end of the line".to_owned(),
            Some(b) if is_break(b) => format!("`{}`", char::from(b)),
            Some(_) => format!("`{}`", self.start_of_word(at)),
        };
        self.error(ErrorKind::Syntax, at, format!("found {found} where {wanted} is expected"))
    }

    /// Returns the beginning of the word at `at`, for a message.
    fn start_of_word(&self, at: usize) -> String {
        let rest = String::from_utf8_lossy(self.bytes(at, self.end.min(at + 80)));
        rest.chars().take(20).take_while(|c| !u8::try_from(*c).is_ok_and(is_break)).collect()
    }

    /// Runs `parse` with the readable text cut at `end`.
    pub(crate) fn within<T>(&mut self, end: usize, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let outer = self.end;
        self.end = end.min(outer);
        let result = parse(self);
        self.end = outer;
        result
    }

    /// Tells whether extended patterns are read at this point.
    pub(crate) fn extglob(&self) -> bool {
        self.patterns == Patterns::On
    }
}

/// Tells whether a byte ends an unquoted word.
pub(crate) fn is_break(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'|' | b'&' | b';' | b'(' | b')' | b'<' | b'>')
}

/// Tells whether a byte may begin a name.
pub(crate) fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

/// Tells whether a byte may stand in a name.
pub(crate) fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
