//! Serving the traps of one run, on a thread beside it.
//!
//! A thread of its own, because the supervisor looks into the sandbox itself, and would wait for its own
//! answer. It ends with the run, and with it the file system: whoever still asks is told that nobody is there.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;
use std::thread::Scope;

use ringfence_linux::fuse::{Server, Trap};
use ringfence_linux::supervisor::{Reporter, Tripwire};
use ringfence_model::policy::Filesystem;
use rustix::event::{EventfdFlags, eventfd};

/// The traps of one run.
#[derive(Debug)]
pub(crate) struct Traps<'a> {
    traps: &'a [Trap],
    policy: &'a Filesystem,
    reporter: &'a Reporter<'a>,
    processes: OnceLock<OwnedFd>,
    stop: OnceLock<OwnedFd>,
}

impl<'a> Traps<'a> {
    pub(crate) fn new(traps: &'a [Trap], policy: &'a Filesystem, reporter: &'a Reporter<'a>) -> Self {
        Self { traps, policy, reporter, processes: OnceLock::new(), stop: OnceLock::new() }
    }

    /// Serves on `device`. Where that cannot be, the device is closed, and the sandbox goes on without traps.
    pub(crate) fn serve<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, device: OwnedFd) {
        let (Ok(stop), Ok(server)) = (eventfd(0, EventfdFlags::CLOEXEC), Server::new(device, self.traps))
        else {
            return;
        };
        let stop = self.stop.get_or_init(|| stop);
        let mut tripwire =
            Tripwire { policy: self.policy, reporter: self.reporter, processes: &self.processes };
        // Without a thread the closure is dropped, and the device with it.
        let _ = std::thread::Builder::new()
            .name("tripwire".to_owned())
            .spawn_scoped(scope, move || server.serve(stop.as_fd(), &mut tripwire));
    }

    /// They are laid out; whoever runs into one is a process of this `/proc`.
    pub(crate) fn laid_out(&self, processes: OwnedFd) {
        let _ = self.processes.set(processes);
    }

    /// Whether some were planned, and now that the command is about to run they are not there.
    pub(crate) fn are_missing(&self) -> bool {
        !self.traps.is_empty() && self.processes.get().is_none()
    }

    pub(crate) fn stop(&self) {
        if let Some(stop) = self.stop.get() {
            let _ = rustix::io::write(stop, &1_u64.to_ne_bytes());
        }
    }
}
