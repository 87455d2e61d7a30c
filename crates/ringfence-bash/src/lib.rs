//! A bash parser for deciding what a text would run, before it runs.
//!
//! The parser exists to base an *allow* on. So it fails closed: whatever it does not
//! understand for certain is an [`Error`], or a part of kind
//! [`PartKind::Unsupported`] that [`Script::unsupported`] lists; never a command that
//! is silently not there.
//!
//! ```
//! let script = ringfence_bash::parse("cat <<E | sh -c 'x' && r\\m \"$(id -un)\"\n`who`\nE")?;
//! let names: Vec<_> = script.simple_commands().iter().filter_map(|c| c.name()).collect();
//! assert_eq!(names, ["cat", "who", "sh", "rm", "id"]);
//! # Ok::<(), ringfence_bash::Error>(())
//! ```
//!
//! # Map
//!
//! | file | what |
//! |---|---|
//! | `tree`, `word` | the tree: commands, and words as rows of parts |
//! | `walk`, `collect` | going over the tree, with the context of each place |
//! | `literal`, `brace` | what a word stands for, if that can be read off |
//! | `parser`, `reserved` | cursor, limits; reserved words |
//! | `list`, `command`, `compound`, `simple`, `redirect`, `cond` | the grammar |
//! | `wordlex`, `finish`, `quote`, `param`, `arith`, `text`, `ansi` | words |
//! | `heredoc` | here-document bodies |
//! | `extent` | where brackets close, by the rules of bash's own reader |
//!
//! # Invariants
//!
//! - *Every place that can expand is a node*: words, here-document bodies, arguments
//!   of `${…}`, arithmetic, subscripts, terms of `[[`. No field holds shell text that
//!   would still have to be parsed.
//! - *Accepted here, with nothing unsupported, means accepted by `bash -n`*, for bash
//!   5.2 as it starts. Where versions of bash read a text differently, it is refused.
//! - *Extent before meaning*: what bash cuts out by matching brackets is cut out the
//!   same way, then parsed under that limit.
//! - *Linear time*: no trial parses. Each byte is looked at a bounded number of
//!   times, and a budget makes sure of it.
//! - *Bounded stack*: every recursion counts against [`Options::max_depth`].
//! - *No state, no input, no output*: the same text gives the same tree.
//!
//! What is left to the caller: what `eval`, `source`, `bash -c` and other commands do
//! with their arguments, the values of variables, aliases, and look-alike characters.

#![forbid(unsafe_code)]

mod ansi;
mod arith;
mod brace;
mod collect;
mod command;
mod compound;
mod cond;
mod error;
mod extent;
mod finish;
mod heredoc;
mod list;
mod literal;
mod param;
mod parser;
mod quote;
mod redirect;
mod reserved;
mod simple;
mod span;
mod text;
mod tree;
mod walk;
mod word;
mod wordlex;

pub use collect::SimpleRef;
pub use error::{Error, ErrorKind};
pub use literal::{Segment, unquote};
pub use span::Span;
pub use tree::{
    ArithFor, Arm, ArmEnd, ArrayItem, Assignment, Branch, Case, Command, CommandKind, Cond, Connector,
    Coproc, Fd, For, Function, HereDoc, If, Item, Loop, Pipe, Pipeline, Redirect, RedirectOp, Script, Simple,
    Stage, Target, Time, Value,
};
pub use walk::{Context, Frame, FrameKind, Substitution, Visitor, WordRole, walk};
pub use word::{
    Brace, CmdSub, Direction, ExtGlob, Glob, IndirectOp, Param, ParamOp, Part, PartKind, ProcSub, SubStyle,
    ValueOp, Word,
};

/// The most bytes that a text may have: what Linux takes as one argument.
pub const MAX_BYTES: usize = 128 * 1024;

/// The most levels that constructs may be nested.
pub const MAX_DEPTH: usize = 64;

/// Work allowed for each byte: some twenty times what ordinary texts take, and twice
/// the worst that the tests could think of.
const STEPS_PER_BYTE: u64 = 128;

/// How a text is to be read.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether patterns such as `@(a|b)` are read as such.
    pub extglob: Extglob,
    /// The most bytes; at most [`MAX_BYTES`] counts.
    pub max_bytes: usize,
    /// The most levels; at most [`MAX_DEPTH`] counts.
    pub max_depth: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { extglob: Extglob::FollowShopt, max_bytes: MAX_BYTES, max_depth: MAX_DEPTH }
    }
}

/// Whether extended patterns are read, which in bash is an option of the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extglob {
    /// Never, outside of `[[`.
    Off,
    /// On the lines after a `shopt -s extglob` in the text.
    FollowShopt,
    /// Always, for a shell in which the option is on.
    On,
}

/// Parses a text as a shell that was just started would.
pub fn parse(text: &str) -> Result<Script, Error> {
    parse_with(text.as_bytes(), &Options::default())
}

/// Parses bytes, with options.
pub fn parse_with(bytes: &[u8], options: &Options) -> Result<Script, Error> {
    parse_counting(bytes, options).0
}

/// Parses bytes and tells how many steps that took, for tests of the time it takes.
#[doc(hidden)]
pub fn parse_counting(bytes: &[u8], options: &Options) -> (Result<Script, Error>, u64) {
    let max_bytes = options.max_bytes.min(MAX_BYTES);
    if let Err(error) = check_bytes(bytes, max_bytes) {
        return (Err(error), 0);
    }
    let max_steps = STEPS_PER_BYTE * (bytes.len() as u64 + 16);
    let max_depth = options.max_depth.min(MAX_DEPTH);
    let mut budget = parser::Budget { steps: 0, max_steps, depth: 0, max_depth };
    let result = parser::Parser::new(bytes, options, &mut budget).whole_script();
    (result, budget.steps)
}

fn check_bytes(bytes: &[u8], max_bytes: usize) -> Result<(), Error> {
    let fail = |kind, at: usize, message: &str| {
        let at = u32::try_from(at).unwrap_or(u32::MAX);
        Err(Error::new(kind, Span::new(at, at), message))
    };
    if bytes.len() > max_bytes {
        return fail(ErrorKind::TooLarge, max_bytes, "the text is too long");
    }
    if let Some(at) = bytes.iter().position(|b| *b == 0) {
        return fail(ErrorKind::Nul, at, "the text holds a NUL byte");
    }
    if let Some(at) = bytes.iter().position(|b| *b == b'\r') {
        return fail(ErrorKind::CarriageReturn, at, "the text holds a carriage return");
    }
    if let Err(error) = std::str::from_utf8(bytes) {
        return fail(ErrorKind::NotUtf8, error.valid_up_to(), "the text is not UTF-8");
    }
    Ok(())
}
