//! What kind of command begins here; subshells, groups, functions, coprocesses.

use crate::error::Result;
use crate::extent::Bracket;
use crate::parser::{Parser, is_name};
use crate::reserved::Reserved;
use crate::tree::{Command, CommandKind, Coproc, Function, Script};
use crate::word::Word;

impl Parser<'_> {
    /// Parses one command with its redirections.
    pub(crate) fn command(&mut self) -> Result<Command> {
        self.blanks()?;
        let start = self.look_at(0);
        match self.reserved() {
            Some(Reserved::Function) => self.function_keyword(start),
            Some(Reserved::Coproc) => self.coproc(start),
            // After `|`, `time` is an ordinary word.
            Some(Reserved::Time) => self.simple(start, None),
            Some(word) if !word.opens() => Err(self.unexpected("a command")),
            Some(_) => self.compound(start),
            None if self.peek()? == Some(b'(') => self.compound(start),
            None => self.simple(start, None),
        }
    }

    /// Tells whether a compound command begins here.
    pub(crate) fn at_compound(&mut self) -> Result<bool> {
        Ok(self.peek()? == Some(b'(') || self.reserved().is_some_and(Reserved::opens))
    }

    /// Parses a compound command with its redirections; there must be one.
    pub(crate) fn compound(&mut self, start: usize) -> Result<Command> {
        self.enter(start)?;
        let kind = match self.reserved() {
            Some(Reserved::OpenBrace) => CommandKind::Group(self.group()?),
            Some(Reserved::CondStart) => CommandKind::Cond(self.cond_command()?),
            Some(Reserved::If) => CommandKind::If(self.if_command()?),
            Some(Reserved::While | Reserved::Until) => CommandKind::Loop(self.loop_command()?),
            Some(Reserved::For) => self.for_command()?,
            Some(Reserved::Select) => CommandKind::For(self.select_command()?),
            Some(Reserved::Case) => CommandKind::Case(self.case_command()?),
            _ if self.peek()? == Some(b'(') => self.paren_command()?,
            _ => return Err(self.unexpected("a compound command")),
        };
        self.leave();
        let redirects = self.redirects()?;
        Ok(Command { span: self.span_from(start), kind, redirects })
    }

    /// Parses `{ …; }`.
    pub(crate) fn group(&mut self) -> Result<Script> {
        let open = self.look_at(0);
        self.take_word(1);
        let body = self.body()?;
        self.expect(Reserved::CloseBrace, 1, open, "the group `{`")?;
        Ok(body)
    }

    /// Moves past a reserved word that must stand here.
    pub(crate) fn expect(&mut self, word: Reserved, len: usize, open: usize, what: &str) -> Result<()> {
        if self.reserved() == Some(word) {
            self.take_word(len);
            return Ok(());
        }
        if self.peek()?.is_none() {
            return Err(self.unterminated(open, what));
        }
        Err(self.unexpected("the next part of a compound command"))
    }

    /// Parses what begins with `(`: a subshell or arithmetic.
    ///
    /// Bash reads `((` as arithmetic if the parenthesis that matches the inner one
    /// is followed at once by another; else as two subshells. The extent tells,
    /// without a trial parse.
    fn paren_command(&mut self) -> Result<CommandKind> {
        let open = self.look_at(0);
        if self.look(1) == Some(b'(') {
            let inside = self.look_at(1) + 1;
            let close = self.extent(Bracket::Arith, inside)?;
            if self.byte(close + 1) == Some(b')') {
                self.pos = inside;
                let parts = self.arith_text(close)?;
                self.pos = close + 2;
                return Ok(CommandKind::Arith(parts));
            }
            if self.bytes(inside, close).windows(2).any(|pair| pair == b"<<") {
                // Bash reads this text a second time, and loses track of the bodies.
                return Err(self.unsupported(inside, "a here-document after `((`"));
            }
            if self.byte(close + 1).is_some_and(|byte| !byte.is_ascii()) {
                // Bash takes one byte back of a character that has more, and reads another text then.
                return Err(self.unsupported(close, "a character beyond ASCII behind the inner `)` of `((`"));
            }
            if self.continuation(close + 1) {
                // Bash does not join these lines when it decides, but does later.
                return Err(self.unsupported(close, "a line continuation inside `))`"));
            }
        }
        self.skip(1);
        let body = self.body()?;
        match self.peek()? {
            Some(b')') => self.pos += 1,
            None => return Err(self.unterminated(open, "the subshell `(`")),
            Some(_) => return Err(self.unexpected("a command or `)`")),
        }
        Ok(CommandKind::Subshell(body))
    }

    /// Parses `function name [()] body`.
    fn function_keyword(&mut self, start: usize) -> Result<Command> {
        self.take_word(8);
        self.blanks()?;
        let name = self.plain_word("a function's name")?;
        self.blanks()?;
        if self.look(0) == Some(b'(') && self.empty_parens()? {
            self.skip(1);
            self.blanks()?;
            self.skip(1);
        }
        self.function_body(start, name)
    }

    /// Tells whether `(` `)` stand here, with nothing but blanks between.
    pub(crate) fn empty_parens(&mut self) -> Result<bool> {
        let here = self.pos;
        self.skip(1);
        self.blanks()?;
        let empty = self.look(0) == Some(b')');
        self.pos = here;
        Ok(empty)
    }

    /// Parses the body of a function and makes the command.
    pub(crate) fn function_body(&mut self, start: usize, name: Word) -> Result<Command> {
        self.newlines()?;
        let at = self.look_at(0);
        if !self.at_compound()? {
            return Err(self.unexpected("a compound command as the function's body"));
        }
        let body = Box::new(self.compound(at)?);
        let kind = CommandKind::Function(Function { name, body });
        Ok(Command { span: self.span_from(start), kind, redirects: Vec::new() })
    }

    /// Parses `coproc [name] command`.
    fn coproc(&mut self, start: usize) -> Result<Command> {
        self.take_word(6);
        self.blanks()?;
        let at = self.look_at(0);
        let (name, body) = if self.at_compound()? {
            (None, self.compound(at)?)
        } else if self.reserved().is_some_and(|word| word != Reserved::Time) {
            return Err(self.unexpected("a command"));
        } else {
            self.coproc_words(at)?
        };
        let body = Box::new(body);
        let kind = CommandKind::Coproc(Coproc { name, body });
        Ok(Command { span: self.span_from(start), kind, redirects: Vec::new() })
    }

    /// Tells whether a name stands here, right before a bracket or an array value.
    pub(crate) fn at_name_before_bracket(&mut self) -> Result<bool> {
        let here = self.pos;
        let mut len = 0;
        while self.peek()?.is_some_and(is_name) {
            self.pos += 1;
            len += 1;
        }
        let found = match (self.look(0), self.look(1), self.look(2)) {
            (Some(b'['), _, _) | (Some(b'='), Some(b'('), _) | (Some(b'+'), Some(b'='), Some(b'(')) => {
                len > 0
            }
            _ => false,
        };
        self.pos = here;
        Ok(found)
    }

    /// Parses what follows `coproc` when it is not a compound command: after one
    /// plain word, a reserved word makes that word the name.
    fn coproc_words(&mut self, at: usize) -> Result<(Option<Word>, Command)> {
        if self.at_redirect()? || self.at_assignment()? {
            return Ok((None, self.simple(at, None)?));
        }
        let name = self.command_word()?;
        let after = self.pos;
        self.blanks()?;
        let second = self.look_at(0);
        if self.at_compound()? {
            return Ok((Some(name), self.compound(second)?));
        }
        if self.reserved().is_some_and(|word| word != Reserved::Time) {
            return Err(self.unexpected("a compound command"));
        }
        if self.at_name_before_bracket()? {
            // Here bash still looks for an assignment, though it will not be one.
            return Err(self.unsupported(second, "an assignment as the first argument of a coprocess"));
        }
        self.pos = after;
        Ok((None, self.simple(at, Some(name))?))
    }
}
