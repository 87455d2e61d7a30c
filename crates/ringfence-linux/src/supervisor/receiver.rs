//! A thread that only receives, while several callers take turns.
//!
//! A signal interrupts a call until it is received, and one that comes while another is judged would wait for that. Where
//! there is one caller nobody else is judged, and handing its calls over would only cost it another wake-up.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use ringfence_model::LockExt as _;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use super::Supervisor;
use super::notif::{self, Notification};

/// As many calls are received before one of them is answered: more are somebody's aim.
const MOST_RECEIVED: usize = 1024;

impl Supervisor<'_> {
    /// Receives every call that waits. A signal interrupts a call until then, and not after.
    pub fn receive(&mut self, listener: BorrowedFd<'_>) {
        if let Some(receiver) = &mut self.receiver
            && receiver.sign().is_some()
        {
            return receiver.hand_over(&mut self.received);
        }
        let mut fds = [PollFd::from_borrowed_fd(listener, PollFlags::IN)];
        while self.received.len() < MOST_RECEIVED {
            // One whose caller is gone again is none.
            self.received.extend(notif::receive(listener));
            let is_more = poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0);
            if !is_more || !fds[0].revents().contains(PollFlags::IN) {
                return;
            }
        }
    }

    /// What tells of calls in the place of the listener.
    #[must_use]
    pub fn sign(&self) -> Option<BorrowedFd<'_>> {
        self.receiver.as_ref()?.sign()
    }

    /// Has calls received by a thread while callers take turns.
    pub(super) fn choose_receiver(&mut self, listener: BorrowedFd<'_>, tid: i32) {
        self.turns.count(tid);
        match &mut self.receiver {
            Some(receiver) if receiver.sign().is_some() && self.turns.are_none() => receiver.end(),
            Some(receiver) if receiver.sign().is_none() && self.turns.are_many() => receiver.begin(),
            // Without a thread this one receives.
            None if self.turns.are_many() => self.receiver = Receiver::start(listener).ok(),
            _ => {}
        }
    }
}

/// Whether callers take turns, by who called last.
#[derive(Debug, Default)]
pub(super) struct Turns {
    last: i32,
    weight: u8,
}

impl Turns {
    /// Enough for a thread, and so much that it is not given up soon.
    const MANY: u8 = 8;
    const MOST: u8 = 32;

    /// Counts a call of this thread: some of a row of processes, each with calls of its own, are no turns.
    pub(super) fn count(&mut self, tid: i32) {
        let other = std::mem::replace(&mut self.last, tid) != tid;
        self.weight = if other { (self.weight + 2).min(Self::MOST) } else { self.weight.saturating_sub(1) };
    }

    pub(super) fn are_many(&self) -> bool {
        self.weight >= Self::MANY
    }

    pub(super) fn are_none(&self) -> bool {
        self.weight == 0
    }
}

/// The thread, and what it hands over.
#[derive(Debug)]
pub(super) struct Receiver {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// It receives, as far as the supervisor has heard.
    works: bool,
}

#[derive(Debug)]
struct Shared {
    listener: OwnedFd,
    /// Something was received, or nothing will be.
    sign: OwnedFd,
    stop: OwnedFd,
    state: Mutex<State>,
    wanted: Condvar,
}

#[derive(Debug)]
struct State {
    received: VecDeque<Notification>,
    is_wanted: bool,
    is_idle: bool,
    is_over: bool,
}

impl Receiver {
    pub(super) fn start(listener: BorrowedFd<'_>) -> Result<Self, Errno> {
        let state = State { received: VecDeque::new(), is_wanted: true, is_idle: false, is_over: false };
        let shared = Arc::new(Shared {
            listener: rustix::io::fcntl_dupfd_cloexec(listener, 0)?,
            sign: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            stop: eventfd(0, EventfdFlags::CLOEXEC)?,
            state: Mutex::new(state),
            wanted: Condvar::new(),
        });
        let its = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("receiver".to_owned()).spawn(move || its.work());
        let thread = thread.map_err(|_| Errno::AGAIN)?;
        Ok(Self { shared, thread: Some(thread), works: true })
    }

    /// What tells of calls while the thread receives them.
    pub(super) fn sign(&self) -> Option<BorrowedFd<'_>> {
        self.works.then(|| self.shared.sign.as_fd())
    }

    pub(super) fn begin(&mut self) {
        let mut state = self.shared.state.locked();
        (state.is_wanted, state.is_idle) = (true, false);
        self.works = true;
        self.shared.wanted.notify_one();
    }

    /// It ends with the next call, which it still hands over.
    pub(super) fn end(&self) {
        self.shared.state.locked().is_wanted = false;
    }

    /// Takes what was received.
    pub(super) fn hand_over(&mut self, received: &mut VecDeque<Notification>) {
        let _ = rustix::io::read(&self.shared.sign, &mut [0; 8]);
        let mut state = self.shared.state.locked();
        received.append(&mut state.received);
        self.works = !state.is_idle;
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.shared.state.locked().is_over = true;
        self.shared.wanted.notify_one();
        raise(&self.shared.stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn work(&self) {
        while self.is_wanted() {
            let mut fds = [
                PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.stop.as_fd(), PollFlags::IN),
            ];
            if poll(&mut fds, None).is_err() || !fds[1].revents().is_empty() {
                continue;
            }
            // One whose caller is gone again is none.
            let received = if fds[0].revents().contains(PollFlags::IN) {
                notif::receive(self.listener.as_fd()).ok()
            } else {
                None
            };
            let is_over = received.is_none() && !fds[0].revents().contains(PollFlags::IN);
            let mut state = self.state.locked();
            state.received.extend(received);
            state.is_wanted &= !is_over && state.received.len() < MOST_RECEIVED;
            drop(state);
            raise(&self.sign);
        }
    }

    /// Waits until it is; false when it never will be.
    fn is_wanted(&self) -> bool {
        let mut state = self.state.locked();
        while !state.is_wanted && !state.is_over {
            if !state.is_idle {
                state.is_idle = true;
                raise(&self.sign);
            }
            state = self.wanted.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.is_over
    }
}

fn raise(sign: &OwnedFd) {
    let _ = rustix::io::write(sign, &1u64.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_of_callers_that_alternate_and_not_of_one_after_the_other() {
        let mut turns = Turns::default();
        for tid in 1..100 {
            for _ in 0..3 {
                turns.count(tid);
                assert!(!turns.are_many(), "{turns:?}");
            }
        }
        for tid in [1, 2, 1, 2, 1] {
            turns.count(tid);
        }
        assert!(turns.are_many());
        for _ in 0..32 {
            turns.count(1);
        }
        assert!(turns.are_none());
    }
}
