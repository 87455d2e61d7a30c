//! Redirections.

use std::sync::Arc;

use crate::error::Result;
use crate::extent::Bracket;
use crate::parser::{Parser, Pending, is_break, is_name, is_name_start};
use crate::tree::{Fd, HereDoc, Redirect, RedirectOp, Target};
use crate::word::{Part, PartKind, Word};
use crate::wordlex::WordMode;

/// The most here-documents that bash takes before their bodies.
const MAX_HERE_DOCS: usize = 16;

/// What stands before an operator, not yet parsed.
enum Descriptor {
    Number(u32),
    /// A variable, with the extent of its subscript.
    Name(String, Option<(usize, usize)>),
}

/// Tells whether a word with this text in brackets would end there.
pub(crate) fn splits(bytes: &[u8]) -> bool {
    bytes.iter().any(|b| matches!(b, b' ' | b'\t' | b'\n' | b';' | b'|' | b'&'))
}

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
        let found = match self.peek()? {
            Some(b'&') => self.look(1) == Some(b'>'),
            Some(b'<' | b'>') => !self.at_process_substitution(),
            Some(b'0'..=b'9' | b'{') => self.descriptor()?.is_some(),
            _ => false,
        };
        self.pos = here;
        Ok(found)
    }

    /// Moves past a number, `{name}` or `{name[…]}` right before an operator.
    fn descriptor(&mut self) -> Result<Option<Descriptor>> {
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
        let found = if !brace {
            // Bash takes numbers that do not fit as words.
            text.parse().ok().filter(|n| i32::try_from(*n).is_ok()).map(Descriptor::Number)
        } else if !text.bytes().next().is_some_and(is_name_start) {
            None
        } else {
            let mut index = None;
            if self.look(0) == Some(b'[') {
                let open = self.look_at(0) + 1;
                let close = self.extent(Bracket::Subscript, open)?;
                index = Some((open, close));
                self.pos = close + 1;
                if self.bytes(open, close).iter().copied().any(is_break) {
                    // Whether this is one word depends on what is in the brackets.
                    let operator = self.look(0) == Some(b'}') && matches!(self.look(1), Some(b'<' | b'>'));
                    let refused = self.unsupported(open, "this subscript in a descriptor");
                    return if operator { Err(refused) } else { Ok(None) };
                }
            }
            let closed = self.look(0) == Some(b'}');
            self.skip(1);
            closed.then_some(Descriptor::Name(text, index))
        };
        let operator = matches!(self.look(0), Some(b'<' | b'>')) && !self.at_process_substitution();
        Ok(found.filter(|_| operator))
    }

    /// Parses a redirection; there must be one.
    pub(crate) fn redirect(&mut self) -> Result<Redirect> {
        let start = self.look_at(0);
        let fd = match self.peek()? {
            Some(b'0'..=b'9' | b'{') => match self.descriptor()? {
                Some(Descriptor::Number(number)) => Some(Fd::Number(number)),
                Some(Descriptor::Name(name, None)) => Some(Fd::Variable(name)),
                Some(Descriptor::Name(name, Some((open, close)))) => {
                    Some(Fd::Element(name, self.subscript(open, close)?))
                }
                None => None,
            },
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
        // In `>2>x`, the number belongs to the second operator, and the first has no
        // target; only `>&2>x` is read otherwise.
        let dup = matches!(op, RedirectOp::DupRead | RedirectOp::DupWrite);
        let number = dup && self.peek()?.is_some_and(|b| b.is_ascii_digit());
        if !number && self.at_redirect()? {
            return Err(self.unexpected("the target of a redirection"));
        }
        let target = match op {
            RedirectOp::HereDoc => self.here_doc(start, len == 3)?,
            // What follows the dash is the next word, even without a blank.
            _ if dup && self.look(0) == Some(b'-') => {
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
        if self.pending.len() >= MAX_HERE_DOCS {
            return Err(self.error(crate::ErrorKind::Syntax, at, "too many here-documents on one line"));
        }
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
                    match &part.kind {
                        PartKind::Lit(lit) => text.push_str(lit),
                        _ => text.push_str(&bare_param(part)?),
                    }
                }
            }
            PartKind::Param(_) => text.push_str(&bare_param(part)?),
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

/// Returns the text of a parameter that is written without braces.
fn bare_param(part: &Part) -> Option<String> {
    let PartKind::Param(param) = &part.kind else { return None };
    let text = format!("${}", param.name);
    // A longer span means braces, or a line continuation.
    let len = u32::try_from(text.len()).ok()?;
    (part.span.end - part.span.start == len).then_some(text)
}
