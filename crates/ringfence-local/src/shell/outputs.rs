//! Where the commands of one bash write, and who reads what comes later.
//!
//! A command that ends while its jobs still have its output open leaves that pair of pipes to them: what comes
//! there is theirs, whatever runs meanwhile. When nobody has it open any more, it is used again.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use ringfence_model::ExecEvent;
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, poll};

use crate::relay;
use crate::shell::driver::{self, PAIRS};
use crate::shell::session::Background;
use crate::shell::tree::{Seen, Tops};
use crate::wake::Wake;

/// As much as a pipe holds.
const MOST_IN_PIPE: usize = 1 << 20;

/// Our ends of all pairs.
#[derive(Debug)]
pub(crate) struct Outputs {
    shared: Arc<Shared>,
    /// What bash's ends are, as long as nobody changed them.
    links: Vec<[Vec<u8>; 2]>,
    reader: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    pairs: Vec<Pair>,
    wake: Wake,
    over: std::sync::atomic::AtomicBool,
}

/// Standard output and error.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) fds: [OwnedFd; 2],
    /// Whose it is, where it is left to jobs. Locked by whoever reads.
    lent: Mutex<Lent>,
}

#[derive(Default)]
pub(crate) struct Lent {
    to: Option<Background>,
    ended: bool,
}

impl std::fmt::Debug for Lent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lent").field("lent", &self.to.is_some()).finish_non_exhaustive()
    }
}

impl Pair {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Lent> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes everything that lies in the pipes to `to`, as much at once as the buffer has room for; false when there
    /// never will be more.
    pub(crate) fn drain(&self, buffer: &mut Vec<u8>, to: &mut dyn FnMut(usize, &[u8])) -> bool {
        let mut open = false;
        for (index, fd) in self.fds.iter().enumerate() {
            let mut left = MOST_IN_PIPE;
            open |= loop {
                buffer.clear();
                match rustix::io::read(fd, spare_capacity(buffer)) {
                    Ok(0) => break false,
                    Ok(length) => {
                        to(index, buffer);
                        left = left.saturating_sub(length);
                        if left == 0 {
                            break true;
                        }
                    }
                    Err(rustix::io::Errno::INTR) => {}
                    Err(errno) => break errno == rustix::io::Errno::AGAIN,
                }
            };
        }
        open
    }

    fn drain_late(&self, lent: &mut Lent) {
        let Some(to) = lent.to.clone() else { return };
        let mut buffer = Vec::with_capacity(64 << 10);
        lent.ended = !self.drain(&mut buffer, &mut |index, bytes| to(event(index, bytes.to_vec())));
    }
}

pub(crate) fn event(index: usize, bytes: Vec<u8>) -> ExecEvent {
    if index == 0 { ExecEvent::Stdout(bytes) } else { ExecEvent::Stderr(bytes) }
}

impl Outputs {
    /// Makes the pipes; the ends for bash come with their numbers there.
    pub(crate) fn new() -> rustix::io::Result<(Self, Vec<(OwnedFd, i32)>)> {
        let mut pairs = vec![];
        let mut theirs = vec![];
        for number in 0..PAIRS {
            // Only the first is always in use; large pipes are few on a machine.
            let pipe = if number == 0 { relay::output_pipe } else { relay::small_output_pipe };
            let ((stdout, their_stdout), (stderr, their_stderr)) = (pipe()?, pipe()?);
            pairs.push(Pair { fds: [stdout, stderr], lent: Mutex::default() });
            theirs.extend([their_stdout, their_stderr].into_iter().zip(driver::outputs(number)));
        }
        let shared = Shared { pairs, wake: Wake::new()?, over: false.into() };
        Ok((Self { shared: Arc::new(shared), links: vec![], reader: Mutex::default() }, theirs))
    }

    /// Remembers how bash has them now.
    pub(crate) fn remember(&mut self, bash: &Seen) {
        self.links = (0..PAIRS)
            .map(|number| driver::outputs(number).map(|descriptor| bash.link(descriptor)))
            .collect();
    }

    /// Whether bash still has this pair.
    pub(crate) fn is_intact(&self, number: usize, bash: &Seen) -> bool {
        driver::outputs(number).map(|descriptor| bash.link(descriptor)) == self.links[number]
    }

    pub(crate) fn pair(&self, number: usize) -> &Pair {
        &self.shared.pairs[number]
    }

    /// The pair for the next command: one that is left to nobody, or else the last.
    pub(crate) fn choose(&self, bash: &Seen) -> usize {
        for (number, pair) in self.shared.pairs.iter().enumerate() {
            let mut lent = pair.lock();
            if lent.to.is_none() {
                return number;
            }
            if !self.is_held(number, bash) {
                pair.drain_late(&mut lent);
                lent.to = None;
                return number;
            }
        }
        // All are lent. What its jobs write from now on is shown with the command's.
        self.pair(PAIRS - 1).lock().to = None;
        PAIRS - 1
    }

    /// Leaves the pair to the jobs that have it open, if there are any. Whether there are none at all.
    pub(crate) fn lend_if_held(&self, number: usize, bash: &Seen, to: &Background) -> bool {
        if Tops::now(bash).is_empty() {
            return true;
        }
        if !self.is_held(number, bash) {
            return false;
        }
        self.pair(number).lock().to = Some(Arc::clone(to));
        self.shared.wake.wake();
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        if reader.is_none() {
            let shared = Arc::clone(&self.shared);
            // Where the jobs have used up all processes there is no reader yet; the next command starts one.
            *reader = std::thread::Builder::new().spawn(move || shared.read_late()).ok();
        }
        false
    }

    /// Bash itself, and copies of it, have all of them under their private numbers.
    fn is_held(&self, number: usize, bash: &Seen) -> bool {
        let private = |descriptor: i32| (0..PAIRS).any(|pair| driver::outputs(pair).contains(&descriptor));
        let tops = Tops::now(bash);
        self.links[number].iter().any(|link| tops.hold(link, private))
    }

    /// Bash is gone: what still lies there is passed on, and nobody reads any more.
    pub(crate) fn close(&self) {
        self.shared.over.store(true, std::sync::atomic::Ordering::Release);
        self.shared.wake.wake();
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(reader) = reader {
            let _ = reader.join();
        }
        for pair in &self.shared.pairs {
            pair.drain_late(&mut pair.lock());
        }
    }
}

impl Shared {
    fn read_late(&self) {
        while !self.over.load(std::sync::atomic::Ordering::Acquire) {
            let lent: Vec<&Pair> =
                self.pairs.iter().filter(|pair| pair.lock().to.is_some() && !pair.lock().ended).collect();
            let mut fds: Vec<PollFd<'_>> = lent
                .iter()
                .flat_map(|pair| pair.fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)))
                .chain([PollFd::from_borrowed_fd(self.wake.fd(), PollFlags::IN)])
                .collect();
            let _ = poll(&mut fds, None);
            self.wake.clear();
            for pair in lent {
                pair.drain_late(&mut pair.lock());
            }
        }
    }
}
