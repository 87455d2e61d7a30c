//! From the pieces of an unquoted word to its parts: braces and brackets.
//!
//! Whether a `{` or a `[` is special is known only at the end of the word, so the
//! reader leaves them as pieces and this file pairs them, in one pass with a stack.

use crate::error::Result;
use crate::parser::Parser;
use crate::word::{Brace, Glob, Part, PartKind, Word};

/// A piece of a word before its braces are paired. Positions are those of the
/// parser's text, not of the source.
#[derive(Debug)]
pub(crate) enum Piece {
    Text {
        text: String,
        start: usize,
        end: usize,
    },
    Part(Part),
    /// One of `{ } , [ ]`, unquoted.
    Special {
        byte: u8,
        at: usize,
    },
}

/// The pieces of a word.
#[derive(Debug)]
pub(crate) struct Pieces {
    pieces: Vec<Piece>,
    braces: bool,
}

impl Pieces {
    pub(crate) fn new(braces: bool) -> Self {
        Pieces { pieces: Vec::new(), braces }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(crate) fn as_slice(&self) -> &[Piece] {
        &self.pieces
    }

    pub(crate) fn part(&mut self, part: Part) {
        self.pieces.push(Piece::Part(part));
    }

    pub(crate) fn special(&mut self, byte: u8, at: usize) {
        self.pieces.push(Piece::Special { byte, at });
    }

    pub(crate) fn text(&mut self, ch: char, start: usize, end: usize) {
        self.str(ch.encode_utf8(&mut [0; 4]), start, end);
    }

    pub(crate) fn str(&mut self, text: &str, from: usize, to: usize) {
        push_text(&mut self.pieces, text, from, to);
    }
}

fn push_text(pieces: &mut Vec<Piece>, more: &str, from: usize, to: usize) {
    if let Some(Piece::Text { text, end, .. }) = pieces.last_mut() {
        text.push_str(more);
        *end = to;
    } else {
        pieces.push(Piece::Text { text: more.to_owned(), start: from, end: to });
    }
}

/// A brace that is open.
struct Open {
    at: usize,
    /// The alternatives that a comma has ended, each with the comma's position.
    done: Vec<(Vec<Piece>, usize)>,
    current: Vec<Piece>,
}

impl Parser<'_> {
    /// Makes the parts of a word from its pieces.
    pub(crate) fn finish(&mut self, pieces: Pieces) -> Result<Vec<Part>> {
        let Pieces { pieces, braces } = pieces;
        if !braces || !pieces.iter().any(|piece| matches!(piece, Piece::Special { byte: b'{', .. })) {
            return Ok(self.parts(pieces));
        }
        let pieces = self.pair_braces(pieces)?;
        Ok(self.parts(pieces))
    }

    fn pair_braces(&mut self, pieces: Vec<Piece>) -> Result<Vec<Piece>> {
        let mut root = Vec::new();
        let mut stack: Vec<Open> = Vec::new();
        // Bash looks past a `}` that ends a group without a comma, for a later one.
        let (mut bare_group, mut bare_comma) = (false, false);
        for piece in pieces {
            self.tick()?;
            match piece {
                Piece::Special { byte: b'{', at } => {
                    self.enter(at)?;
                    stack.push(Open { at, done: Vec::new(), current: Vec::new() });
                }
                Piece::Special { byte: b',', at } => match stack.last_mut() {
                    Some(open) => {
                        let alternative = std::mem::take(&mut open.current);
                        open.done.push((alternative, at));
                    }
                    None => {
                        bare_comma |= bare_group;
                        push_text(&mut root, ",", at, at + 1);
                    }
                },
                Piece::Special { byte: b'}', at } => match stack.pop() {
                    Some(open) => {
                        self.leave();
                        let top = stack.is_empty();
                        let outer = stack.last_mut().map_or(&mut root, |outer| &mut outer.current);
                        bare_group |= !self.close_brace(open, at, outer) && top;
                    }
                    None => {
                        if bare_group && bare_comma {
                            return Err(self.unsupported(at, "a brace expansion around an unpaired brace"));
                        }
                        push_text(&mut root, "}", at, at + 1);
                    }
                },
                Piece::Text { text, start, end } => {
                    let outer = stack.last_mut().map_or(&mut root, |outer| &mut outer.current);
                    bare_comma |= bare_group && text.contains("..");
                    push_text(outer, &text, start, end);
                }
                piece => stack.last_mut().map_or(&mut root, |outer| &mut outer.current).push(piece),
            }
        }
        while let Some(open) = stack.pop() {
            self.leave();
            let outer = stack.last_mut().map_or(&mut root, |outer| &mut outer.current);
            push_text(outer, "{", open.at, open.at + 1);
            flatten(open, outer);
        }
        Ok(root)
    }

    /// Adds a closed brace to `outer`; tells whether it is one that expands.
    fn close_brace(&self, open: Open, at: usize, outer: &mut Vec<Piece>) -> bool {
        let span = self.span(open.at, at + 1);
        if open.done.is_empty() {
            if let [Piece::Text { text, .. }] = open.current.as_slice()
                && is_range(text)
            {
                let kind = PartKind::Brace(Brace::Range(text.clone()));
                outer.push(Piece::Part(Part { span, kind }));
                return true;
            }
            push_text(outer, "{", open.at, open.at + 1);
            flatten(open, outer);
            push_text(outer, "}", at, at + 1);
            return false;
        }
        let mut words = Vec::new();
        let mut from = open.at + 1;
        for (pieces, comma) in open.done {
            words.push(Word { span: self.span(from, comma), parts: self.parts(pieces) });
            from = comma + 1;
        }
        words.push(Word { span: self.span(from, at), parts: self.parts(open.current) });
        outer.push(Piece::Part(Part { span, kind: PartKind::Brace(Brace::List(words)) }));
        true
    }

    /// Decides the brackets and joins texts.
    fn parts(&self, pieces: Vec<Piece>) -> Vec<Part> {
        let closing = |piece: &Piece| matches!(piece, Piece::Special { byte: b']', .. });
        let last_close = pieces.iter().rposition(closing);
        let mut joined = Vec::with_capacity(pieces.len());
        for (n, piece) in pieces.into_iter().enumerate() {
            match piece {
                Piece::Special { byte: b'[', at } if last_close.is_some_and(|last| n < last) => {
                    let kind = PartKind::Glob(Glob::Bracket);
                    joined.push(Piece::Part(Part { span: self.span(at, at + 1), kind }));
                }
                Piece::Special { byte, at } => {
                    push_text(&mut joined, char::from(byte).encode_utf8(&mut [0; 4]), at, at + 1);
                }
                Piece::Text { text, start, end } => push_text(&mut joined, &text, start, end),
                part @ Piece::Part(_) => joined.push(part),
            }
        }
        let part = |piece| match piece {
            Piece::Part(part) => part,
            Piece::Text { text, start, end } => {
                Part { span: self.span(start, end), kind: PartKind::Lit(text) }
            }
            Piece::Special { byte, at } => {
                Part { span: self.span(at, at + 1), kind: PartKind::Lit(char::from(byte).to_string()) }
            }
        };
        joined.into_iter().map(part).collect()
    }
}

/// Adds the inside of a brace that does not expand, commas and all.
fn flatten(open: Open, outer: &mut Vec<Piece>) {
    for (pieces, comma) in open.done {
        append(outer, pieces);
        push_text(outer, ",", comma, comma + 1);
    }
    append(outer, open.current);
}

fn append(outer: &mut Vec<Piece>, pieces: Vec<Piece>) {
    for piece in pieces {
        match piece {
            Piece::Text { text, start, end } => push_text(outer, &text, start, end),
            piece => outer.push(piece),
        }
    }
}

/// Tells whether the text between braces is a sequence such as `1..9` or `a..e..2`.
pub(crate) fn is_range(text: &str) -> bool {
    let mut ends = text.split("..");
    let (Some(from), Some(to), step, None) = (ends.next(), ends.next(), ends.next(), ends.next()) else {
        return false;
    };
    let number = |text: &str| text.parse::<i64>().is_ok();
    let letter = |text: &str| text.len() == 1 && text.as_bytes().iter().all(u8::is_ascii_alphabetic);
    ((number(from) && number(to)) || (letter(from) && letter(to))) && step.is_none_or(number)
}
