//! Names that must not come to be: what the protect list forbids although it does not exist yet.
//!
//! The list names what lies in a directory (`.git/hooks`), so it is not enough to look at the name a call
//! makes: a directory may be filled elsewhere and get its name afterwards, and a link of that name leads to a
//! content that nobody looked at.

use std::path::Path;

use ringfence_model::{Access, DenyReason, Operation, PathDecision, PathOutcome};

use super::{Answer, Denial, Supervisor, hidden};

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
        if links
            && self.policy.decide(real, Access::Write).outcome == PathOutcome::Denied(DenyReason::Protected)
        {
            return Some(self.deny_protected(operation));
        }
        let access = if links { Access::Read } else { Access::Write };
        match self.verdict(operation, access) {
            denied @ Answer::Deny(_) => Some(denied),
            _ => None,
        }
    }

    /// The caller's descriptor that `self.path` is an alias of, when what it holds has no name.
    pub(super) fn unnamed_descriptor(&self) -> Option<i32> {
        let number = self.alias()?;
        let stat = rustix::fs::stat(format!("/proc/{}/fd/{number}", self.tid)).ok()?;
        (stat.st_nlink == 0).then_some(number)
    }

    /// Whether `path` has the name of a directory that protect patterns look into, such as `.git`.
    pub(super) fn holds_protected(&self, path: &Path) -> bool {
        use std::os::unix::ffi::OsStrExt;
        let Some(name) = path.file_name() else { return false };
        self.policy.protect.iter().any(|rule| {
            let components: Vec<&[u8]> = rule.path.glob_components().collect();
            components.split_last().is_some_and(|(_, parents)| parents.contains(&name.as_bytes()))
        })
    }

    /// Whether moving `source` to `target` would put something under a protected name: a directory with such
    /// content, one with more than can be looked at, or a link.
    pub(super) fn brings_protected(&self, source: &Path, target: &Path) -> bool {
        if !self.holds_protected(target) {
            return false;
        }
        if source.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink()) {
            return true;
        }
        let Some(names) = hidden::names_below(source) else { return true };
        names.iter().any(|below| {
            let outcome = self.policy.decide(&target.join(below), Access::Write).outcome;
            outcome == PathOutcome::Denied(DenyReason::Protected)
        })
    }

    /// Whether something masked or sealed lies at or below `path`.
    pub(super) fn is_fixed(&self, path: &Path) -> bool {
        self.watched.fixed.iter().any(|fixed| fixed.starts_with(path))
    }
}
