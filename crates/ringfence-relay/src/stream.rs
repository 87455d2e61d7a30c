//! A socket as the libraries of HTTP and TLS want it: with what was already read of it, and counting.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

use crate::pump::Flow;
use crate::socket::Socket;

pub(crate) struct Stream {
    socket: Arc<Socket>,
    /// What was read of it before.
    before: Vec<u8>,
    taken: usize,
    /// What is written to it.
    written: Flow,
}

impl Stream {
    pub(crate) fn new(socket: Arc<Socket>, before: Vec<u8>, written: Flow) -> Self {
        Self { socket, before, taken: 0, written }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let left = &self.before[self.taken..];
        if !left.is_empty() {
            let count = left.len().min(buffer.remaining());
            buffer.put_slice(&left[..count]);
            self.taken += count;
            if self.taken == self.before.len() {
                (self.before, self.taken) = (Vec::new(), 0);
            }
            return Poll::Ready(Ok(()));
        }
        loop {
            ready!(self.socket.poll_readable(cx))?;
            let read =
                self.socket.try_io(Interest::READABLE, || self.socket.read(buffer.initialize_unfilled()));
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(|count| buffer.advance(count))),
            }
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if !self.written.has_room(bytes.len()) {
            return Poll::Ready(Err(io::ErrorKind::QuotaExceeded.into()));
        }
        loop {
            ready!(self.socket.poll_writable(cx))?;
            match self.socket.try_io(Interest::WRITABLE, || self.socket.send(bytes)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => return Poll::Ready(sent.inspect(|count| _ = self.written.add(*count))),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.finish_writing();
        Poll::Ready(Ok(()))
    }
}
