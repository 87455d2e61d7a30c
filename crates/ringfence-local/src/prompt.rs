//! Asking at the terminal: one question, one key.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ringfence_model::Decision;
use ringfence_model::LockExt as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::terminal::RawTerminal;
use crate::wake::Wake;

/// Keeps whoever copies the terminal's input from taking the answer.
#[derive(Debug)]
pub struct Pause {
    paused: AtomicBool,
    wake: Wake,
}

impl Pause {
    pub fn new() -> rustix::io::Result<Self> {
        Ok(Self { paused: AtomicBool::new(false), wake: Wake::new()? })
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Acquire)
    }

    /// Readable when [`is_paused`](Self::is_paused) may have changed.
    pub(crate) fn wake(&self) -> &Wake {
        &self.wake
    }

    fn set(&self, paused: bool) {
        self.paused.store(paused, Ordering::Release);
        self.wake.wake();
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

    /// Asks what stands on these lines. `lasting`: it can be allowed for good. Nothing of the text can steer the terminal.
    #[must_use]
    pub fn ask_about(&self, lines: &str, lasting: bool) -> Decision {
        let always = if lasting { ", [a]lways" } else { "" };
        let mut text = String::new();
        for (number, line) in lines.lines().enumerate() {
            let margin = if number == 0 { "\nringfence: " } else { "\n           " };
            text.push_str(margin);
            text.push_str(&printable(line));
        }
        text.push_str(&format!("\n           allow [o]nce, for this [s]ession{always}; [d]eny, or [q]uit? "));
        match self.ask_now(&text) {
            // It was not offered.
            Decision::AllowPermanent if !lasting => Decision::AllowOnce,
            decision => decision,
        }
    }

    fn ask_now(&self, text: &str) -> Decision {
        let _turn = self.turn.locked();
        let Ok(terminal) = open_terminal() else { return Decision::Deny };
        self.pause.set(true);
        let decision = converse(&terminal, text, self.timeout).unwrap_or(Decision::Deny);
        self.pause.set(false);
        decision
    }
}

fn open_terminal() -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(c"/dev/tty", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

fn converse(terminal: &OwnedFd, text: &str, timeout: Duration) -> Result<Decision, Errno> {
    let raw = RawTerminal::new(terminal.as_fd())?;
    let text = text.replace('\n', "\r\n");
    rustix::io::write(terminal, text.as_bytes())?;
    let deadline = Instant::now() + timeout;
    let (decision, word) = loop {
        match read_key(terminal, deadline)? {
            None => break (Decision::Deny, "no answer: denied"),
            Some(b'o' | b'O' | b'y' | b'Y') => break (Decision::AllowOnce, "allowed once"),
            Some(b's' | b'S') => break (Decision::AllowSession, "allowed for this session"),
            Some(b'a' | b'A') => break (Decision::AllowPermanent, "allowed from now on"),
            Some(b'd' | b'D' | b'n' | b'N' | 0x1b) => break (Decision::Deny, "denied"),
            // Ctrl-C, Ctrl-D.
            Some(b'q' | b'Q' | 3 | 4) => break (Decision::Abort, "denied, and the command ends"),
            Some(_) => {}
        }
    };
    rustix::io::write(terminal, format!("{word}\r\n").as_bytes())?;
    drop(raw);
    Ok(decision)
}

fn read_key(terminal: &OwnedFd, deadline: Instant) -> Result<Option<u8>, Errno> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        let wait = Timespec {
            tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        let mut fds = [PollFd::new(terminal, PollFlags::IN)];
        match poll(&mut fds, Some(&wait)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        if fds[0].revents().is_empty() {
            continue;
        }
        let mut key = [0];
        return match rustix::io::read(terminal, &mut key)? {
            0 => Ok(None),
            _ => Ok(Some(key[0])),
        };
    }
}

fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
