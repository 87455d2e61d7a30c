//! The question.

use std::time::Duration;

use ringfence_fence::approve::Question;
use ringfence_gate::Verdict;
use ringfence_ledger::Redact;
use ringfence_model::{Access, Decision, Grant, Violation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::clean::{cleaned, key_of};

/// Characters of code that a person is shown.
pub(crate) const PREVIEW: usize = 500;
/// The same on a terminal.
const LONGEST_CODE: usize = 200;
const LONGEST_PROGRAM: usize = 120;

/// The sort of thing that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PermissionKind {
    /// Something behind the fence: a path, or an address.
    SandboxAccess,
    /// Running a command or code that the gate does not let pass by itself.
    Execution,
    /// Using a tool.
    Tool,
}

/// A step that needs a person: `requires_permission`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Permission {
    /// Unique; answers name it.
    pub id: String,
    /// Hash of the tool and the cleaned request: the same thing asked again has the same key.
    pub key: String,
    /// The call that asks.
    #[serde(default)]
    pub call: String,
    /// Whose question it is, where the session has a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The sort of thing that is asked for.
    #[serde(rename = "type")]
    pub kind: PermissionKind,
    /// The tool that was called, or `run` or `session`.
    pub tool: String,
    /// The thing that it is about: a path, an address, a command, a tool.
    pub resource: String,
    /// How the resource would be touched, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    /// Why it is not simply allowed.
    pub reason: String,
    /// The command that wants it, without known secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The very program that wants it, where the fence knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The possible answers, in the order in which to offer them.
    pub options: Vec<Decision>,
    /// Code may be changed before it runs.
    pub editable: bool,
    /// How risky code is: `low`, `medium`, `high` or `critical`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk_level: Option<String>,
    /// The patterns that made it risky.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<String>,
    /// The beginning of the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code_preview: Option<String>,
    /// The cleaned request.
    pub request: Value,
    /// Nobody waits for the answer after so many milliseconds.
    pub timeout_ms: u64,
    /// The smallest grant that lets it through, where one does.
    #[serde(skip)]
    pub grant: Option<Grant>,
    /// The rule that "from now on" would write, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<String>,
}

impl Permission {
    /// About what the fence refuses.
    #[must_use]
    pub fn access(tool: &str, question: &Question, redact: &dyn Redact) -> Self {
        let (violation, grant) = (&question.violation, &question.grant);
        let resource = redact.redact(&grant.path.to_string_lossy()).into_owned();
        let request = json!({ "access": grant.access, "recursive": grant.recursive, "resource": resource });
        let mut options = vec![Decision::AllowOnce, Decision::AllowSession];
        // An address cannot be granted permanently: there is no network to keep it in.
        if grant.path.is_absolute() {
            options.push(Decision::AllowPermanent);
        }
        options.extend([Decision::Deny, Decision::Abort]);
        Self {
            access: Some(grant.access),
            reason: redact.redact(&violation.message).into_owned(),
            command: Some(redact.redact(&question.command).into_owned()),
            program: program(violation).map(|text| redact.redact(&text).into_owned()),
            options,
            grant: Some(grant.clone()),
            ..Self::new(PermissionKind::SandboxAccess, tool, resource, request)
        }
    }

    /// About code that the gate asks about.
    #[must_use]
    pub fn execution(
        tool: &str,
        code: &str,
        arguments: &Value,
        verdict: &Verdict,
        redact: &dyn Redact,
    ) -> Self {
        let code = redact.redact(code).into_owned();
        let found =
            verdict.findings.iter().find(|finding| finding.decision != ringfence_gate::Decision::Allow);
        let reason = found.map_or_else(|| verdict.risk.reason.clone(), |finding| finding.message.clone());
        let proposal = verdict.proposal.clone();
        let mut options = vec![Decision::AllowOnce, Decision::AllowSession];
        if proposal.is_some() {
            options.push(Decision::AllowPermanent);
        }
        options.extend([Decision::Deny, Decision::Abort]);
        Self {
            reason: redact.redact(&reason).into_owned(),
            options,
            editable: true,
            risk_level: Some(format!("{:?}", verdict.risk.level).to_lowercase()),
            patterns: verdict.risk.patterns.iter().map(|text| redact.redact(text).into_owned()).collect(),
            code_preview: Some(code.chars().take(PREVIEW).collect()),
            command: Some(code.clone()),
            proposal,
            ..Self::new(PermissionKind::Execution, tool, code, cleaned(arguments, redact))
        }
    }

    /// About using a tool at all.
    #[must_use]
    pub fn tool(tool: &str, reason: &str, arguments: &Value, redact: &dyn Redact) -> Self {
        Self {
            reason: reason.to_owned(),
            ..Self::new(PermissionKind::Tool, tool, tool.to_owned(), cleaned(arguments, redact))
        }
    }

    fn new(kind: PermissionKind, tool: &str, resource: String, request: Value) -> Self {
        Self {
            id: uuid::Uuid::now_v7().simple().to_string(),
            key: key_of(tool, &request),
            call: String::new(),
            session: None,
            kind,
            tool: tool.to_owned(),
            resource,
            access: None,
            reason: String::new(),
            command: None,
            program: None,
            options: vec![Decision::AllowOnce, Decision::AllowSession, Decision::Deny, Decision::Abort],
            editable: false,
            risk_level: None,
            patterns: vec![],
            code_preview: None,
            request,
            timeout_ms: 60_000,
            grant: None,
            proposal: None,
        }
    }

    /// How long the answer is waited for.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    fn wants(&self) -> String {
        let is_path = self.grant.as_ref().is_none_or(|grant| grant.path.is_absolute());
        match (self.kind, self.access) {
            (PermissionKind::SandboxAccess, Some(access)) if is_path => format!("{access} {}", self.resource),
            (PermissionKind::SandboxAccess, _) => format!("connect to {}", self.resource),
            (PermissionKind::Execution, _) => "run".to_owned(),
            (PermissionKind::Tool, _) => format!("use {}", self.resource),
        }
    }

    /// One sentence for a person. Text from outside is shown without control characters.
    #[must_use]
    pub fn sentence(&self) -> String {
        let wants = self.wants();
        let who = self.command.as_deref().unwrap_or(&self.tool);
        // The reason begins with what was wanted, where the fence gives it.
        let why = self.reason.strip_prefix(&format!("{wants}: ")).unwrap_or(&self.reason);
        printable(&format!("`{who}` wants to {wants}: {why}"))
    }

    /// For the person at a terminal, on a few lines.
    #[must_use]
    pub fn prompt(&self) -> String {
        let text = match self.kind {
            PermissionKind::Execution => {
                let code = shortened(self.command.as_deref().unwrap_or_default(), LONGEST_CODE);
                let always =
                    self.proposal.as_ref().map(|rule| format!("\n(always: everything like `{rule}`)"));
                format!("about to run `{code}`\n{}{}", self.reason, always.unwrap_or_default())
            }
            PermissionKind::SandboxAccess | PermissionKind::Tool => {
                let who = self.program.as_deref().or(self.command.as_deref()).unwrap_or(&self.tool);
                let wants = self.wants();
                let why = self.reason.strip_prefix(&format!("{wants}: ")).unwrap_or(&self.reason);
                format!("`{}` wants to {wants}\n{why}", shortened(who, LONGEST_PROGRAM))
            }
        };
        printable(&text)
    }

    /// The message of services that ask for a confirmation elsewhere.
    #[must_use]
    pub fn confirmation(&self) -> Value {
        json!({
            "type": "confirmation_required",
            "data": {
                "request_id": self.id,
                "description": self.sentence(),
                "risk_level": self.risk_level.as_deref().unwrap_or("medium"),
                "patterns": self.patterns,
                "code_preview": self.code_preview.as_deref().or(self.command.as_deref()).unwrap_or(""),
            },
        })
    }
}

pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most).chain(['…']).collect()
}

fn program(violation: &Violation) -> Option<String> {
    if violation.argv.is_empty() { violation.program.clone() } else { Some(violation.argv.join(" ")) }
}

fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}
