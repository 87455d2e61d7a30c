//! Looking at the tools without calling one, and asking a person ahead of time.

use std::path::Path;

use ringfence_gate::risk::{Category, Risk};
use ringfence_gate::{Language, Verdict};
use ringfence_model::{
    Access, Assurance, Decision, Error, ErrorKind, Grant, GrantScope, NetworkPolicy, Result,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::args;
use super::catalogue::{self, Effect};
use super::languages::for_gate;
use super::run::not_allowed;
use super::toolbox::Tools;
use crate::gate::Circumstances;
use crate::permission::{Permission, PermissionKind, shortened};
use crate::session::Call;
use crate::session::ToolResult;

/// Characters of an agent's own reason that a person is shown.
const LONGEST_REASON: usize = 300;
/// Characters of a command that are shown before it is called.
const LONGEST_COMMAND: usize = 200;

/// A call before it is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Prospect {
    /// The effect of the call.
    pub category: Effect,
    /// How risky it would be.
    pub risk: Risk,
    /// What a shell command would do to the world; none for everything else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shell: Option<Category>,
    /// What a person would be asked, if somebody is, with the beginning of a long command.
    pub confirmation: String,
}

impl Tools {
    /// The prospect of a call: its category, and how risky it is with these very arguments. Nothing runs, and nobody is
    /// asked.
    pub fn prospect(&self, name: &str, arguments: &Value) -> Result<Prospect> {
        let spec = catalogue::find(name)
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no tool `{name}`")))?;
        let (risk, shell, mut permission) = match self.verdict(spec.name, arguments)? {
            Some((code, verdict)) => {
                let redact = self.shared.core.questions().redact();
                let permission = Permission::execution(spec.name, &code, arguments, &verdict, redact);
                (verdict.risk.level, verdict.category, permission)
            }
            None => {
                let (risk, why) = match spec.effect {
                    Effect::Writes => (Risk::Medium, "it changes files of the workspace"),
                    _ => (Risk::Safe, "it changes nothing"),
                };
                let redact = self.shared.core.questions().redact();
                (risk, None, Permission::tool(spec.name, why, arguments, redact))
            }
        };
        permission.command = permission.command.map(|command| shortened(&command, LONGEST_COMMAND));
        Ok(Prospect { category: spec.effect, risk, shell, confirmation: permission.sentence() })
    }

    /// The code of a call that runs some, and what the gate says of it.
    fn verdict(&self, tool: &str, arguments: &Value) -> Result<Option<(String, Verdict)>> {
        let (language, code, escalated) = match tool {
            "bash" => {
                let args: args::Bash = args::parse(arguments)?;
                (Language::Shell, args.command, args.escalated)
            }
            "run_code" => {
                let args: args::RunCode = args::parse(arguments)?;
                let (name, _) = self.shared.languages.get(&args.language)?;
                (for_gate(name), args.code, args.escalated)
            }
            "jobs" => {
                let args: args::Jobs = args::parse(arguments)?;
                let Some(command) = args.command else { return Ok(None) };
                (Language::Shell, command, args.escalated)
            }
            _ => return Ok(None),
        };
        let cwd = self.directory_of(tool);
        let circumstances = Circumstances { is_fenced: self.workplace.is_fenced(), escalated };
        let verdict = self.shared.core.gatekeeper().judge_as(language, &code, cwd.as_deref(), circumstances);
        Ok(Some((code, verdict)))
    }

    /// Which layers hold.
    #[must_use]
    pub fn assurance(&self) -> Assurance {
        self.workplace.assurance()
    }

    /// Which hosts commands may reach; none where that is not known.
    #[must_use]
    pub fn network(&self) -> Option<NetworkPolicy> {
        let policy = self.workplace.policy().ok().flatten()?;
        Some(policy.network)
    }

    /// The directory that the tools work in.
    #[must_use]
    pub fn workspace(&self) -> &Path {
        self.shared.files.workspace().host_path()
    }

    /// A file of the workspace as it is, under the same rules as the tool `read`, and without a question.
    pub fn content(&self, path: &str) -> Result<Vec<u8>> {
        let own = self.workplace.files()?;
        self.shared.files.bytes(path, own.as_deref(), &self.shared.core.questions().granted())
    }

    /// Asks a person for a path before a command needs it. A permission holds for the session, never longer; the
    /// path is shown as what it really is, and the reason as what the agent says.
    #[must_use]
    pub fn request_access(&self, id: &str, path: &Path, access: Access, reason: &str) -> ToolResult {
        let outcome = self.ask_for(id, path, access, reason);
        outcome.unwrap_or_else(|error| ToolResult::of_error(&error))
    }

    fn ask_for(&self, id: &str, path: &Path, access: Access, reason: &str) -> Result<ToolResult> {
        let questions = self.shared.core.questions();
        if let Some(ended) = questions.ended() {
            return Ok(ToolResult::failed(ended.error_kind, ended.message).with("reason", "run_ended"));
        }
        let real = self.workspace().join(path).canonicalize().map_err(|error| {
            Error::new(ErrorKind::NotFound, format!("no such path: {}", path.display())).caused_by(error)
        })?;
        let resource = questions.redact().redact(&real.to_string_lossy()).into_owned();
        let grant = Grant { recursive: real.is_dir(), path: real, access, scope: GrantScope::Session };
        let reason: String = reason.chars().take(LONGEST_REASON).collect();
        let why = if reason.is_empty() {
            "the agent gave no reason".to_owned()
        } else {
            format!("the agent says: {}", questions.redact().redact(&reason))
        };
        let wanted = json!({ "access": access, "recursive": grant.recursive, "resource": resource });
        let permission = Permission {
            kind: PermissionKind::SandboxAccess,
            access: Some(access),
            options: vec![Decision::AllowSession, Decision::Deny, Decision::Abort],
            resource,
            grant: Some(grant),
            ..Permission::tool("request_permission", &why, &wanted, questions.redact())
        };
        let call = Call { id: id.to_owned(), tool: "request_permission".to_owned(), execution: None };
        let outcome = questions.ask(permission.clone(), &call);
        questions.take_said(&call);
        if !outcome.allows() {
            return Ok(not_allowed(&permission, &outcome));
        }
        let text = format!("allowed for this session: {access} {}\n", permission.resource);
        Ok(ToolResult::text(text).with("resource", permission.resource).with("access", json!(access)))
    }
}
