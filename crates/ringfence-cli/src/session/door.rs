//! The gate before one shell of a session.

use std::collections::BTreeSet;
use std::sync::Arc;

use ringfence::gate::{Gatekeeper, Passed, Verdict};
use ringfence::model::{Command, Decision, ExecResult};

use super::permission::Counter;
use crate::gate::Judged;

/// Judges what is to run in a shell that remembers where it is.
#[derive(Debug)]
pub(crate) struct Door {
    keeper: Gatekeeper,
    shell: String,
    counter: Arc<Counter>,
    /// Where the shell is; none when that cannot be told.
    cwd: Option<String>,
    /// Where it will be when what was admitted last is done.
    next: Option<String>,
    /// Commands that were allowed for the session.
    allowed: BTreeSet<String>,
}

/// More are not remembered: they are asked about again.
const MOST_ALLOWED: usize = 1024;

impl Door {
    pub(crate) fn new(keeper: &Gatekeeper, shell: &str, counter: &Arc<Counter>) -> Self {
        let cwd = Some(keeper.project().to_owned());
        Self {
            keeper: keeper.clone(),
            shell: shell.to_owned(),
            counter: Arc::clone(counter),
            next: cwd.clone(),
            cwd,
            allowed: BTreeSet::new(),
        }
    }

    pub(crate) fn judge(&mut self, command: &Command) -> Judged {
        let ask = |code: &str, verdict: &Verdict| {
            if self.allowed.contains(code) {
                return Some(Decision::AllowSession);
            }
            self.counter.ask_about_command(&self.shell, code, verdict)
        };
        self.next.clone_from(&self.cwd);
        let admission = match self.keeper.admit(command, self.cwd.as_deref(), &ask) {
            Ok(admission) => admission,
            Err(refusal) => return Judged::Refused(refusal),
        };
        let lasting = [Decision::AllowSession, Decision::AllowPermanent];
        if matches!(admission.how, Passed::Approved(answer) if lasting.contains(&answer))
            && self.allowed.len() < MOST_ALLOWED
        {
            self.allowed.insert(admission.code.clone());
        }
        self.next.clone_from(&admission.verdict.cwd);
        Judged::Admitted(admission)
    }

    /// What was admitted has ended, or could not run.
    pub(crate) fn follow(&mut self, result: Option<&ExecResult>) {
        self.cwd = match result {
            // A shell that had to be replaced begins where the first one did.
            Some(result) if result.restarted => Some(self.keeper.project().to_owned()),
            Some(result) if result.exit_code == 0 => self.next.take(),
            // Only some of it may have been done.
            _ if self.next == self.cwd => self.next.take(),
            _ => None,
        };
    }
}
