//! Landlock by raw system calls: the rules are added in a freshly forked child, where nothing may
//! allocate, and for paths that exist only in its mount namespace.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::sys::Sys;

const ACCESS_EXECUTE: u64 = 1 << 0;
const ACCESS_WRITE_FILE: u64 = 1 << 1;
const ACCESS_READ_FILE: u64 = 1 << 2;
const ACCESS_READ_DIR: u64 = 1 << 3;
const ACCESS_REFER: u64 = 1 << 13;
const ACCESS_TRUNCATE: u64 = 1 << 14;
const ACCESS_IOCTL_DEV: u64 = 1 << 15;
/// Everything of the first ABI: the bits 0 to 12.
const ACCESS_ABI_1: u64 = (1 << 13) - 1;

const NET_BIND_TCP: u64 = 1 << 0;
const NET_CONNECT_TCP: u64 = 1 << 1;

const SCOPE_ABSTRACT_UNIX_SOCKET: u64 = 1 << 0;
const SCOPE_SIGNAL: u64 = 1 << 1;

/// What a rule lets through beneath its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// List directories only.
    List,
    /// Read and execute.
    Read,
    /// A device node: read, write, ioctl.
    Device,
    /// Everything.
    Write,
    /// Read and execute. Whatever is made, changed or removed there, the supervisor makes on behalf of the caller,
    /// which cannot do it by itself.
    SupervisorOnly,
}

impl Rights {
    fn bits(self) -> u64 {
        match self {
            Self::List => ACCESS_READ_DIR,
            Self::Read => ACCESS_EXECUTE | ACCESS_READ_FILE | ACCESS_READ_DIR,
            Self::Device => ACCESS_READ_FILE | ACCESS_WRITE_FILE | ACCESS_TRUNCATE | ACCESS_IOCTL_DEV,
            Self::SupervisorOnly => Self::Read.bits() | ACCESS_IOCTL_DEV,
            Self::Write => ACCESS_ABI_1 | ACCESS_REFER | ACCESS_TRUNCATE | ACCESS_IOCTL_DEV,
        }
    }
}

/// The version of Landlock this kernel speaks; 0 when it has none or it is switched off.
#[must_use]
pub fn abi() -> u32 {
    const CREATE_RULESET_VERSION: u32 = 1;
    // SAFETY: with the version flag the kernel reads no attributes.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0_usize,
            CREATE_RULESET_VERSION,
        )
    };
    u32::try_from(version).unwrap_or(0)
}

/// Whether this ABI can refuse TCP.
#[must_use]
pub fn refuses_tcp(abi: u32) -> bool {
    abi >= 4
}

/// Whether this ABI keeps signals and abstract sockets within the sandbox.
#[must_use]
pub fn has_scopes(abi: u32) -> bool {
    abi >= 6
}

#[repr(C)]
struct RulesetAttr {
    handled_access_fs: u64,
    handled_access_net: u64,
    scoped: u64,
}

#[repr(C, packed)]
struct PathBeneathAttr {
    allowed_access: u64,
    parent_fd: i32,
}

/// A ruleset under construction.
#[derive(Debug)]
pub struct Ruleset {
    fd: OwnedFd,
    handled: u64,
}

impl Ruleset {
    /// A ruleset that handles everything this ABI knows of files, and scopes signals and abstract
    /// sockets where it can.
    pub fn new(abi: u32) -> Sys<Self> {
        Self::create(abi, 0)
    }

    /// As [`new`](Self::new), and TCP is refused too, as far as this ABI can ([`refuses_tcp`]).
    pub fn without_tcp(abi: u32) -> Sys<Self> {
        Self::create(abi, if refuses_tcp(abi) { NET_BIND_TCP | NET_CONNECT_TCP } else { 0 })
    }

    fn create(abi: u32, handled_access_net: u64) -> Sys<Self> {
        let mut handled = ACCESS_ABI_1;
        if abi >= 2 {
            handled |= ACCESS_REFER;
        }
        if abi >= 3 {
            handled |= ACCESS_TRUNCATE;
        }
        if abi >= 5 {
            handled |= ACCESS_IOCTL_DEV;
        }
        let scoped = if abi >= 6 { SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL } else { 0 };
        let attr = RulesetAttr { handled_access_fs: handled, handled_access_net, scoped };
        // Older kernels refuse a struct longer than they know unless the rest is zero; they ignore
        // zero tails, so the full size is right for every ABI.
        // SAFETY: `attr` is valid for its size.
        let fd = unsafe {
            libc::syscall(libc::SYS_landlock_create_ruleset, &raw const attr, size_of::<RulesetAttr>(), 0_u32)
        };
        let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(errno)?;
        // SAFETY: the kernel just made this descriptor for us.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) }, handled })
    }

    /// Allows `rights` beneath `path`; a path that does not exist, or that this user cannot get to, is skipped, since
    /// nothing can be done to it.
    pub fn allow(&self, path: &CStr, rights: Rights) -> Sys<()> {
        let parent = match rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Ok(parent) => parent,
            Err(Errno::NOENT | Errno::ACCESS) => return Ok(()),
            Err(errno) => return Err(errno),
        };
        let stat = rustix::fs::fstat(&parent)?;
        let is_dir = rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory;
        // The kernel refuses rights that only make sense for directories on anything else.
        let sensible = if is_dir {
            u64::MAX
        } else {
            ACCESS_EXECUTE | ACCESS_WRITE_FILE | ACCESS_READ_FILE | ACCESS_TRUNCATE | ACCESS_IOCTL_DEV
        };
        let rule = PathBeneathAttr {
            allowed_access: rights.bits() & self.handled & sensible,
            parent_fd: parent.as_raw_fd(),
        };
        const RULE_PATH_BENEATH: u32 = 1;
        // SAFETY: `rule` is valid and names a live descriptor.
        let added = unsafe {
            libc::syscall(
                libc::SYS_landlock_add_rule,
                self.fd.as_raw_fd(),
                RULE_PATH_BENEATH,
                &raw const rule,
                0_u32,
            )
        };
        match added {
            0.. => Ok(()),
            // A file of the kernel's own (a memfd that an outer fence mounted): Landlock never refuses those.
            _ if errno() == Errno::BADFD => Ok(()),
            _ => Err(errno()),
        }
    }

    /// Confines the calling thread and all its future children. Needs `no_new_privs`.
    pub fn restrict_self(&self) -> Sys<()> {
        restrict_self(std::os::fd::AsFd::as_fd(&self.fd))
    }
}

fn restrict_self(ruleset: BorrowedFd<'_>) -> Sys<()> {
    // SAFETY: restricts only the calling thread.
    let restricted = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0_u32) };
    if restricted < 0 { Err(errno()) } else { Ok(()) }
}

fn errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
