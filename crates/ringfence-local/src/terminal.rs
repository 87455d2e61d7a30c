//! The person's terminal, connected to the sandbox's own one.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::prompt::Pause;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::termios::{OptionalActions, Termios, Winsize, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize};

/// The caller's terminal in raw mode; restored when dropped.
#[derive(Debug)]
pub(crate) struct RawTerminal<'a> {
    fd: BorrowedFd<'a>,
    saved: Termios,
}

impl<'a> RawTerminal<'a> {
    pub(crate) fn new(fd: BorrowedFd<'a>) -> rustix::io::Result<Self> {
        let saved = tcgetattr(fd)?;
        let mut raw = saved.clone();
        raw.make_raw();
        tcsetattr(fd, OptionalActions::Now, &raw)?;
        Ok(Self { fd, saved })
    }
}

impl Drop for RawTerminal<'_> {
    fn drop(&mut self) {
        // Nothing better can be done when the terminal is gone.
        let _ = tcsetattr(self.fd, OptionalActions::Flush, &self.saved);
    }
}

/// A descriptor that becomes readable when the caller's terminal changes its size. Call it before any
/// other thread exists: the signal must be blocked in all of them.
pub fn resize_events() -> Option<OwnedFd> {
    ringfence_linux::sys::signal_fd(libc::SIGWINCH).ok()
}

pub(crate) fn size(fd: BorrowedFd<'_>) -> Winsize {
    tcgetwinsize(fd).unwrap_or(Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 })
}

/// Copies both ways until the sandbox's side is closed. `resized` becomes readable when the person's
/// terminal changes its size; while `pause` is on, the person's input is left to somebody else.
pub(crate) fn relay(
    master: &OwnedFd,
    input: BorrowedFd<'_>,
    output: BorrowedFd<'_>,
    resized: Option<BorrowedFd<'_>>,
    pause: Option<&Pause>,
) {
    let mut buffer = [0_u8; 16 * 1024];
    let mut input_open = true;
    loop {
        let listening = input_open && !pause.is_some_and(Pause::is_paused);
        let (input_fd, input_events) = watch(master, listening.then_some(input));
        let (size_fd, size_events) = watch(master, resized);
        let (pause_fd, pause_events) = watch(master, pause.map(Pause::wake));
        let mut fds = [
            PollFd::new(master, PollFlags::IN),
            PollFd::from_borrowed_fd(input_fd, input_events),
            PollFd::from_borrowed_fd(size_fd, size_events),
            PollFd::from_borrowed_fd(pause_fd, pause_events),
        ];
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        let [from_master, from_input, from_size, from_pause] =
            [fds[0].revents(), fds[1].revents(), fds[2].revents(), fds[3].revents()];
        if let Some(pause) = pause
            && from_pause.contains(PollFlags::IN)
            && pause_events.contains(PollFlags::IN)
        {
            let _ = rustix::io::read(pause.wake(), &mut buffer[..8]);
            // Whether to listen has to be looked at again before anything is read.
            continue;
        }
        if let Some(resized) = resized
            && from_size.contains(PollFlags::IN)
        {
            let _ = rustix::io::read(resized, &mut buffer);
            let _ = tcsetwinsize(master, size(input));
        }
        if listening && from_input.intersects(PollFlags::IN | PollFlags::HUP) {
            match rustix::io::read(input, &mut buffer) {
                Ok(length) if length > 0 => write_all(master.as_fd(), &buffer[..length]),
                Err(Errno::INTR | Errno::AGAIN) => {}
                _ => input_open = false,
            }
        }
        if from_master.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            match rustix::io::read(master, &mut buffer) {
                Ok(length) if length > 0 => write_all(output, &buffer[..length]),
                Err(Errno::INTR | Errno::AGAIN) => {}
                // EIO: the last process with the terminal open is gone.
                _ => return,
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
