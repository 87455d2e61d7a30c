//! Where a command's input and output are.

use std::os::fd::BorrowedFd;

use crate::prompt::Pause;
use crate::terminal_notices::Listener;

/// Where the command's output goes.
#[derive(Debug, Clone, Copy)]
pub enum Streams<'a> {
    /// The caller's own descriptors, handed to the command as they are.
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
    /// Readable when it changed its size; see [`terminal::resize_events`](crate::terminal::resize_events).
    pub resized: Option<BorrowedFd<'a>>,
    /// Lets somebody else read its input for a while.
    pub pause: Option<&'a Pause>,
    /// Hears what the command says to nobody but us.
    pub asides: Option<Listener<'a>>,
}
