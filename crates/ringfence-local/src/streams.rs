//! Where a command's input and output are.
//!
//! **Invariant:** no descriptor of a person's terminal is ever handed in. Who holds one reads what is typed into other
//! programs, and can change how it looks and echoes.

use std::os::fd::BorrowedFd;

use ringfence_model::{Error, ErrorKind, Result};
use rustix::termios::isatty;

use crate::prompt::Pause;
use crate::terminal_notices::Listener;

/// Where the command's output goes.
#[derive(Debug, Clone, Copy)]
pub enum Streams<'a> {
    /// The caller's own descriptors, handed to the command as they are. None of them may be a terminal.
    Inherit([BorrowedFd<'a>; 3]),
    /// Collected in the result, and streamed as events.
    Capture,
    /// A terminal of its own, connected to the caller's.
    Terminal(CallersTerminal<'a>),
}

/// The terminal somebody sits at.
#[derive(Debug, Clone, Copy)]
pub struct CallersTerminal<'a> {
    pub input: BorrowedFd<'a>,
    pub output: BorrowedFd<'a>,
    pub keyboard: Keyboard,
    /// Those of the three standard descriptors that the command gets as they are, because they are no terminal.
    pub given: [Option<BorrowedFd<'a>>; 3],
    /// Readable when it changed its size; see [`terminal::resize_events`](crate::terminal::resize_events).
    pub resized: Option<BorrowedFd<'a>>,
    /// Lets somebody else use it for a while.
    pub pause: Option<&'a Pause>,
    /// Hears what the command says to nobody but us.
    pub asides: Option<Listener<'a>>,
}

/// How the caller's keyboard reaches the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keyboard {
    /// Each key at once: input and output are the terminal.
    Keys,
    /// Whole lines, which the caller's terminal edits and echoes: the output goes elsewhere, perhaps to a program that
    /// uses the same terminal.
    Lines,
    /// Not at all: the input comes from elsewhere, and what is typed is for others. Who asks for a password gets the end
    /// of input.
    Unread,
}

/// Refuses to hand a terminal in.
pub(crate) fn refuse_terminals(fds: &[BorrowedFd<'_>]) -> Result<()> {
    if fds.iter().any(isatty) {
        let message = "a person's terminal is not handed to a command in a sandbox";
        return Err(Error::new(ErrorKind::Validation, message)
            .hint("give it a terminal of its own (Streams::Terminal), or pipes"));
    }
    Ok(())
}
