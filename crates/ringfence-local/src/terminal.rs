//! The person's terminal, connected to the sandbox's own one.

mod held_shell;
mod keyboard;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::prompt::Pause;
use crate::streams::CallersTerminal;
use crate::terminal_notices::Notices;
use crate::wake::Wake;
pub use held_shell::HeldShell;
use keyboard::State;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{
    LocalModes, OptionalActions, Termios, Winsize, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr,
    tcsetwinsize,
};

/// The caller's terminal in raw mode; restored when dropped.
#[derive(Debug)]
pub struct RawTerminal<'a> {
    fd: BorrowedFd<'a>,
    saved: Termios,
    /// What becomes of keys that nobody has read.
    unread: OptionalActions,
}

impl<'a> RawTerminal<'a> {
    /// Keys that nobody has read are thrown away in the end.
    pub fn new(fd: BorrowedFd<'a>) -> rustix::io::Result<Self> {
        Self::with(fd, OptionalActions::Flush)
    }

    /// Keys that nobody has read are for whoever comes next.
    pub fn keeping_keys(fd: BorrowedFd<'a>) -> rustix::io::Result<Self> {
        Self::with(fd, OptionalActions::Now)
    }

    fn with(fd: BorrowedFd<'a>, unread: OptionalActions) -> rustix::io::Result<Self> {
        let saved = tcgetattr(fd)?;
        let mut raw = saved.clone();
        raw.make_raw();
        tcsetattr(fd, OptionalActions::Now, &raw)?;
        Ok(Self { fd, saved, unread })
    }

    /// Puts it into raw mode again where somebody took it out.
    pub(crate) fn apply_again(&self) {
        let Ok(mut now) = tcgetattr(self.fd) else { return };
        if now.local_modes.intersects(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG) {
            now.make_raw();
            let _ = tcsetattr(self.fd, OptionalActions::Now, &now);
        }
    }
}

impl Drop for RawTerminal<'_> {
    fn drop(&mut self) {
        // Somebody else uses it now, and would be disturbed.
        if !is_foreground(self.fd) {
            return;
        }
        // Nothing better can be done when the terminal is gone.
        let _ = tcsetattr(self.fd, self.unread, &self.saved);
    }
}

/// Whether the terminal is ours to use, and not that of another job. One that is nobody's controlling terminal is.
pub(crate) fn is_foreground(terminal: BorrowedFd<'_>) -> bool {
    tcgetpgrp(terminal).map_or(true, |group| group == rustix::process::getpgrp())
}

/// Whether a line that is typed now may be for the command: nobody else has the terminal, and nobody reads keys or a
/// password from it.
pub(crate) fn takes_lines(terminal: BorrowedFd<'_>) -> bool {
    let lines = LocalModes::ICANON | LocalModes::ECHO;
    is_foreground(terminal) && tcgetattr(terminal).is_ok_and(|modes| modes.local_modes.contains(lines))
}

/// A descriptor that becomes readable when the caller's terminal changes its size. Call it before any
/// other thread exists: the signal must be blocked in all of them. Without one, the size is looked at a few
/// times a second.
#[cfg(target_os = "linux")]
pub fn resize_events() -> Option<OwnedFd> {
    ringfence_linux::sys::signal_fd(libc::SIGWINCH).ok()
}

/// No descriptor here becomes readable when the caller's terminal changes its size; the size is looked at a
/// few times a second instead.
#[cfg(not(target_os = "linux"))]
pub fn resize_events() -> Option<OwnedFd> {
    None
}

/// How often the size is looked at where nothing tells that it changed.
const LOOK_AT_SIZE: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };

/// Of a terminal that says nothing about it.
pub(crate) const USUAL_SIZE: Winsize = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };

pub fn size(fd: BorrowedFd<'_>) -> Winsize {
    tcgetwinsize(fd).unwrap_or(USUAL_SIZE)
}

/// Copies both ways until the sandbox's side is closed, or until `stop` wakes and nothing is left to copy: a process
/// that outlives the command may keep the terminal open. While a person is asked, nothing is copied either way.
pub(crate) fn relay_until(master: &OwnedFd, terminal: CallersTerminal<'_>, stop: Option<&Wake>) {
    let CallersTerminal { input, output, resized, pause, asides, .. } = terminal;
    let show = |bytes: &[u8]| match pause {
        Some(pause) => pause.show(|| write_all(output, bytes)),
        None => write_all(output, bytes),
    };
    let mut keyboard = State::new(master, &terminal);
    let mut said = Notices::default();
    let mut buffer = [0_u8; 16 * 1024];
    let mut input_open = true;
    let mut last_size = size(input);
    loop {
        if let Some(pause) = pause.filter(|pause| pause.is_paused()) {
            let _ = poll(&mut [PollFd::from_borrowed_fd(pause.wake().fd(), PollFlags::IN)], None);
            pause.wake().clear();
            continue;
        }
        keyboard.look(show);
        write_all(master.as_fd(), &pause.map(Pause::take_typed_before).unwrap_or_default());
        let listening = input_open && keyboard.is_listening();
        let (input_fd, input_events) = watch(master, listening.then_some(input));
        let (size_fd, size_events) = watch(master, resized);
        let (pause_fd, pause_events) = watch(master, pause.map(|pause| pause.wake().fd()));
        let (stop_fd, stop_events) = watch(master, stop.map(Wake::fd));
        let mut fds = [
            PollFd::new(master, PollFlags::IN),
            PollFd::from_borrowed_fd(input_fd, input_events),
            PollFd::from_borrowed_fd(size_fd, size_events),
            PollFd::from_borrowed_fd(pause_fd, pause_events),
            PollFd::from_borrowed_fd(stop_fd, stop_events),
        ];
        let held = said.patience().and_then(|patience| Timespec::try_from(patience).ok());
        let looks = resized.is_none().then_some(LOOK_AT_SIZE);
        let timeout = held.or_else(|| keyboard.patience()).or(looks);
        match poll(&mut fds, timeout.as_ref()) {
            Ok(0) if held.is_some() => said.give_up(show),
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        let [from_master, from_input, from_size, from_pause, from_stop] =
            [0, 1, 2, 3, 4].map(|index| fds[index].revents());
        if stop_events.contains(PollFlags::IN) && from_stop.contains(PollFlags::IN) && from_master.is_empty()
        {
            return;
        }
        if let Some(pause) = pause
            && from_pause.contains(PollFlags::IN)
            && pause_events.contains(PollFlags::IN)
        {
            pause.wake().clear();
            // Whether to copy has to be looked at again before anything is read.
            continue;
        }
        if let Some(resized) = resized
            && from_size.contains(PollFlags::IN)
        {
            let _ = rustix::io::read(resized, &mut buffer);
            let _ = tcsetwinsize(master, size(input));
        } else if resized.is_none() && last_size != size(input) {
            last_size = size(input);
            let _ = tcsetwinsize(master, last_size);
        }
        if listening && from_input.intersects(PollFlags::IN | PollFlags::HUP) && keyboard.is_listening() {
            match rustix::io::read(input, &mut buffer) {
                Ok(length) if length > 0 => keyboard.pass(&buffer[..length], show),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Ok(_) => {
                    keyboard.pass_end();
                    input_open = keyboard.goes_on_after_end();
                }
                Err(_) => input_open = false,
            }
        }
        if from_master.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            match rustix::io::read(master, &mut buffer) {
                Ok(length) if length > 0 => match asides {
                    Some(listener) => {
                        let tell = |aside: &[u8]| (listener.0)(aside, master.as_fd());
                        said.pass(&buffer[..length], show, tell);
                    }
                    None => show(&buffer[..length]),
                },
                Err(Errno::INTR | Errno::AGAIN) => {}
                // EIO: the last process with the terminal open is gone.
                _ => {
                    said.give_up(show);
                    return;
                }
            }
        }
    }
}

/// What is absent stands in as the master with no events asked for.
fn watch<'a>(master: &'a OwnedFd, fd: Option<BorrowedFd<'a>>) -> (BorrowedFd<'a>, PollFlags) {
    fd.map_or((master.as_fd(), PollFlags::empty()), |fd| (fd, PollFlags::IN))
}

fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match rustix::io::write(fd, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}
