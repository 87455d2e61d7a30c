//! Where the sandbox has no namespaces: files, processes and sockets are the host's own.
//!
//! Nothing stands behind these verdicts but Landlock, which knows neither processes nor sockets with a path.
//! So what is not known to be inside is refused, and no connection is left to the kernel.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::Pid;

use super::{Answer, Supervisor};
use crate::descendants;

/// How the host's files look from a sandbox that shares them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shared {
    /// The person's home, which the sandbox does not see.
    pub home: PathBuf,
    /// The directory that programs inside take for it.
    pub own_home: PathBuf,
    /// Directories that a sandbox with mounts has to itself, and where programs look as a matter of course.
    pub usual: Vec<PathBuf>,
}

/// The process between us and the sandbox, once it is known.
pub(super) type Keeper = OnceCell<Option<Pid>>;

impl Supervisor<'_> {
    fn keeper(&self) -> Option<Pid> {
        *self.keeper.get_or_init(|| descendants::top(Pid::from_raw(self.tid)?, rustix::process::getpid()))
    }

    /// Whether the process is one of the sandbox's.
    pub(super) fn is_inside(&self, pid: i32) -> bool {
        let above = Pid::from_raw(pid).and_then(|pid| descendants::top(pid, rustix::process::getpid()));
        above.is_some() && above == self.keeper()
    }

    /// What the person has in the place of a path of the sandbox's own home.
    pub(super) fn at_home(&self, path: &Path) -> Option<PathBuf> {
        let shared = self.watched.shared.as_ref()?;
        path.strip_prefix(&shared.own_home).ok().map(|relative| shared.home.join(relative))
    }

    /// Whether `self.real` is a directory that is only looked into because every system has it.
    pub(super) fn is_usual_place(&self) -> bool {
        let real = self.real.as_path();
        self.watched.shared.as_ref().is_some_and(|shared| shared.usual.iter().any(|place| place == real))
    }

    /// Whether `self.real` tells about a process of the host.
    pub(super) fn is_of_another_process(&self) -> bool {
        if self.watched.shared.is_none() {
            return false;
        }
        let Ok(below) = self.real.as_path().strip_prefix("/proc") else { return false };
        let number = below.iter().next().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
        // `/proc/self` leads to ourselves when we look, and to the caller when it does.
        number
            .is_some_and(|pid| Pid::from_raw(pid) != Some(rustix::process::getpid()) && !self.is_inside(pid))
    }

    /// The kernel would read the address again, and nothing would stand between it and a socket of the host.
    pub(super) fn never_continue(&self, answer: Answer) -> Answer {
        match answer {
            Answer::Continue | Answer::Notice(_) if self.watched.shared.is_some() => {
                Answer::Done(Err(Errno::ACCESS))
            }
            other => other,
        }
    }
}
