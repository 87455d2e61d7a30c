//! The tree of words: all that can expand inside a command.

use crate::span::Span;
use crate::tree::{ArrayItem, Script};

/// One shell word, as a row of parts that are joined without a gap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// Where the word stands.
    pub span: Span,
    /// The parts, in order; none for an empty word such as the value in `x=`.
    pub parts: Vec<Part>,
}

/// One part of a word, or of another text that expands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where the part stands, its quotes and brackets included.
    pub span: Span,
    /// What it is.
    pub kind: PartKind,
}

/// The kinds of parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartKind {
    /// Text that stands for itself, line continuations removed.
    Lit(String),
    /// One character behind a backslash (without the backslash).
    Escaped(String),
    /// `'…'`.
    SingleQ(String),
    /// `"…"`.
    DoubleQ(Vec<Part>),
    /// `$'…'`.
    AnsiC {
        /// The text between the quotes.
        raw: String,
        /// What it stands for; `None` when that is not UTF-8.
        decoded: Option<String>,
    },
    /// `$"…"`: a double-quoted text that a message catalogue may replace.
    LocaleQ(Vec<Part>),
    /// `$x`, `${x…}`.
    Param(Box<Param>),
    /// `$(…)`, `` `…` ``, `${ …; }`.
    CmdSub(Box<CmdSub>),
    /// `<(…)`, `>(…)`.
    ProcSub(Box<ProcSub>),
    /// `$((…))`, `$[…]`: arithmetic, as the parts that expand in it.
    Arith(Vec<Part>),
    /// `{a,b}`, `{1..9}`.
    Brace(Brace),
    /// `*`, `?` or the `[` of a bracket expression.
    Glob(Glob),
    /// `@(a|b)` and its like.
    ExtGlob(Box<ExtGlob>),
    /// A tilde prefix, with the name after the tilde: empty for `~`, `+` for `~+`.
    Tilde(String),
    /// The `(…)` of an array value in an argument: `declare x=(…)`.
    Array(Vec<ArrayItem>),
    /// Something that bash understands and we do not; the name of the construct.
    Unsupported(&'static str),
}

/// A parameter expansion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// The variable's name, a number, or one of `@ * # ? - $ !`.
    pub name: String,
    /// The parts of the subscript in `${name[…]}`.
    pub index: Option<Vec<Part>>,
    /// What is done with the value.
    pub op: ParamOp,
    /// The words that the operation takes: one, or pattern and replacement.
    pub args: Vec<Word>,
}

/// What a parameter expansion does with the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParamOp {
    /// `$x`, `${x}`.
    Plain,
    /// `${#x}`.
    Length,
    /// `${!x…}`: the value names the variable that is meant. The operation that
    /// follows the name, if any, is inside.
    Indirect(IndirectOp),
    /// `${!x*}`, `${!x@}`: names that begin with `x`.
    Prefix,
    /// Any operation on the value itself.
    Value(ValueOp),
}

/// What follows the name in an indirect expansion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndirectOp {
    /// `${!x}`; with an index of `@` or `*` it lists the keys of an array.
    Plain,
    /// An operation on what the name leads to.
    Value(ValueOp),
}

/// An operation with an argument, or a transformation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueOp {
    /// `-`, `:-`.
    Default,
    /// `=`, `:=`.
    Assign,
    /// `?`, `:?`.
    Error,
    /// `+`, `:+`.
    Alternative,
    /// `:offset:length`; the argument is arithmetic.
    Substring,
    /// `#`, `##`.
    RemovePrefix,
    /// `%`, `%%`.
    RemoveSuffix,
    /// `/`, `//`, `/#`, `/%`.
    Replace,
    /// `^`, `^^`, `,`, `,,`, `~`, `~~`.
    Case,
    /// `@Q`, `@P` and so on; the letter.
    Transform(char),
}

/// A command substitution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CmdSub {
    /// How it is written.
    pub style: SubStyle,
    /// What it runs.
    pub script: Script,
}

/// How a command substitution is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SubStyle {
    /// `$(…)`.
    Paren,
    /// `` `…` ``.
    Backquote,
    /// `${ …; }`, which runs in the current shell (bash 5.3).
    Brace,
    /// `${| …; }`, likewise, with the value in `REPLY`.
    BracePipe,
}

/// A process substitution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcSub {
    /// Which way the data goes.
    pub direction: Direction,
    /// What it runs.
    pub script: Script,
}

/// Which way the data of a process substitution goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// `<(…)`: the outer command reads.
    Read,
    /// `>(…)`: the outer command writes.
    Write,
}

/// A brace expansion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Brace {
    /// `{a,b,…}`.
    List(Vec<Word>),
    /// `{1..10..2}`: the text between the braces.
    Range(String),
}

/// A pattern character.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Glob {
    /// `*`.
    Star,
    /// `?`.
    Question,
    /// `[`, with a `]` later in the word.
    Bracket,
}

impl Glob {
    /// Returns the character.
    pub fn as_char(self) -> char {
        match self {
            Glob::Star => '*',
            Glob::Question => '?',
            Glob::Bracket => '[',
        }
    }
}

/// An extended pattern: an operator and what is between its parentheses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtGlob {
    /// `?`, `*`, `+`, `@` or `!`.
    pub op: char,
    /// The parts between the parentheses, bars included as text.
    pub parts: Vec<Part>,
}
