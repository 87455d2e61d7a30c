//! Files of the host that nobody inside owns.
//!
//! Root has no capabilities inside, but it would still be the owner of what only root may read. In a mount that
//! translates owners by a user namespace which knows none of them, those files belong to nobody, and the kernel
//! applies to root what it applies to everybody: their permissions for others.

use std::ffi::{CStr, CString, c_int, c_void};
use std::os::fd::{AsFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, OnceLock};

use ringfence_model::LockExt as _;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::mounts::clone_tree;
use crate::sys::{self, Sys};

/// A directory as a user namespace sees it to which every owner of a file is a stranger.
#[derive(Debug)]
pub struct Idmapped {
    namespace: &'static OwnedFd,
    path: CString,
    /// The one that showed that it is possible. Giving it up makes the kernel wait for all processors.
    first: Mutex<Option<OwnedFd>>,
}

impl Idmapped {
    /// For the directory at `path`. Needs root, outside of any user namespace.
    ///
    /// # Errors
    /// The kernel's; `EINVAL` where one of the file systems cannot translate owners.
    pub fn new(path: &CStr) -> std::io::Result<Self> {
        let made = Self { namespace: the_namespace()?, path: path.to_owned(), first: Mutex::default() };
        let first = made.tree()?;
        Ok(Self { first: Mutex::new(Some(first)), ..made })
    }

    /// A detached, read-only copy of the mounts at and below the directory.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn tree(&self) -> std::io::Result<OwnedFd> {
        if let Some(first) = self.first.locked().take() {
            return Ok(first);
        }
        let tree = clone_tree(CWD, &self.path, true)?;
        let set = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
        sys::translate_owners(tree.as_fd(), set, self.namespace.as_fd())?;
        Ok(tree)
    }
}

/// One line of a map has to be there. No file belongs to this number, the last but one of all.
const MAP: &[u8] = b"4294967294 0 1\n";

/// The same for all, which are strangers to all of them.
fn the_namespace() -> Sys<&'static OwnedFd> {
    static MADE: OnceLock<OwnedFd> = OnceLock::new();
    match MADE.get() {
        Some(made) => Ok(made),
        // If another thread is faster, that one is taken.
        None => namespace().map(|made| MADE.get_or_init(|| made)),
    }
}

/// Makes the namespace by way of a process that lives for a moment. It shares this process's memory and
/// descriptors, so that nothing needs to be copied, and this thread waits for it.
fn namespace() -> Sys<OwnedFd> {
    const STACK: usize = 16 << 10;
    let mut stack = vec![0_u128; STACK / size_of::<u128>()];
    let made = AtomicI32::new(-1);
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_FILES | libc::CLONE_NEWUSER;
    let top = stack.as_mut_ptr_range().end.cast::<c_void>();
    let argument = (&raw const made).cast_mut().cast();
    // SAFETY: the stack is free, aligned and grows down from its top; it and `made` outlive the process, for
    // whose end this thread waits. `make` keeps to what it promises.
    let pid = unsafe { libc::clone(make, top, flags, argument) };
    if pid < 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::PERM));
    }
    // SAFETY: no status is asked for.
    while unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL) } < 0
        && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted
    {}
    match made.load(Ordering::Relaxed) {
        // SAFETY: the process opened it in the shared table and gave it away.
        fd @ 0.. => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        error => Err(Errno::from_raw_os_error(-error)),
    }
}

/// That process. Must not allocate, panic, or call the C library, whose `errno` is the caller's.
extern "C" fn make(argument: *mut c_void) -> c_int {
    // SAFETY: `namespace` passes this and waits.
    let made = unsafe { &*argument.cast::<AtomicI32>() };
    let outcome = write(c"/proc/thread-self/setgroups", b"deny")
        .and_then(|()| write(c"/proc/thread-self/uid_map", MAP))
        .and_then(|()| write(c"/proc/thread-self/gid_map", MAP))
        .and_then(|()| {
            rustix::fs::open(c"/proc/thread-self/ns/user", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        });
    match outcome {
        Ok(fd) => made.store(fd.into_raw_fd(), Ordering::Relaxed),
        Err(errno) => made.store(-errno.raw_os_error(), Ordering::Relaxed),
    }
    0
}

fn write(path: &CStr, content: &[u8]) -> Sys<()> {
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, content).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    #[test]
    fn what_only_root_may_read_nobody_may() {
        if !rustix::process::geteuid().is_root() {
            assert!(Idmapped::new(c"/etc").is_err());
            return;
        }
        let temp = tempfile::tempdir().unwrap();
        for (name, mode) in [("closed", 0o600), ("open", 0o644)] {
            std::fs::write(temp.path().join(name), "x").unwrap();
            std::fs::set_permissions(temp.path().join(name), std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let path = std::ffi::CString::new(temp.path().as_os_str().as_encoded_bytes()).unwrap();
        let idmapped = Idmapped::new(&path).unwrap();
        for tree in [idmapped.tree().unwrap(), idmapped.tree().unwrap()] {
            let open = |name: &str| {
                rustix::fs::openat(&tree, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
                    .map(std::fs::File::from)
            };
            let owner = open("open").unwrap().metadata().unwrap().uid();
            assert_ne!(owner, 0, "root's file is root's no more");
            let mut content = String::new();
            open("open").unwrap().read_to_string(&mut content).unwrap();
            assert_eq!(content, "x");
            let write = OFlags::WRONLY | OFlags::CLOEXEC;
            assert!(rustix::fs::openat(&tree, "open", write, Mode::empty()).is_err());
        }
    }
}
