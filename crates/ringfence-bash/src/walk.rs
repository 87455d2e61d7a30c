//! Going over a tree: every command, word, substitution and redirection, with where
//! it stands.

use crate::span::Span;
use crate::tree::{
    ArrayItem, Assignment, Command, CommandKind, Cond, Connector, Fd, Item, Pipe, Pipeline, Redirect, Script,
    Simple, Target, Value,
};
use crate::word::{Brace, Direction, Part, PartKind, SubStyle, Word};

/// What a place is inside of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind<'t> {
    /// A pipeline, as its `index`th command of `len`; `into` is the pipe after it.
    Pipeline { index: usize, len: usize, negated: bool, from: Option<Pipe>, into: Option<Pipe> },
    /// The right side of `&&` or `||`.
    AndOr(Connector),
    /// A list that runs in the background.
    Background,
    /// A command substitution.
    CmdSub(SubStyle),
    /// A process substitution.
    ProcSub(Direction),
    /// `( … )`.
    Subshell,
    /// `{ …; }`.
    Group,
    /// The body of a function; its name.
    Function(&'t Word),
    /// The condition of `if`, `while` or `until`.
    Condition,
    /// A body of `if`, or an arm of `case`.
    Branch,
    /// The body of a loop.
    Loop,
    /// A coprocess.
    Coproc,
    /// The body of a here-document.
    HereDoc,
    /// Arithmetic or a subscript.
    Arith,
    /// `[[ … ]]`.
    Cond,
    /// Double quotes.
    DoubleQuote,
    /// The argument of a parameter expansion.
    ParamArg,
    /// An array value.
    Array,
}

/// One thing that a place is inside of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'t> {
    /// What it is.
    pub kind: FrameKind<'t>,
    /// Where it stands.
    pub span: Span,
}

/// Where in the tree a place is: what it is inside of, outermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context<'t> {
    /// The frames, outermost first.
    pub frames: Vec<Frame<'t>>,
}

impl<'t> Context<'t> {
    /// Returns the nearest pipeline frame, which for a command is its own.
    pub fn pipeline(&self) -> Option<&Frame<'t>> {
        self.frames.iter().rev().find(|frame| matches!(frame.kind, FrameKind::Pipeline { .. }))
    }

    /// Tells whether the place is inside a frame that `wanted` accepts.
    pub fn inside(&self, wanted: impl Fn(&FrameKind<'t>) -> bool) -> bool {
        self.frames.iter().any(|frame| wanted(&frame.kind))
    }

    /// Tells whether the place is inside a command or process substitution.
    pub fn in_substitution(&self) -> bool {
        self.inside(|kind| matches!(kind, FrameKind::CmdSub(_) | FrameKind::ProcSub(_)))
    }

    /// Returns the name of the innermost function around.
    pub fn function(&self) -> Option<&'t Word> {
        self.frames.iter().rev().find_map(|frame| match frame.kind {
            FrameKind::Function(name) => Some(name),
            _ => None,
        })
    }

    /// Tells whether the place may run not at all, or later.
    pub fn is_conditional(&self) -> bool {
        self.inside(|kind| {
            matches!(
                kind,
                FrameKind::AndOr(_)
                    | FrameKind::Function(_)
                    | FrameKind::Branch
                    | FrameKind::Loop
                    | FrameKind::ParamArg
            )
        })
    }

    /// Tells whether what happens here stays in a child process.
    pub fn in_child(&self) -> bool {
        self.inside(|kind| match kind {
            FrameKind::CmdSub(style) => matches!(style, SubStyle::Paren | SubStyle::Backquote),
            FrameKind::Pipeline { len, .. } => *len > 1,
            FrameKind::ProcSub(_) | FrameKind::Subshell | FrameKind::Coproc | FrameKind::Background => true,
            _ => false,
        })
    }
}

/// What a word is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WordRole {
    /// The name of a simple command.
    Name,
    /// An argument of a simple command.
    Argument,
    /// The value of an assignment or of an array element.
    Value,
    /// The target of a redirection or the text of a here-string.
    Target,
    /// The delimiter of a here-document, which does not expand.
    Delimiter,
    /// The body of a here-document.
    HereDoc,
    /// A word after `in` of `for` or `select`.
    Item,
    /// The subject of `case`.
    Subject,
    /// A pattern of `case`.
    Pattern,
    /// A term of `[[`.
    Term,
    /// The name of a function or a coprocess.
    Definition,
    /// The argument of a parameter expansion.
    ParamArg,
    /// An alternative of a brace expansion.
    Alternative,
}

/// A substitution of either kind.
#[derive(Clone, Copy, Debug)]
pub enum Substitution<'t> {
    /// A command substitution.
    Command(SubStyle, &'t Script),
    /// A process substitution.
    Process(Direction, &'t Script),
}

/// What to do at each place. All methods have empty bodies, so that a visitor says
/// only what it wants to see; the walk goes everywhere in any case.
pub trait Visitor<'t> {
    /// A command of any kind, before what is in it.
    fn command(&mut self, _context: &Context<'t>, _command: &'t Command) {}
    /// A simple command, after [`Visitor::command`].
    fn simple(&mut self, _context: &Context<'t>, _command: &'t Command, _simple: &'t Simple) {}
    /// An assignment.
    fn assignment(&mut self, _context: &Context<'t>, _assignment: &'t Assignment) {}
    /// A word, before its parts.
    fn word(&mut self, _context: &Context<'t>, _role: WordRole, _word: &'t Word) {}
    /// A part of a word or of another text that expands.
    fn part(&mut self, _context: &Context<'t>, _part: &'t Part) {}
    /// A substitution, before what it runs.
    fn substitution(&mut self, _context: &Context<'t>, _span: Span, _substitution: Substitution<'t>) {}
    /// A redirection.
    fn redirect(&mut self, _context: &Context<'t>, _redirect: &'t Redirect) {}
    /// A construct that the parser does not understand.
    fn unsupported(&mut self, _context: &Context<'t>, _span: Span, _construct: &'static str) {}
}

/// Goes over a script, in the order of the text (a here-document's body comes with
/// its redirection).
pub fn walk<'t>(script: &'t Script, visitor: &mut impl Visitor<'t>) {
    let mut walker = Walker { context: Context::default(), visitor };
    walker.script(script);
}

struct Walker<'t, 'v, V> {
    context: Context<'t>,
    visitor: &'v mut V,
}

impl<'t, V: Visitor<'t>> Walker<'t, '_, V> {
    fn within(&mut self, kind: FrameKind<'t>, span: Span, go: impl FnOnce(&mut Self)) {
        self.context.frames.push(Frame { kind, span });
        go(self);
        self.context.frames.pop();
    }

    fn script(&mut self, script: &'t Script) {
        for item in &script.items {
            if item.background {
                self.within(FrameKind::Background, item.span, |walker| walker.item(item));
            } else {
                self.item(item);
            }
        }
    }

    fn framed(&mut self, kind: FrameKind<'t>, script: &'t Script) {
        self.within(kind, script.span, |walker| walker.script(script));
    }

    fn item(&mut self, item: &'t Item) {
        self.pipeline(&item.first);
        for (connector, pipeline) in &item.rest {
            self.within(FrameKind::AndOr(*connector), pipeline.span, |walker| walker.pipeline(pipeline));
        }
    }

    fn pipeline(&mut self, pipeline: &'t Pipeline) {
        let (len, negated) = (pipeline.stages.len(), pipeline.negations % 2 == 1);
        let mut from = None;
        for (index, stage) in pipeline.stages.iter().enumerate() {
            let kind = FrameKind::Pipeline { index, len, negated, from, into: stage.pipe };
            from = stage.pipe;
            self.within(kind, pipeline.span, |walker| walker.command(&stage.command));
        }
    }

    fn command(&mut self, command: &'t Command) {
        self.visitor.command(&self.context, command);
        match &command.kind {
            CommandKind::Simple(simple) => {
                self.visitor.simple(&self.context, command, simple);
                for assignment in &simple.assignments {
                    self.assignment(assignment);
                }
                let roles = std::iter::once(WordRole::Name).chain(std::iter::repeat(WordRole::Argument));
                for (role, word) in roles.zip(&simple.words) {
                    self.word(role, word);
                }
            }
            CommandKind::Subshell(script) => self.framed(FrameKind::Subshell, script),
            CommandKind::Group(script) => self.framed(FrameKind::Group, script),
            CommandKind::Arith(parts) => self.parts_in(FrameKind::Arith, command.span, parts),
            CommandKind::Cond(cond) => self.within(FrameKind::Cond, command.span, |walker| walker.cond(cond)),
            CommandKind::If(branches) => {
                for branch in &branches.branches {
                    self.framed(FrameKind::Condition, &branch.condition);
                    self.framed(FrameKind::Branch, &branch.body);
                }
                if let Some(body) = &branches.otherwise {
                    self.framed(FrameKind::Branch, body);
                }
            }
            CommandKind::Loop(looped) => {
                self.framed(FrameKind::Condition, &looped.condition);
                self.framed(FrameKind::Loop, &looped.body);
            }
            CommandKind::For(looped) => {
                for word in looped.words.iter().flatten() {
                    self.word(WordRole::Item, word);
                }
                self.framed(FrameKind::Loop, &looped.body);
            }
            CommandKind::ArithFor(looped) => {
                self.parts_in(FrameKind::Arith, command.span, &looped.header);
                self.framed(FrameKind::Loop, &looped.body);
            }
            CommandKind::Case(case) => {
                self.word(WordRole::Subject, &case.subject);
                for arm in &case.arms {
                    for pattern in &arm.patterns {
                        self.word(WordRole::Pattern, pattern);
                    }
                    self.framed(FrameKind::Branch, &arm.body);
                }
            }
            CommandKind::Function(function) => {
                self.word(WordRole::Definition, &function.name);
                let kind = FrameKind::Function(&function.name);
                self.within(kind, command.span, |walker| walker.command(&function.body));
            }
            CommandKind::Coproc(coproc) => {
                if let Some(name) = &coproc.name {
                    self.word(WordRole::Definition, name);
                }
                self.within(FrameKind::Coproc, command.span, |walker| walker.command(&coproc.body));
            }
        }
        for redirect in &command.redirects {
            self.redirect(redirect);
        }
    }

    fn cond(&mut self, cond: &'t Cond) {
        match cond {
            Cond::Or(terms) | Cond::And(terms) => terms.iter().for_each(|term| self.cond(term)),
            Cond::Not(term) | Cond::Group(term) => self.cond(term),
            Cond::Word(word) | Cond::Unary(_, word) => self.word(WordRole::Term, word),
            Cond::Binary(left, _, right) => {
                self.word(WordRole::Term, left);
                self.word(WordRole::Term, right);
            }
        }
    }

    fn assignment(&mut self, assignment: &'t Assignment) {
        self.visitor.assignment(&self.context, assignment);
        if let Some(index) = &assignment.index {
            self.parts_in(FrameKind::Arith, assignment.span, index);
        }
        match &assignment.value {
            Value::Scalar(word) => self.word(WordRole::Value, word),
            Value::Array(items) => self.array(assignment.span, items),
        }
    }

    fn array(&mut self, span: Span, items: &'t [ArrayItem]) {
        self.within(FrameKind::Array, span, |walker| {
            for item in items {
                if let Some(index) = &item.index {
                    walker.parts_in(FrameKind::Arith, item.span, index);
                }
                walker.word(WordRole::Value, &item.value);
            }
        });
    }

    fn redirect(&mut self, redirect: &'t Redirect) {
        self.visitor.redirect(&self.context, redirect);
        if let Some(Fd::Element(_, index)) = &redirect.fd {
            self.parts_in(FrameKind::Arith, redirect.span, index);
        }
        match &redirect.target {
            Target::Word(word) => self.word(WordRole::Target, word),
            Target::Close => {}
            Target::HereDoc(doc) => {
                // The delimiter is shown, but nothing in it runs.
                self.visitor.word(&self.context, WordRole::Delimiter, &doc.delimiter);
                let body = doc.body();
                self.within(FrameKind::HereDoc, body.span, |walker| walker.word(WordRole::HereDoc, body));
            }
        }
    }

    fn word(&mut self, role: WordRole, word: &'t Word) {
        self.visitor.word(&self.context, role, word);
        self.parts(&word.parts);
    }

    fn parts_in(&mut self, kind: FrameKind<'t>, span: Span, parts: &'t [Part]) {
        self.within(kind, span, |walker| walker.parts(parts));
    }

    fn parts(&mut self, parts: &'t [Part]) {
        for part in parts {
            self.part(part);
        }
    }

    fn part(&mut self, part: &'t Part) {
        self.visitor.part(&self.context, part);
        match &part.kind {
            PartKind::Lit(_)
            | PartKind::Escaped(_)
            | PartKind::SingleQ(_)
            | PartKind::AnsiC { .. }
            | PartKind::Brace(Brace::Range(_))
            | PartKind::Glob(_)
            | PartKind::Tilde(_) => {}
            PartKind::DoubleQ(parts) | PartKind::LocaleQ(parts) => {
                self.parts_in(FrameKind::DoubleQuote, part.span, parts);
            }
            PartKind::Param(param) => {
                if let Some(index) = &param.index {
                    self.parts_in(FrameKind::Arith, part.span, index);
                }
                self.within(FrameKind::ParamArg, part.span, |walker| {
                    param.args.iter().for_each(|word| walker.word(WordRole::ParamArg, word));
                });
            }
            PartKind::CmdSub(sub) => {
                let found = Substitution::Command(sub.style, &sub.script);
                self.visitor.substitution(&self.context, part.span, found);
                self.within(FrameKind::CmdSub(sub.style), part.span, |walker| walker.script(&sub.script));
            }
            PartKind::ProcSub(sub) => {
                let found = Substitution::Process(sub.direction, &sub.script);
                self.visitor.substitution(&self.context, part.span, found);
                self.within(FrameKind::ProcSub(sub.direction), part.span, |walker| {
                    walker.script(&sub.script)
                });
            }
            PartKind::Arith(parts) => self.parts_in(FrameKind::Arith, part.span, parts),
            PartKind::Brace(Brace::List(words)) => {
                words.iter().for_each(|word| self.word(WordRole::Alternative, word));
            }
            PartKind::ExtGlob(glob) => self.parts(&glob.parts),
            PartKind::Array(items) => self.array(part.span, items),
            PartKind::Unsupported(construct) => self.visitor.unsupported(&self.context, part.span, construct),
        }
    }
}
