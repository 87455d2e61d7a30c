//! Limits for a whole tree of processes, by control groups.
//!
//! A group is made below the one this process is in, where the kernel lets us: in version 2 if it was
//! delegated with the controllers we need, else in the separate hierarchies of version 1. Where neither can
//! be written, as for most ordinary users, [`Cgroup::create`] says why and the caller falls back to rlimits.
//!
//! Nothing stays behind: a [`Janitor`] is started before the first directory is made, and clears up when
//! this process dies, however it dies.

mod find;
mod group;
mod janitor;
mod name;
mod sweep;
mod usage;

#[cfg(test)]
mod tests;

use find::{Base, Controller};
use group::Group;
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

pub use janitor::{Janitor, expect_many, settle};
pub use name::Name;
pub use usage::{Gauge, MemoryUsage, PidsUsage, Reached, Usage};

/// What one tree of processes may use; `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Memory in bytes, of which none may be swapped out to get round the limit.
    pub memory: Option<u64>,
    /// Processes and threads alive at once.
    pub pids: Option<u64>,
}

/// The two kinds of control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    V1,
    V2,
}

/// Whether a limit can be set by a control group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Support {
    Yes { version: Version, below: String },
    No { reason: String },
}

/// What [`Cgroup::probe`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    pub memory: Support,
    pub pids: Support,
}

/// What came of [`Cgroup::create`].
#[derive(Debug)]
pub enum Created {
    /// A group which enforces at least one of the limits; see [`Cgroup::missing`] for the others.
    Ready(Cgroup),
    /// None of the limits can be enforced by a control group here.
    Unavailable { reason: String },
}

/// A step that should have worked did not.
#[derive(Debug, thiserror::Error)]
#[error("{step} of control group {name}")]
pub struct Error {
    pub step: &'static str,
    pub name: String,
    #[source]
    pub source: Errno,
}

/// A control group of our own, with limits. Removed when dropped, with everything still in it.
#[derive(Debug)]
pub struct Cgroup {
    name: Name,
    limits: Limits,
    groups: Vec<Group>,
    missing: Vec<String>,
    // Dropped last, so that it clears up whatever is left then.
    janitor: Janitor,
}

impl Cgroup {
    /// Tries whether limits can be set here: makes a group and removes it.
    #[must_use]
    pub fn probe() -> Probe {
        let found = find::find(&[Controller::Memory, Controller::Pids]);
        let support = |controller: Controller| match found.get(controller) {
            Ok(base) => match try_one(base) {
                Ok(()) => Support::Yes { version: base.version, below: base.path.display().to_string() },
                Err(errno) => Support::No { reason: base.refused(errno) },
            },
            Err(reason) => Support::No { reason: reason.clone() },
        };
        Probe { memory: support(Controller::Memory), pids: support(Controller::Pids) }
    }

    /// As [`probe`](Self::probe) by the look of it, without making anything: what is found may still be refused
    /// when a group is made.
    #[must_use]
    pub fn outlook() -> Probe {
        let found = find::find(&[Controller::Memory, Controller::Pids]);
        let support = |controller: Controller| match found.get(controller) {
            Ok(base) => Support::Yes { version: base.version, below: base.path.display().to_string() },
            Err(reason) => Support::No { reason: reason.clone() },
        };
        Probe { memory: support(Controller::Memory), pids: support(Controller::Pids) }
    }

    /// Makes a group with these limits.
    ///
    /// # Errors
    /// When a group was made, but would not take a limit; it is gone again.
    pub fn create(limits: &Limits) -> Result<Created, Error> {
        Self::create_named(Name::random(), limits)
    }

    /// As [`create`](Self::create), with a name of the caller's.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn create_named(name: Name, limits: &Limits) -> Result<Created, Error> {
        let mut wanted = Vec::with_capacity(2);
        wanted.extend(limits.memory.map(|_| Controller::Memory));
        wanted.extend(limits.pids.map(|_| Controller::Pids));
        if wanted.is_empty() {
            return Ok(Created::Unavailable { reason: "no limit asks for a control group".to_owned() });
        }
        let found = find::find(&wanted);
        let mut missing = found.reasons();
        if found.bases.is_empty() {
            return Ok(Created::Unavailable { reason: missing.join("; ") });
        }

        let failed = |step, source| Error { step, name: name.to_string(), source };
        let janitor = Janitor::start(&found.bases, &name).map_err(|errno| failed("guarding", errno))?;
        let mut groups = Vec::with_capacity(found.bases.len());
        for base in found.bases {
            match Group::create(base, name.as_c_str()) {
                Ok(group) => groups.push(group),
                Err((base, errno)) => missing.push(base.refused(errno)),
            }
        }
        if groups.is_empty() {
            return Ok(Created::Unavailable { reason: missing.join("; ") });
        }
        let cgroup = Self { name, limits: *limits, groups, missing, janitor };
        for group in &cgroup.groups {
            group.limit(limits).map_err(|(step, errno)| Error {
                step,
                name: cgroup.name.to_string(),
                source: errno,
            })?;
        }
        Ok(Created::Ready(cgroup))
    }

    #[must_use]
    pub const fn name(&self) -> &Name {
        &self.name
    }

    #[must_use]
    pub const fn janitor(&self) -> &Janitor {
        &self.janitor
    }

    /// Which of the limits asked for this group enforces.
    #[must_use]
    pub fn enforced(&self) -> Limits {
        let has = |controller| self.groups.iter().any(|group| group.base.has(controller));
        Limits {
            memory: self.limits.memory.filter(|_| has(Controller::Memory)),
            pids: self.limits.pids.filter(|_| has(Controller::Pids)),
        }
    }

    /// Why the limits not [enforced](Self::enforced) are not.
    #[must_use]
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// The kinds of groups in use, for reports.
    pub fn versions(&self) -> impl Iterator<Item = Version> {
        self.groups.iter().map(|group| group.base.version)
    }

    /// Whoever writes `"0"` to all of these is inside, with all it starts: a process of one thread, which places
    /// itself. The rights are those of this process, so it may do so in a user namespace of its own.
    pub fn doors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.groups.iter().filter_map(|group| Some(group.door.as_ref()?.as_fd()))
    }

    /// Gives the [doors](Self::doors) away: when all are inside who are to be, nobody needs them, and a program may
    /// have thousands of groups.
    #[must_use]
    pub fn take_doors(&mut self) -> Vec<OwnedFd> {
        self.groups.iter_mut().filter_map(|group| group.door.take()).collect()
    }

    /// Kills everything inside. In version 1 nothing can be started inside any more after it.
    pub fn kill(&self) {
        for group in &self.groups {
            group::kill_all(group.dir.as_fd());
        }
    }

    /// What was used, and which limits were hit, up to now.
    #[must_use]
    pub fn usage(&self) -> Usage {
        usage::read(&self.groups, &self.enforced())
    }

    /// For those who want to know now and then which limits were hit.
    #[must_use]
    pub fn gauge(&self) -> Gauge {
        Gauge::of(&self.groups)
    }

    /// Has the group removed, with what is still inside, and does not wait for it: the janitor does it, even
    /// when this process is gone.
    pub fn leave(self) {
        self.janitor.leave();
    }

    /// Removes the group, after killing what is still inside, and waits until it is gone. The janitor's
    /// process may take a moment longer to leave; see [`settle`].
    ///
    /// # Errors
    /// When a process inside cannot be killed within a second. The janitor goes on trying.
    pub fn remove(self) -> Result<(), Error> {
        let mut result = Ok(());
        for group in &self.groups {
            if let Err(errno) = group::remove(group.base.dir.as_fd(), self.name.as_c_str(), group::PATIENCE) {
                result = Err(self.failed("removal", errno));
            }
        }
        match &result {
            Ok(()) => self.janitor.dismiss(),
            Err(_) => self.janitor.abandon(),
        }
        result
    }

    fn failed(&self, step: &'static str, source: Errno) -> Error {
        Error { step, name: self.name.to_string(), source }
    }
}

/// Makes a group and removes it. Under a janitor, as any other: who is killed in between leaves nothing.
fn try_one(base: &Base) -> Result<(), Errno> {
    let name = Name::random();
    let janitor = Janitor::start(std::slice::from_ref(base), &name)?;
    let name: &CStr = name.as_c_str();
    let tried = rustix::fs::mkdirat(&base.dir, name, group::MODE)
        .and_then(|()| group::remove(base.dir.as_fd(), name, group::PATIENCE));
    janitor.dismiss();
    tried
}
