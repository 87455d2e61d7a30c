//! The fence's rules about paths, for files that are read and written on the host.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ringfence_fence::approve::Question;
use ringfence_ledger::now_ms;
use ringfence_model::{
    Access, DenyReason, Error, ErrorKind, Filesystem, Grant, GrantScope, Limits, Operation, PathOutcome,
    Result, RuleLayer, RuleSource, Violation, ViolationKind,
};
use ringfence_workspace::Guard;

/// Gives the same verdict as the fence: grant > deny > protect > allow write > allow read > nothing.
#[derive(Debug)]
pub(crate) struct PolicyGuard {
    state: Mutex<State>,
    limits: Limits,
}

#[derive(Debug)]
struct State {
    filesystem: Filesystem,
    refused: Option<Refused>,
    too_large: Option<Violation>,
}

/// The last refusal.
#[derive(Debug, Clone)]
pub(crate) struct Refused {
    path: PathBuf,
    access: Access,
    reason: DenyReason,
    rule: Option<(String, RuleSource)>,
}

impl PolicyGuard {
    pub(crate) fn new(filesystem: Filesystem, limits: Limits) -> Self {
        Self { state: Mutex::new(State { filesystem, refused: None, too_large: None }), limits }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These rules hold from now on; grants stay.
    pub(crate) fn replace(&self, filesystem: Filesystem) {
        let mut state = self.lock();
        let grants = std::mem::take(&mut state.filesystem.grants);
        state.filesystem = Filesystem { grants, ..filesystem };
    }

    /// Forgets and gives what was refused since it was last asked.
    pub(crate) fn take_refused(&self) -> Option<Refused> {
        self.lock().refused.take()
    }

    /// Forgets and gives the limit that a file was to grow beyond.
    pub(crate) fn take_too_large(&self) -> Option<Violation> {
        self.lock().too_large.take()
    }

    /// These hold besides the rules, until the next call of this.
    pub(crate) fn hold(&self, permanent: &[Grant], session: &[Grant], once: &[Grant]) {
        let lasting = |grant: &Grant| Grant { scope: GrantScope::Session, ..grant.clone() };
        self.lock().filesystem.grants = permanent.iter().chain(session).chain(once).map(lasting).collect();
    }
}

impl Guard for PolicyGuard {
    fn may(&self, path: &Path, access: Access) -> Result<()> {
        let mut state = self.lock();
        let decision = state.filesystem.decide(path, access);
        let reason = match decision.outcome {
            PathOutcome::Allowed | PathOutcome::Private => return Ok(()),
            PathOutcome::Denied(reason) => reason,
        };
        let rule = decision.rule.map(|rule| (rule.path.to_string(), rule.source.clone()));
        let refused = Refused { path: path.to_owned(), access, reason, rule };
        let error = Error::new(ErrorKind::PathAccessDenied, refused.sentence());
        state.refused = Some(refused);
        Err(error)
    }

    fn feeds_git(&self, path: &Path) -> Result<()> {
        let mut state = self.lock();
        if state.filesystem.decide(path, Access::Write).grant.is_some() {
            return Ok(());
        }
        let rule =
            ("what git runs or believes".to_owned(), RuleSource::layer(RuleLayer::BuiltIn).with_key("git"));
        let (access, reason) = (Access::Write, DenyReason::Protected);
        let refused = Refused { path: path.to_owned(), access, reason, rule: Some(rule) };
        let error = Error::new(ErrorKind::PathAccessDenied, refused.sentence());
        state.refused = Some(refused);
        Err(error)
    }

    fn may_hold(&self, bytes: usize) -> Result<()> {
        let checked = self.limits.check("maxFileSizeBytes", u64::try_from(bytes).unwrap_or(u64::MAX));
        checked.inspect_err(|error| {
            let (kind, operation) = (ViolationKind::ResourceLimit, Operation::Limit);
            let violation = refusal(kind, operation, "fileSize".to_owned(), error.message.clone());
            self.lock().too_large = Some(Violation { rule: Some("limits.fileSize".to_owned()), ..violation });
        })
    }
}

impl Refused {
    pub(crate) fn reason(&self) -> DenyReason {
        self.reason
    }

    fn sentence(&self) -> String {
        let why = match (self.reason, &self.rule) {
            (DenyReason::Protected, Some((rule, source))) => format!("protected by {rule} ({source})"),
            (_, Some((rule, source))) => format!("denied by {rule} ({source})"),
            (_, None) => "not inside any allowed path".to_owned(),
        };
        format!("{} of {} {why}", self.access, self.path.display())
    }

    /// The question that it becomes.
    pub(crate) fn question(&self, command: String) -> Question {
        let grant = Grant {
            path: self.path.clone(),
            access: self.access,
            scope: GrantScope::Once,
            recursive: self.path.is_dir(),
        };
        Question { violation: self.violation(), command, grant, call: None }
    }

    /// As it is recorded.
    pub(crate) fn violation(&self) -> Violation {
        let kind = match self.reason {
            DenyReason::Denied => ViolationKind::SensitiveFileAccess,
            DenyReason::Protected | DenyReason::ReadOnly | DenyReason::Unlisted => {
                ViolationKind::PathAccessDenied
            }
        };
        let (rule, rule_source) = self.rule.clone().unzip();
        Violation {
            access: Some(self.access),
            reason: Some(self.reason),
            rule,
            rule_source,
            ..refusal(kind, Operation::Open, self.path.display().to_string(), self.sentence())
        }
    }
}

/// A refusal of the tool itself, as it is recorded.
pub(crate) fn refusal(
    kind: ViolationKind,
    operation: Operation,
    resource: String,
    message: String,
) -> Violation {
    Violation { time_ms: now_ms(), message, ..Violation::new(kind, operation, resource) }
}
