//! Tools that run things: `bash`, `run_code`; and the judgement before them.

use std::path::PathBuf;
use std::sync::{Arc, MutexGuard, PoisonError};

use ringfence_fence::approve::Question;
use ringfence_fence::files::LastLink;
use ringfence_gate::policy::{Descriptor, Tool, ToolQuestion, decide_tool};
use ringfence_gate::risk::{Assessment, Sandbox};
use ringfence_gate::{Decision as Verdict, Language, Request};
use ringfence_ledger::now_ms;
use ringfence_model::config::{GateMode, SafetyMode};
use ringfence_model::{
    Access, Decision, DenyReason, Error, ErrorKind, ExecEvent, ExecRequest, ExecResult, Grant, GrantScope,
    PolicyMode, Result, Stdin, Violation,
};
use serde_json::{Value, json};

use super::agent_command::AgentCommand;
use super::args;
use super::event::{Stream, ToolEvent};
use super::files::FileCall;
use super::journal::CallRef;
use super::languages::{Prepared, Snapshot, for_gate};
use super::result::ToolResult;
use super::room::{Room, block};
use super::router::{self, Route};
use super::toolbox::Tools;
use crate::gate::{Refusal, Whereabouts, Why, left_to_the_fence};
use crate::permission::{Outcome, Permission};

/// How often code may be edited before it runs.
const MOST_EDITS: usize = 5;
/// How many resources one command may ask for, where it has to be run again for each.
const MOST_RETRIES: usize = 8;

/// Code that may run.
pub(crate) struct Approved {
    pub(crate) code: String,
    /// How risky it is; nobody looked where the gate is off and the level decides nothing.
    risk: Option<Assessment>,
}

pub(crate) type Judged<T> = std::result::Result<T, Box<ToolResult>>;

impl Tools {
    pub(crate) fn bash(&self, call: &mut CallRef, args: args::Bash, arguments: &Value) -> Result<ToolResult> {
        args::check_sandbox(args.sandbox.as_deref())?;
        if args.command.trim().is_empty() && !args.restart {
            return Err(Error::new(ErrorKind::Validation, "the command is empty"));
        }
        if let Some(restriction) = &self.restriction {
            let (home, cwd) = self.places();
            restriction.check(&args.command, &self.shared.gate, &home, &cwd)?;
        }
        let is_file = |word: &str| self.shared.files.workspace().exists(std::path::Path::new(word));
        match router::route(&args.command, &self.shared.extensions, &is_file)? {
            Route::Agent(command) => self.agent_command(call, command, arguments),
            Route::Extension { prefix, line, .. } => self.extension(call, &prefix, &line, arguments),
            Route::Native(text) => self.native(call, &args, &text, arguments),
        }
    }

    fn agent_command(
        &self,
        call: &mut CallRef,
        command: AgentCommand,
        arguments: &Value,
    ) -> Result<ToolResult> {
        let file = match command {
            AgentCommand::Read(args) => FileCall::Read(args),
            AgentCommand::Write(args) => FileCall::Write(args),
            AgentCommand::Edit(args) => FileCall::Edit(args),
        };
        let name = match &file {
            FileCall::Read(_) => "read",
            FileCall::Write(_) => "write",
            _ => "edit",
        };
        // What is not offered as a tool is not there as a command either.
        if !self.specs().iter().any(|spec| spec.name == name) {
            let text = format!("`{name}` is not offered here");
            return Ok(ToolResult::failed(ErrorKind::Permission, text).with("reason", "tool_policy"));
        }
        self.file(call, &file, arguments)
    }

    fn extension(&self, call: &CallRef, prefix: &str, line: &str, arguments: &Value) -> Result<ToolResult> {
        let name = line.split_whitespace().next().unwrap_or(prefix).to_owned();
        if let Err(refused) = self.decide(call, Tool::Custom, &name, false, arguments) {
            return Ok(*refused);
        }
        let extension = self.shared.extensions.get(prefix)?;
        if let Err(refused) = self.begin(call) {
            return Ok(*refused);
        }
        let result = extension.run(line);
        Ok(result.unwrap_or_else(|error| ToolResult { exit_code: Some(1), ..ToolResult::of_error(&error) }))
    }

    fn native(
        &self,
        call: &mut CallRef,
        args: &args::Bash,
        text: &str,
        arguments: &Value,
    ) -> Result<ToolResult> {
        if args.restart {
            self.room.restart()?;
            *self.whereabouts() = self.at_the_start();
            if text.is_empty() {
                return Ok(self
                    .begin(call)
                    .map_or_else(|refused| *refused, |()| ToolResult::text("restarted\n")));
            }
        }
        let code = match self.judge(call, Language::Shell, text, args.escalated, arguments) {
            Ok(approved) => approved.code,
            Err(refused) => return Ok(*refused),
        };
        if let Err(refused) = self.begin(call) {
            return Ok(*refused);
        }
        let mut request = ExecRequest::shell(code.clone());
        request.timeout_ms = args.timeout_ms;
        request.stdin =
            args.stdin.as_ref().map_or(Stdin::Empty, |text| Stdin::Bytes(text.clone().into_bytes()));
        let result = self.execute(&*self.room, call, &code, &request);
        self.whereabouts().follow(result.as_ref().ok());
        Ok(ToolResult::of_execution(&result?, self.shared.desk.redact()))
    }

    pub(crate) fn run_code(
        &self,
        call: &mut CallRef,
        args: args::RunCode,
        arguments: &Value,
    ) -> Result<ToolResult> {
        let wish = args::wished_sandbox(args.sandbox.as_deref())?;
        if !(1..=300).contains(&args.timeout) {
            return Err(Error::new(ErrorKind::Validation, "timeout is from 1 to 300 seconds"));
        }
        let (name, language) = self.shared.languages.get(&args.language)?;
        let approved = match self.admitted(call, for_gate(name), &args.code, args.escalated, arguments)? {
            Ok(approved) => approved,
            Err(refused) => return Ok(*refused),
        };
        let (kind, room) = self.executor(&approved, wish)?;
        let code = approved.code;
        let workspace = self.shared.files.workspace();
        let prepared = Prepared::new(language, &code, workspace, &self.seen_workspace(&room)?)?;
        let before = Snapshot::of(workspace)?;
        let began = i64::try_from(now_ms()).unwrap_or(i64::MAX);
        let mut request = ExecRequest::shell(prepared.command.clone());
        request.stdin = Stdin::Bytes(prepared.stdin.clone());
        request.timeout_ms = Some(args.timeout * 1000);
        let outcome = self.execute(&*room, call, &code, &request);
        prepared.tidy(workspace);
        let changes = before.until(&Snapshot::of(workspace)?, began);
        let result = ToolResult::of_execution(&outcome?, self.shared.desk.redact());
        Ok(result
            .with("language", name)
            .with("sandboxType", json!(kind))
            .with("filesCreated", changes.created)
            .with("filesChanged", changes.changed)
            .with("filesIncomplete", changes.incomplete))
    }

    /// The room that code runs in.
    fn executor(&self, approved: &Approved, wish: Option<Sandbox>) -> Result<(Sandbox, Arc<dyn Room>)> {
        match (&self.shared.executors, &approved.risk) {
            (Some(executors), Some(risk)) => executors.choose(&self.room, risk, wish),
            _ if wish.is_some_and(|wish| wish > Sandbox::Subprocess) => {
                let text = "code runs in the session's own sandbox here, and in no other";
                Err(Error::new(ErrorKind::SandboxNotAvailable, text))
            }
            _ => Ok((Sandbox::Subprocess, Arc::clone(&self.room))),
        }
    }

    /// Where commands find the workspace, which in a sandbox with a file system of its own may be elsewhere.
    fn seen_workspace(&self, room: &Arc<dyn Room>) -> Result<PathBuf> {
        let host = self.shared.files.workspace().host_path();
        let is_own = Arc::ptr_eq(room, &self.room);
        if let Some(seen) = self.shared.seen.get().filter(|_| is_own) {
            return Ok(seen.clone());
        }
        let seen = match room.files()? {
            None => host.to_owned(),
            Some(files) => block(files.locate(host, LastLink::Keep))?.path,
        };
        Ok(if is_own { self.shared.seen.get_or_init(|| seen).clone() } else { seen })
    }

    /// The code that may run, and runs from now on.
    pub(crate) fn admitted(
        &self,
        call: &CallRef,
        language: Language,
        code: &str,
        escalated: bool,
        arguments: &Value,
    ) -> Result<Judged<Approved>> {
        if let Some(restriction) = self.restriction.as_ref().filter(|_| language == Language::Shell) {
            let (home, cwd) = self.places();
            restriction.check(code, &self.shared.gate, &home, &cwd)?;
        }
        let judged = self.judge(call, language, code, escalated, arguments);
        Ok(judged.and_then(|approved| self.begin(call).map(|()| approved)))
    }

    /// Home and the shell's directory, as the gate wants them: empty when it cannot be told.
    fn places(&self) -> (String, String) {
        let home = self.shared.home.to_string_lossy().into_owned();
        (home, self.whereabouts().cwd().unwrap_or_default().to_owned())
    }

    fn whereabouts(&self) -> MutexGuard<'_, Whereabouts> {
        self.whereabouts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the gate is asked about code of that tool.
    pub(crate) fn for_gate(&self, tool: &str, language: Language, code: &str, escalated: bool) -> Request {
        let (home, shells) = self.places();
        let files = &self.shared.files;
        let project = files.workspace().host_path().to_string_lossy().into_owned();
        // Code runs in the workspace, wherever the shell is.
        let cwd = if tool == "run_code" { project.clone() } else { shells };
        Request {
            also: files.more().map(|directory| directory.to_string_lossy().into_owned()).collect(),
            project: Some(project),
            files: self.is_fenced().then(|| Arc::new(self.shared.filesystem.clone())),
            escalated,
            ..Request::new(language, code, home, cwd)
        }
    }

    /// The gate's judgement, and a person's where it asks for one. Gives the code that may run.
    fn judge(
        &self,
        call: &CallRef,
        language: Language,
        code: &str,
        escalated: bool,
        arguments: &Value,
    ) -> Judged<Approved> {
        let shared = &self.shared;
        let is_off = shared.safety.gate == GateMode::Off;
        if is_off && shared.executors.is_none() {
            return Ok(Approved { code: code.to_owned(), risk: None });
        }
        let mut code = code.to_owned();
        let mut arguments = arguments.clone();
        for _ in 0..=MOST_EDITS {
            let verdict = shared.gate.judge(&self.for_gate(&call.tool, language, &code, escalated));
            if call.tool == "bash" {
                self.whereabouts().heads_for(verdict.cwd.as_deref());
            }
            let risky = shared.confirm_from.is_some_and(|level| verdict.risk.level >= level);
            let risk = Some(verdict.risk.clone());
            match verdict.decision {
                _ if is_off => return Ok(Approved { code, risk }),
                Verdict::Allow if !risky => return Ok(Approved { code, risk }),
                Verdict::Ask if !risky && self.is_left_to_the_fence(call, &verdict) => {
                    return Ok(Approved { code, risk });
                }
                Verdict::Deny => return Err(Box::new(self.gate_refuses(&code, &verdict))),
                Verdict::Allow | Verdict::Ask => {}
            }
            let lasting = shared.desk.keeps_rules();
            let redact = shared.desk.redact();
            let permission = Permission::execution(&call.tool, &code, &arguments, &verdict, lasting, redact);
            let outcome = shared.desk.ask(permission.clone(), call);
            if !outcome.allows() {
                return Err(Box::new(refused(&permission, &outcome)));
            }
            match outcome.answer.code.filter(|edited| *edited != code) {
                None => return Ok(Approved { code, risk }),
                Some(edited) => {
                    let field = if call.tool == "run_code" { "code" } else { "command" };
                    arguments[field] = edited.clone().into();
                    code = edited;
                }
            }
        }
        let text = "the code was edited too often";
        Err(Box::new(ToolResult::failed(ErrorKind::ApprovalDenied, text)))
    }

    fn is_fenced(&self) -> bool {
        self.room.assurance().effective != PolicyMode::None
    }

    fn is_left_to_the_fence(&self, call: &CallRef, verdict: &ringfence_gate::Verdict) -> bool {
        let shared = &self.shared;
        // Which sandbox it will be is not known yet where the level decides.
        let is_elsewhere = call.tool == "run_code" && shared.executors.is_some();
        !is_elsewhere
            && shared.desk.asks_about(Some(DenyReason::Denied))
            && self.is_fenced()
            && left_to_the_fence(verdict, &shared.filesystem, self.room.holds_calls())
    }

    fn gate_refuses(&self, code: &str, verdict: &ringfence_gate::Verdict) -> ToolResult {
        let redact = self.shared.desk.redact();
        let mut text = String::new();
        for finding in verdict.findings.iter().filter(|finding| finding.decision == Verdict::Deny) {
            text.push_str(&format!("refused: {}; {}\n", finding.message, finding.suggestion));
        }
        let text = redact.redact(&text).into_owned();
        let refusal = Refusal::new(code, verdict.clone(), Why::Denied, std::path::Path::new(""));
        let mut result = refusal.result();
        for violation in &mut result.violations {
            violation.resource = redact.redact(&violation.resource).into_owned();
            violation.message = redact.redact(&violation.message).into_owned();
        }
        let journal = self.shared.desk.journal();
        let id = journal.starts(code, self.shared.files.workspace().host_path());
        journal.ends(id, &Ok(result));
        ToolResult::failed(ErrorKind::Permission, text)
            .with("reason", "gate")
            .with("risk", format!("{:?}", verdict.risk.level).to_lowercase())
            .with("findings", json!(verdict.findings))
    }

    /// The decision about a tool that is no shell.
    pub(crate) fn decide(
        &self,
        call: &CallRef,
        kind: Tool,
        name: &str,
        escalated: bool,
        arguments: &Value,
    ) -> Judged<()> {
        let safety = &self.shared.safety;
        // Reading and writing the workspace needs no decision of its own, unless nothing is to happen at all.
        let descriptor = if kind == Tool::File && safety.mode != SafetyMode::Deny {
            Descriptor::None
        } else {
            Descriptor::Found
        };
        let texts = |entries: &[ringfence_model::config::Entry]| -> Vec<String> {
            entries.iter().map(|entry| entry.text.clone()).collect()
        };
        let question = ToolQuestion { tool: kind, name, descriptor, escalated };
        match decide_tool(
            question,
            safety.mode,
            &texts(&safety.tool_allowlist),
            &texts(&safety.tool_denylist),
        ) {
            Verdict::Allow => Ok(()),
            Verdict::Deny => {
                let text = format!("`{name}` is refused by the configuration (safety)");
                Err(Box::new(ToolResult::failed(ErrorKind::Permission, text).with("reason", "safety")))
            }
            Verdict::Ask => {
                let reason = "no list mentions this tool";
                let permission = Permission::tool(name, reason, arguments, self.shared.desk.redact());
                let outcome = self.shared.desk.ask(permission.clone(), call);
                if outcome.allows() { Ok(()) } else { Err(Box::new(refused(&permission, &outcome))) }
            }
        }
    }

    /// Runs in the room, and remembers it. Where the room cannot hold a refused call, a person is asked afterwards,
    /// and the command is run again only then, with exactly what was granted.
    fn execute(
        &self,
        room: &dyn Room,
        call: &mut CallRef,
        code: &str,
        request: &ExecRequest,
    ) -> Result<ExecResult> {
        let desk = &self.shared.desk;
        let journal = desk.journal();
        let cwd = self.shared.files.workspace().host_path();
        let id = journal.starts(code, cwd);
        call.execution = Some(id);
        desk.turn_to(call);
        let events = |event: ExecEvent| self.output(call, event);
        let mut outcome = room.execute(request, &events);
        journal.ends(id, &outcome);
        if room.holds_calls() {
            return outcome;
        }
        for _ in 0..MOST_RETRIES {
            let Ok(result) = &outcome else { break };
            let Some(question) = question(result, code) else { break };
            if !desk.asks_about(question.violation.reason) {
                break;
            }
            let answer = desk.ask(Permission::access(&call.tool, &question, desk.redact()), call);
            let id = journal.starts(code, cwd);
            outcome = match answer.answer.decision {
                Decision::Deny | Decision::Abort => break,
                Decision::AllowOnce => room.execute_granted(&question.grant, request, &events),
                Decision::AllowSession | Decision::AllowPermanent => {
                    room.grant(&question.grant).and_then(|()| room.execute(request, &events))
                }
            };
            journal.ends(id, &outcome);
        }
        outcome
    }

    fn output(&self, call: &CallRef, event: ExecEvent) {
        let (stream, bytes) = match event {
            ExecEvent::Stdout(bytes) => (Stream::Stdout, bytes),
            ExecEvent::Stderr(bytes) => (Stream::Stderr, bytes),
            _ => return,
        };
        let journal = self.shared.desk.journal();
        let data = journal.redact().redact(&String::from_utf8_lossy(&bytes)).into_owned();
        journal.emit(ToolEvent::Output { call_id: call.id.clone(), stream, data });
    }
}

/// What a refusal looks like to the agent.
pub(crate) fn refused(permission: &Permission, outcome: &Outcome) -> ToolResult {
    let words = outcome.answer.message.as_deref().unwrap_or("a person said no");
    let text = format!("not allowed: {}\nrefused: {words}\n", permission.sentence());
    let reason = serde_json::to_value(outcome.reason).unwrap_or_default();
    ToolResult::failed(ErrorKind::ApprovalDenied, text)
        .with("reason", reason)
        .with("approvalKey", permission.key.clone())
}

/// The question about what blocked a command that has ended.
fn question(result: &ExecResult, command: &str) -> Option<Question> {
    if !result.blocked {
        return None;
    }
    let resource = result.blocked_resource.as_deref()?;
    let violation: &Violation =
        result.violations.iter().rev().find(|violation| violation.resource == resource)?;
    let path = std::path::PathBuf::from(resource);
    if !path.is_absolute() {
        return None;
    }
    let grant = Grant {
        recursive: path.is_dir(),
        path,
        access: violation.access.unwrap_or(Access::Read),
        scope: GrantScope::Once,
    };
    Some(Question { violation: violation.clone(), command: command.to_owned(), grant })
}
