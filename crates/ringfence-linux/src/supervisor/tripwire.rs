//! What the tripwire caught, judged as the supervisor judges: by the same policy, told in the same words.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;

use ringfence_model::policy::Filesystem;
use ringfence_model::{Access, DenyReason, Operation, PathOutcome, Severity, Violation};

use super::report_once::Reporter;
use super::{Answer, Denial, describe, host_lookup};
use crate::fuse::{Attempt, Guard};

/// Hears of every use of a trap.
#[derive(Debug, Clone, Copy)]
pub struct Tripwire<'a> {
    pub policy: &'a Filesystem,
    pub reporter: &'a Reporter<'a>,
    /// The sandbox's `/proc`, once it is there.
    pub processes: &'a OnceLock<OwnedFd>,
}

impl Guard for Tripwire<'_> {
    fn attempted(&mut self, attempt: Attempt<'_>) {
        let Attempt { path, tid, .. } = attempt;
        let executes = attempt.operation == Operation::Stat && self.executes(tid);
        let (operation, access) = if executes {
            (Operation::Execute, Access::Execute)
        } else {
            (attempt.operation, attempt.access)
        };
        if attempt.allowed && !executes {
            return;
        }
        let decision = self.policy.decide(path, access);
        let reason = match decision.outcome {
            PathOutcome::Denied(reason) => reason,
            PathOutcome::Private => DenyReason::Unlisted,
            PathOutcome::Allowed => return,
        };
        // A question alone troubles nobody, and where the host refuses as well, the sandbox took nothing away.
        let is_question = operation == Operation::Stat;
        if reason != DenyReason::Denied && (is_question || host_lookup::host_refuses(path, access)) {
            return;
        }
        if self.reporter.knows(operation, &path.to_string_lossy()) {
            return;
        }
        match host_lookup::refusal(Denial::of_path(operation, path, access, reason, &decision), &decision) {
            Answer::Notice(denial) => {
                let violation = self.violation(tid, denial);
                self.reporter.tell(Violation { blocked: false, severity: Severity::Low, ..violation });
            }
            Answer::Deny(denial) => self.reporter.tell(self.violation(tid, denial)),
            _ => {}
        }
    }
}

impl Tripwire<'_> {
    fn violation(&self, tid: i32, denial: Denial) -> Violation {
        describe::violation_by(&self.process(tid), denial)
    }

    /// Where the process is described that has this number inside.
    fn process(&self, tid: i32) -> String {
        match self.processes.get() {
            Some(processes) => format!("/proc/self/fd/{}/{tid}", processes.as_raw_fd()),
            // Then there is nobody to describe.
            None => String::new(),
        }
    }

    /// Whether the caller, which waits, is about to execute what it looks at.
    fn executes(&self, tid: i32) -> bool {
        let Ok(text) = std::fs::read_to_string(Path::new(&self.process(tid)).join("syscall")) else {
            return false;
        };
        let number = text.split_whitespace().next().and_then(|number| number.parse().ok());
        matches!(number, Some(libc::SYS_execve | libc::SYS_execveat))
    }
}
