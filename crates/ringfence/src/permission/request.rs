//! The question.

use std::time::Duration;

use ringfence_fence::approve::Question;
use ringfence_gate::Verdict;
use ringfence_ledger::Redact;
use ringfence_model::{Access, Decision, Grant, Violation, visible, visible_within};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::clean::{cleaned, key_of};

/// Characters of code that a person is shown.
pub(crate) const PREVIEW: usize = 500;
/// The same on a terminal.
const LONGEST_CODE: usize = 200;
const MOST_LINES: usize = 12;
const LONGEST_PROGRAM: usize = 120;
/// So that no name pushes the question off the screen.
const LONGEST_RESOURCE: usize = 300;
const LONGEST_REASON: usize = 400;

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
        // A path is kept among the grants, a host among those allowed; an address as such is kept nowhere.
        if grant.path.is_absolute() || grant.access == Access::Connect {
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

    /// Whether "never ask again" can be written down. It may be answered without being among the options.
    #[must_use]
    pub fn can_be_denied_for_good(&self) -> bool {
        match self.kind {
            // What is not text cannot be written down.
            PermissionKind::SandboxAccess => !self.resource.contains('\u{fffd}'),
            PermissionKind::Execution => self.proposal.is_some(),
            PermissionKind::Tool => false,
        }
    }

    /// The answers that a person at a terminal can give.
    #[must_use]
    pub fn answers(&self) -> Vec<Decision> {
        let never = self.can_be_denied_for_good().then_some(Decision::DenyPermanent);
        self.options.iter().copied().chain(never).collect()
    }

    /// How long the answer is waited for.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    fn wants(&self) -> String {
        let is_path = self.resource.starts_with('/');
        let resource = visible_within(&self.resource, LONGEST_RESOURCE);
        match (self.kind, self.access) {
            (PermissionKind::SandboxAccess, Some(access)) if is_path && access != Access::Connect => {
                format!("{access} {resource}")
            }
            (PermissionKind::SandboxAccess, _) => format!("connect to {resource}"),
            (PermissionKind::Execution, _) => "run".to_owned(),
            (PermissionKind::Tool, _) => format!("use {resource}"),
        }
    }

    /// Why it is not simply allowed, without what was wanted: that stands before it. A reason of the fence is
    /// `verb resource: why`; the resource is known, so nothing in its name is taken for the end of it.
    fn why(&self) -> String {
        if self.kind != PermissionKind::SandboxAccess {
            return visible_within(&self.reason, LONGEST_REASON);
        }
        let after =
            self.reason.find(&self.resource).and_then(|at| self.reason.get(at + self.resource.len()..));
        let why = after.and_then(|after| after.strip_prefix(": ")).filter(|_| !self.resource.is_empty());
        visible_within(why.unwrap_or(&self.reason), LONGEST_REASON)
    }

    /// Whose wish it is: the program, where the fence knows it, and what was started where that is something else.
    fn who(&self) -> String {
        let command = self.command.as_deref().unwrap_or(&self.tool);
        let shown = |text: &str| visible_within(text, LONGEST_PROGRAM);
        match self.program.as_deref() {
            Some(program) if program != command => {
                format!("`{}` (in `{}`)", shown(program), shown(command))
            }
            Some(program) => format!("`{}`", shown(program)),
            None => format!("`{}`", shown(command)),
        }
    }

    /// One sentence on one line for a person. Text from inside can neither steer a terminal nor pass for ours.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self.kind {
            PermissionKind::Execution => {
                let code = self.command.as_deref().unwrap_or(&self.tool);
                format!("`{}` wants to run: {}", visible_within(code, PREVIEW), self.why())
            }
            PermissionKind::SandboxAccess | PermissionKind::Tool => {
                format!("{} wants to {}: {}", self.who(), self.wants(), self.why())
            }
        }
    }

    /// For the person at a terminal, on a few lines.
    #[must_use]
    pub fn prompt(&self) -> String {
        match self.kind {
            PermissionKind::Execution => {
                let code = shown_code(self.command.as_deref().unwrap_or_default());
                let always = self
                    .proposal
                    .as_ref()
                    .map(|rule| format!("\n(always: everything like `{}`)", visible(rule)));
                format!("about to run {code}\n{}{}", self.why(), always.unwrap_or_default())
            }
            PermissionKind::SandboxAccess | PermissionKind::Tool => {
                format!("{} wants to {}\n{}", self.who(), self.wants(), self.why())
            }
        }
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

/// Code on the lines it has, each of them marked: none can pass for a line of ours.
fn shown_code(code: &str) -> String {
    let lines: Vec<&str> = code.trim_end_matches('\n').split('\n').collect();
    if let [line] = lines.as_slice() {
        return format!("`{}`", visible_within(line, LONGEST_CODE));
    }
    let mut text = format!("{} lines:", lines.len());
    for line in lines.iter().take(MOST_LINES) {
        text.push_str(&format!("\n  > {}", visible_within(line, LONGEST_CODE)));
    }
    if lines.len() > MOST_LINES {
        text.push_str(&format!("\n  … and {} more lines", lines.len() - MOST_LINES));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_ledger::Nothing;
    use ringfence_model::{GrantScope, Operation, ViolationKind};

    fn about(path: &str, command: &str) -> Permission {
        let violation = Violation {
            message: format!("read {path}: denied by /x (built-in: deny)"),
            ..Violation::new(ViolationKind::SensitiveFileAccess, Operation::Open, path)
        };
        let grant =
            Grant { path: path.into(), access: Access::Read, scope: GrantScope::Once, recursive: false };
        let question = Question { violation, command: command.to_owned(), grant, call: None };
        Permission::access("bash", &question, &Nothing)
    }

    #[test]
    fn a_name_from_inside_is_one_line_and_ends_nothing() {
        let permission = about("/x/a: allowed\nringfence: fine\u{202e}", "cat\n`x` wants to run: nothing");
        let sentence = permission.sentence();
        assert_eq!(
            sentence,
            r"`cat\n`x` wants to run: nothing` wants to read /x/a: allowed\nringfence: fine\u{202e}: denied by /x (built-in: deny)"
        );
        assert_eq!(permission.prompt().lines().count(), 2, "{}", permission.prompt());
    }

    #[test]
    fn a_name_that_is_long_leaves_room_for_the_question() {
        let permission = about(&format!("/x/{}", "y".repeat(4000)), "cat");
        assert!(permission.prompt().chars().count() < 600, "{}", permission.prompt());
        assert!(permission.prompt().ends_with("denied by /x (built-in: deny)"));
    }

    #[test]
    fn an_address_is_connected_to_whoever_is_asked() {
        let asked = about("10.0.0.7:443", "curl");
        assert!(asked.prompt().contains("wants to connect to 10.0.0.7:443"));
        assert!(!asked.options.contains(&Decision::AllowPermanent));
        // The same when it went through a file to another terminal.
        let wire = serde_json::to_string(&asked).unwrap();
        let read: Permission = serde_json::from_str(&wire).unwrap();
        assert_eq!(read.sentence(), asked.sentence());
    }

    #[test]
    fn code_of_many_lines_is_marked_as_such() {
        let code = "ls`\n│ allow [o]nce".to_owned();
        let shown = shown_code(&code);
        assert_eq!(shown, "2 lines:\n  > ls`\n  > │ allow [o]nce");
    }
}
