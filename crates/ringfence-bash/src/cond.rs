//! `[[ … ]]`.

use crate::arith::word_hides;
use crate::error::Result;
use crate::parser::Parser;
use crate::reserved::Reserved;
use crate::tree::Cond;
use crate::word::{Part, PartKind, Word};
use crate::wordlex::WordMode;

const UNARY: &str = "abcdefghknoprstuvwxzGLNORS";
const BINARY: [&str; 13] =
    ["=", "==", "!=", "=~", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"];

impl Parser<'_> {
    /// Parses `[[ … ]]`.
    pub(crate) fn cond_command(&mut self) -> Result<Cond> {
        let open = self.look_at(0);
        self.take_word(2);
        let cond = self.cond_or()?;
        self.expect(Reserved::CondEnd, 2, open, "the test `[[`")?;
        Ok(cond)
    }

    fn cond_or(&mut self) -> Result<Cond> {
        let mut terms = vec![self.cond_and()?];
        while self.look(0) == Some(b'|') && self.look(1) == Some(b'|') {
            self.skip(2);
            terms.push(self.cond_and()?);
        }
        Ok(single_or(terms, Cond::Or))
    }

    fn cond_and(&mut self) -> Result<Cond> {
        let mut terms = vec![self.cond_not()?];
        while self.look(0) == Some(b'&') && self.look(1) == Some(b'&') {
            self.skip(2);
            terms.push(self.cond_not()?);
        }
        Ok(single_or(terms, Cond::And))
    }

    fn cond_not(&mut self) -> Result<Cond> {
        let mut negations = 0_u32;
        self.newlines()?;
        while self.reserved() == Some(Reserved::Bang) {
            self.take_word(1);
            negations += 1;
            self.newlines()?;
        }
        let term = self.cond_term()?;
        // Two negations cancel; the terms that expand stay the same.
        Ok(if negations % 2 == 1 { Cond::Not(Box::new(term)) } else { term })
    }

    fn cond_term(&mut self) -> Result<Cond> {
        let at = self.look_at(0);
        if self.look(0) == Some(b'(') {
            self.enter(at)?;
            self.skip(1);
            let inner = self.cond_or()?;
            if self.peek()? != Some(b')') {
                return Err(self.unexpected("`)`"));
            }
            self.pos += 1;
            self.newlines()?;
            self.leave();
            return Ok(Cond::Group(Box::new(inner)));
        }
        let left = self.cond_word(WordMode::Pattern)?;
        if let Some(op) = left.bare().filter(|op| is_unary(op)) {
            let op = op.to_owned();
            self.blanks()?;
            let mut operand = self.cond_word(WordMode::Pattern)?;
            if op == "-v" || op == "-R" {
                mark_arith(&mut operand);
            }
            self.newlines()?;
            return Ok(Cond::Unary(op, operand));
        }
        self.blanks()?;
        if self.cond_term_ends()? {
            return Ok(Cond::Word(left));
        }
        self.cond_binary(left)
    }

    /// Tells whether a lone word ends here. A newline does not count, as in bash.
    fn cond_term_ends(&mut self) -> Result<bool> {
        Ok(match (self.peek()?, self.look(1)) {
            (Some(b')'), _) | (Some(b'&'), Some(b'&')) | (Some(b'|'), Some(b'|')) => true,
            _ => self.reserved() == Some(Reserved::CondEnd),
        })
    }

    fn cond_binary(&mut self, mut left: Word) -> Result<Cond> {
        let op = match self.peek()? {
            Some(b @ (b'<' | b'>')) if !self.at_process_substitution() => {
                self.pos += 1;
                if matches!(self.look(0), Some(b'<' | b'>' | b'&' | b'|')) {
                    return Err(self.unexpected("a word"));
                }
                char::from(b).to_string()
            }
            _ => {
                let word = self.word(WordMode::Pattern)?;
                let known = word.as_ref().and_then(Word::bare).filter(|op| BINARY.contains(op));
                let Some(op) = known else { return Err(self.unexpected("an operator of `[[`")) };
                op.to_owned()
            }
        };
        self.blanks()?;
        let mode = match op.as_str() {
            "=~" => WordMode::Regex,
            "=" | "==" | "!=" => WordMode::CondPattern,
            _ => WordMode::Pattern,
        };
        let mut right = self.cond_word(mode)?;
        if matches!(op.as_str(), "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge") {
            mark_arith(&mut left);
            mark_arith(&mut right);
        }
        self.newlines()?;
        Ok(Cond::Binary(Box::new(left), op, Box::new(right)))
    }

    fn cond_word(&mut self, mode: WordMode) -> Result<Word> {
        if self.reserved() == Some(Reserved::CondEnd) {
            return Err(self.unexpected("a word"));
        }
        let word = self.word(mode)?.ok_or_else(|| self.unexpected("a word"))?;
        let number = word.bare().is_some_and(|text| text.bytes().all(|b| b.is_ascii_digit()));
        if number && matches!(self.look(0), Some(b'<' | b'>')) {
            return Err(self.unexpected("a blank"));
        }
        Ok(word)
    }
}

/// Marks an operand whose text is evaluated as arithmetic or as a subscript.
fn mark_arith(word: &mut Word) {
    if word_hides(word) {
        let kind = PartKind::Unsupported("quoted text that arithmetic expands again");
        word.parts.push(Part { span: word.span, kind });
    }
}

fn is_unary(op: &str) -> bool {
    op.strip_prefix('-').is_some_and(|letter| letter.len() == 1 && UNARY.contains(letter))
}

fn single_or(mut terms: Vec<Cond>, join: fn(Vec<Cond>) -> Cond) -> Cond {
    match terms.pop() {
        Some(only) if terms.is_empty() => only,
        Some(last) => {
            terms.push(last);
            join(terms)
        }
        None => join(terms),
    }
}
