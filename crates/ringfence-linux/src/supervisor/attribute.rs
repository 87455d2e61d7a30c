//! Modes, owners, times and extended attributes.
//!
//! A hook that is not executable does not run; so the mode of a protected file is as good as its content, and what
//! else is kept about it tells tools whether it changed. No mount holds that for files that came later, and Landlock
//! knows nothing of it. So the supervisor makes every such change itself: to what it judged, by a descriptor.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use ringfence_model::{Access, Operation};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::call::Call;
use super::notif::{self, Notification};
use super::on_behalf::{self, Open};
use super::target::{self, Ending, PATH_MAX, Resolved};
use super::{Answer, Supervisor, network};
use crate::seccomp;

/// The longest value that the kernel takes.
const LONGEST_VALUE: usize = 64 * 1024;

impl Supervisor<'_> {
    /// Makes the change that the call is about. Its verdict was that it may go on.
    pub(super) fn make_attribute(
        &self,
        listener: BorrowedFd<'_>,
        notification: &Notification,
        call: Call,
    ) -> Answer {
        if !notif::is_valid(listener, notification.id) {
            return Answer::Continue;
        }
        let Some(_lowered) = self.powers.lower() else { return Answer::Done(Err(Errno::ACCESS)) };
        let changed = match call {
            Call::Change { operation, path, .. } => self.of_place(notification, operation, path.dirfd),
            Call::Attribute { operation, descriptor } => self.of_open(notification, operation, descriptor),
            _ => return Answer::Continue,
        };
        changed.unwrap_or_else(|errno| Answer::Done(Err(errno)))
    }

    fn of_place(
        &self,
        notification: &Notification,
        operation: Operation,
        dirfd: i32,
    ) -> Result<Answer, Errno> {
        match (self.unread, self.resolved) {
            // An empty path: the descriptor itself.
            (Some(Errno::NOENT), _) if means_descriptor(notification) => {
                return self.of_open(notification, operation, dirfd);
            }
            (Some(errno), _) => return Err(errno),
            (None, Resolved::Exists) => {}
            (None, Resolved::Missing) => return Err(Errno::NOENT),
            (None, Resolved::Unreachable) => return Err(self.why_unreachable()),
            (None, Resolved::Nowhere) => return Err(Errno::ACCESS),
        }
        let root = self.root.as_ref().ok_or(Errno::ACCESS)?;
        let there = match Open::new(self.real.as_path(), 0, 0).point(root.as_fd()) {
            // It has no name any more.
            Err(Errno::NOENT) => {
                let number = self.alias().ok_or(Errno::NOENT)?;
                return self.of_open(notification, operation, number);
            }
            there => there?,
        };
        match on_behalf::kind(&there) {
            Some(FileType::Symlink) if operation == Operation::Chmod => return Err(Errno::OPNOTSUPP),
            Some(FileType::Directory) => {}
            _ if self.ending != Ending::Name => return Err(Errno::NOTDIR),
            _ => {}
        }
        self.set(&there, notification, operation)
    }

    /// Of what the caller's descriptor is, judged by the name that it has now.
    fn of_open(
        &self,
        notification: &Notification,
        operation: Operation,
        descriptor: i32,
    ) -> Result<Answer, Errno> {
        let held = if descriptor == libc::AT_FDCWD {
            let directory = format!("/proc/{}/cwd", notification.tid);
            rustix::fs::open(directory, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?
        } else {
            network::take_descriptor(notification.tid, descriptor).ok_or(Errno::BADF)?
        };
        let points = rustix::fs::fcntl_getfl(&held)?.contains(OFlags::PATH);
        if points && !means_descriptor(notification) {
            return Err(Errno::BADF);
        }
        // What has no name has none that is protected.
        let is_named = rustix::fs::fstat(&held)?.st_nlink > 0;
        if let Some(path) = target::link_target(&held).filter(|_| is_named)
            && !self.may_dress(operation, &path)
        {
            if self.watched.shared.is_some() && path.starts_with("/dev") {
                return Err(Errno::PERM);
            }
            let refused = self.verdict_on(&path, operation, Access::Write);
            if !matches!(refused, Answer::Continue | Answer::Notice(_)) {
                return Ok(refused);
            }
        }
        self.set(&held, notification, operation)
    }

    fn set(
        &self,
        file: &OwnedFd,
        notification: &Notification,
        operation: Operation,
    ) -> Result<Answer, Errno> {
        match operation {
            Operation::Chmod => return set_mode(file, notification),
            Operation::Chown => self.set_owner(file, notification),
            Operation::Utime => set_times(file, notification),
            _ => return set_extended(file, notification),
        }?;
        Ok(Answer::Done(Ok(0)))
    }

    fn set_owner(&self, file: &OwnedFd, notification: &Notification) -> Result<(), Errno> {
        let first = match notification.nr {
            libc::SYS_fchownat => 2,
            _ => 1,
        };
        let [user, group] = [first, first + 1].map(|index| on_behalf::low(notification.args[index]));
        let (own_user, own_group) = (rustix::process::geteuid(), rustix::process::getegid());
        // The sandbox's user namespace has no other ids. A host says that the user may not.
        let is_known = |id: u32, own: u32| id == u32::MAX || id == own || self.watched.shared.is_some();
        if !is_known(user, own_user.as_raw()) || !is_known(group, own_group.as_raw()) {
            return Err(Errno::PERM);
        }
        let user = (user != u32::MAX).then(|| Uid::from_raw(user));
        let group = (group != u32::MAX).then(|| Gid::from_raw(group));
        rustix::fs::chownat(file, c"", user, group, AtFlags::EMPTY_PATH)
    }
}

/// Whether a path may be empty, and means the descriptor before it then.
fn means_descriptor(notification: &Notification) -> bool {
    let flags = match notification.nr {
        libc::SYS_fchmodat2 | libc::SYS_utimensat => notification.args[3],
        libc::SYS_fchownat => notification.args[4],
        _ => return false,
    };
    flags & u64::from(libc::AT_EMPTY_PATH.unsigned_abs()) != 0
}

fn set_mode(file: &OwnedFd, notification: &Notification) -> Result<Answer, Errno> {
    let at = matches!(notification.nr, libc::SYS_fchmodat | libc::SYS_fchmodat2);
    let bits = on_behalf::low(notification.args[if at { 2 } else { 1 }]) & 0o7777;
    // In a directory with the bit, what is made gets its group.
    let runs_as_owner = bits & super::SET_ID != 0 && on_behalf::kind(file) != Some(FileType::Directory);
    if runs_as_owner && let Some(entry) = seccomp::refusal(notification.nr, &notification.args) {
        return Ok(Answer::Refuse(entry));
    }
    rustix::fs::chmod(by_descriptor(file), Mode::from_raw_mode(bits))?;
    Ok(Answer::Done(Ok(0)))
}

fn set_times(file: &OwnedFd, notification: &Notification) -> Result<(), Errno> {
    let times = read_times(notification)?;
    rustix::fs::utimensat(file, c"", &times, AtFlags::EMPTY_PATH)
}

/// The times that the caller gave, in whichever of the kernel's ways.
fn read_times(notification: &Notification) -> Result<Timestamps, Errno> {
    const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
    let address = notification.args[if is_at(notification) { 2 } else { 1 }];
    if address == 0 {
        return Ok(Timestamps { last_access: NOW, last_modification: NOW });
    }
    let mut bytes = [0_u8; 32];
    #[cfg(target_arch = "x86_64")]
    let seconds_only = notification.nr == libc::SYS_utime;
    #[cfg(not(target_arch = "x86_64"))]
    let seconds_only = false;
    let length = if seconds_only { 16 } else { bytes.len() };
    read_all(notification.tid, address, &mut bytes[..length])?;
    let (words, _) = bytes.as_chunks::<8>();
    let word = |index: usize| i64::from_ne_bytes(words[index]);
    let time = |seconds: usize| -> Result<Timespec, Errno> {
        let tv_nsec = match notification.nr {
            libc::SYS_utimensat => word(seconds + 1),
            // Microseconds.
            _ => match word(seconds + 1) {
                micros @ 0..1_000_000 => micros * 1000,
                _ => return Err(Errno::INVAL),
            },
        };
        Ok(Timespec { tv_sec: word(seconds), tv_nsec })
    };
    let [last_access, last_modification] = if seconds_only {
        [0, 1].map(|index| Timespec { tv_sec: word(index), tv_nsec: 0 })
    } else {
        [time(0)?, time(2)?]
    };
    Ok(Timestamps { last_access, last_modification })
}

fn is_at(notification: &Notification) -> bool {
    #[cfg(target_arch = "x86_64")]
    if notification.nr == libc::SYS_futimesat {
        return true;
    }
    notification.nr == libc::SYS_utimensat
}

fn set_extended(file: &OwnedFd, notification: &Notification) -> Result<Answer, Errno> {
    let mut buffer = [0; PATH_MAX];
    let name = target::read_string(notification.tid, notification.args[1], &mut buffer);
    let name = name.ok_or(Errno::RANGE)?.to_vec();
    let [_, _, value, size, flags, _] = notification.args;
    if !matches!(notification.nr, libc::SYS_setxattr | libc::SYS_lsetxattr | libc::SYS_fsetxattr) {
        rustix::fs::removexattr(by_descriptor(file), name)?;
        return Ok(Answer::Done(Ok(0)));
    }
    // The kernel refuses it to whoever has no capabilities, without a word to anybody.
    if name == b"security.capability" {
        return Ok(Answer::Refuse(&seccomp::FILE_CAPABILITIES));
    }
    let size = usize::try_from(size).ok().filter(|size| *size <= LONGEST_VALUE).ok_or(Errno::TOOBIG)?;
    let mut bytes = vec![0; size];
    read_all(notification.tid, value, &mut bytes)?;
    let flags = XattrFlags::from_bits_retain(on_behalf::low(flags));
    rustix::fs::setxattr(by_descriptor(file), name, &bytes, flags)?;
    Ok(Answer::Done(Ok(0)))
}

fn read_all(tid: i32, address: u64, buffer: &mut [u8]) -> Result<(), Errno> {
    if buffer.is_empty() {
        return Ok(());
    }
    let read = target::read_bytes(tid, address, buffer).map_err(|_| Errno::FAULT)?;
    if read == buffer.len() { Ok(()) } else { Err(Errno::FAULT) }
}

fn by_descriptor(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}
