//! A shell that stopped itself before it runs a command, until somebody lets it go on.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use rustix::termios::{SpecialCodeIndex, tcgetattr, tcgetpgrp, tcgetsid};

use super::write_all;

/// The shell has said that it stops; how long that may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a terminal may take to make a signal of a key.
const KEY_BECOMES_SIGNAL: Duration = Duration::from_secs(1);

/// A shell that waits. It goes on when this is dropped.
#[derive(Debug)]
pub struct HeldShell<'a> {
    master: BorrowedFd<'a>,
    group: Pid,
}

impl<'a> HeldShell<'a> {
    /// Waits until the shell of this terminal has stopped. None when another program has the terminal, or it does not stop.
    #[must_use]
    pub fn wait_for(master: BorrowedFd<'a>) -> Option<Self> {
        let group = tcgetpgrp(master).ok()?;
        if tcgetsid(master).ok()? != group {
            return None;
        }
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if is_stopped(group)? {
                return Some(Self { master, group });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }

    /// Lets it go on without the command: as if its person had pressed Ctrl-C.
    pub fn interrupt(self) {
        if let Ok(modes) = tcgetattr(self.master) {
            write_all(self.master, &[modes.special_codes[SpecialCodeIndex::VINTR]]);
        }
        // A terminal makes the signal of the key some time later. A shell that went on before it is there would run the
        // command.
        let deadline = Instant::now() + KEY_BECOMES_SIGNAL;
        while Instant::now() < deadline {
            match has_pending(self.group, Signal::INT) {
                Some(false) => std::thread::sleep(Duration::from_millis(1)),
                Some(true) | None => return,
            }
        }
        // This terminal makes no signals of keys.
        let _ = kill_process_group(self.group, Signal::INT);
    }
}

impl Drop for HeldShell<'_> {
    fn drop(&mut self) {
        // One that is gone needs no help.
        let _ = kill_process_group(self.group, Signal::CONT);
    }
}

/// None when it is gone.
fn is_stopped(process: Pid) -> Option<bool> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).ok()?;
    let (_, after) = stat.rsplit_once(") ")?;
    Some(after.starts_with('T'))
}

/// None when it is gone.
fn has_pending(process: Pid, signal: Signal) -> Option<bool> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.as_raw_nonzero())).ok()?;
    let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"))?;
    let pending = u64::from_str_radix(pending.trim(), 16).ok()?;
    Some(pending & (1 << (signal.as_raw() - 1)) != 0)
}
