//! The gate before one shell of a session.

use std::collections::BTreeSet;
use std::sync::Arc;

use ringfence::gate::{Gatekeeper, Passed, Verdict, Whereabouts};
use ringfence::model::{Command, Decision, ExecResult};

use super::permission::Counter;
use crate::gate::Judged;

/// Judges what is to run in a shell that remembers where it is.
#[derive(Debug)]
pub(crate) struct Door {
    keeper: Gatekeeper,
    shell: String,
    counter: Arc<Counter>,
    whereabouts: Whereabouts,
    /// Commands that were allowed for the session.
    allowed: BTreeSet<String>,
}

/// More are not remembered: they are asked about again.
const MOST_ALLOWED: usize = 1024;

impl Door {
    pub(crate) fn new(keeper: &Gatekeeper, shell: &str, counter: &Arc<Counter>) -> Self {
        Self {
            keeper: keeper.clone(),
            shell: shell.to_owned(),
            counter: Arc::clone(counter),
            whereabouts: Whereabouts::new(keeper.project()),
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
        self.whereabouts.stays();
        let admission = match self.keeper.admit(command, self.whereabouts.cwd(), &ask) {
            Ok(admission) => admission,
            Err(refusal) => return Judged::Refused(refusal),
        };
        let lasting = [Decision::AllowSession, Decision::AllowPermanent];
        if matches!(admission.how, Passed::Approved(answer) if lasting.contains(&answer))
            && self.allowed.len() < MOST_ALLOWED
        {
            self.allowed.insert(admission.code.clone());
        }
        self.whereabouts.heads_for(admission.verdict.cwd.as_deref());
        Judged::Admitted(admission)
    }

    /// What was admitted has ended, or could not run.
    pub(crate) fn follow(&mut self, result: Option<&ExecResult>) {
        self.whereabouts.follow(result);
    }
}
