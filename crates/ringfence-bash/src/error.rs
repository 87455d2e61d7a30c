//! Why a text was not accepted, in words for people and a kind for programs.

use std::fmt;

use crate::span::Span;

/// What went wrong. Every kind means the same to a gate: the text is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The grammar does not allow this here.
    Syntax,
    /// A quote, a bracket or a compound command is not closed.
    Unterminated,
    /// Bash gives it a meaning, but one that we will not guess.
    Unsupported,
    /// Constructs are nested deeper than the limit.
    TooDeep,
    /// The text is longer than the limit.
    TooLarge,
    /// The parser did more work than any honest text of this length needs.
    TooMuchWork,
    /// A NUL byte; bash drops or cuts there, depending on how it reads the text.
    Nul,
    /// A carriage return, which looks like nothing and is part of a word.
    CarriageReturn,
    /// The bytes are not UTF-8.
    NotUtf8,
}

/// A refusal to give a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    // Boxed, so that the `Result`s on the parser's deep call stack stay small.
    inner: Box<Inner>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Inner {
    kind: ErrorKind,
    span: Span,
    message: String,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, span: Span, message: impl Into<String>) -> Self {
        Error { inner: Box::new(Inner { kind, span, message: message.into() }) }
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// Returns where the trouble was noticed; for something unclosed, where it was opened.
    pub fn span(&self) -> Span {
        self.inner.span
    }

    /// Returns the message: a lower-case fragment without a full stop.
    pub fn message(&self) -> &str {
        &self.inner.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { span, message, .. } = &*self.inner;
        write!(f, "{message} (at byte {})", span.start)
    }
}

impl std::error::Error for Error {}

/// The result of a step of the parser.
pub(crate) type Result<T> = std::result::Result<T, Error>;
