//! Lists, and-or lists and pipelines.

use crate::error::Result;
use crate::parser::Parser;
use crate::reserved::Reserved;
use crate::tree::{Command, CommandKind, Connector, Item, Pipe, Pipeline, Script, Stage, Time};
use crate::word::{Part, PartKind};

/// What may come right after a command, without a separator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// A separator only: the command ended in a word.
    Separator,
    /// A closing reserved word as well, as in `if (true) then`: the command ended
    /// in one, or in a bracket.
    Reserved,
}

impl Parser<'_> {
    /// Parses to the end of the readable text.
    pub(crate) fn whole_script(&mut self) -> Result<Script> {
        let script = self.list()?;
        self.newlines()?;
        if self.peek()?.is_some() {
            return Err(self.unexpected("a command"));
        }
        self.end_here_docs()?;
        Ok(script)
    }

    /// Parses the inside of `$(` or `<(` and the closing parenthesis; the cursor
    /// stands after the opening one, which is at `open`.
    pub(crate) fn paren_script(&mut self, open: usize) -> Result<Script> {
        self.enter(open)?;
        // Here-documents of the line around wait for a newline outside.
        let pending = std::mem::take(&mut self.pending);
        let in_paren = std::mem::replace(&mut self.in_paren, true);
        let quoted_args = std::mem::take(&mut self.quoted_args);
        let patterns = self.patterns;
        let here = self.pos;
        let script = self.list()?;
        self.check_leading_time(here, &script)?;
        match self.peek()? {
            Some(b')') => {}
            None => return Err(self.unterminated(open, "a substitution")),
            Some(_) => return Err(self.unexpected("a command or `)`")),
        }
        if let Some(waiting) = self.pending.first() {
            let message = "a here-document whose body is outside of its substitution is not supported";
            return Err(crate::Error::new(crate::ErrorKind::Unsupported, waiting.opened, message));
        }
        self.pos += 1;
        self.pending = pending;
        self.in_paren = in_paren;
        self.quoted_args = quoted_args;
        self.patterns = patterns;
        self.leave();
        Ok(script)
    }

    /// Refuses `$(time { …; })` and its like: not all versions of bash take `time` as
    /// reserved there, and to those that do not, what follows it is only words.
    fn check_leading_time(&self, at: usize, script: &Script) -> Result<()> {
        let Some(Item { first: Pipeline { time: Some(_), negations, stages, .. }, .. }) =
            script.items.first()
        else {
            return Ok(());
        };
        let array = |part: &Part| matches!(part.kind, PartKind::Array(_));
        let plain = match stages.first().map(|stage| &stage.command.kind) {
            None => true,
            Some(CommandKind::Simple(simple)) => {
                simple.assignments.is_empty() && !simple.words.iter().flat_map(|word| &word.parts).any(array)
            }
            Some(_) => false,
        };
        if !plain || *negations > 0 {
            return Err(self.unsupported(at, "`time` before this at the start of a substitution"));
        }
        Ok(())
    }

    /// Parses commands up to something that cannot begin one.
    pub(crate) fn list(&mut self) -> Result<Script> {
        self.newlines()?;
        let start = self.pos;
        let mut end = start;
        let mut items = Vec::new();
        loop {
            self.newlines()?;
            if self.at_list_end()? {
                break;
            }
            let (mut item, after) = self.item()?;
            end = self.pos;
            self.blanks_and_comment()?;
            let more = match self.peek()? {
                Some(b';') if matches!(self.look(1), Some(b';' | b'&')) => false,
                Some(b';') => {
                    self.pos += 1;
                    true
                }
                Some(b'&') => {
                    self.pos += 1;
                    item.background = true;
                    true
                }
                Some(b'\n') => {
                    self.newline()?;
                    true
                }
                None | Some(b')') => false,
                Some(_) if after == After::Reserved && self.reserved().is_some_and(Reserved::closes) => false,
                Some(_) => return Err(self.unexpected("`;`, `&` or a newline")),
            };
            items.push(item);
            if !more {
                break;
            }
        }
        Ok(Script { span: self.span(start, end), items })
    }

    /// Parses a list that must hold a command, as all compound commands ask for.
    pub(crate) fn body(&mut self) -> Result<Script> {
        let script = self.list()?;
        if script.items.is_empty() {
            return Err(self.unexpected("a command"));
        }
        Ok(script)
    }

    fn at_list_end(&mut self) -> Result<bool> {
        Ok(match self.peek()? {
            None | Some(b')') => true,
            Some(b';') => matches!(self.look(1), Some(b';' | b'&')),
            Some(_) => self.reserved().is_some_and(Reserved::closes),
        })
    }

    fn item(&mut self) -> Result<(Item, After)> {
        let start = self.look_at(0);
        let (first, mut after) = self.pipeline()?;
        let mut rest = Vec::new();
        let mut end = self.pos;
        loop {
            self.blanks()?;
            let connector = match (self.look(0), self.look(1)) {
                (Some(b'&'), Some(b'&')) => Connector::And,
                (Some(b'|'), Some(b'|')) => Connector::Or,
                _ => break,
            };
            self.skip(2);
            self.newlines()?;
            let (pipeline, then) = self.pipeline()?;
            end = self.pos;
            after = then;
            rest.push((connector, pipeline));
        }
        Ok((Item { span: self.span(start, end), first, rest, background: false }, after))
    }

    fn pipeline(&mut self) -> Result<(Pipeline, After)> {
        self.blanks()?;
        let start = self.look_at(0);
        let mut negations = 0;
        let mut time = None;
        loop {
            match self.reserved() {
                Some(Reserved::Bang) => {
                    self.take_word(1);
                    negations += 1;
                }
                Some(Reserved::Time) => {
                    self.take_word(4);
                    time = Some(self.time_options(time)?);
                }
                _ => break,
            }
            self.blanks_and_comment()?;
        }
        let prefixed = negations > 0 || time.is_some();
        let mut stages = Vec::new();
        let mut after = After::Separator;
        let empty = prefixed
            && match self.peek()? {
                None | Some(b'\n') => true,
                Some(b';') => !matches!(self.look(1), Some(b';' | b'&')),
                Some(_) => false,
            };
        if !empty {
            self.stages(&mut stages, &mut after)?;
        }
        Ok((Pipeline { span: self.span_from(start), negations, time, stages }, after))
    }

    fn time_options(&mut self, before: Option<Time>) -> Result<Time> {
        let mut time = before.unwrap_or(Time::Default);
        self.blanks()?;
        if self.at_word(b"-p") {
            self.take_word(2);
            time = Time::Posix;
            self.blanks()?;
        }
        if self.at_word(b"--") {
            self.take_word(2);
        }
        Ok(time)
    }

    fn stages(&mut self, stages: &mut Vec<Stage>, after: &mut After) -> Result<()> {
        loop {
            let command = self.command()?;
            let ended = self.pos;
            *after = after_command(&command);
            self.blanks()?;
            let pipe = match (self.look(0), self.look(1)) {
                (Some(b'|'), Some(b'|')) => None,
                (Some(b'|'), Some(b'&')) => Some(Pipe::StdoutAndStderr),
                (Some(b'|'), _) => Some(Pipe::Stdout),
                _ => None,
            };
            stages.push(Stage { command, pipe });
            match pipe {
                None => {
                    self.pos = ended;
                    return Ok(());
                }
                Some(Pipe::Stdout) => self.skip(1),
                Some(Pipe::StdoutAndStderr) => self.skip(2),
            }
            let behind = self.pos;
            self.newlines()?;
            // Elsewhere behind a pipe `time` is a command like any other.
            let reserved =
                pipe == Some(Pipe::StdoutAndStderr) && self.bytes(behind, self.pos).contains(&b'\n');
            if reserved && self.at_word(b"time") {
                return Err(self.unexpected("a command"));
            }
        }
    }
}

/// Tells what may follow a command, by what it ended in.
fn after_command(command: &Command) -> After {
    if !command.redirects.is_empty() {
        return After::Separator;
    }
    match &command.kind {
        CommandKind::Simple(_) => After::Separator,
        CommandKind::Function(function) => after_body(&function.body),
        CommandKind::Coproc(coproc) => after_body(&coproc.body),
        CommandKind::Subshell(_)
        | CommandKind::Group(_)
        | CommandKind::Arith(_)
        | CommandKind::Cond(_)
        | CommandKind::If(_)
        | CommandKind::Loop(_)
        | CommandKind::For(_)
        | CommandKind::ArithFor(_)
        | CommandKind::Case(_) => After::Reserved,
    }
}

/// Bodies of functions and coprocesses are never functions or coprocesses themselves.
fn after_body(body: &Command) -> After {
    let simple = matches!(body.kind, CommandKind::Simple(_));
    if simple || !body.redirects.is_empty() { After::Separator } else { After::Reserved }
}

#[cfg(test)]
mod tests {
    use crate::ErrorKind;
    use crate::tree::Time;

    #[test]
    fn pipelines_keep_their_prefixes() {
        let script = crate::parse("! time -p ! a | b; time; c &").unwrap();
        let [first, second, third] = script.items.as_slice() else { panic!("{script:?}") };
        assert_eq!((first.first.negations, first.first.time), (2, Some(Time::Posix)));
        assert_eq!(first.first.stages.len(), 2);
        assert_eq!((second.first.time, second.first.stages.len()), (Some(Time::Default), 0));
        assert!(third.background && !first.background);
    }

    #[test]
    fn errors_point_at_the_trouble() {
        for (text, kind, at, message) in [
            ("a | | b", ErrorKind::Syntax, 4, "found `|` where a command is expected"),
            ("a; done", ErrorKind::Syntax, 3, "found `done` where a command is expected"),
            ("echo \"x", ErrorKind::Unterminated, 5, "a double quote is not closed"),
            ("if a; then b", ErrorKind::Unterminated, 0, "`if` is not closed"),
            ("echo $(a", ErrorKind::Unterminated, 5, "a substitution is not closed"),
            ("cat <<$(x)\n", ErrorKind::Unsupported, 6, "this here-document delimiter is not supported"),
        ] {
            let error = crate::parse(text).unwrap_err();
            assert_eq!((error.kind(), error.span().start, error.message()), (kind, at, message), "{text}");
        }
    }
}
