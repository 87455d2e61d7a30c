//! A descriptor that wakes whoever polls it.

use std::os::fd::{AsFd as _, BorrowedFd};

#[cfg(target_os = "linux")]
use counter::Signal;
#[cfg(not(target_os = "linux"))]
use pipe::Signal;

#[derive(Debug)]
pub(crate) struct Wake(Signal);

impl Wake {
    pub(crate) fn new() -> rustix::io::Result<Self> {
        Signal::new().map(Self)
    }

    /// Readable after [`wake`](Self::wake), until it is [cleared](Self::clear).
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.read.as_fd()
    }

    pub(crate) fn wake(&self) {
        self.0.wake();
    }

    pub(crate) fn clear(&self) {
        self.0.clear();
    }
}

/// Wakes when it goes, however that is.
#[cfg(target_os = "linux")]
pub(crate) struct WakeWhenDropped<'a>(pub(crate) &'a Wake);

#[cfg(target_os = "linux")]
impl Drop for WakeWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.wake();
    }
}

/// One descriptor each: a program that keeps many sandboxes has many of them.
#[cfg(target_os = "linux")]
mod counter {
    use std::os::fd::OwnedFd;

    use rustix::event::{EventfdFlags, eventfd};

    #[derive(Debug)]
    pub(super) struct Signal {
        pub(super) read: OwnedFd,
    }

    impl Signal {
        pub(super) fn new() -> rustix::io::Result<Self> {
            Ok(Self { read: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
        }

        pub(super) fn wake(&self) {
            let _ = rustix::io::write(&self.read, &1_u64.to_ne_bytes());
        }

        pub(super) fn clear(&self) {
            let _ = rustix::io::read(&self.read, &mut [0; 8]);
        }
    }
}

/// A pipe to oneself: every system has those.
#[cfg(not(target_os = "linux"))]
mod pipe {
    use std::io::{PipeReader, PipeWriter, Read as _, Write as _};

    use rustix::fs::OFlags;

    #[derive(Debug)]
    pub(super) struct Signal {
        pub(super) read: PipeReader,
        write: PipeWriter,
    }

    impl Signal {
        pub(super) fn new() -> rustix::io::Result<Self> {
            let (read, write) = std::io::pipe()
                .map_err(|error| rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO))?;
            rustix::fs::fcntl_setfl(&read, OFlags::NONBLOCK)?;
            rustix::fs::fcntl_setfl(&write, OFlags::NONBLOCK)?;
            Ok(Self { read, write })
        }

        pub(super) fn wake(&self) {
            // A full pipe wakes as well as one more byte would.
            let _ = (&self.write).write(&[1]);
        }

        pub(super) fn clear(&self) {
            let mut bytes = [0; 64];
            while matches!((&self.read).read(&mut bytes), Ok(length) if length == bytes.len()) {}
        }
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
