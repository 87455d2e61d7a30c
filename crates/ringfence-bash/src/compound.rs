//! `if`, loops, `for`, `select` and `case`.

use crate::error::Result;
use crate::extent::Bracket;
use crate::parser::{Parser, is_name, is_name_start};
use crate::reserved::Reserved;
use crate::tree::{ArithFor, Arm, ArmEnd, Branch, Case, CommandKind, For, If, Loop, Script};
use crate::word::{Part, PartKind, Word};
use crate::wordlex::WordMode;

impl Parser<'_> {
    /// Parses `if … then … [elif …] [else …] fi`.
    pub(crate) fn if_command(&mut self) -> Result<If> {
        let open = self.look_at(0);
        self.take_word(2);
        let mut branches = Vec::new();
        loop {
            let condition = self.body()?;
            self.expect(Reserved::Then, 4, open, "`if`")?;
            let body = self.body()?;
            branches.push(Branch { condition, body });
            if self.reserved() != Some(Reserved::Elif) {
                break;
            }
            self.take_word(4);
        }
        let mut otherwise = None;
        if self.reserved() == Some(Reserved::Else) {
            self.take_word(4);
            otherwise = Some(self.body()?);
        }
        self.expect(Reserved::Fi, 2, open, "`if`")?;
        Ok(If { branches, otherwise })
    }

    /// Parses `while … do … done` or `until … do … done`.
    pub(crate) fn loop_command(&mut self) -> Result<Loop> {
        let open = self.look_at(0);
        let until = self.reserved() == Some(Reserved::Until);
        self.take_word(5);
        let condition = self.body()?;
        let body = self.do_done(open)?;
        Ok(Loop { until, condition, body })
    }

    fn do_done(&mut self, open: usize) -> Result<Script> {
        self.expect(Reserved::Do, 2, open, "the loop")?;
        let body = self.body()?;
        self.expect(Reserved::Done, 4, open, "the loop")?;
        Ok(body)
    }

    /// Parses `for`, over words or with arithmetic.
    pub(crate) fn for_command(&mut self) -> Result<CommandKind> {
        let open = self.look_at(0);
        self.take_word(3);
        self.blanks()?;
        if self.look(0) == Some(b'(') && self.look(1) == Some(b'(') {
            return Ok(CommandKind::ArithFor(self.arith_for(open)?));
        }
        Ok(CommandKind::For(self.for_words(open, /* select */ false)?))
    }

    /// Parses `select`.
    pub(crate) fn select_command(&mut self) -> Result<For> {
        let open = self.look_at(0);
        self.take_word(6);
        self.blanks()?;
        self.for_words(open, /* select */ true)
    }

    fn for_words(&mut self, open: usize, select: bool) -> Result<For> {
        let at = self.look_at(0);
        let word = self.plain_word("a variable's name")?;
        let name = match word.as_literal() {
            Some(name) if is_identifier(&name) => name,
            // Bash accepts these when it reads and fails when it runs.
            _ => return Err(self.unsupported(at, "a loop variable that is not a name")),
        };
        // Whether `{` may begin the body: bash wants a separator before it.
        let mut separated = self.newlines()?;
        let mut words = None;
        if self.at_word(b"in") {
            self.take_word(2);
            words = Some(self.for_list()?);
            separated = true;
        } else if self.look(0) == Some(b';') && !matches!(self.look(1), Some(b';' | b'&')) {
            self.skip(1);
            separated = true;
        }
        self.newlines()?;
        let body = if separated && self.reserved() == Some(Reserved::OpenBrace) {
            self.group()?
        } else {
            self.do_done(open)?
        };
        Ok(For { select, name, words, body })
    }

    /// Parses the words after `in`, and the separator.
    fn for_list(&mut self) -> Result<Vec<Word>> {
        let mut words = Vec::new();
        loop {
            self.blanks_and_comment()?;
            match self.peek()? {
                Some(b'\n') => {
                    self.newline()?;
                    return Ok(words);
                }
                Some(b';') if !matches!(self.look(1), Some(b';' | b'&')) => {
                    self.skip(1);
                    return Ok(words);
                }
                _ => words.push(self.plain_word("a word or `;`")?),
            }
        }
    }

    fn arith_for(&mut self, open: usize) -> Result<ArithFor> {
        let inside = self.look_at(1) + 1;
        let close = self.extent(Bracket::Arith, inside)?;
        if self.byte(close + 1) != Some(b')') {
            return Err(self.unterminated(inside - 1, "the arithmetic `((`"));
        }
        self.pos = inside;
        let header = self.arith_text(close)?;
        if semicolons(&header) != 2 {
            let message = "`for ((` takes three expressions";
            return Err(self.error(crate::ErrorKind::Syntax, inside, message));
        }
        self.pos = close + 2;
        self.blanks_and_comment()?;
        if self.look(0) == Some(b';') && !matches!(self.look(1), Some(b';' | b'&')) {
            self.skip(1);
        }
        self.newlines()?;
        let body =
            if self.reserved() == Some(Reserved::OpenBrace) { self.group()? } else { self.do_done(open)? };
        Ok(ArithFor { header, body })
    }

    /// Parses `case … esac`.
    pub(crate) fn case_command(&mut self) -> Result<Case> {
        let open = self.look_at(0);
        self.take_word(4);
        self.blanks()?;
        let subject = self.word(WordMode::Pattern)?.ok_or_else(|| self.unexpected("a word"))?;
        self.newlines()?;
        if !self.at_word(b"in") {
            return Err(self.unexpected("`in`"));
        }
        self.take_word(2);
        let mut arms = Vec::new();
        loop {
            self.newlines()?;
            if self.reserved() == Some(Reserved::Esac) {
                self.take_word(4);
                return Ok(Case { subject, arms });
            }
            if self.peek()?.is_none() {
                return Err(self.unterminated(open, "`case`"));
            }
            let (arm, last) = self.arm()?;
            arms.push(arm);
            if last {
                self.expect(Reserved::Esac, 4, open, "`case`")?;
                return Ok(Case { subject, arms });
            }
        }
    }

    /// Parses one arm; also tells whether `esac` must follow.
    fn arm(&mut self) -> Result<(Arm, bool)> {
        let start = self.look_at(0);
        if self.look(0) == Some(b'(') {
            self.skip(1);
            self.blanks()?;
        }
        let mut patterns = Vec::new();
        loop {
            self.blanks()?;
            patterns.push(self.word(WordMode::Pattern)?.ok_or_else(|| self.unexpected("a pattern"))?);
            self.blanks()?;
            match self.peek()? {
                Some(b'|') => self.pos += 1,
                Some(b')') => break,
                _ => return Err(self.unexpected("`|` or `)` in the pattern list")),
            }
        }
        self.pos += 1;
        let body = self.list()?;
        let (len, end) = match (self.peek()?, self.look(1), self.look(2)) {
            (Some(b';'), Some(b';'), Some(b'&')) => (3, ArmEnd::Continue),
            (Some(b';'), Some(b';'), _) => (2, ArmEnd::Break),
            (Some(b';'), Some(b'&'), _) => (2, ArmEnd::FallThrough),
            _ => (0, ArmEnd::Break),
        };
        self.skip(len);
        Ok((Arm { span: self.span_from(start), patterns, body, end }, len == 0))
    }
}

/// Tells whether a text is a valid variable name.
pub(crate) fn is_identifier(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().copied().is_some_and(is_name_start) && bytes.iter().copied().all(is_name)
}

fn semicolons(parts: &[Part]) -> usize {
    let count = |part: &Part| match &part.kind {
        PartKind::Lit(text) => text.matches(';').count(),
        _ => 0,
    };
    parts.iter().map(count).sum()
}
