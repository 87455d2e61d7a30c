//! The handlers of a run: they serve the supervisor, and pass on what comes from inside.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use ringfence_linux::host_loop::Handlers;
use ringfence_linux::seccomp;
use ringfence_linux::supervisor::Supervisor;

use rustix::fs::{Mode, OFlags};

use crate::asker::Asker;
use crate::limit_violations::Held;
use crate::select::Selected;
use crate::traps::Traps;

/// Serves the supervisor's notifications, and hands the terminal's master on.
pub(super) struct RunHandlers<'a, F, T, E> {
    pub(super) supervisor: Supervisor<'a>,
    pub(super) on_terminal: F,
    pub(super) on_tripwire: T,
    /// Told of each of the sandbox's own file systems that is full when the command has ended.
    pub(super) on_full: E,
    /// Where they are, until they are held open: with the first process that ends, all of them go.
    pub(super) in_memory: Vec<&'a Path>,
    pub(super) held_open: Vec<(&'a Path, OwnedFd)>,
    pub(super) traps: &'a Traps<'a>,
    pub(super) asker: Option<&'a Asker>,
    pub(super) selected: &'a Selected,
    pub(super) on_held: Option<&'a dyn Fn()>,
    /// Told when the command is about to run.
    pub(super) on_start: &'a dyn Fn(),
}

impl<F: FnMut(OwnedFd), T: FnMut(OwnedFd), E: FnMut(&Path, Held)> Handlers for RunHandlers<'_, F, T, E> {
    fn listener(&mut self, listener: &OwnedFd) {
        // Without it each call pays two wake-ups across processors; older kernels do not know it.
        let woken_at_once = seccomp::set_sync_wake_up(listener.as_fd()).is_ok();
        self.supervisor.wakes_here(woken_at_once);
        self.selected.is_woken_at_once(woken_at_once);
        self.selected.has_traps(!self.traps.are_missing());
        (self.on_start)();
    }

    fn notified(&mut self, listener: BorrowedFd<'_>) {
        self.supervisor.receive(listener);
    }

    fn answer(&mut self, listener: BorrowedFd<'_>) -> bool {
        let has_answered = self.supervisor.serve(listener);
        if !self.in_memory.is_empty()
            && let Some(root) = self.supervisor.root()
        {
            let opened = self.in_memory.drain(..).filter_map(|place| Some((place, open_below(root, place)?)));
            self.held_open.extend(opened);
        }
        has_answered
    }

    fn patience(&self) -> Option<Duration> {
        self.supervisor.patience()
    }

    fn rest(&mut self) {
        self.supervisor.rest();
    }

    fn exited(&mut self) {
        for (place, directory) in self.held_open.drain(..) {
            if let Some(holds) = is_full(&directory) {
                (self.on_full)(place, holds);
            }
        }
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
        self.asker.iter().for_each(|asker| asker.is_heard());
        self.supervisor.resume();
        self.asker.is_some_and(Asker::aborted)
    }
}

fn open_below(root: BorrowedFd<'_>, place: &Path) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::openat(root, place.strip_prefix("/").ok()?, flags, Mode::empty()).ok()
}

/// What a file system holds into which nothing more fits.
fn is_full(directory: &OwnedFd) -> Option<Held> {
    let stat = rustix::fs::fstatvfs(directory).ok()?;
    if stat.f_ffree == 0 {
        return Some(Held::Files(stat.f_files));
    }
    (stat.f_bfree < stat.f_blocks / 100).then(|| Held::Bytes((stat.f_blocks - stat.f_bfree) * stat.f_frsize))
}
