//! What this kernel lets this process do, found by doing it in a child that ends at once.
//!
//! Every probe starts a process of its own, so that nothing it changes (a namespace, a filter, a rule
//! set) touches the caller. What runs in the child allocates nothing.

use std::os::fd::AsFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, fsconfig_create, fsmount, fsopen,
};
use rustix::process::{PidfdGetfdFlags, WaitId, WaitIdOptions, pidfd_getfd, waitid};

use crate::landlock::{self, Ruleset};
use crate::seccomp::{self, NotifySet};
use crate::sys::{self, Cloned, Sys};

/// What came of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trial {
    Works,
    /// The process could not even be started with what it needs.
    NotStarted(Errno),
    /// It was started, and the kernel refused what it tried.
    Refused(Errno),
}

impl Trial {
    #[must_use]
    pub fn works(self) -> bool {
        self == Self::Works
    }

    /// Why it does not work.
    #[must_use]
    pub fn error(self) -> Option<std::io::Error> {
        match self {
            Self::Works => None,
            Self::NotStarted(errno) | Self::Refused(errno) => Some(errno.into()),
        }
    }
}

/// A kind of namespace a sandbox has of its own, besides the user namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Namespace {
    Mount,
    Pid,
    Network,
    Ipc,
    Uts,
    Cgroup,
}

impl Namespace {
    pub const ALL: [Self; 6] = [Self::Mount, Self::Pid, Self::Network, Self::Ipc, Self::Uts, Self::Cgroup];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mount => "mount",
            Self::Pid => "pid",
            Self::Network => "network",
            Self::Ipc => "ipc",
            Self::Uts => "uts",
            Self::Cgroup => "cgroup",
        }
    }

    fn flag(self) -> i32 {
        match self {
            Self::Mount => libc::CLONE_NEWNS,
            Self::Pid => libc::CLONE_NEWPID,
            Self::Network => libc::CLONE_NEWNET,
            Self::Ipc => libc::CLONE_NEWIPC,
            Self::Uts => libc::CLONE_NEWUTS,
            Self::Cgroup => libc::CLONE_NEWCGROUP,
        }
    }
}

/// A user namespace, with the caller's own ids mapped into it.
#[must_use]
pub fn user_namespace() -> Trial {
    in_user_namespace(0, || Ok(()))
}

/// A namespace of that kind inside a user namespace, and something in it that needs the rights a sandbox
/// has over it: some systems let the namespace be made and give no rights in it.
#[must_use]
pub fn namespace(kind: Namespace) -> Trial {
    in_user_namespace(kind.flag(), || match kind {
        Namespace::Mount => private_mounts(),
        Namespace::Network => sys::loopback_up(),
        Namespace::Uts => sys::sethostname(c"ringfence"),
        Namespace::Pid | Namespace::Ipc | Namespace::Cgroup => Ok(()),
    })
}

/// A fresh proc in new mount and pid namespaces. Containers that cover parts of their own proc refuse it.
#[must_use]
pub fn fresh_proc() -> Trial {
    in_user_namespace(libc::CLONE_NEWNS | libc::CLONE_NEWPID, || {
        private_mounts()?;
        let proc = fsopen(c"proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&proc)?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        fsmount(&proc, FsMountFlags::FSMOUNT_CLOEXEC, attributes).map(drop)
    })
}

/// A rule set of that version of Landlock, put on.
#[must_use]
pub fn landlock(abi: u32) -> Trial {
    in_child(0, || {
        rustix::thread::set_no_new_privs(true)?;
        let ruleset = Ruleset::new(abi)?;
        ruleset.allow(c"/", landlock::Rights::Read)?;
        ruleset.restrict_self()
    })
}

/// The fence's own filter of system calls, put on.
#[must_use]
pub fn seccomp_filter() -> Trial {
    let program = seccomp::static_program();
    in_child(0, || {
        rustix::thread::set_no_new_privs(true)?;
        seccomp::install(&program).map_err(errno)
    })
}

/// The filter that reports to a supervisor. `EBUSY`: a supervisor is above us already.
#[must_use]
pub fn seccomp_notify() -> Trial {
    let program = seccomp::combined_program(&NotifySet::full());
    in_child(0, || {
        rustix::thread::set_no_new_privs(true)?;
        seccomp::install_listener(&program).map(drop).map_err(errno)
    })
}

/// Whether the supervisor can be woken on the processor of the caller. Says nothing where there is no
/// supervisor at all.
#[must_use]
pub fn sync_wake_up() -> Trial {
    let program = seccomp::combined_program(&NotifySet::full());
    in_child(0, || {
        rustix::thread::set_no_new_privs(true)?;
        let listener = seccomp::install_listener(&program).map_err(errno)?;
        seccomp::set_sync_wake_up(listener.fd.as_fd()).map_err(errno)
    })
}

/// What the supervisor needs of a supervised process: reading its memory, and taking its descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessAccess {
    pub memory: Trial,
    pub descriptors: Trial,
}

/// Tries both on a child that is in a user namespace of its own, as a sandbox is, where that works.
#[must_use]
pub fn process_access() -> ProcessAccess {
    static KNOWN: [u8; 8] = *b"readable";
    let both = |trial| ProcessAccess { memory: trial, descriptors: trial };
    let (ours, theirs) = match rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC) {
        Ok((read, write)) => (write, read),
        Err(errno) => return both(Trial::NotStarted(errno)),
    };
    let flags = if user_namespace().works() { libc::CLONE_NEWUSER } else { 0 };
    // SAFETY: the child allocates nothing, and ends in its arm.
    let (pid, pidfd) = match unsafe { sys::clone(flags) } {
        Err(errno) => return both(Trial::NotStarted(errno)),
        Ok(Cloned::Child) => {
            // Waits until the parent has looked: the end of the pipe is closed then. Its own copy of that
            // end would keep it waiting for ever.
            drop(ours);
            let mut byte = [0_u8; 1];
            let _ = rustix::io::read(&theirs, &mut byte);
            sys::exit_now(0)
        }
        Ok(Cloned::Parent { pid, pidfd }) => (pid, pidfd),
    };
    let mut copy = [0_u8; KNOWN.len()];
    let memory = match sys::read_memory(pid, KNOWN.as_ptr() as u64, &mut copy) {
        Ok(_) if copy == KNOWN => Trial::Works,
        Ok(_) => Trial::Refused(Errno::IO),
        Err(errno) => Trial::Refused(errno),
    };
    let number = std::os::fd::AsRawFd::as_raw_fd(&theirs);
    let descriptors = match pidfd_getfd(&pidfd, number, PidfdGetfdFlags::empty()) {
        Ok(_) => Trial::Works,
        Err(errno) => Trial::Refused(errno),
    };
    drop(ours);
    let _ = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED);
    ProcessAccess { memory, descriptors }
}

fn private_mounts() -> Sys<()> {
    rustix::mount::mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
}

/// Runs `act` in new namespaces, as the same user as outside.
fn in_user_namespace(flags: i32, act: impl FnOnce() -> Sys<()>) -> Trial {
    let identity = |id: u32| format!("{id} {id} 1\n");
    let uid_map = identity(rustix::process::geteuid().as_raw());
    let gid_map = identity(rustix::process::getegid().as_raw());
    in_child(libc::CLONE_NEWUSER | flags, || {
        for (path, content) in [
            (c"/proc/self/setgroups", "deny"),
            (c"/proc/self/uid_map", uid_map.as_str()),
            (c"/proc/self/gid_map", gid_map.as_str()),
        ] {
            let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
            rustix::io::write(&file, content.as_bytes())?;
        }
        act()
    })
}

/// Runs `act` in a new process; its exit status carries the error number.
fn in_child(flags: i32, act: impl FnOnce() -> Sys<()>) -> Trial {
    // SAFETY: the child ends in its arm; `act` makes system calls with what was prepared.
    let pidfd = match unsafe { sys::clone(flags) } {
        Err(errno) => return Trial::NotStarted(errno),
        Ok(Cloned::Child) => match act() {
            Ok(()) => sys::exit_now(0),
            Err(errno) => sys::exit_now(errno.raw_os_error()),
        },
        Ok(Cloned::Parent { pidfd, .. }) => pidfd,
    };
    loop {
        return match waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED) {
            Err(Errno::INTR) => continue,
            Err(errno) => Trial::NotStarted(errno),
            Ok(status) => match status.and_then(|status| status.exit_status()) {
                Some(0) => Trial::Works,
                Some(number) => Trial::Refused(Errno::from_raw_os_error(number)),
                // Ended by a signal: whatever was tried is not possible here.
                None => Trial::Refused(Errno::IO),
            },
        };
    }
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_raw_os_error(error.raw_os_error().unwrap_or(libc::EIO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_child_says_arrives() {
        assert_eq!(in_child(0, || Ok(())), Trial::Works);
        assert_eq!(in_child(0, || Err(Errno::ACCESS)), Trial::Refused(Errno::ACCESS));
        assert!(matches!(in_child(-1, || Ok(())), Trial::NotStarted(_)));
    }

    #[test]
    fn nothing_of_a_probe_stays_with_the_caller() {
        let before = std::fs::read_to_string("/proc/self/status").unwrap();
        let filters =
            |status: &str| status.lines().find(|line| line.starts_with("Seccomp_filters")).map(str::to_owned);
        let namespace = std::fs::read_link("/proc/self/ns/user").unwrap();
        let _trials =
            [seccomp_filter(), seccomp_notify(), user_namespace(), landlock(landlock::abi().max(1))];
        let after = std::fs::read_to_string("/proc/self/status").unwrap();
        assert_eq!(filters(&before), filters(&after));
        assert_eq!(std::fs::read_link("/proc/self/ns/user").unwrap(), namespace);
    }

    #[test]
    fn own_children_can_be_looked_into() {
        let access = process_access();
        assert!(access.memory.works(), "{access:?}");
        assert!(access.descriptors.works(), "{access:?}");
    }
}
