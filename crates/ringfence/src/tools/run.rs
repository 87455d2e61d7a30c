//! Tools that run things: `bash`, `run_code`; and the judgement before them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard, PoisonError};

use ringfence_fence::files::LastLink;
use ringfence_fence::{Ticket, block_on};
use ringfence_gate::policy::{Descriptor, Tool, ToolQuestion, decide_tool};
use ringfence_gate::risk::Sandbox;
use ringfence_gate::{Decision as Verdict, Language};
use ringfence_ledger::now_ms;
use ringfence_model::config::SafetyMode;
use ringfence_model::{Command, Error, ErrorKind, ExecEvent, ExecRequest, ExecResult, Result, Stdin};
use serde_json::{Value, json};

use super::agent_command::AgentCommand;
use super::args;
use super::files::FileCall;
use super::languages::{Prepared, Snapshot, for_gate};
use super::router::{self, Route};
use super::toolbox::Tools;
use crate::permission::Permission;
use crate::session::Call;
use crate::session::ToolResult;
use crate::session::event::{SessionEvent, Stream};
use crate::session::{Admitted, Outcome, Position, Proposal, Refusal, Workplace};

pub(crate) type Judged<T> = std::result::Result<T, Box<ToolResult>>;

impl Tools {
    pub(crate) fn bash(&self, call: &mut Call, args: args::Bash, arguments: &Value) -> Result<ToolResult> {
        args::check_sandbox(args.sandbox.as_deref())?;
        if args.command.trim().is_empty() && !args.restart {
            return Err(Error::new(ErrorKind::Validation, "the command is empty"));
        }
        self.check_restriction(&args.command)?;
        let is_file = |word: &str| self.shared.files.workspace().exists(std::path::Path::new(word));
        match router::route(&args.command, &self.shared.extensions, &is_file)? {
            Route::Agent(command) => self.agent_command(call, command, args.escalated, arguments),
            Route::Extension { prefix, line, .. } => {
                self.extension(call, &prefix, &line, args.escalated, arguments)
            }
            Route::Native(text) => self.native(call, &args, &text, arguments),
        }
    }

    fn agent_command(
        &self,
        call: &mut Call,
        command: AgentCommand,
        escalated: bool,
        arguments: &Value,
    ) -> Result<ToolResult> {
        let file = match command {
            AgentCommand::Read(args) => FileCall::Read(args),
            AgentCommand::Write(args) => FileCall::Write(args::Write { escalated, ..args }),
            AgentCommand::Edit(args) => FileCall::Edit(args::Edit { escalated, ..args }),
        };
        let name = match &file {
            FileCall::Read(_) => "read",
            FileCall::Write(_) => "write",
            _ => "edit",
        };
        // A tool that is not offered is not there as a command either.
        if !self.specs().iter().any(|spec| spec.name == name) {
            let text = format!("`{name}` is not offered here");
            return Ok(ToolResult::failed(ErrorKind::Permission, text).with("reason", "tool_policy"));
        }
        self.file(call, &file, arguments)
    }

    fn extension(
        &self,
        call: &Call,
        prefix: &str,
        line: &str,
        escalated: bool,
        arguments: &Value,
    ) -> Result<ToolResult> {
        let name = line.split_whitespace().next().unwrap_or(prefix).to_owned();
        self.shared.extensions.check(prefix)?;
        let look_up = || self.shared.extensions.get(prefix).map(drop);
        if let Err(refused) = self.decide(call, Tool::Custom, &name, escalated, &look_up, arguments) {
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
        call: &mut Call,
        args: &args::Bash,
        text: &str,
        arguments: &Value,
    ) -> Result<ToolResult> {
        if args.restart {
            self.workplace.restart()?;
            *self.position() = self.at_the_start();
            if text.is_empty() {
                return Ok(self
                    .begin(call)
                    .map_or_else(|refused| *refused, |()| ToolResult::text("restarted\n")));
            }
        }
        self.position().stays();
        let admitted = match self.admitted(call, Language::Shell, text, args.escalated, arguments)? {
            Ok(admitted) => admitted,
            Err(refused) => return Ok(*refused),
        };
        if let Some(verdict) = &admitted.verdict {
            self.position().heads_for(verdict.cwd.as_deref());
        }
        let code = admitted.code();
        let mut request = ExecRequest::shell(code.clone());
        request.timeout_ms = args.timeout_ms;
        request.stdin =
            args.stdin.as_ref().map_or(Stdin::Empty, |text| Stdin::Bytes(text.clone().into_bytes()));
        let result = self.execute(&*self.workplace, call, &code, request);
        self.position().follow(result.as_ref().ok());
        Ok(ToolResult::of_execution(&result?, self.shared.core.questions().redact()))
    }

    pub(crate) fn run_code(
        &self,
        call: &mut Call,
        args: args::RunCode,
        arguments: &Value,
    ) -> Result<ToolResult> {
        let wish = args::wished_sandbox(args.sandbox.as_deref())?;
        if !(1..=300).contains(&args.timeout) {
            return Err(Error::new(ErrorKind::Validation, "timeout is from 1 to 300 seconds"));
        }
        let (name, language) = self.shared.languages.get(&args.language)?;
        let recorder = self.shared.core.recorder();
        let admitted = match self.admitted(call, for_gate(name), &args.code, args.escalated, arguments)? {
            Ok(admitted) => admitted,
            Err(refused) => return Ok(*refused),
        };
        let code = admitted.code();
        let unplaced = |error: &Error| call.execution.iter().for_each(|id| recorder.failed(*id, error));
        let (kind, place) = self.executor(&admitted, name, wish).inspect_err(unplaced)?;
        let workspace = self.shared.files.workspace();
        let is_contained = self.shared.executors.as_ref().is_some_and(|all| all.is_of(name, &place));
        let command = match &language.container {
            Some(container) if is_contained => &container.command,
            _ => &language.command,
        };
        let seen = self.seen_workspace(&place).inspect_err(unplaced)?;
        let below = self.start_of_code();
        let prepared = Prepared::new((command, &language.extension), &code, workspace, &seen, &below)?;
        let before = Snapshot::of(workspace)?;
        let began = i64::try_from(now_ms()).unwrap_or(i64::MAX);
        let mut request = ExecRequest::shell(prepared.command.clone());
        request.stdin = Stdin::Bytes(prepared.stdin.clone());
        request.timeout_ms = Some(args.timeout * 1000);
        let outcome = self.execute(&*place, call, &code, request);
        prepared.tidy(workspace);
        let changes = before.until(&Snapshot::of(workspace)?, began);
        let result = ToolResult::of_execution(&outcome?, self.shared.core.questions().redact());
        Ok(result
            .with("language", name)
            .with("sandboxType", json!(kind))
            .with("filesCreated", changes.created)
            .with("filesChanged", changes.changed)
            .with("filesIncomplete", changes.incomplete))
    }

    /// The workplace that code runs in.
    fn executor(
        &self,
        admitted: &Admitted,
        language: &str,
        wish: Option<Sandbox>,
    ) -> Result<(Sandbox, Arc<dyn Workplace>)> {
        match (&self.shared.executors, &admitted.verdict) {
            (Some(executors), Some(verdict)) => {
                executors.choose(&self.workplace, language, &verdict.risk, wish)
            }
            _ if wish.is_some_and(|wish| wish > Sandbox::Subprocess) => {
                let text = "code runs in the session's own sandbox here, and in no other";
                Err(Error::new(ErrorKind::SandboxNotAvailable, text)
                    .hint("`safety.codeSandbox` lets code run in containers"))
            }
            _ => Ok((Sandbox::Subprocess, Arc::clone(&self.workplace))),
        }
    }

    /// The path of the workspace for commands; a sandbox with a file system of its own may have it elsewhere.
    fn seen_workspace(&self, place: &Arc<dyn Workplace>) -> Result<PathBuf> {
        let host = self.shared.files.workspace().host_path();
        let is_own = Arc::ptr_eq(place, &self.workplace);
        if let Some(seen) = self.shared.seen.get().filter(|_| is_own) {
            return Ok(seen.clone());
        }
        let seen = match place.files()? {
            None => host.to_owned(),
            Some(files) => block_on(files.locate(host, LastLink::Keep))?.path,
        };
        Ok(if is_own { self.shared.seen.get_or_init(|| seen).clone() } else { seen })
    }

    /// The code that may run, and runs from now on.
    pub(crate) fn admitted(
        &self,
        call: &mut Call,
        language: Language,
        code: &str,
        escalated: bool,
        arguments: &Value,
    ) -> Result<Judged<Admitted>> {
        let core = &self.shared.core;
        let cwd = self.directory_of(&call.tool);
        if language == Language::Shell {
            self.check_restriction(code)?;
        }
        let is_code = call.tool == "run_code";
        let chooses = is_code && self.shared.executors.is_some();
        let proposal = Proposal {
            language,
            cwd: cwd.as_deref(),
            arguments: arguments.clone(),
            field: if is_code { "code" } else { "command" },
            escalated,
            // Which sandbox it will be is not known yet where the level decides.
            is_fenced: !chooses && self.workplace.is_fenced(),
            wants_risk: chooses,
            ..Proposal::new(Command::Shell(code.to_owned()))
        };
        let admitted = core.admit(call, &proposal).map_err(|refusal| Box::new(self.refused(&refusal)));
        Ok(admitted.and_then(|admitted| match self.begin(call) {
            Ok(()) => Ok(admitted),
            Err(over) => {
                let why = Error::new(ErrorKind::ResourceLimitExceeded, over.stderr.clone());
                call.execution.iter().for_each(|id| core.recorder().failed(*id, &why));
                Err(over)
            }
        }))
    }

    /// Refuses what a sub-agent must not do, before anything else is asked.
    fn check_restriction(&self, code: &str) -> Result<()> {
        let Some(restriction) = &self.restriction else { return Ok(()) };
        let core = &self.shared.core;
        let (home, cwd) = (core.setup().home.to_string_lossy(), self.directory_of("bash"));
        restriction.check(code, core.gatekeeper().gate(), &home, cwd.as_deref().unwrap_or_default())
    }

    /// The directory in which code of that tool runs; none: that cannot be told.
    pub(crate) fn directory_of(&self, tool: &str) -> Option<String> {
        // Code runs where a new shell would, wherever the shell is.
        if tool == "run_code" {
            return Some(self.workspace().join(self.start_of_code()).to_string_lossy().into_owned());
        }
        self.position().cwd().map(str::to_owned)
    }

    /// The directory of the workspace that code runs in: the configured one, where that is inside.
    fn start_of_code(&self) -> PathBuf {
        let start = self.at_the_start();
        let below = start.cwd().and_then(|cwd| Path::new(cwd).strip_prefix(self.workspace()).ok());
        below.map(Path::to_owned).unwrap_or_default()
    }

    fn position(&self) -> MutexGuard<'_, Position> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A refusal, as the agent sees it.
    fn refused(&self, refusal: &Refusal) -> ToolResult {
        if let Some(asked) = &refusal.asked {
            return not_allowed(&asked.0, &asked.1);
        }
        let redact = self.shared.core.recorder().redact();
        let mut text = String::new();
        for finding in refusal.findings() {
            text.push_str(&format!("refused: {}; {}\n", finding.message, finding.suggestion));
        }
        ToolResult::failed(ErrorKind::Permission, redact.redact(&text).into_owned())
            .with("reason", "gate")
            .with("risk", refusal.verdict.risk.level.name())
            .with("category", json!(refusal.verdict.category))
            .with("findings", json!(refusal.verdict.findings))
    }

    /// The decision about a tool that is no shell. It is looked up only where it may run; one that cannot be may not.
    pub(crate) fn decide(
        &self,
        call: &Call,
        kind: Tool,
        name: &str,
        escalated: bool,
        look_up: &dyn Fn() -> Result<()>,
        arguments: &Value,
    ) -> Judged<()> {
        let safety = &self.shared.core.setup().loaded.config.safety;
        // Writing the workspace needs no decision of its own, unless nothing is to happen at all, or more is wanted.
        let descriptor = if kind == Tool::File && safety.mode != SafetyMode::Deny && !escalated {
            Descriptor::None
        } else {
            Descriptor::Found
        };
        let texts = |entries: &[ringfence_model::config::Entry]| -> Vec<String> {
            entries.iter().map(|entry| entry.text.clone()).collect()
        };
        let (allow, deny) = (texts(&safety.tool_allowlist), texts(&safety.tool_denylist));
        let judge = |descriptor| {
            let question = ToolQuestion { tool: kind, name, descriptor, escalated };
            decide_tool(question, safety.mode, &allow, &deny)
        };
        let mut why = "the configuration (safety)".to_owned();
        let mut verdict = judge(descriptor);
        if verdict != Verdict::Deny
            && let Err(error) = look_up()
        {
            (verdict, why) = (judge(Descriptor::Failed), format!("its look-up: {}", error.chain()));
        }
        match verdict {
            Verdict::Allow => Ok(()),
            Verdict::Deny => {
                let text = format!("`{name}` is refused by {why}");
                Err(Box::new(ToolResult::failed(ErrorKind::Permission, text).with("reason", "safety")))
            }
            Verdict::Ask => {
                let reason =
                    if escalated { "it wants more than it has" } else { "no list mentions this tool" };
                let permission =
                    Permission::tool(name, reason, arguments, self.shared.core.questions().redact());
                let outcome = self.shared.core.questions().ask(permission.clone(), call);
                if outcome.allows() { Ok(()) } else { Err(Box::new(not_allowed(&permission, &outcome))) }
            }
        }
    }

    fn execute(
        &self,
        place: &dyn Workplace,
        call: &mut Call,
        code: &str,
        request: ExecRequest,
    ) -> Result<ExecResult> {
        let its = call.clone();
        let events = |event: ExecEvent| self.output(&its, event);
        let ran = self.shared.core.execute(call, code, place, &Ticket::new(), request, &events)?;
        Ok(ran.result)
    }

    fn output(&self, call: &Call, event: ExecEvent) {
        let (stream, bytes) = match event {
            ExecEvent::Stdout(bytes) => (Stream::Stdout, bytes),
            ExecEvent::Stderr(bytes) => (Stream::Stderr, bytes),
            _ => return,
        };
        let journal = self.shared.core.recorder();
        let data = journal.redact().redact(&String::from_utf8_lossy(&bytes)).into_owned();
        journal.emit(SessionEvent::Output { call_id: call.id.clone(), stream, data });
    }
}

/// A person's refusal, as the agent sees it.
pub(crate) fn not_allowed(permission: &Permission, outcome: &Outcome) -> ToolResult {
    let words = outcome.answer.message.as_deref().unwrap_or("a person said no");
    let text = format!("not allowed: {}\nrefused: {words}\n", permission.sentence());
    let reason = serde_json::to_value(outcome.reason).unwrap_or_default();
    let result = ToolResult::failed(ErrorKind::ApprovalDenied, text)
        .with("reason", reason)
        .with("approvalKey", permission.key.clone());
    match outcome.cause() {
        Some(cause) => result.with("cause", json!(cause)),
        None => result,
    }
}
