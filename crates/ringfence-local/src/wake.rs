//! A descriptor that wakes whoever polls it.

use std::io::{PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::OFlags;

/// A pipe to oneself: every system has those.
#[derive(Debug)]
pub(crate) struct Wake {
    read: PipeReader,
    write: PipeWriter,
}

impl Wake {
    pub(crate) fn new() -> rustix::io::Result<Self> {
        let (read, write) = std::io::pipe()
            .map_err(|error| rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO))?;
        rustix::fs::fcntl_setfl(&read, OFlags::NONBLOCK)?;
        rustix::fs::fcntl_setfl(&write, OFlags::NONBLOCK)?;
        Ok(Self { read, write })
    }

    /// Readable after [`wake`](Self::wake), until it is [cleared](Self::clear).
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }

    pub(crate) fn wake(&self) {
        // A full pipe wakes as well as one more byte would.
        let _ = (&self.write).write(&[1]);
    }

    pub(crate) fn clear(&self) {
        let mut bytes = [0; 64];
        while matches!((&self.read).read(&mut bytes), Ok(length) if length == bytes.len()) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn is_readable(wake: &Wake) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(wake.fd(), PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).unwrap() == 1
    }

    #[test]
    fn it_stays_awake_until_cleared() {
        let wake = Wake::new().unwrap();
        assert!(!is_readable(&wake));
        for _ in 0..100_000 {
            wake.wake();
        }
        assert!(is_readable(&wake));
        wake.clear();
        assert!(!is_readable(&wake));
    }
}
