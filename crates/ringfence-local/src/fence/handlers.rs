//! The handlers of a run: they serve the supervisor, and pass on what comes from inside.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use std::time::Duration;

use ringfence_linux::host_loop::Handlers;
use ringfence_linux::seccomp;
use ringfence_linux::supervisor::Supervisor;

use crate::asker::Asker;
use crate::select::Selected;
use crate::traps::Traps;

/// Serves the supervisor's notifications, and hands the terminal's master on.
pub(super) struct RunHandlers<'a, F, T> {
    pub(super) supervisor: Supervisor<'a>,
    pub(super) on_terminal: F,
    pub(super) on_tripwire: T,
    pub(super) traps: &'a Traps<'a>,
    pub(super) asker: Option<&'a Asker>,
    pub(super) selected: &'a Selected,
    pub(super) on_held: Option<&'a dyn Fn()>,
    /// Told when the command is about to run.
    pub(super) on_start: &'a dyn Fn(),
}

impl<F: FnMut(OwnedFd), T: FnMut(OwnedFd)> Handlers for RunHandlers<'_, F, T> {
    fn listener(&mut self, listener: &OwnedFd) {
        // Without it each call pays two wake-ups across processors; older kernels do not know it.
        let woken_at_once = seccomp::set_sync_wake_up(listener.as_fd()).is_ok();
        self.supervisor.wakes_here(woken_at_once);
        self.selected.is_woken_at_once(woken_at_once);
        self.selected.has_traps(!self.traps.are_missing());
        (self.on_start)();
    }

    fn notification(&mut self, listener: BorrowedFd<'_>) {
        self.supervisor.serve(listener);
    }

    fn patience(&self) -> Option<Duration> {
        self.supervisor.patience()
    }

    fn rest(&mut self) {
        self.supervisor.rest();
    }

    fn unsupervised(&mut self) {
        if self.selected.fence_plan.plan.supervised {
            self.selected.is_unsupervised();
        }
        (self.on_start)();
    }

    fn held(&mut self) {
        if let Some(tell) = self.on_held {
            tell();
        }
    }

    fn terminal(&mut self, master: OwnedFd) {
        (self.on_terminal)(master);
    }

    fn tripwire(&mut self, device: OwnedFd) {
        (self.on_tripwire)(device);
    }

    fn processes(&mut self, processes: OwnedFd) {
        self.traps.laid_out(processes);
    }

    fn cancelled(&mut self) -> bool {
        self.asker.is_some_and(Asker::aborted)
    }
}
