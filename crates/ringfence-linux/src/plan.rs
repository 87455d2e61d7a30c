//! What to build, as data: computed once per policy on the host side, executed without allocation in
//! the child.

use std::ffi::{CStr, CString};
use std::os::fd::RawFd;
use std::sync::Arc;

use crate::fuse::Trap;
use crate::idmapped_etc::Idmapped;
use crate::landlock::Rights;
use crate::sys::CStringArray;

/// The device nodes of every sandbox: harmless, and what programs cannot do without.
pub const DEVICES: [&CStr; 6] =
    [c"/dev/null", c"/dev/zero", c"/dev/full", c"/dev/random", c"/dev/urandom", c"/dev/tty"];

/// What the kernel tells of itself and of everybody, and nobody inside needs: most of it only to root, who is root inside
/// too.
pub const KERNELS_OWN: [&CStr; 11] = [
    c"/proc/kcore",
    c"/proc/key-users",
    c"/proc/keys",
    c"/proc/kpagecgroup",
    c"/proc/kpagecount",
    c"/proc/kpageflags",
    c"/proc/pagetypeinfo",
    c"/proc/sched_debug",
    c"/proc/slabinfo",
    c"/proc/timer_list",
    c"/proc/vmallocinfo",
];

/// One step of building the root, executed in order after the new (empty, tmpfs) root is in place.
/// Targets are absolute, canonical paths in the new root; sources are the same on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountStep {
    /// Make a directory; one that exists is fine.
    Dir {
        path: CString,
        mode: u32,
    },
    /// Make an empty file, as a place to mount on.
    File {
        path: CString,
    },
    Symlink {
        target: CString,
        path: CString,
    },
    /// Show the host's `source` at `target`, with all mounts below it.
    Bind {
        source: CString,
        target: CString,
        access: BindAccess,
    },
    /// A fresh writable file system of the sandbox's own.
    Tmpfs {
        target: CString,
        mode: u32,
        size: Option<u64>,
    },
    Proc {
        target: CString,
    },
    Devpts {
        target: CString,
    },
    /// Cover `target` with something that refuses every access. A target that has vanished is skipped.
    Mask {
        target: CString,
    },
    /// Make `target` read-only, with all below it. A target that has vanished is skipped.
    Seal {
        target: CString,
    },
    /// Make `target` a mount point, so that it can't be renamed or removed.
    Pin {
        target: CString,
    },
    /// Show a file of this content, which can't be changed, in the place of the existing `target`.
    Replace {
        target: CString,
        content: Vec<u8>,
    },
    /// Make the mount at `target` itself read-only, leaving the mounts below it as they are.
    ReadOnly {
        target: CString,
    },
}

impl MountStep {
    /// The path a failure of this step is about.
    #[must_use]
    pub fn target(&self) -> &CStr {
        match self {
            Self::Dir { path, .. } | Self::File { path } | Self::Symlink { path, .. } => path,
            Self::Bind { target, .. }
            | Self::Tmpfs { target, .. }
            | Self::Proc { target }
            | Self::Devpts { target }
            | Self::Mask { target }
            | Self::Seal { target }
            | Self::Pin { target }
            | Self::Replace { target, .. }
            | Self::ReadOnly { target } => target,
        }
    }

    /// What the step does, for error messages.
    #[must_use]
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Dir { .. } => "make directory",
            Self::File { .. } => "make file",
            Self::Symlink { .. } => "make symlink",
            Self::Bind { .. } => "bind",
            Self::Tmpfs { .. } => "mount tmpfs on",
            Self::Proc { .. } => "mount proc on",
            Self::Devpts { .. } => "mount devpts on",
            Self::Mask { .. } => "mask",
            Self::Seal { .. } => "protect",
            Self::Pin { .. } => "pin",
            Self::Replace { .. } => "replace",
            Self::ReadOnly { .. } => "make read-only",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindAccess {
    ReadOnly,
    ReadWrite,
    /// A device node: usable, but its own attributes can't be changed.
    Device,
    /// As `ReadOnly`, and nobody inside owns any of it: see [`Plan::idmapped`].
    Idmapped,
}

/// Beneath `path`, Landlock lets `rights` through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandlockRule {
    pub path: CString,
    pub rights: Rights,
}

/// As many processes as a limit on them leaves room for besides the command's: init, and a bash for each of some shells
/// and jobs.
pub const OWN_PROCESSES: u64 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rlimit {
    pub resource: u32,
    pub soft: u64,
    pub hard: u64,
}

/// How the fence is built; independent of the command that will run in it.
#[derive(Debug, Clone)]
pub struct Plan {
    pub hostname: CString,
    pub mounts: Vec<MountStep>,
    /// For the one bind of `mounts` that is [idmapped](BindAccess::Idmapped), if one is.
    pub idmapped: Option<Arc<Idmapped>>,
    /// What is covered once more, by something that tells, where the kernel lets us.
    pub traps: Vec<Trap>,
    /// The kernel's Landlock version and the rules; none when the kernel has no Landlock.
    pub landlock: Option<(u32, Vec<LandlockRule>)>,
    /// Landlock refuses TCP too, because no network namespace does.
    pub without_tcp: bool,
    pub rlimits: Vec<Rlimit>,
    /// What is refused outright and, when supervised, what is sent to the supervisor.
    pub filter: Vec<libc::sock_filter>,
    pub supervised: bool,
    /// Taken instead of `filter` when a supervisor above us listens already: the kernel has room for one.
    /// None: the sandbox does not start then.
    pub unsupervised_filter: Option<Vec<libc::sock_filter>>,
}

impl Plan {
    /// The place on the host of what is idmapped.
    #[must_use]
    pub fn idmapped_tree(&self) -> Option<&CStr> {
        self.mounts.iter().find_map(|step| match step {
            MountStep::Bind { source, access: BindAccess::Idmapped, .. } => Some(source.as_c_str()),
            _ => None,
        })
    }
}

/// The command, ready for `execve`.
#[derive(Debug)]
pub struct Exec {
    /// Tried in order, as `execvp` would.
    pub candidates: Vec<CString>,
    pub argv: CStringArray,
    pub env: CStringArray,
    pub cwd: CString,
    /// Besides the standard ones.
    pub passed: Vec<Passed>,
    /// It is not started by itself, but as often as somebody asks for it; see [`crate::launch::Door`].
    pub held: bool,
}

/// A descriptor that the command gets under a number of our choice. All others are closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// Of the caller's; at least [`LOWEST_SOURCE`], out of the way of all numbers the command gets.
    pub source: RawFd,
    pub target: RawFd,
}

/// See [`Passed`].
pub const LOWEST_SOURCE: RawFd = 128;
