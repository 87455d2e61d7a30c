//! The person's terminal, connected to the sandbox's own one.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

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
/// terminal changes its size.
pub(crate) fn relay(
    master: &OwnedFd,
    input: BorrowedFd<'_>,
    output: BorrowedFd<'_>,
    resized: Option<BorrowedFd<'_>>,
) {
    let mut buffer = [0_u8; 16 * 1024];
    let mut input_open = true;
    loop {
        let mut fds = [
            PollFd::new(master, PollFlags::IN),
            PollFd::from_borrowed_fd(
                if input_open { input } else { master.as_fd() },
                if input_open { PollFlags::IN } else { PollFlags::empty() },
            ),
            PollFd::from_borrowed_fd(
                resized.unwrap_or(master.as_fd()),
                if resized.is_some() { PollFlags::IN } else { PollFlags::empty() },
            ),
        ];
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        let [from_master, from_input, from_size] = [fds[0].revents(), fds[1].revents(), fds[2].revents()];
        if let Some(resized) = resized
            && from_size.contains(PollFlags::IN)
        {
            let _ = rustix::io::read(resized, &mut buffer);
            let _ = tcsetwinsize(master, size(input));
        }
        if input_open && from_input.intersects(PollFlags::IN | PollFlags::HUP) {
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

fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match rustix::io::write(fd, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}
