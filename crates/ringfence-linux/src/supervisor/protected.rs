//! Names that must not come to be: what the protect list forbids although it does not exist yet.
//!
//! The list names what lies in a directory (`.git/hooks`), so it is not enough to look at the name a call
//! makes: a directory may be filled elsewhere and get its name afterwards, and a link of that name leads to a
//! content that nobody looked at.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use ringfence_model::{Access, DenyReason, Operation, PathDecision, PathOutcome, PathPattern, PathRule};
use rustix::fs::FileType;
use rustix::io::Errno;

use super::call::{Last, PathArg};
use super::target::{self, Unread};
use super::{Answer, Denial, Supervisor, network};

/// Stands for a directory in patterns about what is below it.
const BELOW: &str = "/";
/// A name that no pattern spells out.
const NOBODYS: &str = "\u{1}";

/// The path of what the caller holds open, if it has one.
fn name_of(held: &OwnedFd) -> Option<PathBuf> {
    let is_named = rustix::fs::fstat(held).is_ok_and(|stat| stat.st_nlink > 0);
    target::link_target(held).filter(|_| is_named)
}

impl Supervisor<'_> {
    pub(super) fn deny_protected(&self, operation: Operation) -> Answer {
        let decision = PathDecision {
            outcome: PathOutcome::Denied(DenyReason::Protected),
            rule: self.policy.protect.iter().find(|rule| rule.path.is_glob()),
            grant: None,
        };
        Answer::Deny(Denial::of_path(
            operation,
            self.real.as_path(),
            Access::Write,
            DenyReason::Protected,
            &decision,
        ))
    }

    /// Why the first of two names must stay as it is: it may not be read or moved, or a second name for it
    /// would be a way to change what is protected.
    pub(super) fn judge_source(&self, operation: Operation) -> Option<Answer> {
        let real = self.real.as_path();
        let links = operation == Operation::Link;
        match self.decide(real, Access::Write).outcome {
            PathOutcome::Denied(DenyReason::Protected) if links => {
                return Some(self.deny_protected(operation));
            }
            // Where it may be written, what may only be read gets no name: as between two file systems.
            PathOutcome::Denied(DenyReason::ReadOnly) if links => {
                return Some(Answer::Done(Err(Errno::XDEV)));
            }
            _ => {}
        }
        let access = if links { Access::Read } else { Access::Write };
        match self.verdict(operation, access) {
            denied @ Answer::Deny(_) => Some(denied),
            _ => None,
        }
    }

    /// Reads the first of two names into `self.path`. When it means a file that has no name, that is in
    /// `self.unnamed` instead: the very file, not the number, which may mean another one later. `meant` is the
    /// descriptor that an empty path means.
    pub(super) fn read_source(
        &mut self,
        tid: i32,
        from: PathArg,
        last: Last,
        meant: Option<i32>,
    ) -> Result<(), Unread> {
        let take = |number: i32| network::take_descriptor(tid, number);
        match self.read(tid, from) {
            Ok(()) => {
                let alias = self.alias().filter(|_| last == Last::Follow).and_then(take);
                self.unnamed = alias.filter(|held| name_of(held).is_none());
                Ok(())
            }
            // An empty path: the descriptor itself.
            Err(Unread::Nothing(_)) if meant.is_some() => {
                let held = meant.and_then(take).ok_or(Unread::Nothing(Errno::BADF))?;
                match name_of(&held) {
                    Some(path) if self.path.set(&path) => {}
                    Some(_) => return Err(Unread::TooLong),
                    None => self.unnamed = Some(held),
                }
                Ok(())
            }
            Err(unread) => Err(unread),
        }
    }

    /// What protect patterns look for below `path` that they do not look for everywhere, as `hooks` below `.git`.
    fn looked_for_below(&self, path: &Path, rules: impl Fn(&&PathRule) -> bool) -> Vec<PathPattern> {
        let below = |directory: &Path| {
            let moved = |rule: &PathRule| rule.path.moved(directory, Path::new(BELOW));
            self.policy.protect.iter().filter(&rules).flat_map(moved).collect::<HashSet<PathPattern>>()
        };
        let kept = self.watched.kept.iter().filter(|kept| path.starts_with(kept) && *kept != path);
        let innermost = kept.max_by_key(|kept| kept.as_os_str().len());
        let everywhere = innermost.map(|kept| below(&kept.join(NOBODYS))).unwrap_or_default();
        below(path).into_iter().filter(|pattern| !everywhere.contains(pattern)).collect()
    }

    /// Whether `path` has the name of a directory that protect patterns look into, such as `.git`.
    pub(super) fn holds_protected(&self, path: &Path) -> bool {
        !self.looked_for_below(path, |_| true).is_empty()
    }

    /// Whether moving `source` to `target` would put something under a protected name: a directory with such
    /// content, one that cannot be looked at, or a link.
    pub(super) fn brings_protected(&self, source: &Path, target: &Path) -> bool {
        if self.ends_with_the_sandbox(target) {
            return false;
        }
        let kind = self.place(source).and_then(|place| {
            rustix::fs::statat(&place.directory, &place.name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
        });
        let is_link = match kind.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(FileType::Directory) => false,
            Ok(FileType::Symlink) => true,
            _ => return false,
        };
        // Settings may be the work where they come from, and not where they go.
        let known = self.looked_for_below(source, |rule| !rule.runs_later());
        let new = self.looked_for_below(target, |_| true).into_iter();
        let new: Vec<PathPattern> = new.filter(|pattern| !known.contains(pattern)).collect();
        if new.is_empty() {
            return false;
        }
        if is_link {
            return true;
        }
        let Some(names) = self.names_below(source) else { return true };
        let is_work = |below: &Path| {
            let path = target.join(below);
            self.policy.settings_of(&path).is_some_and(|(_, owner)| self.is_work(owner))
        };
        names.iter().any(|below| {
            let path = Path::new(BELOW).join(below);
            new.iter().any(|pattern| pattern.covers(&path)) && !is_work(below)
        })
    }

    /// Whether something that was shown by name lies at or below `path`: by another name other rules would hold for it.
    pub(super) fn holds_granted(&self, path: &Path) -> bool {
        let shown = self.policy.allow_read.iter().chain(&self.policy.allow_write);
        shown.filter_map(|rule| rule.path.as_literal()).any(|shown| shown.starts_with(path))
    }

    /// Whether something masked or sealed lies at or below `path`.
    pub(super) fn is_fixed(&self, path: &Path) -> bool {
        let is_allowed =
            |fixed: &Path| self.policy.settings_of(fixed).is_some() && self.are_settings_allowed();
        self.watched.fixed.iter().any(|fixed| fixed.starts_with(path) && !is_allowed(fixed))
    }
}
