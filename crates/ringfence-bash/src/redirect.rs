//! Redirections.

use std::sync::Arc;

use crate::error::Result;
use crate::parser::{Parser, Pending, is_name, is_name_start};
use crate::tree::{Fd, HereDoc, Redirect, RedirectOp, Target};
use crate::word::{PartKind, Word};
use crate::wordlex::WordMode;

impl Parser<'_> {
    /// Parses the redirections after a compound command.
    pub(crate) fn redirects(&mut self) -> Result<Vec<Redirect>> {
        let mut redirects = Vec::new();
        loop {
            let here = self.pos;
            self.blanks()?;
            if !self.at_redirect()? {
                self.pos = here;
                return Ok(redirects);
            }
            redirects.push(self.redirect()?);
        }
    }

    /// Tells whether `<(` or `>(` stands here.
    pub(crate) fn at_process_substitution(&self) -> bool {
        matches!(self.look(0), Some(b'<' | b'>')) && self.look(1) == Some(b'(')
    }

    /// Tells whether a redirection begins here.
    pub(crate) fn at_redirect(&mut self) -> Result<bool> {
        let here = self.pos;
        let start = self.peek()?;
        let found = match start {
            Some(b'&') => self.look(1) == Some(b'>'),
            Some(b'<' | b'>') => !self.at_process_substitution(),
            Some(b'0'..=b'9' | b'{') => {
                self.descriptor()?;
                self.pos != here
                    && matches!(self.look(0), Some(b'<' | b'>'))
                    && !self.at_process_substitution()
            }
            _ => false,
        };
        self.pos = here;
        Ok(found)
    }

    /// Parses a number or `{name}` before an operator, if one stands here.
    fn descriptor(&mut self) -> Result<Option<Fd>> {
        let here = self.pos;
        let brace = self.peek()? == Some(b'{');
        if brace {
            self.pos += 1;
        }
        let wanted = if brace { is_name } else { |byte: u8| byte.is_ascii_digit() };
        let mut text = String::new();
        while let Some(byte) = self.peek()?.filter(|b| wanted(*b)) {
            text.push(char::from(byte));
            self.pos += 1;
        }
        if !brace {
            // Bash takes numbers that do not fit as words.
            let number = text.parse::<u32>().ok().filter(|n| i32::try_from(*n).is_ok());
            if number.is_none() {
                self.pos = here;
            }
            return Ok(number.map(Fd::Number));
        }
        if self.look(0) == Some(b'}') && text.bytes().next().is_some_and(is_name_start) {
            self.skip(1);
            return Ok(Some(Fd::Variable(text)));
        }
        self.pos = here;
        Ok(None)
    }

    /// Parses a redirection; there must be one.
    pub(crate) fn redirect(&mut self) -> Result<Redirect> {
        let start = self.look_at(0);
        let fd = match self.peek()? {
            Some(b'0'..=b'9' | b'{') => self.descriptor()?,
            _ => None,
        };
        let (len, op) = match (self.peek()?, self.look(1), self.look(2)) {
            (Some(b'&'), Some(b'>'), Some(b'>')) => (3, RedirectOp::AppendBoth),
            (Some(b'&'), Some(b'>'), _) => (2, RedirectOp::WriteBoth),
            (Some(b'<'), Some(b'<'), Some(b'<')) => (3, RedirectOp::HereString),
            (Some(b'<'), Some(b'<'), Some(b'-')) => (3, RedirectOp::HereDoc),
            (Some(b'<'), Some(b'<'), _) => (2, RedirectOp::HereDoc),
            (Some(b'<'), Some(b'&'), _) => (2, RedirectOp::DupRead),
            (Some(b'<'), Some(b'>'), _) => (2, RedirectOp::ReadWrite),
            (Some(b'<'), _, _) => (1, RedirectOp::Read),
            (Some(b'>'), Some(b'>'), _) => (2, RedirectOp::Append),
            (Some(b'>'), Some(b'&'), _) => (2, RedirectOp::DupWrite),
            (Some(b'>'), Some(b'|'), _) => (2, RedirectOp::Clobber),
            (Some(b'>'), _, _) => (1, RedirectOp::Write),
            _ => return Err(self.unexpected("a redirection")),
        };
        self.skip(len);
        self.blanks()?;
        let target = match op {
            RedirectOp::HereDoc => self.here_doc(start, len == 3)?,
            // What follows the dash is the next word, even without a blank.
            RedirectOp::DupRead | RedirectOp::DupWrite if self.look(0) == Some(b'-') => {
                self.skip(1);
                Target::Close
            }
            RedirectOp::HereString => Target::Word(self.target(WordMode::Pattern)?),
            _ => Target::Word(self.target(WordMode::Argument)?),
        };
        Ok(Redirect { span: self.span_from(start), fd, op, target })
    }

    fn target(&mut self, mode: WordMode) -> Result<Word> {
        self.word(mode)?.ok_or_else(|| self.unexpected("the target of a redirection"))
    }

    fn here_doc(&mut self, start: usize, strip_tabs: bool) -> Result<Target> {
        let at = self.look_at(0);
        let delimiter = self.target(WordMode::Pattern)?;
        let Some((end_line, quoted)) = end_line(&delimiter) else {
            return Err(self.unsupported(at, "this here-document delimiter"));
        };
        let body = Arc::default();
        self.pending.push(Pending {
            end_line: end_line.clone(),
            quoted,
            strip_tabs,
            opened: self.span_from(start),
            slot: Arc::clone(&body),
        });
        Ok(Target::HereDoc(HereDoc { delimiter, end_line, quoted, strip_tabs, body }))
    }
}

/// Returns the line that ends the body, and whether the delimiter is quoted.
///
/// A delimiter does not expand: `<<$x` ends at a line that reads `$x`. Where the
/// text that bash compares with is not plain to see, the answer is `None`.
fn end_line(delimiter: &Word) -> Option<(String, bool)> {
    let mut text = String::new();
    let mut quoted = false;
    for part in &delimiter.parts {
        match &part.kind {
            PartKind::Lit(lit) => text.push_str(lit),
            PartKind::Escaped(lit) | PartKind::SingleQ(lit) => {
                text.push_str(lit);
                quoted = true;
            }
            PartKind::DoubleQ(parts) => {
                quoted = true;
                for part in parts {
                    let PartKind::Lit(lit) = &part.kind else { return None };
                    text.push_str(lit);
                }
            }
            PartKind::Param(param)
                if part.span.end - part.span.start == 1 + u32::try_from(param.name.len()).ok()? =>
            {
                text.push('$');
                text.push_str(&param.name);
            }
            PartKind::Glob(glob) => text.push(glob.as_char()),
            PartKind::Tilde(user) => {
                text.push('~');
                text.push_str(user);
            }
            _ => return None,
        }
    }
    (!text.contains('\n')).then_some((text, quoted))
}
