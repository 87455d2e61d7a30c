//! Who is asked about refusals, and what came of it.

use std::sync::Arc;
use std::time::Duration;

use crate::approve::{Answered, Approver, Question};
use ringfence_model::Decision;

/// Which refusals become questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AskAbout {
    /// Everything that was refused.
    #[default]
    All,
    /// Only what is on the deny list.
    DenyList,
}

/// What a person decided, and what came of it.
#[derive(Debug, Clone)]
pub struct Settled {
    /// What was asked.
    pub question: Question,
    /// The answer.
    pub decision: Decision,
    /// Who answered.
    pub answered: Answered,
    /// Why an allowed call could still not be carried out.
    pub problem: Option<String>,
}

/// Who is asked during a run.
#[derive(Clone)]
pub struct Approval {
    /// Answers the questions.
    pub approver: Arc<dyn Approver>,
    /// Which refusals are asked about.
    pub about: AskAbout,
    /// How long an answer may take; after that it is no.
    pub timeout: Duration,
    /// Told of every decision, on the thread that asked.
    pub on_settled: Arc<dyn Fn(&Settled) + Send + Sync>,
}

impl std::fmt::Debug for Approval {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Approval")
            .field("approver", &self.approver)
            .field("about", &self.about)
            .finish_non_exhaustive()
    }
}
