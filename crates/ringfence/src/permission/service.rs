//! Services that answer questions.

use std::sync::Arc;

use ringfence_fence::BoxFuture;
use ringfence_local::prompt::TerminalApprover;
use ringfence_model::Decision;

use super::answer::Answer;
use super::request::{Permission, PermissionKind};

/// Answers questions. One that is not answered in time is refused, whatever comes later.
pub trait ApprovalService: Send + Sync + std::fmt::Debug {
    /// Brings the question to somebody, and gives the answer.
    fn ask<'a>(&'a self, permission: &'a Permission) -> BoxFuture<'a, Answer>;

    /// The name of who answered, for the ledger.
    fn name(&self) -> &str;

    /// Whether the person has to come from elsewhere to answer, and is waited for longer unless the configuration says how
    /// long.
    fn is_elsewhere(&self) -> bool {
        false
    }
}

/// Refuses everything: for runs that nobody watches.
#[derive(Debug, Clone, Copy, Default)]
pub struct AutoDeny;

impl ApprovalService for AutoDeny {
    fn ask<'a>(&'a self, _: &'a Permission) -> BoxFuture<'a, Answer> {
        Box::pin(std::future::ready(Answer::deny("everything that needs a person is refused here")))
    }

    fn name(&self) -> &str {
        "auto-deny"
    }
}

/// Allows everything, once each: for development, never a default.
#[derive(Debug, Clone, Copy, Default)]
pub struct AutoApprove;

impl ApprovalService for AutoApprove {
    fn ask<'a>(&'a self, _: &'a Permission) -> BoxFuture<'a, Answer> {
        Box::pin(std::future::ready(Answer::new(Decision::AllowOnce)))
    }

    fn name(&self) -> &str {
        "auto-approve"
    }
}

/// Asks a function of the program that embeds ringfence.
pub struct Callback<F>(pub F);

impl<F> std::fmt::Debug for Callback<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Callback")
    }
}

impl<F: Fn(&Permission) -> Answer + Send + Sync> ApprovalService for Callback<F> {
    fn ask<'a>(&'a self, permission: &'a Permission) -> BoxFuture<'a, Answer> {
        Box::pin(std::future::ready((self.0)(permission)))
    }

    fn name(&self) -> &str {
        "callback"
    }
}

/// Asks the person at the controlling terminal.
#[derive(Debug)]
pub struct Terminal(TerminalApprover);

impl Terminal {
    /// None when there is no terminal to ask at.
    #[must_use]
    pub fn new(terminal: TerminalApprover) -> Option<Self> {
        TerminalApprover::available().then_some(Self(terminal))
    }
}

impl ApprovalService for Terminal {
    fn ask<'a>(&'a self, permission: &'a Permission) -> BoxFuture<'a, Answer> {
        Box::pin(async move { Answer::new(self.0.ask_about(&permission.prompt(), &permission.answers())) })
    }

    fn name(&self) -> &str {
        "terminal"
    }
}

/// Whether a rule is about a question.
pub type Condition = Arc<dyn Fn(&Permission) -> Result<bool, String> + Send + Sync>;

/// One rule of an [`ApprovalRules`].
#[derive(Clone)]
pub struct RuleEntry {
    /// None: of any kind.
    pub kind: Option<PermissionKind>,
    /// None: of any tool.
    pub tool: Option<String>,
    /// None: always. One that fails does not match.
    pub condition: Option<Condition>,
    /// The answer where the rule matches.
    pub answer: Answer,
}

impl std::fmt::Debug for RuleEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuleEntry")
            .field("kind", &self.kind)
            .field("tool", &self.tool)
            .field("answer", &self.answer)
            .finish_non_exhaustive()
    }
}

impl RuleEntry {
    fn matches(&self, permission: &Permission) -> bool {
        self.kind.is_none_or(|kind| kind == permission.kind)
            && self.tool.as_ref().is_none_or(|tool| *tool == permission.tool)
            && self.condition.as_ref().is_none_or(|holds| holds(permission) == Ok(true))
    }
}

/// Answers by rules: the first that matches; none that does is a refusal.
#[derive(Debug, Clone, Default)]
pub struct ApprovalRules(pub Vec<RuleEntry>);

impl ApprovalService for ApprovalRules {
    fn ask<'a>(&'a self, permission: &'a Permission) -> BoxFuture<'a, Answer> {
        let rule = self.0.iter().find(|rule| rule.matches(permission));
        let answer = rule.map_or_else(|| Answer::deny("no rule allows it"), |rule| rule.answer.clone());
        Box::pin(std::future::ready(answer))
    }

    fn name(&self) -> &str {
        "rules"
    }
}
