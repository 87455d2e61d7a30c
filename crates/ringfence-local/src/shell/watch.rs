//! One command while it runs.

use std::time::{Duration, Instant};

use ringfence_fence::EventSink;
use ringfence_linux::host_loop::GRACE;
use ringfence_model::{ExecEvent, Violation};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use crate::capture::Capture;
use crate::shell::driver;
use crate::shell::live::Live;
use crate::shell::outputs::event;
use crate::shell::session::Control;
use crate::shell::tree::Tops;
use ringfence_fence::Ticket;

/// How much is read at once.
const BUFFER: usize = 64 << 10;

/// How often a command that shall end is told so.
const INSISTENCE: Duration = Duration::from_millis(10);
/// How long bash itself may take to leave a command whose processes are gone.
const LEAVING: Duration = Duration::from_millis(1500);
/// It is told at least so often before it is given up: a machine that stands still for a while tells nobody.
const LEAST_TOLD: u32 = 100;
/// How often is looked whether bash still has the command.
const GLANCE: Duration = Duration::from_millis(250);

/// So often in a row is no accident, however busy the machine is.
const MOST_IDLE_GLANCES: u32 = 7;
/// How long bash may take to do nothing.
const PATIENCE: Duration = Duration::from_secs(10);

/// How a command came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Bash said so.
    Reported(i32),
    /// Bash is gone.
    Died,
    /// Bash lives but is of no use any more.
    Spoiled,
}

/// Why a command was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    Timeout,
    Cancel,
}

#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) end: End,
    pub(crate) stopped: Option<Stopped>,
    pub(crate) outputs: [Capture; 2],
    pub(crate) violations: Vec<Violation>,
}

/// A command that is about to be sent.
pub(crate) struct Watch<'a> {
    pub(crate) live: &'a Live,
    /// Where its output goes.
    pub(crate) pair: usize,
    pub(crate) control: &'a Control,
    pub(crate) ticket: &'a Ticket,
    pub(crate) nonce: &'a str,
    pub(crate) request: &'a [u8],
    pub(crate) deadline: Option<Instant>,
    pub(crate) cap: Option<u64>,
    pub(crate) events: EventSink<'a>,
}

impl Watch<'_> {
    pub(crate) fn run(self) -> Watched {
        let before = if self.live.alone.get() { Tops::default() } else { Tops::now(&self.live.bash) };
        let mut watched = Watched {
            end: End::Spoiled,
            stopped: None,
            outputs: [Capture::new(self.cap), Capture::new(self.cap)],
            violations: vec![],
        };
        let mut buffer = self.live.buffer.take();
        buffer.clear();
        buffer.reserve_exact(BUFFER);
        watched.end = self.until_end(&before, &mut watched, &mut buffer);
        if watched.stopped.is_some() && matches!(watched.end, End::Reported(_)) {
            self.clear_away(&before);
            // A signal to leave the command may have come when it had left it; when bash has done nothing once
            // more, it can't be on its way to the next one.
            if !self.live.does(":", PATIENCE) {
                watched.end = End::Spoiled;
            }
        }
        let pair = self.live.outputs.pair(self.pair);
        pair.drain(&mut buffer, &mut |index, bytes| self.received(index, bytes.to_vec(), &mut watched));
        self.live.buffer.replace(buffer);
        self.take_violations(&mut watched);
        watched
    }

    fn until_end(&self, before: &Tops, watched: &mut Watched, buffer: &mut Vec<u8>) -> End {
        let mut unsent = self.request;
        let mut stop: Option<Instant> = None;
        let mut glance = Instant::now() + GLANCE;
        let mut idle_glances = 0;
        let mut told = 0;
        loop {
            if !unsent.is_empty() {
                match self.live.channel.send(unsent) {
                    Ok(length) => unsent = &unsent[length..],
                    Err(_) => return End::Died,
                }
            }
            let due = match stop {
                Some(_) => Some(INSISTENCE),
                None => {
                    let next = self.deadline.map_or(glance, |deadline| deadline.min(glance));
                    Some(next.saturating_duration_since(Instant::now()))
                }
            };
            let ready = self.wait(!unsent.is_empty(), due);
            for index in [0, 1] {
                if ready[index] {
                    self.read(index, buffer, watched);
                }
            }
            if ready[2] {
                while let Some(said) = self.live.channel.receive() {
                    // A child may write here too; the kernel says that it is one.
                    if said.pid == self.live.bash.pid {
                        return if said.nonce == self.nonce {
                            End::Reported(said.status)
                        } else {
                            End::Spoiled
                        };
                    }
                }
            }
            if ready[3] {
                self.live.feed.wake.clear();
                self.take_violations(watched);
                if self.live.feed.is_over() {
                    return End::Died;
                }
            }
            let now = Instant::now();
            if stop.is_none() {
                if ready[4] {
                    self.control.wake.clear();
                }
                watched.stopped = if self.control.wants_end(self.ticket) {
                    Some(Stopped::Cancel)
                } else if self.deadline.is_some_and(|deadline| now >= deadline) {
                    Some(Stopped::Timeout)
                } else {
                    None
                };
                stop = watched.stopped.map(|_| now);
            }
            if let Some(begun) = stop {
                if now.duration_since(begun) > GRACE + LEAVING && told > LEAST_TOLD {
                    return End::Spoiled;
                }
                told += 1;
                self.insist(before, now.duration_since(begun));
            } else if now >= glance {
                glance = now + GLANCE;
                // It waits for a command and did not say that it finished this one: somebody else read it.
                let idle = unsent.is_empty() && self.live.bash.waits_for(driver::COMMANDS) == Some(true);
                idle_glances = if idle { idle_glances + 1 } else { 0 };
                if idle_glances > MOST_IDLE_GLANCES {
                    return End::Spoiled;
                }
            }
        }
    }

    fn wait(&self, sending: bool, due: Option<Duration>) -> [bool; 5] {
        let live = self.live;
        // Whatever was chosen has both.
        let [stdout, stderr] = live.outputs.pair(self.pair).fds() else { return [false; 5] };
        let commands = if sending { PollFlags::OUT } else { PollFlags::empty() };
        let mut fds = [
            PollFd::new(stdout, PollFlags::IN),
            PollFd::new(stderr, PollFlags::IN),
            PollFd::new(live.channel.status(), PollFlags::IN),
            PollFd::from_borrowed_fd(live.feed.wake.fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.control.wake.fd(), PollFlags::IN),
            PollFd::new(live.channel.commands(), commands),
        ];
        let timeout = due.map(timespec);
        if poll(&mut fds, timeout.as_ref()).is_err() {
            return [false; 5];
        }
        std::array::from_fn(|index| !fds[index].revents().is_empty())
    }

    fn read(&self, index: usize, buffer: &mut Vec<u8>, watched: &mut Watched) {
        let fd = &self.live.outputs.pair(self.pair).fds()[index];
        if !matches!(rustix::io::read(fd, spare_capacity(buffer)), Ok(1..)) {
            return;
        }
        // Much is handed on as it is, little is copied: nobody shall keep a large buffer for a few bytes.
        let bytes = if buffer.len() > BUFFER / 4 {
            std::mem::replace(buffer, Vec::with_capacity(BUFFER))
        } else {
            let little = buffer.clone();
            buffer.clear();
            little
        };
        self.received(index, bytes, watched);
    }

    fn received(&self, index: usize, bytes: Vec<u8>, watched: &mut Watched) {
        watched.outputs[index].push(&bytes);
        (self.events)(event(index, bytes));
    }

    fn take_violations(&self, watched: &mut Watched) {
        for violation in self.live.feed.take() {
            if watched.violations.iter().any(|known| known.is_same_refusal(&violation)) {
                continue;
            }
            (self.events)(ExecEvent::Violation(Box::new(violation.clone())));
            watched.violations.push(violation);
        }
    }

    /// Bash is told to leave the command as soon as the process it waits for is gone. The processes are asked
    /// first and killed later.
    fn insist(&self, before: &Tops, since: Duration) {
        self.live.bash.send(driver::ABORT);
        let signal = if since > GRACE { Signal::KILL } else { Signal::TERM };
        Tops::now(&self.live.bash).since(before).signal(signal);
    }

    /// What the command left behind goes with it.
    fn clear_away(&self, before: &Tops) {
        let begun = Instant::now();
        for told in 0_u32.. {
            let left = Tops::now(&self.live.bash).since(before);
            if left.is_empty() || (begun.elapsed() > GRACE + LEAVING && told > LEAST_TOLD) {
                return;
            }
            left.signal(if begun.elapsed() > GRACE { Signal::KILL } else { Signal::TERM });
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: time.subsec_nanos().into() }
}
