//! Removing names on behalf of the caller.
//!
//! What is protected and came after the start has no mount on it. So Landlock lets nobody inside remove anything in
//! the trees that may be written, and the supervisor removes what it judged; also where a walker such as `rm -r` names
//! it by a directory descriptor.
//!
//! A repository that was cloned inside has a protected `config`, and who cloned it may remove it: the supervisor
//! remembers those that it put in place itself.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ringfence_model::{Access, DenyReason, Operation, PathOutcome};
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, StatxAttributes, StatxFlags};
use rustix::io::Errno;

use super::call::PathArg;
use super::notif::{self, Notification};
use super::on_behalf::Place;
use super::target::{self, Ending, PATH_MAX};
use super::{Answer, Supervisor, git};

/// A file that is the same one as long as this is equal: numbers are given again, times are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    device: (u32, u32),
    number: u64,
    born: (i64, u32),
}

/// Protected files that came to be by the supervisor's own hand.
#[derive(Debug, Default)]
pub(super) struct Own(RefCell<HashSet<Identity>>);

impl Own {
    pub(super) fn remember(&self, directory: BorrowedFd<'_>, name: &CStr) {
        self.0.borrow_mut().extend(Identity::at(directory, name));
    }

    fn has(&self, place: &Place) -> bool {
        let known = self.0.borrow();
        let there = || Identity::at(place.directory.as_fd(), &place.name);
        !known.is_empty() && there().is_some_and(|there| known.contains(&there))
    }
}

impl Identity {
    /// None where the file system does not say when a file was made.
    pub(super) fn at(directory: BorrowedFd<'_>, name: &CStr) -> Option<Self> {
        let wanted = StatxFlags::INO | StatxFlags::BTIME;
        let stat = rustix::fs::statx(directory, name, AtFlags::SYMLINK_NOFOLLOW, wanted).ok()?;
        let known = StatxFlags::from_bits_retain(stat.stx_mask);
        known.contains(wanted).then_some(Self {
            device: (stat.stx_dev_major, stat.stx_dev_minor),
            number: stat.stx_ino,
            born: (stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec),
        })
    }
}

impl Supervisor<'_> {
    /// Whether the protected file at `path` is one that the supervisor made for the sandbox.
    pub(super) fn is_own(&self, path: &Path) -> bool {
        self.place(path).is_ok_and(|place| self.own.has(&place))
    }

    /// Whether attributes of a protected file may change: its maker sets them after it has made it. git tries the mode
    /// out on a config it has just written; a sealed one stays sealed.
    pub(super) fn may_dress(&self, operation: Operation, path: &Path) -> bool {
        match operation {
            Operation::Chmod => git::is_config(path) || self.is_own(path),
            Operation::Utime | Operation::Xattr => self.is_own(path),
            _ => false,
        }
    }

    /// Whether what was judged is such a file.
    pub(super) fn removes_own(&self) -> bool {
        self.is_own(self.real.as_path())
    }

    /// Whether moving `source` to `target` would take something from under a protected name that the sandbox did not
    /// put there, as removing it would.
    pub(super) fn takes_protected(&self, source: &Path, target: &Path) -> bool {
        if source.file_name() == target.file_name()
            || !self.is_directory(source)
            || !self.holds_protected(source)
        {
            return false;
        }
        let Some(names) = self.names_below(source) else { return true };
        names.iter().map(|below| source.join(below)).any(|path| {
            let outcome = self.decide(&path, Access::Write).outcome;
            outcome == PathOutcome::Denied(DenyReason::Protected) && !self.is_own(&path)
        })
    }

    /// Removes `self.real`, which was judged.
    pub(super) fn make_removal(&self, notification: &Notification) -> Answer {
        let is_directory = removes_directory(notification);
        // Before the place is looked at, as the kernel does.
        let wrong = match (self.ending, is_directory) {
            _ if self.path.ends_in_dots() => Some(if is_directory { Errno::NOTEMPTY } else { Errno::ISDIR }),
            (Ending::Dot, true) => Some(Errno::INVAL),
            (Ending::Dot, false) => Some(Errno::ISDIR),
            (Ending::Slash, false) => {
                let is_directory = self.real.as_path().is_dir();
                Some(if is_directory { Errno::ISDIR } else { Errno::NOTDIR })
            }
            (Ending::Slash | Ending::Name, _) => None,
        };
        if let Some(errno) = wrong {
            return Answer::Done(Err(errno));
        }
        let removed = self.place(self.real.as_path()).and_then(|place| {
            refuse_mounts(&place)?;
            rustix::fs::unlinkat(&place.directory, &place.name, how(is_directory))
        });
        Answer::Done(removed.map(|()| 0))
    }

    /// A name deeper than any path can say, and so deeper than any rule: beneath the very directory that was found to
    /// be that deep.
    pub(super) fn remove_deep(
        &self,
        listener: BorrowedFd<'_>,
        notification: &Notification,
        path: PathArg,
    ) -> Answer {
        let is_directory = removes_directory(notification);
        let removed = self.deep(listener, notification, path, Access::Write).and_then(|(base, name)| {
            let place = Place { directory: base, name };
            refuse_mounts(&place)?;
            rustix::fs::unlinkat(&place.directory, &place.name, how(is_directory))
        });
        Answer::Done(removed.map(|()| 0))
    }

    /// Lists a directory deeper than any path can say.
    pub(super) fn list_deep(
        &self,
        listener: BorrowedFd<'_>,
        notification: &Notification,
        path: PathArg,
        flags: i32,
    ) -> Answer {
        let open = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let exactly = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
        let opened = self
            .deep(listener, notification, path, Access::Read)
            .and_then(|(base, name)| rustix::fs::openat2(base, name, open, Mode::empty(), exactly));
        // Upwards it may be where paths lead again.
        let is_allowed = |opened: &OwnedFd| {
            target::link_target(opened).is_none_or(|path| self.policy.decide(&path, Access::Read).allowed())
        };
        match opened {
            Ok(directory) if !is_allowed(&directory) => Answer::Done(Err(Errno::ACCESS)),
            Ok(directory) => Answer::Give(directory, flags & libc::O_CLOEXEC != 0),
            Err(errno) => Answer::Done(Err(errno)),
        }
    }

    /// The directory that a relative path starts from, and the one name in it, which lies deeper than a path can say.
    fn deep(
        &self,
        listener: BorrowedFd<'_>,
        notification: &Notification,
        path: PathArg,
        access: Access,
    ) -> Result<(OwnedFd, CString), Errno> {
        let mut buffer = [0; PATH_MAX];
        let text = target::read_string(notification.tid, path.address, &mut buffer);
        let is_up = text == Some(b"..");
        let one = text.filter(|text| !text.contains(&b'/') && (!is_up || access == Access::Read));
        let name = one.ok_or(Errno::NAMETOOLONG)?;
        let base = match path.dirfd {
            libc::AT_FDCWD => format!("/proc/{}/cwd", notification.tid),
            number => format!("/proc/{}/fd/{number}", notification.tid),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let base = rustix::fs::open(base, flags, Mode::empty())?;
        if !notif::is_valid(listener, notification.id) {
            return Err(Errno::SRCH);
        }
        // It may be another one than was looked at before.
        if let Some(directory) = target::link_target(&base) {
            let whole = directory.join(OsStr::from_bytes(name));
            if is_up || whole.as_os_str().len() <= PATH_MAX {
                return Err(Errno::NAMETOOLONG);
            }
            if !self.policy.decide(&whole, access).allowed() {
                return Err(Errno::ACCESS);
            }
        }
        Ok((base, CString::new(name).map_err(|_| Errno::INVAL)?))
    }
}

/// What is mounted on inside is not so here, and the kernel would let go of it.
pub(super) fn refuse_mounts(place: &Place) -> Result<(), Errno> {
    let look = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    match rustix::fs::statx(&place.directory, &place.name, look, StatxFlags::empty()) {
        Ok(stat) if stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) => Err(Errno::BUSY),
        Ok(_) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}

fn removes_directory(notification: &Notification) -> bool {
    #[cfg(target_arch = "x86_64")]
    if notification.nr == libc::SYS_rmdir {
        return true;
    }
    notification.nr == libc::SYS_unlinkat
        && notification.args[2] & u64::from(libc::AT_REMOVEDIR.unsigned_abs()) != 0
}

fn how(is_directory: bool) -> AtFlags {
    if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() }
}
