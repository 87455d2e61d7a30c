//! Acting as the caller would: with its umask, and without the capabilities that it does not have.

use std::cell::Cell;

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::sys;

/// This process's own umask, once it was asked for.
#[derive(Debug, Default)]
pub(super) struct Umask(std::cell::OnceCell<Option<u32>>);

impl Umask {
    /// Runs `work` under the umask of the caller. Where it is not our own, on a thread of its own: a
    /// umask belongs to all threads that did not part with the others.
    pub(super) fn applied<T: Send>(
        &self,
        tid: i32,
        work: impl FnOnce() -> Result<T, Errno> + Send,
    ) -> Result<T, Errno> {
        let theirs = umask(tid).ok_or(Errno::SRCH)?;
        if *self.0.get_or_init(|| umask(rustix::thread::gettid().as_raw_nonzero().get())) == Some(theirs) {
            return work();
        }
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().spawn_scoped(scope, || {
                sys::unshare_fs()?;
                rustix::process::umask(Mode::from_raw_mode(theirs));
                work()
            });
            thread.map_err(|_| Errno::AGAIN)?.join().map_err(|_| Errno::IO)?
        })
    }
}

pub(super) fn umask(tid: i32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let text = status.lines().find_map(|line| line.strip_prefix("Umask:"))?.trim();
    u32::from_str_radix(text, 8).ok()
}

/// The capabilities of this thread, which the caller does not have.
#[derive(Debug)]
pub(super) struct Powers {
    sets: Option<CapabilitySets>,
    is_low: Cell<bool>,
}

impl Powers {
    pub(super) fn of_this_thread() -> Self {
        let sets = rustix::thread::capabilities(None).ok().filter(|sets| !sets.effective.is_empty());
        Self { sets, is_low: Cell::new(false) }
    }

    /// Acts without any until the answer is dropped.
    pub(super) fn lower(&self) -> Option<Lowered> {
        self.raise();
        let lowered = self.sets.as_ref().is_none_or(|sets| set_effective(sets, CapabilitySet::empty()));
        lowered.then_some(Lowered(self.sets))
    }

    /// Acts without any from now on, until [`raise`](Self::raise): who reads one file reads the next one, too. False
    /// when that cannot be.
    pub(super) fn stay_low(&self) -> bool {
        let Some(sets) = self.sets.as_ref().filter(|_| !self.is_low.get()) else { return true };
        self.is_low.set(set_effective(sets, CapabilitySet::empty()));
        self.is_low.get()
    }

    /// Has all of them again.
    pub(super) fn raise(&self) {
        if let Some(sets) = self.sets.as_ref().filter(|_| self.is_low.replace(false)) {
            set_effective(sets, sets.effective);
        }
    }
}

pub(super) struct Lowered(Option<CapabilitySets>);

impl Drop for Lowered {
    fn drop(&mut self) {
        if let Some(sets) = &self.0 {
            set_effective(sets, sets.effective);
        }
    }
}

fn set_effective(sets: &CapabilitySets, effective: CapabilitySet) -> bool {
    rustix::thread::set_capabilities(None, CapabilitySets { effective, ..*sets }).is_ok()
}
