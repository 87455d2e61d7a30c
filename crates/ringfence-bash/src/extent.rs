//! Where a bracket closes, found the way bash's own reader finds it.
//!
//! Bash cuts `${…}`, `$((…))`, `$[…]`, subscripts and patterns out of the text by
//! matching brackets, before it looks at their meaning. A parser that decides the
//! extent by meaning can disagree, and then sees other commands than bash runs. So
//! the extent is found first, by the same rules, and what is inside is parsed under
//! that limit: whatever would cross it is an error.

use crate::error::Result;
use crate::parser::Parser;

/// What is matched, which decides what inside is skipped as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bracket {
    /// `((…))`, `$((…))`: the inner parentheses.
    Arith,
    /// `$[…]`.
    OldArith,
    /// `${…}`.
    Param,
    /// `name[…]`.
    Subscript,
    /// `(…)` of an extended pattern or a regular expression.
    Pattern,
}

impl Bracket {
    fn pair(self) -> (u8, u8) {
        match self {
            Bracket::Arith | Bracket::Pattern => (b'(', b')'),
            Bracket::OldArith | Bracket::Subscript => (b'[', b']'),
            Bracket::Param => (b'{', b'}'),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Bracket::Arith => "the arithmetic `((`",
            Bracket::OldArith => "the arithmetic `$[`",
            Bracket::Param => "the expansion `${`",
            Bracket::Subscript => "the subscript `[`",
            Bracket::Pattern => "the pattern `(`",
        }
    }

    /// `$(`, `${` and `$[` inside are constructs of their own.
    fn nests_all(self) -> bool {
        matches!(self, Bracket::Param | Bracket::Subscript)
    }
}

impl Parser<'_> {
    /// Returns the position of the bracket that closes the one before `start`.
    pub(crate) fn extent(&mut self, kind: Bracket, start: usize) -> Result<usize> {
        let key = (start, kind as u8);
        if let Some(&close) = self.extents.get(&key) {
            return Ok(close);
        }
        self.enter(start)?;
        let close = self.find_close(kind, start)?;
        self.leave();
        self.extents.insert(key, close);
        Ok(close)
    }

    fn find_close(&mut self, kind: Bracket, start: usize) -> Result<usize> {
        let (open, close) = kind.pair();
        let mut at = start;
        // Where brackets inside begin; their extents are known when they close, so
        // that brackets in brackets are not searched once for each level.
        let mut inner = Vec::new();
        let (mut dollar, mut angle, mut second_angle) = (false, false, false);
        loop {
            self.tick()?;
            if self.continuation(at) {
                at += 2;
                continue;
            }
            let Some(byte) = self.byte(at) else {
                return Err(self.unterminated(start.saturating_sub(1), kind.name()));
            };
            let (was_dollar, was_angle, was_second) = (dollar, angle, second_angle);
            dollar = byte == b'$' && !was_dollar;
            angle = matches!(byte, b'<' | b'>') && !was_angle;
            second_angle = matches!(byte, b'<' | b'>') && was_angle;
            at = match byte {
                b'\\' => at + 2,
                _ if byte == close => {
                    match inner.pop() {
                        Some(start) => drop(self.extents.insert((start, kind as u8), at)),
                        None => return Ok(at),
                    }
                    at + 1
                }
                b'\'' => self.skip_single(at, was_dollar)?,
                b'"' => self.skip_double(at)?,
                b'`' => self.skip_backquote(at)? + 1,
                b'(' if was_dollar
                    && (kind.nests_all() || matches!(kind, Bracket::Arith | Bracket::OldArith)) =>
                {
                    self.skip_paren(at + 1)?
                }
                b'(' if was_angle && kind.nests_all() => self.skip_paren(at + 1)?,
                // Bash's reader takes `><(` for no substitution, and what expands the word later for one.
                b'(' if was_second && kind == Bracket::Param => {
                    return Err(self.unsupported(at, "a substitution right behind `<` or `>` in `${`"));
                }
                b'{' if was_dollar && kind.nests_all() => self.extent(Bracket::Param, at + 1)? + 1,
                b'[' if was_dollar && kind.nests_all() => self.extent(Bracket::OldArith, at + 1)? + 1,
                _ => {
                    // `${` closes at the first `}`; the others count.
                    if byte == open && kind != Bracket::Param {
                        inner.push(at + 1);
                    }
                    at + 1
                }
            };
        }
    }

    /// Returns the position after the single quote that closes the one at `at`.
    fn skip_single(&mut self, at: usize, escapes: bool) -> Result<usize> {
        let mut next = at + 1;
        loop {
            self.tick()?;
            match self.byte(next) {
                None => return Err(self.unterminated(at, "a single quote")),
                Some(b'\'') => return Ok(next + 1),
                Some(b'\\') if escapes => next += 2,
                Some(_) => next += 1,
            }
        }
    }

    /// Returns the position after the double quote that closes the one at `at`.
    fn skip_double(&mut self, at: usize) -> Result<usize> {
        self.enter(at)?;
        let mut next = at + 1;
        let mut dollar = false;
        loop {
            self.tick()?;
            if self.continuation(next) {
                next += 2;
                continue;
            }
            let Some(byte) = self.byte(next) else {
                return Err(self.unterminated(at, "a double quote"));
            };
            let was_dollar = dollar;
            dollar = byte == b'$' && !was_dollar;
            next = match byte {
                b'"' => break,
                b'\\' => next + 2,
                b'`' => self.skip_backquote(next)? + 1,
                b'(' if was_dollar => self.skip_paren(next + 1)?,
                b'{' if was_dollar => self.extent(Bracket::Param, next + 1)? + 1,
                b'[' if was_dollar => self.extent(Bracket::OldArith, next + 1)? + 1,
                _ => next + 1,
            };
        }
        self.leave();
        Ok(next + 1)
    }

    /// Returns the position of the backquote that closes the one at `at`.
    pub(crate) fn skip_backquote(&mut self, at: usize) -> Result<usize> {
        let mut next = at + 1;
        loop {
            self.tick()?;
            match self.byte(next) {
                None => return Err(self.unterminated(at, "a backquote")),
                Some(b'`') => return Ok(next),
                Some(b'\\') => next += 2,
                Some(_) => next += 1,
            }
        }
    }

    /// Returns the position after the parenthesis that closes the `$(` before `start`.
    ///
    /// The end of a command substitution cannot be found without parsing it (think
    /// of `case` patterns and comments), so it is parsed and kept for later.
    fn skip_paren(&mut self, start: usize) -> Result<usize> {
        let mut first = start;
        while self.continuation(first) {
            first += 2;
        }
        if self.byte(first) == Some(b'(') {
            return Ok(self.extent(Bracket::Arith, start)? + 1);
        }
        if let Some((_, after)) = self.parsed.get(&start) {
            return Ok(*after);
        }
        let here = std::mem::replace(&mut self.pos, start);
        let script = self.paren_script(start.saturating_sub(1))?;
        let after = std::mem::replace(&mut self.pos, here);
        self.parsed.insert(start, (script, after));
        Ok(after)
    }
}
