//! Simple commands and assignments.

use crate::error::Result;
use crate::extent::Bracket;
use crate::parser::{Parser, Patterns, is_name, is_name_start};
use crate::redirect::splits;
use crate::tree::{ArrayItem, Assignment, Command, CommandKind, Simple, Value};
use crate::word::{Part, PartKind, Word};
use crate::wordlex::WordMode;

/// Commands after which `name=(…)` is an array value, though it is an argument.
const TAKE_ARRAYS: [&str; 8] = ["alias", "declare", "eval", "export", "let", "local", "readonly", "typeset"];

/// The beginning of an assignment.
struct Head {
    name: String,
    /// The subscript's extent.
    index: Option<(usize, usize)>,
    append: bool,
    /// The position after `=`.
    value: usize,
}

impl Parser<'_> {
    /// Parses a simple command, or a function definition of the form `name ()`. The
    /// first word may have been parsed already.
    pub(crate) fn simple(&mut self, start: usize, first: Option<Word>) -> Result<Command> {
        let mut takes_arrays = first.as_ref().is_some_and(takes_arrays_after);
        let mut end = if first.is_some() { self.pos } else { start };
        let mut simple = Simple { assignments: Vec::new(), words: first.into_iter().collect() };
        let mut redirects = Vec::new();
        // After a redirection that follows an assignment, bash still takes `x=1` as an
        // assignment, but no longer reads brackets and parentheses as part of one.
        let mut past_prefix = false;
        loop {
            self.blanks()?;
            match self.peek()? {
                None | Some(b'\n' | b'#' | b';' | b'|' | b')') => break,
                Some(b'&') if self.look(1) != Some(b'>') => break,
                Some(b'(') => return self.function_parens(start, simple, redirects.is_empty()),
                Some(_) => {}
            }
            if self.at_redirect()? {
                redirects.push(self.redirect()?);
                takes_arrays = false;
                past_prefix |= !simple.assignments.is_empty();
            } else if past_prefix && simple.words.is_empty() && self.at_name_before_bracket()? {
                return Err(self.unsupported(self.pos, "an array assignment after a redirection"));
            } else if simple.words.is_empty() && self.at_assignment()? {
                simple.assignments.push(self.assignment()?);
            } else {
                let word = if simple.words.is_empty() {
                    let name = self.command_word()?;
                    takes_arrays = !past_prefix && takes_arrays_after(&name);
                    name
                } else {
                    let mut word = self.plain_word("a word")?;
                    if takes_arrays && self.look(0) == Some(b'(') {
                        self.array_argument(&mut word)?;
                    }
                    word
                };
                simple.words.push(word);
            }
            end = self.pos;
        }
        if simple.words.is_empty() && simple.assignments.is_empty() && redirects.is_empty() {
            return Err(self.unexpected("a command"));
        }
        self.note_shopt(&simple.words);
        self.pos = end;
        Ok(Command { span: self.span(start, end), kind: CommandKind::Simple(simple), redirects })
    }

    /// Parses a word that is no assignment and no redirection; there must be one.
    pub(crate) fn plain_word(&mut self, wanted: &str) -> Result<Word> {
        self.word(WordMode::Argument)?.ok_or_else(|| self.unexpected(wanted))
    }

    /// Parses the first word of a command; there must be one.
    pub(crate) fn command_word(&mut self) -> Result<Word> {
        let start = self.look_at(0);
        if let Some((open, close)) = self.name_with_blanks()? {
            // Bash takes `a[x y]` as one word here, for the assignment it could have been.
            let mut parts = self.subscript(open, close)?;
            self.pos = close + 1;
            parts.extend(self.word(WordMode::Value)?.map(|rest| rest.parts).unwrap_or_default());
            let kind = PartKind::Unsupported("a command name with a blank in brackets");
            parts.push(Part { span: self.span_from(start), kind });
            return Ok(Word { span: self.span_from(start), parts });
        }
        self.word(WordMode::Command)?.ok_or_else(|| self.unexpected("a command"))
    }

    /// Returns the extent of the brackets, if a name and brackets that hold a blank
    /// stand here.
    fn name_with_blanks(&mut self) -> Result<Option<(usize, usize)>> {
        let mut at = self.look_at(0);
        let first = self.byte(at);
        while self.byte(at).is_some_and(is_name) {
            self.tick()?;
            at += 1;
        }
        if !first.is_some_and(is_name_start) || self.byte(at) != Some(b'[') {
            return Ok(None);
        }
        let close = self.extent(Bracket::Subscript, at + 1)?;
        let extent = (at + 1, close);
        Ok(Some(extent).filter(|(open, close)| splits(self.bytes(*open, *close))))
    }

    fn function_parens(&mut self, start: usize, mut simple: Simple, no_redirects: bool) -> Result<Command> {
        let alone = simple.words.len() == 1 && simple.assignments.is_empty() && no_redirects;
        match simple.words.pop() {
            Some(name) if alone && self.empty_parens()? => {
                self.skip(1);
                self.blanks()?;
                self.skip(1);
                self.function_body(start, name)
            }
            _ => Err(self.unexpected("a word or the end of the command")),
        }
    }

    /// Remembers a `shopt -s extglob`, which changes how later lines are read.
    fn note_shopt(&mut self, words: &[Word]) {
        if self.patterns != Patterns::Follow {
            return;
        }
        let is = |word: &Word, text: &str| word.as_literal().as_deref() == Some(text);
        let mut rest = words.iter();
        if rest.next().is_some_and(|word| is(word, "shopt")) && rest.any(|word| is(word, "extglob")) {
            self.patterns = Patterns::NextLine;
        }
    }

    /// Tells whether an assignment begins here, in a place where one may.
    pub(crate) fn at_assignment(&mut self) -> Result<bool> {
        Ok(self.assignment_head()?.is_some())
    }

    fn assignment_head(&mut self) -> Result<Option<Head>> {
        if !self.peek()?.is_some_and(is_name_start) {
            return Ok(None);
        }
        let here = self.pos;
        let mut name = String::new();
        while let Some(byte) = self.peek()?.filter(|b| is_name(*b)) {
            name.push(char::from(byte));
            self.pos += 1;
        }
        let mut index = None;
        if self.look(0) == Some(b'[') {
            // Blanks inside the brackets belong to the word, even if no `=` follows.
            let open = self.look_at(0) + 1;
            let close = self.extent(Bracket::Subscript, open)?;
            index = Some((open, close));
            self.pos = close + 1;
        }
        let (append, equals) = match (self.look(0), self.look(1)) {
            (Some(b'='), _) => (false, 0),
            (Some(b'+'), Some(b'=')) => (true, 1),
            _ => {
                self.pos = here;
                return Ok(None);
            }
        };
        let value = self.look_at(equals) + 1;
        self.pos = here;
        Ok(Some(Head { name, index, append, value }))
    }

    fn assignment(&mut self) -> Result<Assignment> {
        let start = self.look_at(0);
        let Some(head) = self.assignment_head()? else {
            return Err(self.unexpected("an assignment"));
        };
        let index = match head.index {
            Some((open, close)) => Some(self.subscript(open, close)?),
            None => None,
        };
        self.pos = head.value;
        let value = if self.look(0) == Some(b'(') {
            Value::Array(self.array()?)
        } else {
            let at = self.look_at(0);
            let empty = Word { span: self.span(at, at), parts: Vec::new() };
            Value::Scalar(self.word(WordMode::Value)?.unwrap_or(empty))
        };
        let Head { name, append, .. } = head;
        Ok(Assignment { span: self.span_from(start), name, index, append, value })
    }

    /// Adds the `(…)` to an argument that so far reads `name=`.
    fn array_argument(&mut self, word: &mut Word) -> Result<()> {
        let names =
            word.bare().and_then(|text| text.strip_suffix('=')).map(|name| name.trim_end_matches('+'));
        if !names.is_some_and(crate::compound::is_identifier) {
            return Err(self.unexpected("a word or the end of the command"));
        }
        let start = self.look_at(0);
        let items = self.array()?;
        let part = Part { span: self.span_from(start), kind: PartKind::Array(items) };
        word.span = word.span.to(part.span);
        word.parts.push(part);
        Ok(())
    }

    /// Parses the `(…)` of an array value.
    fn array(&mut self) -> Result<Vec<ArrayItem>> {
        let open = self.look_at(0);
        self.enter(open)?;
        self.skip(1);
        let mut items = Vec::new();
        loop {
            self.newlines()?;
            match self.peek()? {
                Some(b')') => break,
                None => return Err(self.unterminated(open, "the array `(`")),
                Some(_) => items.push(self.array_item()?),
            }
        }
        self.pos += 1;
        self.leave();
        if self.in_paren && items.iter().flat_map(|item| &item.value.parts).any(is_escaped_mark) {
            // Some versions of bash do not take the backslash as quoting here.
            return Err(self.unsupported(open, "an escaped mark in an array value inside `$(…)`"));
        }
        // Bash goes on with the same word here, and then takes all of it as plain text.
        let after = self.pos;
        if let Some(mut value) = self.word(WordMode::Value)? {
            let kind = PartKind::Unsupported("text right after an array value");
            value.parts.push(Part { span: value.span, kind });
            items.push(ArrayItem { span: self.span_from(after), index: None, value });
        }
        Ok(items)
    }

    fn array_item(&mut self) -> Result<ArrayItem> {
        let start = self.look_at(0);
        let mut index = None;
        if self.look(0) == Some(b'[') {
            let open = start + 1;
            let close = self.extent(Bracket::Subscript, open)?;
            self.pos = close + 1;
            let equals = match (self.look(0), self.look(1)) {
                (Some(b'='), _) => Some(1),
                (Some(b'+'), Some(b'=')) => Some(2),
                _ => None,
            };
            match equals {
                Some(len) => {
                    index = Some(self.subscript(open, close)?);
                    self.pos = close + 1;
                    self.skip(len);
                }
                None if splits(self.bytes(open, close)) => {
                    return Err(self.unsupported(start, "a blank between brackets in an array value"));
                }
                None => self.pos = start,
            }
        }
        let at = self.look_at(0);
        let mode = if index.is_some() { WordMode::Value } else { WordMode::Argument };
        let value = match self.word(mode)? {
            Some(word) => word,
            None if index.is_some() => Word { span: self.span(at, at), parts: Vec::new() },
            None => return Err(self.unexpected("a word or `)`")),
        };
        Ok(ArrayItem { span: self.span_from(start), index, value })
    }
}

fn takes_arrays_after(name: &Word) -> bool {
    name.bare().is_some_and(|name| TAKE_ARRAYS.contains(&name))
}

/// Tells whether a part is a backslash before something that could mean more than itself.
fn is_escaped_mark(part: &Part) -> bool {
    let harmless = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '\t' | '\\' | '_' | '-' | '.' | '/');
    matches!(&part.kind, PartKind::Escaped(text) if !text.chars().all(harmless))
}
