//! The tree of commands.

use std::sync::{Arc, OnceLock};

use crate::span::Span;
use crate::word::{Part, Word};

/// A list of commands: a whole text, the body of a compound command or of a substitution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Where it stands.
    pub span: Span,
    /// The items, in order.
    pub items: Vec<Item>,
}

/// Pipelines joined by `&&` and `||`, up to `;`, `&` or a newline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Where it stands.
    pub span: Span,
    /// The first pipeline.
    pub first: Pipeline,
    /// The others, each with what joins it to the one before.
    pub rest: Vec<(Connector, Pipeline)>,
    /// Whether it ends in `&`.
    pub background: bool,
}

/// What joins two pipelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Connector {
    /// `&&`.
    And,
    /// `||`.
    Or,
}

/// Commands joined by `|`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// Where it stands.
    pub span: Span,
    /// How many `!` stand before it.
    pub negations: u32,
    /// Whether `time` stands before it, and how.
    pub time: Option<Time>,
    /// The commands; none after a bare `!` or `time`.
    pub stages: Vec<Stage>,
}

/// The `time` before a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Time {
    /// `time`.
    Default,
    /// `time -p`.
    Posix,
}

/// One command of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The command.
    pub command: Command,
    /// How its output reaches the next one; `None` for the last.
    pub pipe: Option<Pipe>,
}

/// The kind of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pipe {
    /// `|`.
    Stdout,
    /// `|&`.
    StdoutAndStderr,
}

/// A command with its redirections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Where it stands, here-document bodies left out.
    pub span: Span,
    /// What it is.
    pub kind: CommandKind,
    /// The redirections, in order.
    pub redirects: Vec<Redirect>,
}

/// The kinds of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandKind {
    /// Assignments and words.
    Simple(Simple),
    /// `( … )`.
    Subshell(Script),
    /// `{ …; }`.
    Group(Script),
    /// `(( … ))`.
    Arith(Vec<Part>),
    /// `[[ … ]]`.
    Cond(Cond),
    /// `if`.
    If(If),
    /// `while`, `until`.
    Loop(Loop),
    /// `for`, `select`.
    For(For),
    /// `for ((…; …; …))`.
    ArithFor(ArithFor),
    /// `case`.
    Case(Case),
    /// A function definition.
    Function(Function),
    /// `coproc`.
    Coproc(Coproc),
}

/// A simple command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Simple {
    /// The assignments before the words.
    pub assignments: Vec<Assignment>,
    /// The command's name, if any, and its arguments.
    pub words: Vec<Word>,
}

/// An assignment before a command, or alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Where it stands.
    pub span: Span,
    /// The variable.
    pub name: String,
    /// The parts of the subscript in `name[…]=`.
    pub index: Option<Vec<Part>>,
    /// Whether it is `+=`.
    pub append: bool,
    /// The value.
    pub value: Value,
}

/// The value of an assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A word, perhaps empty.
    Scalar(Word),
    /// `( … )`.
    Array(Vec<ArrayItem>),
}

/// An element of an array value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayItem {
    /// Where it stands.
    pub span: Span,
    /// The parts of the subscript in `[…]=`.
    pub index: Option<Vec<Part>>,
    /// The value.
    pub value: Word,
}

/// `if`, with one branch for each condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct If {
    /// Conditions and bodies, `if` first, then each `elif`.
    pub branches: Vec<Branch>,
    /// The body of `else`.
    pub otherwise: Option<Script>,
}

/// A condition with its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The commands whose status decides.
    pub condition: Script,
    /// The commands that follow `then`.
    pub body: Script,
}

/// `while` or `until`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// Whether it is `until`.
    pub until: bool,
    /// The commands whose status decides.
    pub condition: Script,
    /// The body.
    pub body: Script,
}

/// `for` or `select` over words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct For {
    /// Whether it is `select`.
    pub select: bool,
    /// The variable.
    pub name: String,
    /// The words after `in`; `None` without `in`, which means `"$@"`.
    pub words: Option<Vec<Word>>,
    /// The body.
    pub body: Script,
}

/// `for ((…; …; …))`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArithFor {
    /// The parts of all three expressions, semicolons included as text.
    pub header: Vec<Part>,
    /// The body.
    pub body: Script,
}

/// `case`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The word that is matched.
    pub subject: Word,
    /// The arms.
    pub arms: Vec<Arm>,
}

/// An arm of `case`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arm {
    /// Where it stands.
    pub span: Span,
    /// The patterns, of which one must match.
    pub patterns: Vec<Word>,
    /// The body, perhaps empty.
    pub body: Script,
    /// How it ends.
    pub end: ArmEnd,
}

/// How an arm ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArmEnd {
    /// `;;`, or nothing in the last arm.
    Break,
    /// `;&`: the next body runs too.
    FallThrough,
    /// `;;&`: the next patterns are tried too.
    Continue,
}

/// A function definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The name; bash allows nearly any word here.
    pub name: Word,
    /// The body, always a compound command.
    pub body: Box<Command>,
}

/// `coproc`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coproc {
    /// The name, if given.
    pub name: Option<Word>,
    /// What runs.
    pub body: Box<Command>,
}

/// The expression of `[[ … ]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cond {
    /// `a || b`, two or more.
    Or(Vec<Cond>),
    /// `a && b`, two or more.
    And(Vec<Cond>),
    /// `! a`.
    Not(Box<Cond>),
    /// `( a )`.
    Group(Box<Cond>),
    /// `word`, which means `-n word`.
    Word(Word),
    /// `-f word`; the operator with its dash.
    Unary(String, Word),
    /// `left op right`.
    Binary(Box<Word>, String, Box<Word>),
}

/// A redirection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// Where it stands, a here-document's body left out.
    pub span: Span,
    /// The descriptor before the operator, if written.
    pub fd: Option<Fd>,
    /// The operator.
    pub op: RedirectOp,
    /// What it leads to.
    pub target: Target,
}

/// The descriptor of a redirection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fd {
    /// `2>`.
    Number(u32),
    /// `{name}>`: bash picks a number and stores it.
    Variable(String),
    /// `{name[…]}>`: likewise, in an element of an array; the parts of the subscript.
    Element(String, Vec<Part>),
}

/// The operator of a redirection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RedirectOp {
    /// `<`.
    Read,
    /// `>`.
    Write,
    /// `>|`.
    Clobber,
    /// `>>`.
    Append,
    /// `<>`.
    ReadWrite,
    /// `<&`.
    DupRead,
    /// `>&`.
    DupWrite,
    /// `&>`.
    WriteBoth,
    /// `&>>`.
    AppendBoth,
    /// `<<`, `<<-`.
    HereDoc,
    /// `<<<`.
    HereString,
}

/// What a redirection leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A file, a descriptor or the text of a here-string.
    Word(Word),
    /// `-` after `<&` or `>&`.
    Close,
    /// A here-document.
    HereDoc(HereDoc),
}

/// A here-document.
#[derive(Clone, Debug)]
pub struct HereDoc {
    /// The delimiter as written.
    pub delimiter: Word,
    /// The line that ends the body.
    pub end_line: String,
    /// Whether the delimiter is quoted, so that nothing in the body expands.
    pub quoted: bool,
    /// Whether it is `<<-`, so that leading tabs go.
    pub strip_tabs: bool,
    // The body follows after the rest of the line, when this node is long built;
    // the slot is shared with the parser's list of bodies still to read.
    pub(crate) body: Arc<OnceLock<Word>>,
}

impl HereDoc {
    /// Returns the body. Its span lies outside that of the command.
    pub fn body(&self) -> &Word {
        static MISSING: OnceLock<Word> = OnceLock::new();
        self.body.get().unwrap_or_else(|| {
            // Cannot happen: a list does not end before its bodies are read. Were
            // it to happen, it must not look like an empty body.
            MISSING.get_or_init(|| Word {
                span: Span::default(),
                parts: vec![Part {
                    span: Span::default(),
                    kind: crate::word::PartKind::Unsupported("here-document without a body"),
                }],
            })
        })
    }
}

impl PartialEq for HereDoc {
    fn eq(&self, other: &Self) -> bool {
        self.delimiter == other.delimiter
            && self.end_line == other.end_line
            && self.quoted == other.quoted
            && self.strip_tabs == other.strip_tabs
            && self.body() == other.body()
    }
}

impl Eq for HereDoc {}
