//! What a check has to say.

use ringfence_bash::Span;
use ringfence_model::{Severity, ViolationKind};
use serde::Serialize;

/// What is to happen. The strictest one wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// It runs.
    Allow,
    /// A person is asked.
    Ask,
    /// It does not run.
    Deny,
}

impl Decision {
    /// The wire name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// A range of bytes in the text that was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ByteSpan {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl From<Span> for ByteSpan {
    fn from(span: Span) -> Self {
        Self { start: span.start, end: span.end }
    }
}

/// One thing that a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The name of the check.
    pub check: &'static str,
    /// What the refusal is recorded as.
    pub kind: ViolationKind,
    /// What this finding asks for.
    pub decision: Decision,
    /// How bad it would be.
    pub severity: Severity,
    /// Where in the text.
    pub span: ByteSpan,
    /// What was found, as a sentence.
    pub message: String,
    /// What to do instead, or how to let it pass.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub suggestion: &'static str,
    /// The rule that says so, by a name that stays.
    pub rule: &'static str,
    /// The file that it is about, as far as it is known: a directory when only its files are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The simple command that it is about, by its number in the text.
    #[serde(skip)]
    pub command: Option<u32>,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} [{}/{}]", self.message, self.check, self.rule)
    }
}

/// How a finding is to be reported: the parts that do not depend on the place.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// A name that stays.
    pub name: &'static str,
    /// What it asks for.
    pub decision: Decision,
    /// How bad it would be.
    pub severity: Severity,
    /// What to do instead.
    pub suggestion: &'static str,
}

impl Rule {
    /// A rule that refuses.
    pub const fn deny(name: &'static str, suggestion: &'static str) -> Self {
        Self { name, decision: Decision::Deny, severity: Severity::Critical, suggestion }
    }

    /// A rule that asks.
    pub const fn ask(name: &'static str, suggestion: &'static str) -> Self {
        Self { name, decision: Decision::Ask, severity: Severity::High, suggestion }
    }

    /// A rule that only tells.
    pub const fn note(name: &'static str, suggestion: &'static str) -> Self {
        Self { name, decision: Decision::Allow, severity: Severity::Low, suggestion }
    }

    /// The same rule with another severity.
    #[must_use]
    pub const fn at(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }
}

/// Collects findings, once each, and a bounded number of them.
#[derive(Debug, Default)]
pub struct Findings {
    list: Vec<Finding>,
    dropped: Option<Decision>,
}

/// More would help nobody.
const MOST: usize = 64;

impl Findings {
    /// Adds a finding, unless it is there already.
    pub fn push(&mut self, finding: Finding) {
        let same = |old: &Finding| {
            old.check == finding.check && old.rule == finding.rule && old.span == finding.span
        };
        if let Some(old) = self.list.iter_mut().find(|old| same(old)) {
            if finding.decision > old.decision {
                *old = finding;
            }
            return;
        }
        if self.list.len() < MOST {
            self.list.push(finding);
        } else if let Some(weakest) = self.list.iter_mut().min_by_key(|old| old.decision)
            && weakest.decision < finding.decision
        {
            *weakest = finding;
        } else {
            self.dropped = self.dropped.max(Some(finding.decision));
        }
    }

    /// The strictest decision.
    pub fn decision(&self) -> Decision {
        self.list.iter().map(|finding| finding.decision).chain(self.dropped).max().unwrap_or(Decision::Allow)
    }

    /// The findings, in the order in which they came.
    pub fn list(&self) -> &[Finding] {
        &self.list
    }

    /// Gives the findings away, strictest first, then by place.
    pub fn into_sorted(self) -> Vec<Finding> {
        let mut list = self.list;
        list.sort_by_key(|finding| (std::cmp::Reverse(finding.decision), finding.span));
        list
    }

    /// Changes decisions, as rules of the user say.
    pub fn retain_mut(&mut self, keep: impl FnMut(&mut Finding) -> bool) {
        self.list.retain_mut(keep);
    }
}
