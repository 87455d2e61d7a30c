//! Quotes, backquotes, and what begins with `$` or an angle bracket.

use crate::ansi;
use crate::error::Result;
use crate::extent::Bracket;
use crate::parser::{Parser, is_name, is_name_start};
use crate::span::Derived;
use crate::text::{Dollar, Parts};
use crate::tree::Script;
use crate::word::{CmdSub, Direction, Param, ParamOp, Part, PartKind, ProcSub, SubStyle};
use crate::wordlex::utf8_len;

impl Parser<'_> {
    /// Parses `'…'`.
    pub(crate) fn single_quoted(&mut self) -> Result<Part> {
        let open = self.pos;
        self.pos += 1;
        loop {
            self.tick()?;
            match self.byte(self.pos) {
                None => return Err(self.unterminated(open, "a single quote")),
                Some(b'\'') => break,
                Some(_) => self.pos += 1,
            }
        }
        let text = self.slice(open + 1, self.pos);
        self.pos += 1;
        Ok(Part { span: self.span_from(open), kind: PartKind::SingleQ(text) })
    }

    /// Parses `"…"`.
    pub(crate) fn double_quoted(&mut self) -> Result<Part> {
        let open = self.pos;
        let parts = self.double_parts()?;
        Ok(Part { span: self.span_from(open), kind: PartKind::DoubleQ(parts) })
    }

    fn double_parts(&mut self) -> Result<Vec<Part>> {
        let open = self.pos;
        self.enter(open)?;
        self.pos += 1;
        let mut parts = Parts::default();
        loop {
            let Some(byte) = self.peek()? else {
                return Err(self.unterminated(open, "a double quote"));
            };
            let at = self.pos;
            match byte {
                b'"' => break,
                b'\\' => {
                    let escapes = matches!(self.byte(at + 1), Some(b'$' | b'`' | b'"' | b'\\'));
                    self.pos += if escapes { 2 } else { 1 };
                    let text = self.slice(if escapes { at + 1 } else { at }, self.pos);
                    parts.text(&text, at, self.pos);
                }
                b'`' => {
                    let part = self.backquoted(Dollar::Double)?;
                    parts.part(self, part);
                }
                b'$' => match self.dollar(Dollar::Double)? {
                    Some(part) => parts.part(self, part),
                    None => {
                        self.pos += 1;
                        parts.text("$", at, self.pos);
                    }
                },
                _ => {
                    self.pos += utf8_len(byte);
                    let text = self.slice(at, self.pos);
                    parts.text(&text, at, self.pos);
                }
            }
        }
        let parts = parts.finish(self);
        self.pos += 1;
        self.leave();
        Ok(parts)
    }

    /// Parses what begins with `$`; `None` if the dollar stands for itself.
    pub(crate) fn dollar(&mut self, place: Dollar) -> Result<Option<Part>> {
        let at = self.pos;
        let Some(next) = self.look(1) else { return Ok(None) };
        let kind = match next {
            b'(' => return self.dollar_paren().map(Some),
            b'{' => return self.dollar_brace(place).map(Some),
            b'[' => {
                self.skip(2);
                let close = self.extent(Bracket::OldArith, self.pos)?;
                let parts = self.arith_text(close)?;
                self.pos = close + 1;
                PartKind::Arith(parts)
            }
            b'\'' if place == Dollar::Plain => return self.ansi_quoted().map(Some),
            b'"' if place == Dollar::Plain => {
                self.skip(1);
                self.pos = self.look_at(0);
                PartKind::LocaleQ(self.double_parts()?)
            }
            b'\'' | b'"' if place == Dollar::Doubtful => {
                return Err(self.unsupported(at, "`$` before a quote in a quoted expansion or in arithmetic"));
            }
            b'0'..=b'9' | b'@' | b'*' | b'#' | b'?' | b'-' | b'$' | b'!' => {
                self.skip(2);
                simple_param(char::from(next).to_string())
            }
            _ if is_name_start(next) => {
                self.skip(1);
                let mut name = String::new();
                while let Some(byte) = self.peek()?.filter(|b| is_name(*b)) {
                    name.push(char::from(byte));
                    self.pos += 1;
                }
                simple_param(name)
            }
            _ => return Ok(None),
        };
        Ok(Some(Part { span: self.span_from(at), kind }))
    }

    fn ansi_quoted(&mut self) -> Result<Part> {
        let at = self.pos;
        self.skip(2);
        let from = self.pos;
        loop {
            self.tick()?;
            match self.byte(self.pos) {
                None => return Err(self.unterminated(at, "a `$'` quote")),
                Some(b'\'') => break,
                Some(b'\\') => self.pos += 2,
                Some(_) => self.pos += 1,
            }
        }
        let raw = self.slice(from, self.pos);
        let decoded = ansi::decode(&raw);
        self.pos += 1;
        Ok(Part { span: self.span_from(at), kind: PartKind::AnsiC { raw, decoded } })
    }

    /// Parses `$(…)` or `$((…))`.
    fn dollar_paren(&mut self) -> Result<Part> {
        let at = self.pos;
        let start = self.look_at(1) + 1;
        if self.look(2) == Some(b'(') {
            let inside = self.look_at(2) + 1;
            let outer = self.extent(Bracket::Arith, start)?;
            let inner = self.extent(Bracket::Arith, inside)?;
            let mut next = inner + 1;
            while self.continuation(next) {
                next += 2;
            }
            if next == outer {
                self.pos = inside;
                let mut parts = self.arith_text(inner)?;
                if self.has_comment_mark(inside, inner) {
                    let kind = PartKind::Unsupported("a `#` after a blank in arithmetic");
                    parts.push(Part { span: self.span(inside, inner), kind });
                }
                self.pos = outer + 1;
                return Ok(Part { span: self.span_from(at), kind: PartKind::Arith(parts) });
            }
            // A substitution that begins with a subshell. Bash has found its end by
            // counting parentheses; the grammar must agree.
            self.pos = start;
            let script = self.paren_script(at)?;
            if self.pos != outer + 1 {
                return Err(self.unsupported(at, "a `$((` whose end is not clear"));
            }
            return Ok(self.paren_sub(at, script));
        }
        self.pos = start;
        let script = self.kept_or_parsed(start, at)?;
        Ok(self.paren_sub(at, script))
    }

    /// Tells whether one of bash's two readers would see a comment between these positions.
    fn has_comment_mark(&self, start: usize, end: usize) -> bool {
        self.bytes(start, end).windows(2).any(|pair| matches!(pair, [b' ' | b'\t' | b'\n', b'#']))
    }

    fn paren_sub(&self, at: usize, script: Script) -> Part {
        let sub = CmdSub { style: SubStyle::Paren, script };
        Part { span: self.span_from(at), kind: PartKind::CmdSub(Box::new(sub)) }
    }

    /// Returns the substitution that begins at `start`, from the store if the
    /// search for an extent has parsed it already.
    fn kept_or_parsed(&mut self, start: usize, at: usize) -> Result<Script> {
        if let Some((script, after)) = self.parsed.remove(&start) {
            if after > self.end {
                return Err(self.unterminated(at, "a substitution"));
            }
            self.pos = after;
            return Ok(script);
        }
        self.paren_script(at)
    }

    /// Parses `<(…)` or `>(…)`.
    pub(crate) fn process_substitution(&mut self) -> Result<Part> {
        let at = self.look_at(0);
        let direction = if self.look(0) == Some(b'<') { Direction::Read } else { Direction::Write };
        let start = self.look_at(1) + 1;
        let counted =
            if self.look(2) == Some(b'(') { Some(self.extent(Bracket::Arith, start)?) } else { None };
        self.pos = start;
        let script = self.kept_or_parsed(start, at)?;
        if counted.is_some_and(|close| close + 1 != self.pos) {
            return Err(self.unsupported(at, "a process substitution whose end is not clear"));
        }
        let sub = ProcSub { direction, script };
        Ok(Part { span: self.span_from(at), kind: PartKind::ProcSub(Box::new(sub)) })
    }

    /// Parses `` `…` ``.
    ///
    /// Bash cuts the text out at the next unquoted backquote, takes one level of
    /// backslashes off, and parses the rest as a script of its own.
    pub(crate) fn backquoted(&mut self, place: Dollar) -> Result<Part> {
        let open = self.pos;
        let close = self.skip_backquote(open)?;
        self.enter(open)?;
        let depth = self.budget.depth;
        let quoted_args = std::mem::take(&mut self.quoted_args);
        let result = if self.bytes(open + 1, close).contains(&b'\\') {
            let doubtful = place == Dollar::Doubtful || quoted_args > 0;
            let derived = self.unescape(open + 1, close, place, doubtful)?;
            self.on_derived(&derived, |parser| parser.whole_script())
        } else {
            let pending = std::mem::take(&mut self.pending);
            let in_paren = std::mem::replace(&mut self.in_paren, false);
            let patterns = self.patterns;
            self.pos = open + 1;
            let result = self.within(close, |parser| parser.whole_script());
            self.pending = pending;
            self.in_paren = in_paren;
            self.patterns = patterns;
            result
        };
        self.quoted_args = quoted_args;
        let kind = match result {
            Ok(script) => PartKind::CmdSub(Box::new(CmdSub { style: SubStyle::Backquote, script })),
            Err(error) => {
                self.recover(depth, error)?;
                PartKind::Unsupported("a backquoted command that does not parse")
            }
        };
        self.leave();
        self.pos = close + 1;
        Ok(Part { span: self.span_from(open), kind })
    }

    /// Takes one level of backslashes off the text of a backquote.
    fn unescape(&mut self, start: usize, end: usize, place: Dollar, doubtful: bool) -> Result<Derived> {
        let mut derived = Derived::default();
        let mut at = start;
        while at < end {
            self.tick()?;
            let byte = self.byte(at).unwrap_or_default();
            let next = if byte == b'\\' { self.byte(at + 1) } else { None };
            match next {
                Some(b'\n') => at += 2,
                Some(b'"') if doubtful => {
                    return Err(self.unsupported(at, "`\\\"` in a backquote inside a quoted expansion"));
                }
                Some(quoted @ (b'$' | b'`' | b'\\')) => {
                    derived.push(quoted, self.origin(at));
                    at += 2;
                }
                Some(b'"') if place == Dollar::Double => {
                    derived.push(b'"', self.origin(at));
                    at += 2;
                }
                _ => {
                    derived.push(byte, self.origin(at));
                    at += 1;
                }
            }
        }
        derived.close(self.origin(end));
        Ok(derived)
    }
}

fn simple_param(name: String) -> PartKind {
    PartKind::Param(Box::new(Param { name, index: None, op: ParamOp::Plain, args: Vec::new() }))
}
