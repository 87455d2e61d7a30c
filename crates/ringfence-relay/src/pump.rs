//! Bytes from one socket to another: through a pipe while there are many, so that they are moved and not copied. With a
//! local socket they are copied: measured, moving its pages costs twice as much as copying them.
//!
//! Pipes are few and belong to a user's allowance (`pipe-user-pages-soft`), whose other programs get tiny ones when it
//! is spent. So a direction borrows one only while it has much to move, and copies when there is none.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ringfence_model::LockExt as _;
use rustix::io::retry_on_intr;
use rustix::pipe::{PipeFlags, SpliceFlags};
use tokio::io::Interest;

use crate::relay::Shared;
use crate::socket::Socket;

const MOST_PIPES: usize = 16;
/// A bigger one is no faster.
const PIPE_SIZE: usize = 256 * 1024;
/// What was read at once before a pipe is worth it.
const MANY: usize = 16 * 1024;
const SCRATCH_SIZE: usize = 256 * 1024;
/// After so many, another connection's turn.
const TURN: usize = 4 * 1024 * 1024;

thread_local! {
    /// For bytes that are copied. Nobody holds it while waiting.
    pub(crate) static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; SCRATCH_SIZE]);
}

/// An empty pipe.
struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

/// Pipes that directions borrow.
#[derive(Default)]
pub(crate) struct Pipes {
    free: Mutex<Vec<Pipe>>,
    made: AtomicUsize,
}

impl Pipes {
    fn take(&self) -> Option<Pipe> {
        if let Some(pipe) = self.free.locked().pop() {
            return Some(pipe);
        }
        if self.made.fetch_add(1, Ordering::Relaxed) >= MOST_PIPES {
            self.made.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let Ok((read, write)) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK) else {
            self.made.fetch_sub(1, Ordering::Relaxed);
            return None;
        };
        // A smaller one does as well.
        let _ = rustix::pipe::fcntl_setpipe_size(&write, PIPE_SIZE);
        Some(Pipe { read, write })
    }
}

/// A pipe on loan. It goes back when it is empty; one with bytes in it goes with its connection.
struct Loan<'a> {
    pipes: &'a Pipes,
    pipe: Option<Pipe>,
    within: usize,
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        match self.pipe.take() {
            Some(pipe) if self.within == 0 => self.pipes.free.locked().push(pipe),
            _ => drop(self.pipes.made.fetch_sub(1, Ordering::Relaxed)),
        }
    }
}

/// How much went one way, counted where it is written.
#[derive(Clone)]
pub(crate) struct Flow {
    count: Arc<AtomicU64>,
    /// Set when the relay's limit holds for it.
    limited_by: Option<Arc<Shared>>,
    is_full: Arc<AtomicBool>,
}

impl Flow {
    pub(crate) fn inwards() -> Self {
        Self { count: Arc::default(), limited_by: None, is_full: Arc::default() }
    }

    pub(crate) fn outwards(shared: Arc<Shared>) -> Self {
        Self { count: Arc::default(), limited_by: Some(shared), is_full: Arc::default() }
    }

    /// False when it is more than may go.
    pub(crate) fn add(&self, count: usize) -> bool {
        let count = count as u64;
        self.count.fetch_add(count, Ordering::Relaxed);
        self.limited_by.as_ref().is_none_or(|shared| shared.may_send(count))
    }

    /// Whether so many may still go.
    pub(crate) fn has_room(&self, count: usize) -> bool {
        let has_room = self.limited_by.as_ref().is_none_or(|shared| shared.could_send(count as u64));
        if !has_room {
            self.is_full.store(true, Ordering::Relaxed);
        }
        has_room
    }

    /// Whether something found no room.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

/// Why a direction stopped.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The reading side said its last, and it is all written.
    Ended,
    Reading,
    Writing,
    TooMany,
}

enum Read {
    Ended,
    Into(usize),
    /// Copied, and not yet written.
    Rest(usize, Vec<u8>),
}

pub(crate) async fn pump(from: &Socket, to: &Socket, flow: &Flow, pipes: &Pipes) -> Stop {
    let mut can_splice = matches!((from, to), (Socket::Tcp(_), Socket::Tcp(_)));
    let mut turn = 0;
    let mut last = 0;
    'waiting: loop {
        if from.ready_for(Interest::READABLE).await.is_err() {
            return Stop::Reading;
        }
        let mut loan: Option<Loan<'_>> = None;
        loop {
            if loan.is_none() && can_splice && last >= MANY {
                loan = pipes.take().map(|pipe| Loan { pipes, pipe: Some(pipe), within: 0 });
            }
            let pipe = loan.as_ref().and_then(|loan| loan.pipe.as_ref());
            let read = from.try_io(Interest::READABLE, || match pipe {
                Some(pipe) => splice(from.fd(), pipe.write.as_fd()).map(|count| match count {
                    0 => Read::Ended,
                    count => Read::Into(count),
                }),
                None => copy(from, to, flow),
            });
            match read {
                Ok(Read::Ended) => return Stop::Ended,
                Ok(Read::Into(count)) => {
                    if !flow.add(count) {
                        return Stop::TooMany;
                    }
                    last = count;
                    if let Some(loan) = &mut loan {
                        loan.within = count;
                        if write_out(loan, to).await.is_err() {
                            return Stop::Writing;
                        }
                    }
                }
                Ok(Read::Rest(count, rest)) => {
                    last = count;
                    if to.send_all(&rest).await.is_err() {
                        return Stop::Writing;
                    }
                }
                Err(error) => match error.kind() {
                    // Nothing there: a pipe goes back.
                    io::ErrorKind::WouldBlock => continue 'waiting,
                    io::ErrorKind::QuotaExceeded => return Stop::TooMany,
                    io::ErrorKind::BrokenPipe => return Stop::Writing,
                    // A kind of socket that cannot be spliced.
                    io::ErrorKind::InvalidInput if loan.is_some() => {
                        can_splice = false;
                        loan = None;
                        last = 0;
                    }
                    _ => return Stop::Reading,
                },
            }
            turn += last;
            if turn >= TURN {
                turn = 0;
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Everything in the pipe.
async fn write_out(loan: &mut Loan<'_>, to: &Socket) -> io::Result<()> {
    while loan.within > 0 {
        let Some(pipe) = &loan.pipe else { return Ok(()) };
        // Mostly there is room, and asking for it costs more than trying.
        let written = match splice(pipe.read.as_fd(), to.fd()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                to.ready_for(Interest::WRITABLE).await?;
                match to.try_io(Interest::WRITABLE, || splice(pipe.read.as_fd(), to.fd())) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                    written => written?,
                }
            }
            written => written?,
        };
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        loan.within = loan.within.saturating_sub(written);
    }
    Ok(())
}

fn splice(from: std::os::fd::BorrowedFd<'_>, to: std::os::fd::BorrowedFd<'_>) -> io::Result<usize> {
    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
    Ok(retry_on_intr(|| rustix::pipe::splice(from, None, to, None, PIPE_SIZE, flags))?)
}

/// One read, and as much of it written as there is room for.
fn copy(from: &Socket, to: &Socket, flow: &Flow) -> io::Result<Read> {
    SCRATCH.with_borrow_mut(|scratch| {
        let count = from.read(scratch)?;
        if count == 0 {
            return Ok(Read::Ended);
        }
        if !flow.add(count) {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let written = match to.send(&scratch[..count]) {
            Ok(written) => written,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            // Of the other side than the one that is read from.
            Err(_) => return Err(io::ErrorKind::BrokenPipe.into()),
        };
        Ok(Read::Rest(count, scratch[written..count].to_vec()))
    })
}
