//! A shell that stopped itself before it runs a command, until somebody lets it go on.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use rustix::termios::{SpecialCodeIndex, tcgetattr, tcgetpgrp, tcgetsid};

use super::write_all;

/// The shell has said that it stops; how long that may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

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
