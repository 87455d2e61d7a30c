//! Asking at the terminal: one question, answered by a key that was meant for it.
//!
//! What runs inside writes to the same screen and would like to choose the answer. So its output is held back while a
//! question is open, the terminal is brought to a known state first, the answers are shown only when nobody types, a key
//! counts only when it comes alone, and what lasts needs letters that nobody can have typed before.

mod frame;
mod keys;

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ringfence_model::Decision;
use ringfence_model::LockExt as _;
use rustix::fs::{Mode, OFlags};

use crate::wake::Wake;

/// Keeps whoever copies the terminal's input and output away from it while a person is asked.
#[derive(Debug)]
pub struct Pause {
    paused: AtomicBool,
    wake: Wake,
    /// Held while something is written to the screen, and while a question is open.
    screen: Mutex<()>,
    /// Typed before the question was there: the command's.
    typed_before: Mutex<Vec<u8>>,
}

impl Pause {
    pub fn new() -> rustix::io::Result<Self> {
        Ok(Self {
            paused: AtomicBool::new(false),
            wake: Wake::new()?,
            screen: Mutex::default(),
            typed_before: Mutex::default(),
        })
    }

    /// Whether a person is being asked.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Acquire)
    }

    /// Readable when [`is_paused`](Self::is_paused) may have changed.
    pub(crate) fn wake(&self) -> &Wake {
        &self.wake
    }

    /// Writes to the screen what the command says; waits while a person is asked.
    pub fn show<T>(&self, write: impl FnOnce() -> T) -> T {
        let _screen = self.screen.locked();
        write()
    }

    /// The keys that were pressed before a question was shown. They are given once.
    #[must_use]
    pub fn take_typed_before(&self) -> Vec<u8> {
        std::mem::take(&mut *self.typed_before.locked())
    }

    fn begin(&self) -> Asking<'_> {
        self.set(true);
        Asking { pause: self, _screen: self.screen.locked() }
    }

    fn set(&self, paused: bool) {
        self.paused.store(paused, Ordering::Release);
        self.wake.wake();
    }
}

/// The screen is the question's.
struct Asking<'a> {
    pause: &'a Pause,
    _screen: MutexGuard<'a, ()>,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.pause.set(false);
    }
}

/// Asks the person at the controlling terminal.
#[derive(Debug)]
pub struct TerminalApprover {
    /// One question at a time.
    turn: Mutex<()>,
    pause: Arc<Pause>,
    timeout: Duration,
}

impl TerminalApprover {
    #[must_use]
    pub fn new(pause: Arc<Pause>, timeout: Duration) -> Self {
        Self { turn: Mutex::new(()), pause, timeout }
    }

    /// Whether there is a terminal to ask at.
    #[must_use]
    pub fn available() -> bool {
        open_terminal().is_ok()
    }

    /// Asks what stands on these lines; `offered` are the answers that can be given. Nothing of the text can steer the
    /// terminal, and whatever goes wrong is a refusal.
    #[must_use]
    pub fn ask_about(&self, lines: &str, offered: &[Decision]) -> Decision {
        let _turn = self.turn.locked();
        let Ok(terminal) = open_terminal() else { return Decision::Deny };
        let _asking = self.pause.begin();
        let deadline = Instant::now() + self.timeout;
        let typed_before = |keys: &[u8]| self.pause.typed_before.locked().extend_from_slice(keys);
        keys::converse(&terminal, lines, offered, deadline, typed_before).unwrap_or(Decision::Deny)
    }
}

fn open_terminal() -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(c"/dev/tty", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}
