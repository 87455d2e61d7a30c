//! A command that may not run: what is said of it to people, agents and the ledger.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use ringfence_gate::{Decision, Finding, Verdict};
use ringfence_ledger::now_ms;
use ringfence_model::{
    Assurance, Decision as Answer, Error, ErrorKind, ExecResult, Operation, PolicyMode, Violation,
    ViolationKind,
};

use super::questions::Outcome;
use crate::permission::Permission;

/// The exit code of a command that was refused: found, and cannot be run.
pub const REFUSED: i32 = 126;

/// Why a command may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passed {
    Allowed,
    /// A person said so.
    Approved(Answer),
    /// The fence refuses what would be asked about, and asks itself.
    LeftToTheFence,
    /// The gate is switched off, or a person said that it is not to be judged.
    Unjudged,
}

impl Passed {
    /// In a word, for the ledger; none for what passed without one.
    pub(crate) fn word(self) -> Option<&'static str> {
        match self {
            Self::Allowed | Self::Unjudged => None,
            Self::LeftToTheFence => Some("left_to_the_fence"),
            Self::Approved(_) => Some("approved"),
        }
    }
}

/// Why a command may not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// A rule refuses it without a question.
    Denied,
    /// A person, or the clock, said no.
    NotApproved,
    /// A person said no, and wants everything to end.
    Aborted,
    /// A person would have to be asked, and there is none.
    NobodyToAsk,
}

/// A command that may not run.
#[derive(Debug, Clone)]
pub struct Refusal {
    pub code: String,
    pub verdict: Verdict,
    pub why: Why,
    /// The question and its answer, where somebody was asked.
    pub asked: Option<Box<(Permission, Outcome)>>,
    user_file: PathBuf,
}

impl Refusal {
    pub(crate) fn new(code: &str, verdict: Verdict, why: Why, user_file: &Path) -> Self {
        Self { code: code.to_owned(), verdict, why, asked: None, user_file: user_file.to_owned() }
    }

    pub(crate) fn answered(self, permission: Permission, outcome: Outcome) -> Self {
        Self { asked: Some(Box::new((permission, outcome))), ..self }
    }

    /// In a word, for the ledger.
    pub(crate) fn word(&self) -> &'static str {
        match self.why {
            Why::Denied => "denied",
            Why::NotApproved | Why::Aborted => "not_approved",
            Why::NobodyToAsk => "nobody_to_ask",
        }
    }

    /// The findings that decided, strictest first.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.verdict.findings.iter().filter(|finding| finding.decision != Decision::Allow)
    }

    /// The kind of failure that a tool reports.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self.why {
            Why::Denied => ErrorKind::CommandNotAllowed,
            Why::NotApproved | Why::Aborted | Why::NobodyToAsk => ErrorKind::ApprovalDenied,
        }
    }

    /// One sentence: what was refused, and by which rule.
    #[must_use]
    pub fn message(&self) -> String {
        let why = match self.why {
            Why::Denied => "the gate refuses it",
            Why::NotApproved | Why::Aborted => "it was not approved",
            Why::NobodyToAsk => "it needs approval, but nobody can be asked here",
        };
        let mut text = why.to_owned();
        for (index, finding) in self.findings().take(4).enumerate() {
            let join = if index == 0 { ": " } else { "; " };
            let _ = write!(text, "{join}{} [{}/{}]", finding.message, finding.check, finding.rule);
        }
        text
    }

    /// Remedies, most useful first.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        let mut hints: Vec<String> = Vec::new();
        for finding in self.findings().take(4) {
            if !finding.suggestion.is_empty() && !hints.iter().any(|hint| hint == finding.suggestion) {
                hints.push(finding.suggestion.to_owned());
            }
        }
        if let (Why::NobodyToAsk | Why::NotApproved, Some(rule)) = (self.why, &self.verdict.proposal) {
            let file = self.user_file.display();
            hints.push(format!("to let such commands pass: ringfence rules add '{rule}' (in {file})"));
        }
        hints
    }

    #[must_use]
    pub fn error(&self) -> Error {
        let error = Error::new(self.kind(), self.message());
        self.hints().into_iter().fold(error, Error::hint)
    }

    /// The refusal as it is recorded: by the kind of the check that decided.
    #[must_use]
    pub fn violation(&self) -> Violation {
        let first = self.findings().next();
        let kind = first.map_or(ViolationKind::CommandBlocked, |finding| finding.kind);
        let resource = first.and_then(|finding| finding.path.clone()).unwrap_or_else(|| self.code.clone());
        Violation {
            severity: first.map_or_else(|| kind.default_severity(), |finding| finding.severity),
            rule: first.map(|finding| format!("{}/{}", finding.check, finding.rule)),
            time_ms: now_ms(),
            message: self.message(),
            ..Violation::new(kind, Operation::Execute, resource)
        }
    }

    /// The result of a command that never ran.
    #[must_use]
    pub fn result(&self) -> ExecResult {
        let violation = self.violation();
        ExecResult {
            stderr: format!("ringfence: refused: {}\n", self.message()).into_bytes(),
            exit_code: REFUSED,
            blocked: true,
            blocked_reason: Some(violation.message.clone()),
            blocked_resource: Some(violation.resource.clone()),
            violations: vec![violation],
            ..ExecResult::silent(Assurance {
                requested: PolicyMode::Restricted,
                effective: PolicyMode::Restricted,
                active: false,
                adapter: "gate".to_owned(),
                layers: vec![],
                degraded: vec![],
            })
        }
    }
}
