//! Secrets that are the sandbox's own.
//!
//! A name on the deny list that does not exist yet holds nobody's secret, and whoever writes it knows what it writes. It is
//! opened for writing only, and only if it is new; see [`ringfence_model::Filesystem::may_be_made`].
//!
//! What lies in a private place was made inside, whatever it is called, and ends with the sandbox.

use std::os::fd::AsFd as _;
use std::path::Path;

use ringfence_model::{Access, PathOutcome};
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::Supervisor;
use super::target::Resolved;

impl Supervisor<'_> {
    /// Whether this open makes a file of a denied name that may be made.
    pub(super) fn is_new_secret(&self, path: &Path, flags: i32) -> bool {
        let only_writes =
            flags & libc::O_ACCMODE == libc::O_WRONLY && flags & libc::O_TMPFILE != libc::O_TMPFILE;
        only_writes && self.resolved == Resolved::Missing && self.policy.may_be_made(path)
    }

    /// Whether something denied by name lies, or would lie, in a place of the sandbox's own: on the very file system that
    /// the place is on, and not on one of the host's that a person has shown there.
    pub(super) fn is_in_private(&self, path: &Path) -> bool {
        if self.is_in_own_directory(path) {
            return true;
        }
        let decision = self.policy.decide_as_own(path, Access::Write);
        let place = decision.rule.filter(|_| decision.outcome == PathOutcome::Private);
        let Some(place) = place.and_then(|rule| rule.path.as_literal()) else { return false };
        let device = |path: &Path| self.device(path);
        let there = device(path).or_else(|errno| match (errno, path.parent()) {
            (Errno::NOENT, Some(above)) => device(above),
            _ => Err(errno),
        });
        there.is_ok() && there == device(place)
    }

    fn device(&self, path: &Path) -> Result<u64, Errno> {
        let root = self.root.as_ref().ok_or(Errno::ACCESS)?;
        let relative = path.strip_prefix("/").unwrap_or(path);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let there = rustix::fs::openat2(root, relative, flags, Mode::empty(), resolve)?;
        Ok(rustix::fs::statat(there.as_fd(), c"", AtFlags::EMPTY_PATH)?.st_dev)
    }
}
