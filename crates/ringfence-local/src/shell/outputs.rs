//! Where the commands of one bash write, and who reads what comes later.
//!
//! A command that ends while its jobs still have its output open leaves that pair of pipes to them: what comes
//! there is theirs, whatever runs meanwhile. When nobody has it open any more, it is used again.
//!
//! Most shells never use more than the first pair. Our ends of the others are opened when they are needed, by way of
//! bash, which has the other ends from the beginning.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::JoinHandle;

use ringfence_model::ExecEvent;
use ringfence_model::LockExt as _;
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, poll};

use crate::relay;
use crate::shell::driver::{self, PAIRS};
use crate::shell::tree::{Seen, Tops};
use crate::wake::Wake;
use ringfence_fence::Background;

/// As much as a pipe holds.
const MOST_IN_PIPE: usize = 1 << 20;

/// Our ends of all pairs.
#[derive(Debug)]
pub(crate) struct Outputs {
    shared: Arc<Shared>,
    /// What bash's ends are, as long as nobody changed them.
    links: Vec<[Vec<u8>; 2]>,
    /// Our ends of all but the first, until bash has its own.
    spare: Vec<[OwnedFd; 2]>,
    reader: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    pairs: Vec<Pair>,
    /// For the reader, from its start on.
    wake: OnceLock<Wake>,
    over: std::sync::atomic::AtomicBool,
}

/// Standard output and error.
#[derive(Debug)]
pub(crate) struct Pair {
    fds: OnceLock<[OwnedFd; 2]>,
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
        self.lent.locked()
    }

    /// Our ends; of a pair that was never [chosen](Outputs::choose) there may be none.
    pub(crate) fn fds(&self) -> &[OwnedFd] {
        self.fds.get().map_or(&[], |fds| fds)
    }

    /// Opens our ends by way of bash's, if those are what they were. Whether there are any.
    fn open(&self, descriptors: [i32; 2], links: &[Vec<u8>; 2], bash: &Seen) -> bool {
        let mut opened =
            descriptors.into_iter().zip(links).map_while(|(number, link)| bash.open_pipe(number, link));
        self.fds.get().is_some()
            || opened.next().zip(opened.next()).is_some_and(|(stdout, stderr)| {
                self.fds.get_or_init(|| [stdout, stderr]);
                true
            })
    }

    /// Passes everything that lies in the pipes to `to`, as much at once as the buffer has room for; false when there
    /// never will be more.
    pub(crate) fn drain(&self, buffer: &mut Vec<u8>, to: &mut dyn FnMut(usize, &[u8])) -> bool {
        let mut open = false;
        for (index, fd) in self.fds().iter().enumerate() {
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
        let (mut pairs, mut spare, mut theirs) = (vec![], vec![], vec![]);
        for number in 0..PAIRS {
            // Only the first is always in use; large pipes are few on a machine.
            let pipe = if number == 0 { relay::output_pipe } else { relay::small_output_pipe };
            let ((stdout, their_stdout), (stderr, their_stderr)) = (pipe()?, pipe()?);
            let (fds, ours) = (OnceLock::new(), [stdout, stderr]);
            if number == 0 {
                fds.get_or_init(|| ours);
            } else {
                spare.push(ours);
            }
            pairs.push(Pair { fds, lent: Mutex::default() });
            theirs.extend([their_stdout, their_stderr].into_iter().zip(driver::outputs(number)));
        }
        let shared = Shared { pairs, wake: OnceLock::new(), over: false.into() };
        Ok((Self { shared: Arc::new(shared), links: vec![], spare, reader: Mutex::default() }, theirs))
    }

    /// Remembers how bash has them now.
    pub(crate) fn remember(&mut self, bash: &Seen) {
        self.links = (0..PAIRS)
            .map(|number| driver::outputs(number).map(|descriptor| bash.link(descriptor)))
            .collect();
        for (number, ours) in (1..).zip(std::mem::take(&mut self.spare)) {
            // What cannot be looked at cannot be opened again.
            if self.links[number].iter().any(Vec::is_empty) {
                self.shared.pairs[number].fds.get_or_init(|| ours);
            }
        }
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
                if pair.open(driver::outputs(number), &self.links[number], bash) {
                    return number;
                }
                continue;
            }
            if !self.is_held(number, bash) {
                pair.drain_late(&mut lent);
                lent.to = None;
                return number;
            }
        }
        // All are lent. What its jobs write from now on is shown with the command's.
        let last = (0..PAIRS).rev().find(|number| !self.pair(*number).fds().is_empty()).unwrap_or(0);
        self.pair(last).lock().to = None;
        last
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
        self.shared.wake();
        let mut reader = self.reader.locked();
        if reader.is_none() {
            // Where the jobs have used up all processes there is no reader yet; the next command starts one.
            *reader = self.shared.start_reader();
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
        self.shared.wake();
        let reader = self.reader.locked().take();
        if let Some(reader) = reader {
            let _ = reader.join();
        }
        for pair in &self.shared.pairs {
            pair.drain_late(&mut pair.lock());
        }
    }
}

impl Shared {
    fn wake(&self) {
        if let Some(wake) = self.wake.get() {
            wake.wake();
        }
    }

    fn start_reader(self: &Arc<Self>) -> Option<JoinHandle<()>> {
        if self.wake.get().is_none() {
            let _ = self.wake.set(Wake::new().ok()?);
        }
        let shared = Arc::clone(self);
        std::thread::Builder::new().spawn(move || shared.read_late()).ok()
    }

    fn read_late(&self) {
        let Some(wake) = self.wake.get() else { return };
        while !self.over.load(std::sync::atomic::Ordering::Acquire) {
            let lent: Vec<&Pair> =
                self.pairs.iter().filter(|pair| pair.lock().to.is_some() && !pair.lock().ended).collect();
            let mut fds: Vec<PollFd<'_>> = lent
                .iter()
                .flat_map(|pair| pair.fds().iter().map(|fd| PollFd::new(fd, PollFlags::IN)))
                .chain([PollFd::from_borrowed_fd(wake.fd(), PollFlags::IN)])
                .collect();
            let _ = poll(&mut fds, None);
            wake.clear();
            for pair in lent {
                pair.drain_late(&mut pair.lock());
            }
        }
    }
}
