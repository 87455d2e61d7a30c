//! Modes: who may run what.
//!
//! A hook that is not executable does not run; so the mode of a protected file is as good as its content. No mount
//! holds it for files that came later, and Landlock knows no modes. So the supervisor changes every mode itself: of
//! what it judged, by a descriptor.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use ringfence_model::{Access, Operation};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::call::{Call, PathArg};
use super::deed::{self, Open};
use super::notif::{self, Notification};
use super::target::{self, Ending, Resolved};
use super::{Answer, Supervisor, git_config, network};

impl Supervisor<'_> {
    /// Changes the mode that the call is about. Its verdict was that it may go on.
    pub(super) fn make_mode(
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
            Call::Change { path, .. } => self.mode_of_place(notification, path),
            Call::Mode { descriptor } => self.mode_of_open(notification, descriptor),
            _ => return Answer::Continue,
        };
        changed.unwrap_or_else(|errno| Answer::Done(Err(errno)))
    }

    fn mode_of_place(&self, notification: &Notification, path: PathArg) -> Result<Answer, Errno> {
        match (self.unread, self.resolved) {
            // An empty path: the descriptor itself.
            (Some(Errno::NOENT), _) if means_descriptor(notification) => {
                return self.mode_of_open(notification, path.dirfd);
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
                return self.mode_of_open(notification, number);
            }
            there => there?,
        };
        match deed::kind(&there) {
            Some(FileType::Symlink) => return Err(Errno::OPNOTSUPP),
            Some(FileType::Directory) => {}
            _ if self.ending != Ending::Name => return Err(Errno::NOTDIR),
            _ => {}
        }
        set(&there, notification)
    }

    /// Of what the caller's descriptor is, judged by the name that it has now.
    fn mode_of_open(&self, notification: &Notification, descriptor: i32) -> Result<Answer, Errno> {
        let held = network::take_descriptor(notification.tid, descriptor).ok_or(Errno::BADF)?;
        let points = rustix::fs::fcntl_getfl(&held)?.contains(OFlags::PATH);
        if points && !means_descriptor(notification) {
            return Err(Errno::BADF);
        }
        // What has no name has none that is protected.
        let is_named = rustix::fs::fstat(&held)?.st_nlink > 0;
        if let Some(path) = target::link_target(&held).filter(|_| is_named)
            && !git_config::is_config(&path)
        {
            if self.watched.shared.is_some() && path.starts_with("/dev") {
                return Err(Errno::PERM);
            }
            let refused = self.verdict_on(&path, Operation::Chmod, Access::Write);
            if !matches!(refused, Answer::Continue | Answer::Notice(_)) {
                return Ok(refused);
            }
        }
        set(&held, notification)
    }
}

/// Whether a path may be empty, and means the descriptor before it then.
fn means_descriptor(notification: &Notification) -> bool {
    let flags = notification.args[3];
    notification.nr == libc::SYS_fchmodat2 && flags & u64::from(libc::AT_EMPTY_PATH.unsigned_abs()) != 0
}

fn set(file: &OwnedFd, notification: &Notification) -> Result<Answer, Errno> {
    let at = matches!(notification.nr, libc::SYS_fchmodat | libc::SYS_fchmodat2);
    let bits = notification.args[if at { 2 } else { 1 }] & 0o7777;
    let mode = Mode::from_raw_mode(u32::try_from(bits).unwrap_or(0));
    rustix::fs::chmod(format!("/proc/self/fd/{}", file.as_raw_fd()), mode)?;
    Ok(Answer::Done(Ok(0)))
}
