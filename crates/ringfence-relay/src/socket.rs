//! Sockets of either kind in the runtime.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::io::retry_on_intr;
use rustix::net::{AddressFamily, SendFlags, Shutdown, sockopt};
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

/// When a peer that went away without a word is asked after.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// What waits in a socket whose peer is on this machine. More of it leaves the processors' caches before it is moved on:
/// measured, a byte then costs half as much again.
const NEAR_BUFFER: usize = 128 * 1024;

/// Where a socket's peer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    Near,
    /// The kernel finds out how much is on its way.
    Far,
}

/// A connected stream socket.
pub(crate) enum Socket {
    Tcp(TcpStream),
    Local(UnixStream),
}

macro_rules! either {
    ($socket:expr, $stream:ident => $call:expr) => {
        match $socket {
            Socket::Tcp($stream) => $call,
            Socket::Local($stream) => $call,
        }
    };
}

impl Socket {
    pub(crate) fn new(fd: OwnedFd, peer: Peer) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        let domain = sockopt::socket_domain(&fd)?;
        if domain == AddressFamily::UNIX {
            return UnixStream::from_std(fd.into()).map(Self::Local);
        }
        sockopt::set_tcp_nodelay(&fd, true)?;
        sockopt::set_socket_keepalive(&fd, true)?;
        sockopt::set_tcp_keepidle(&fd, KEEPALIVE)?;
        if peer == Peer::Near {
            sockopt::set_socket_recv_buffer_size(&fd, NEAR_BUFFER)?;
            sockopt::set_socket_send_buffer_size(&fd, NEAR_BUFFER)?;
        }
        TcpStream::from_std(fd.into()).map(Self::Tcp)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        either!(self, stream => stream.as_fd())
    }

    pub(crate) async fn ready_for(&self, interest: Interest) -> io::Result<()> {
        either!(self, stream => stream.ready(interest).await).map(drop)
    }

    /// Tries, and remembers when it was too early.
    pub(crate) fn try_io<R>(
        &self,
        interest: Interest,
        tried: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        either!(self, stream => stream.try_io(interest, tried))
    }

    pub(crate) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_read_ready(cx))
    }

    pub(crate) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_write_ready(cx))
    }

    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(retry_on_intr(|| rustix::io::read(self.fd(), &mut *buffer))?)
    }

    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(retry_on_intr(|| rustix::net::send(self.fd(), bytes, SendFlags::NOSIGNAL))?)
    }

    pub(crate) async fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.ready_for(Interest::READABLE).await?;
            match self.try_io(Interest::READABLE, || self.read(buffer)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }

    pub(crate) async fn send_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.ready_for(Interest::WRITABLE).await?;
            match self.try_io(Interest::WRITABLE, || self.send(bytes)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => bytes = &bytes[sent?..],
            }
        }
        Ok(())
    }

    /// Whether nothing waits to be read.
    pub(crate) fn is_read(&self) -> bool {
        rustix::io::ioctl_fionread(self.fd()) == Ok(0)
    }

    /// Says that nothing more comes. A peer that is gone needs no telling.
    pub(crate) fn finish_writing(&self) {
        let _ = rustix::net::shutdown(self.fd(), Shutdown::Write);
    }

    /// Breaks it off: the peer gets an error instead of an end when this is dropped.
    pub(crate) fn reset_when_dropped(&self) {
        let _ = sockopt::set_socket_linger(self.fd(), Some(Duration::ZERO));
    }
}
