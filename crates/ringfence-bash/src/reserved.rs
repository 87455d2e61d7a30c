//! Reserved words, which are words only where a command can begin.

use crate::parser::{Parser, is_break};

/// A reserved word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reserved {
    Bang,
    Case,
    CondEnd,
    CondStart,
    Coproc,
    Do,
    Done,
    Elif,
    Else,
    Esac,
    Fi,
    For,
    Function,
    If,
    In,
    OpenBrace,
    CloseBrace,
    Select,
    Then,
    Time,
    Until,
    While,
}

const WORDS: [(&[u8], Reserved); 22] = [
    (b"!", Reserved::Bang),
    (b"case", Reserved::Case),
    (b"]]", Reserved::CondEnd),
    (b"[[", Reserved::CondStart),
    (b"coproc", Reserved::Coproc),
    (b"do", Reserved::Do),
    (b"done", Reserved::Done),
    (b"elif", Reserved::Elif),
    (b"else", Reserved::Else),
    (b"esac", Reserved::Esac),
    (b"fi", Reserved::Fi),
    (b"for", Reserved::For),
    (b"function", Reserved::Function),
    (b"if", Reserved::If),
    (b"in", Reserved::In),
    (b"{", Reserved::OpenBrace),
    (b"}", Reserved::CloseBrace),
    (b"select", Reserved::Select),
    (b"then", Reserved::Then),
    (b"time", Reserved::Time),
    (b"until", Reserved::Until),
    (b"while", Reserved::While),
];

/// One longer than the longest reserved word.
const LONGEST: usize = 9;

impl Reserved {
    /// Tells whether the word ends a list of commands.
    pub(crate) fn closes(self) -> bool {
        matches!(
            self,
            Reserved::Then
                | Reserved::Do
                | Reserved::Done
                | Reserved::Elif
                | Reserved::Else
                | Reserved::Esac
                | Reserved::Fi
                | Reserved::CloseBrace
                | Reserved::In
                | Reserved::CondEnd
        )
    }

    /// Tells whether the word begins a compound command.
    pub(crate) fn opens(self) -> bool {
        matches!(
            self,
            Reserved::Case
                | Reserved::CondStart
                | Reserved::For
                | Reserved::If
                | Reserved::OpenBrace
                | Reserved::Select
                | Reserved::Until
                | Reserved::While
        )
    }
}

impl Parser<'_> {
    /// Returns the bare word at the cursor, at most `LONGEST` bytes, without moving.
    ///
    /// `None` if there is none or it goes on with a quote or an expansion: a
    /// reserved word must stand unquoted and alone. Line continuations inside it
    /// do not count, as in bash.
    fn bare_word(&self, buffer: &mut [u8; LONGEST]) -> Option<usize> {
        let mut at = self.look_at(0);
        let mut len = 0;
        loop {
            while self.continuation(at) {
                at += 2;
            }
            match self.byte(at) {
                None => return Some(len),
                Some(b'<' | b'>') if self.paren_follows(at) => return None,
                Some(b) if is_break(b) => return Some(len),
                Some(b'\'' | b'"' | b'`' | b'$' | b'\\') => return None,
                Some(b) => {
                    *buffer.get_mut(len)? = b;
                    len += 1;
                    at += 1;
                }
            }
        }
    }

    fn paren_follows(&self, at: usize) -> bool {
        let mut next = at + 1;
        while self.continuation(next) {
            next += 2;
        }
        self.byte(next) == Some(b'(')
    }

    /// Returns the reserved word at the cursor, without moving. Only for places
    /// where bash would take a word as reserved.
    pub(crate) fn reserved(&self) -> Option<Reserved> {
        let mut buffer = [0; LONGEST];
        let len = self.bare_word(&mut buffer)?;
        let word = buffer.get(..len)?;
        let found = WORDS.iter().find(|(text, _)| *text == word)?.1;
        // With extended patterns on, `!(` begins a pattern.
        if found == Reserved::Bang && self.extglob() && self.look(1) == Some(b'(') {
            return None;
        }
        Some(found)
    }

    /// Tells whether the bare word at the cursor is `word`.
    pub(crate) fn at_word(&self, word: &[u8]) -> bool {
        let mut buffer = [0; LONGEST];
        let len = self.bare_word(&mut buffer);
        len.and_then(|len| buffer.get(..len)) == Some(word)
    }

    /// Moves past a reserved word of `len` bytes.
    pub(crate) fn take_word(&mut self, len: usize) {
        self.skip(len);
    }
}
