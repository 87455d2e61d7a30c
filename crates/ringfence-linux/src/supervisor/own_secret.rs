//! Secrets that are the sandbox's own.
//!
//! A name on the deny list that does not exist yet holds nobody's secret, and whoever writes it knows what it writes: `cp
//! .env.example .env` may make it. It is not read again by name: the person fills in the real values, often in the same
//! file, and nobody tells these from what was there before. So it is opened for writing only, and only if it is new.
//!
//! What lies in a private place was made inside, whatever it is called, and ends with the sandbox.

use std::os::fd::AsFd as _;
use std::path::Path;

use ringfence_model::{Access, DenyReason, PathOutcome};
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::Supervisor;
use super::target::Resolved;

/// It is run on entering its directory.
const RUN: &str = ".envrc";

impl Supervisor<'_> {
    /// Whether a file of a denied name may be made by this open: the rule is the program's own and about names, and nothing
    /// else is against it.
    pub(super) fn is_new_secret(&self, path: &Path, flags: i32) -> bool {
        let only_writes =
            flags & libc::O_ACCMODE == libc::O_WRONLY && flags & libc::O_TMPFILE != libc::O_TMPFILE;
        let by_name = self.policy.decide(path, Access::Write).rule.is_some_and(|rule| rule.is_about_names());
        let above = path.parent().map(|above| self.policy.decide(above, Access::Read).outcome);
        let is_run = path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(RUN));
        only_writes
            && by_name
            && above != Some(PathOutcome::Denied(DenyReason::Denied))
            && !is_run
            && self.resolved == Resolved::Missing
            && self.policy.decide_as_own(path, Access::Write).outcome == PathOutcome::Allowed
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
