//! The person's keyboard: when it is listened to, in which mode, and the key that suspends.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::event::Timespec;
use rustix::process::{Pid, Signal};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcgetsid, tcsetattr,
};

use super::{RawTerminal, is_foreground, takes_lines, write_all};
use crate::streams::{CallersTerminal, Keyboard};

/// How often is looked whether the terminal is ours again, still as it was left, or wanted by a program inside.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

pub(super) struct State<'a> {
    master: &'a OwnedFd,
    input: BorrowedFd<'a>,
    keyboard: Keyboard,
    raw: Option<RawTerminal<'a>>,
    /// The command's terminal as it was in the beginning; none when that does not matter any more.
    initial: Option<Termios>,
}

impl<'a> State<'a> {
    pub(super) fn new(master: &'a OwnedFd, terminal: &CallersTerminal<'a>) -> Self {
        let initial = tcgetattr(master).ok();
        if terminal.keyboard == Keyboard::Lines
            && let Some(mut modes) = initial.clone()
        {
            // The person's terminal has echoed and edited the line, and has its own key for signals.
            modes.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN);
            let _ = tcsetattr(master, OptionalActions::Now, &modes);
        }
        let CallersTerminal { input, keyboard, .. } = *terminal;
        Self { master, input, keyboard, raw: None, initial }
    }

    /// Takes the person's terminal, or leaves it, as things are now. A job in the background touches nothing: it would be
    /// stopped.
    pub(super) fn look(&mut self, show: impl Fn(&[u8])) {
        match self.keyboard {
            Keyboard::Keys => {}
            Keyboard::Lines => return,
            Keyboard::Unread => return self.refuse_keys(show),
        }
        if !is_foreground(self.input) {
            // Whoever has it now has set it up as they want it, and dropping changes nothing then.
            self.raw = None;
        } else if let Some(raw) = &self.raw {
            // A shell may have changed it while we were stopped.
            raw.apply_again();
        } else {
            self.raw = RawTerminal::keeping_keys(self.input).ok();
        }
    }

    /// Tells a program that prepares its terminal for keys or a password, and the person, that there are none.
    fn refuse_keys(&mut self, show: impl Fn(&[u8])) {
        let (Some(initial), Ok(now)) = (&self.initial, tcgetattr(self.master)) else { return };
        let read = LocalModes::ICANON | LocalModes::ECHO;
        if now.local_modes & read == initial.local_modes & read {
            return;
        }
        self.initial = None;
        show(b"ringfence: the command gets no keys: its input is not the terminal (Ctrl-C ends it)\r\n");
        self.pass_end();
    }

    pub(super) fn is_listening(&self) -> bool {
        match self.keyboard {
            Keyboard::Lines => takes_lines(self.input),
            Keyboard::Keys => self.raw.is_some() && is_foreground(self.input),
            Keyboard::Unread => false,
        }
    }

    /// How long nothing may happen before somebody looks again.
    pub(super) fn patience(&self) -> Option<Timespec> {
        Some(LOOK)
    }

    /// Passes on what was typed.
    pub(super) fn pass(&mut self, typed: &[u8], show: impl Fn(&[u8])) {
        let suspends = |byte: &u8| self.suspends(*byte);
        match typed.iter().position(suspends) {
            Some(at) => {
                write_all(self.master.as_fd(), &typed[..at]);
                self.suspend(show);
            }
            None => {
                write_all(self.master.as_fd(), typed);
                // A line that was ended without a newline.
                if self.keyboard == Keyboard::Lines && !typed.ends_with(b"\n") {
                    self.pass_end();
                }
            }
        }
    }

    /// The person's input is at its end; so is that of the command.
    pub(super) fn pass_end(&self) {
        if let Ok(modes) = tcgetattr(self.master) {
            let end = modes.special_codes[SpecialCodeIndex::VEOF];
            write_all(self.master.as_fd(), &[end]);
        }
    }

    /// A terminal can be read again after its end.
    pub(super) fn goes_on_after_end(&self) -> bool {
        self.keyboard == Keyboard::Lines
    }

    /// Whether this key stops the whole command. Where a shell inside has jobs of its own, or the program has other plans
    /// with the key, it is theirs.
    fn suspends(&self, byte: u8) -> bool {
        if self.keyboard != Keyboard::Keys {
            return false;
        }
        let Ok(modes) = tcgetattr(self.master) else { return false };
        if !modes.local_modes.contains(LocalModes::ISIG)
            || byte == 0
            || modes.special_codes[SpecialCodeIndex::VSUSP] != byte
        {
            return false;
        }
        match (tcgetpgrp(self.master), tcgetsid(self.master)) {
            (Ok(group), Ok(session)) => group == session && stops_by_itself(session),
            _ => false,
        }
    }

    /// Stops what runs inside and then ourselves, as a job of the person's shell; goes on when the shell says so.
    fn suspend(&mut self, show: impl Fn(&[u8])) {
        let group = tcgetpgrp(self.master).ok();
        let signal = |signal| group.map(|group| rustix::process::kill_process_group(group, signal));
        let _ = signal(Signal::STOP);
        show(b"^Z\r\n");
        self.raw = None;
        // Where no shell could ever continue us, the kernel does not stop us.
        let _ = rustix::process::kill_current_process_group(Signal::TSTP);
        let _ = signal(Signal::CONT);
    }
}

/// Whether the process neither ignores nor handles the signal that suspends.
fn stops_by_itself(process: Pid) -> bool {
    let path = format!("/proc/{}/status", process.as_raw_nonzero());
    let Ok(status) = std::fs::read_to_string(path) else { return false };
    let mask = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        u64::from_str_radix(line.trim(), 16).ok()
    };
    let bit = 1_u64 << (Signal::TSTP.as_raw() - 1);
    matches!((mask("SigIgn:"), mask("SigCgt:")), (Some(ignored), Some(caught)) if (ignored | caught) & bit == 0)
}
