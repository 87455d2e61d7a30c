//! Looking at the host with the user's own rights: whether it has a path, and would allow what is tried.

use std::path::Path;

use ringfence_model::{Access, DenyReason, Operation, PathDecision, PathOutcome};
use rustix::fs::{AtFlags, CWD};
use rustix::io::Errno;

use super::target::{Ending, Resolved};
use super::{Answer, Denial, Resource, Supervisor};

impl Supervisor<'_> {
    /// The path does not exist inside. If the host has it, it is the sandbox that hides it.
    pub(super) fn hidden(&self, operation: Operation, access: Access) -> Answer {
        self.hidden_if(operation, access, host_has)
    }

    /// As [`hidden`](Self::hidden), for a call that wants something that is there. Where nothing is, the kernel would
    /// say first that the tree is read-only.
    pub(super) fn missing(&self, operation: Operation, access: Access) -> Answer {
        match self.hidden(operation, access) {
            Answer::Continue if self.resolved == Resolved::Missing && self.ending != Ending::Dot => {
                Answer::Done(Err(Errno::NOENT))
            }
            answer => answer,
        }
    }

    /// Something new was to be made in a place that does not exist inside. If the host has that place, it is
    /// the sandbox that hides it.
    pub(super) fn hidden_place(&self, operation: Operation) -> Answer {
        self.hidden_if(operation, Access::Write, |path| path.parent().is_some_and(host_has))
    }

    fn hidden_if(&self, operation: Operation, access: Access, host_has: impl Fn(&Path) -> bool) -> Answer {
        let at_home = self.at_home(self.path.as_path());
        let path = at_home.as_deref().unwrap_or(self.path.as_path());
        // Both are of the sandbox's own making; what they lack is no file of the host.
        if path.starts_with("/proc") || path.starts_with("/dev") {
            return Answer::Continue;
        }
        let decision = self.policy.decide(path, access);
        let reason = match decision.outcome {
            // Where there are no mounts, the home inside is another directory in the place of the person's.
            PathOutcome::Denied(DenyReason::Unlisted) if at_home.is_some() => {
                return self.not_in_private(operation, path, access, &decision, host_has(path));
            }
            PathOutcome::Denied(reason) => reason,
            PathOutcome::Private => {
                return self.not_in_private(operation, path, access, &decision, host_has(path));
            }
            PathOutcome::Allowed => return Answer::Continue,
        };
        if !host_has(path) {
            // The kernel would look again, and the name may have come meanwhile.
            return if reason == DenyReason::Denied {
                Answer::Done(Err(self.why_unreachable()))
            } else {
                Answer::Continue
            };
        }
        if reason != DenyReason::Denied && host_refuses(path, access) {
            return Answer::Continue;
        }
        refusal(Denial::of_path(operation, path, access, reason, &decision), &decision)
    }

    /// A private place is empty at first, and behaves so: whoever makes, removes or looks for a name there reads what
    /// an empty directory says, whatever the host has in its place. That is worth remembering; and what the host
    /// has and somebody wants to use is worth a question.
    fn not_in_private(
        &self,
        operation: Operation,
        path: &Path,
        access: Access,
        decision: &PathDecision<'_>,
        host_has: bool,
    ) -> Answer {
        if operation == Operation::Stat || !host_has || host_refuses(path, access) {
            return Answer::Continue;
        }
        let denial = Denial::of_path(operation, path, access, DenyReason::Unlisted, decision);
        let uses = match operation {
            Operation::Open => access == Access::Read && is_file(path),
            Operation::Execute | Operation::List => true,
            _ => false,
        };
        if uses && !self.is_tools_setting(path, decision) {
            return Answer::Deny(Denial { missing: true, ..denial });
        }
        Answer::Notice(denial)
    }

    /// Settings, caches and histories in the home, for which tools look by themselves.
    fn is_tools_setting(&self, path: &Path, decision: &PathDecision<'_>) -> bool {
        use std::os::unix::ffi::OsStrExt;
        let by_rule = decision
            .rule
            .filter(|rule| rule.source.key.as_deref() == Some("home"))
            .and_then(|rule| rule.path.as_literal());
        by_rule
            .or_else(|| self.watched.shared.as_ref().map(|shared| shared.home.as_path()))
            .and_then(|home| path.strip_prefix(home).ok())
            .and_then(|below| below.components().next())
            .is_some_and(|first| first.as_os_str().as_bytes().starts_with(b"."))
    }
}

/// A refusal, unless it is of something nobody misses.
pub(super) fn refusal(denial: Denial, decision: &PathDecision<'_>) -> Answer {
    match &denial.resource {
        Resource::Path(path) if denial.access == Access::Read && is_tools_own(path, decision) => {
            Answer::Notice(denial)
        }
        _ => Answer::Deny(denial),
    }
}

/// Facts about the machine, which tools look for by themselves and do without. A refusal would trouble them, and a
/// question would trouble a person.
fn is_tools_own(path: &Path, decision: &PathDecision<'_>) -> bool {
    path.starts_with("/sys") && decision.rule.is_none()
}

fn is_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file())
}

/// Whether the host has something of that name.
pub(super) fn host_has(path: &Path) -> bool {
    rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

/// Whether the host's own permissions refuse this to the user anyway.
pub(super) fn host_refuses(path: &Path, access: Access) -> bool {
    let rights = match access {
        Access::Read => rustix::fs::Access::READ_OK,
        Access::Write => rustix::fs::Access::WRITE_OK,
        Access::Execute => rustix::fs::Access::EXEC_OK,
        Access::Connect => return false,
    };
    match rustix::fs::accessat(CWD, path, rights, AtFlags::EACCESS) {
        Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => true,
        // A new name: its directory decides.
        Err(Errno::NOENT) if access == Access::Write => path.parent().is_some_and(|parent| {
            matches!(
                rustix::fs::accessat(CWD, parent, rights, AtFlags::EACCESS),
                Err(Errno::ACCESS | Errno::PERM | Errno::ROFS)
            )
        }),
        _ => false,
    }
}
