//! The tools of one session: what is offered, and the way of a call.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringfence_model::config::ToolLists;
use ringfence_model::{Decision, ErrorKind, Filesystem, Limits, Operation, Result, ViolationKind};
use ringfence_workspace::{Mode, Workspace};
use serde_json::{Value, json};

use super::args;
use super::catalogue::{self, Effect, ToolSpec};
use super::executors::Executors;
use super::files::{FileCall, Files};
use super::guard::refusal;
use super::languages::Languages;
use super::policy::ToolPolicy;
use super::restricted::Restriction;
use super::router::Extensions;
use crate::permission::cleaned;
use crate::session::Position;
use crate::session::SessionEvent;
use crate::session::ToolResult;
use crate::session::Workplace;
use crate::session::{Call, Core, Ended, Listener, Outcome, Questions};

/// How long the ends of jobs may take to be heard when everything ends.
const LAST_WORDS: Duration = Duration::from_secs(2);
const GLANCE: Duration = Duration::from_millis(2);

/// How much one run may do. Refused calls cost nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Calls; none: as many as it likes.
    pub steps: Option<u64>,
    /// Time; none: as long as it likes.
    pub wall: Option<Duration>,
}

impl Budget {
    /// As `tools.maxSteps` and `tools.maxSeconds` say.
    pub(crate) fn configured(tools: &ToolLists) -> Self {
        Self { steps: tools.max_steps, wall: tools.max_seconds.map(Duration::from_secs) }
    }
}

/// Parts that the tools are made of.
#[derive(Debug)]
pub(crate) struct ToolsOptions {
    pub(crate) core: Core,
    pub(crate) workplace: Arc<dyn Workplace>,
    /// The places where `run_code` runs code; none: the workplace.
    pub(crate) executors: Option<Executors>,
    /// The workspace, in which files are read and written, and code runs. Read-only: no tool that writes is offered.
    pub(crate) workspace: Workspace,
    /// More directories of the project, whose files are named by absolute paths.
    pub(crate) more: Vec<Workspace>,
    /// The rules of the fence, which hold for files on the host too.
    pub(crate) filesystem: Filesystem,
    pub(crate) limits: Limits,
    pub(crate) policy: ToolPolicy,
    pub(crate) languages: Languages,
    pub(crate) extensions: Extensions,
    pub(crate) budget: Budget,
}

/// Parts that a session's tools share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) core: Core,
    pub(crate) executors: Option<Executors>,
    pub(crate) files: Files,
    pub(crate) policy: ToolPolicy,
    pub(crate) languages: Languages,
    pub(crate) extensions: Extensions,
    /// The path at which the sandbox has the workspace, once that was looked up.
    pub(crate) seen: OnceLock<PathBuf>,
    budget: Budget,
    spent: Mutex<Spent>,
    usage: Mutex<BTreeMap<String, u64>>,
}

#[derive(Debug)]
struct Spent {
    steps: u64,
    since: Instant,
}

/// The tools of one session. Calls wait on the thread that makes them.
#[derive(Debug, Clone)]
pub struct Tools {
    pub(crate) shared: Arc<Shared>,
    pub(crate) workplace: Arc<dyn Workplace>,
    pub(crate) restriction: Option<Arc<Restriction>>,
    /// Of the workplace's shell.
    pub(crate) position: Arc<Mutex<Position>>,
    /// The threads that wait for the ends of its jobs.
    pub(crate) watchers: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

impl Tools {
    #[must_use]
    pub(crate) fn new(options: ToolsOptions) -> Self {
        let home = options.core.setup().home.clone();
        let shared = Shared {
            executors: options.executors,
            files: Files::new(options.workspace, options.more, options.filesystem, options.limits, home),
            core: options.core,
            policy: options.policy,
            languages: options.languages,
            extensions: options.extensions,
            seen: OnceLock::new(),
            budget: options.budget,
            spent: Mutex::new(Spent { steps: 0, since: Instant::now() }),
            usage: Mutex::default(),
        };
        let position = Arc::new(Mutex::new(start_of(&shared)));
        Self {
            shared: Arc::new(shared),
            workplace: options.workplace,
            restriction: None,
            position,
            watchers: Arc::default(),
        }
    }

    /// The position of a new shell.
    pub(crate) fn at_the_start(&self) -> Position {
        start_of(&self.shared)
    }

    /// The tools that are offered: by policy, by restriction, and by whether the workspace may be changed.
    #[must_use]
    pub fn specs(&self) -> Vec<ToolSpec> {
        catalogue::all().into_iter().filter(|spec| self.refusal(spec).is_none()).collect()
    }

    /// The same tools for a sub-agent, with a sandbox of its own and fewer rights. Restrictions add up.
    pub fn restricted(&self, restriction: Restriction) -> Result<Self> {
        let mut restriction = restriction;
        if let Some(outer) = &self.restriction {
            restriction.deny.extend(outer.deny.iter().cloned());
            restriction.read_only |= outer.read_only;
            restriction.no_tools |= outer.no_tools;
        }
        let copy = self.isolated_copy()?;
        Ok(Self { restriction: Some(Arc::new(restriction)), ..copy })
    }

    /// The same tools with a sandbox of their own.
    pub fn isolated_copy(&self) -> Result<Self> {
        let position = Arc::new(Mutex::new(self.at_the_start()));
        let watchers = Arc::default();
        Ok(Self { workplace: self.workplace.isolated_copy()?, position, watchers, ..self.clone() })
    }

    /// Calls a tool.
    #[must_use]
    pub fn call(&self, name: &str, arguments: &Value) -> ToolResult {
        self.call_as(&uuid::Uuid::now_v7().simple().to_string(), name, arguments)
    }

    /// Calls a tool with arguments as text; what is no JSON is refused and nothing runs.
    #[must_use]
    pub fn call_text(&self, name: &str, arguments: &str) -> ToolResult {
        match serde_json::from_str(arguments) {
            Ok(arguments) => self.call(name, &arguments),
            Err(error) => {
                let call = self.requested(&uuid::Uuid::now_v7().simple().to_string(), name, &Value::Null);
                let text = format!("the arguments are not JSON: {error}");
                self.finished(&call, ToolResult::failed(ErrorKind::Validation, text), Instant::now())
            }
        }
    }

    /// As [`call`](Self::call), under an id of the caller's.
    #[must_use]
    pub fn call_as(&self, id: &str, name: &str, arguments: &Value) -> ToolResult {
        let started = Instant::now();
        let mut call = self.requested(id, name, arguments);
        let result = match self.shared.core.questions().ended() {
            Some(ended) => ToolResult::failed(ended.error_kind, ended.message).with("reason", "run_ended"),
            None => {
                let outcome = self.dispatch(&mut call, name, arguments);
                outcome.unwrap_or_else(|error| ToolResult::of_error(&error))
            }
        };
        self.finished(&call, result, started)
    }

    fn requested(&self, id: &str, name: &str, arguments: &Value) -> Call {
        let spec = catalogue::find(name);
        let tool = spec.map_or_else(|| name.to_owned(), |spec| spec.name.to_owned());
        let recorder = self.shared.core.recorder();
        recorder.emit(SessionEvent::ToolCallRequested {
            call_id: id.to_owned(),
            tool: tool.clone(),
            name: name.to_owned(),
            arguments: cleaned(arguments, recorder.redact()),
        });
        Call { id: id.to_owned(), tool, execution: None }
    }

    fn finished(&self, call: &Call, mut result: ToolResult, started: Instant) -> ToolResult {
        let questions = self.shared.core.questions();
        let said = questions.take_said(call);
        if said.iter().any(|outcome| outcome.answer.decision == Decision::Abort) {
            (result.ok, result.error_kind) = (false, Some(ErrorKind::Cancelled));
        } else if !said.is_empty() && !result.ok {
            result.error_kind = Some(ErrorKind::ApprovalDenied);
            if let Some(cause) = said.iter().find_map(Outcome::cause) {
                result = result.with("cause", json!(cause));
            }
        }
        for message in said.iter().filter_map(|outcome| outcome.answer.message.as_deref()) {
            if !result.stderr.contains(message) {
                let gap = if result.stderr.is_empty() || result.stderr.ends_with('\n') { "" } else { "\n" };
                result.stderr.push_str(&format!("{gap}refused: {message}\n"));
            }
        }
        if let Some(ended) = questions.ended() {
            result = result.with("runEnded", ended.message);
        }
        result.duration_ms = started.elapsed().as_secs_f64() * 1000.0;
        self.shared.core.recorder().emit(SessionEvent::ToolCallFinished {
            call_id: call.id.clone(),
            tool: call.tool.clone(),
            ok: result.ok,
            exit_code: result.exit_code,
            result: Some(Box::new(result.clone())),
        });
        result
    }

    /// Why a tool is not offered.
    fn refusal(&self, spec: &ToolSpec) -> Option<String> {
        if spec.effect == Effect::Writes && self.shared.files.workspace().mode() == Mode::ReadOnly {
            return Some(format!("the tool `{}` is not offered: the workspace is read-only", spec.name));
        }
        if self.restriction.as_ref().is_some_and(|restriction| !restriction.offers(spec)) {
            return Some(format!("the tool `{}` is not offered to this agent", spec.name));
        }
        self.shared.policy.explain(spec.name)
    }

    fn dispatch(&self, call: &mut Call, name: &str, arguments: &Value) -> Result<ToolResult> {
        let Some(spec) = catalogue::find(name) else {
            let names: Vec<&str> = self.specs().iter().map(|spec| spec.name).collect();
            let text = format!("there is no tool `{name}`; offered are {}", names.join(", "));
            return Ok(ToolResult::failed(ErrorKind::NotFound, text));
        };
        if let Some(why) = self.refusal(&spec) {
            let (kind, operation) = (ViolationKind::CommandBlocked, Operation::Execute);
            let violation = refusal(kind, operation, spec.name.to_owned(), why.clone());
            self.shared.core.recorder().refused(&violation);
            return Ok(ToolResult::failed(ErrorKind::Permission, why).with("reason", "tool_policy"));
        }
        match spec.name {
            "bash" => self.bash(call, args::parse(arguments)?, arguments),
            "run_code" => self.run_code(call, args::parse(arguments)?, arguments),
            "jobs" => self.jobs(call, args::parse(arguments)?, arguments),
            "read" => self.file(call, &FileCall::Read(args::parse(arguments)?), arguments),
            "write" => self.file(call, &FileCall::Write(args::parse(arguments)?), arguments),
            "edit" => self.file(call, &FileCall::Edit(args::parse(arguments)?), arguments),
            "apply_patch" => self.file(call, &FileCall::ApplyPatch(args::parse(arguments)?), arguments),
            "list" => self.file(call, &FileCall::List(args::parse(arguments)?), arguments),
            "search" => self.file(call, &FileCall::Search(args::parse(arguments)?), arguments),
            _ => self.exit(call, args::parse(arguments)?),
        }
    }

    fn exit(&self, call: &Call, args: args::Exit) -> Result<ToolResult> {
        if let Err(refused) = self.begin(call) {
            return Ok(*refused);
        }
        let message =
            if args.message.is_empty() { "the agent ended the run".to_owned() } else { args.message };
        self.shared.core.questions().end_quietly(&message);
        Ok(ToolResult::text(message).with("exit", true))
    }

    /// The call is allowed, and runs from now on. One that is beyond the budget does not.
    pub(crate) fn begin(&self, call: &Call) -> std::result::Result<(), Box<ToolResult>> {
        let shared = &self.shared;
        let mut spent = shared.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let over = match shared.budget {
            Budget { steps: Some(most), .. } if spent.steps >= most => {
                Some(format!("the run has done its {most} steps"))
            }
            Budget { wall: Some(most), .. } if spent.since.elapsed() >= most => {
                Some(format!("the run has taken its {} seconds", most.as_secs()))
            }
            _ => None,
        };
        if let Some(message) = over {
            drop(spent);
            let (kind, budget) = (ErrorKind::ResourceLimitExceeded, shared.budget);
            let details = json!({
                "callId": call.id, "tool": call.tool,
                "maxSteps": budget.steps, "maxSeconds": budget.wall.map(|most| most.as_secs()),
            });
            shared.core.questions().end_run(Ended::new(kind, message.clone(), details));
            return Err(Box::new(ToolResult::failed(kind, message).with("reason", "budget")));
        }
        spent.steps += 1;
        drop(spent);
        *shared.usage.lock().unwrap_or_else(PoisonError::into_inner).entry(call.tool.clone()).or_default() +=
            1;
        shared.core.started(call);
        Ok(())
    }

    /// How often each tool ran.
    #[must_use]
    pub fn usage(&self) -> BTreeMap<String, u64> {
        self.shared.usage.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Begins another run of this session: a new budget, refusals forgotten, grants kept.
    pub fn begin_run(&self) {
        let mut spent = self.shared.spent.lock().unwrap_or_else(PoisonError::into_inner);
        *spent = Spent { steps: 0, since: Instant::now() };
        drop(spent);
        self.shared.core.questions().begin_run();
    }

    /// Hears every event from now on.
    pub fn listen(&self, listener: Listener) {
        self.shared.core.recorder().listen(listener);
    }

    /// The questions to the person.
    #[must_use]
    pub fn questions(&self) -> &Arc<Questions> {
        self.shared.core.questions()
    }

    /// Ends the command that runs.
    pub fn cancel(&self) {
        self.workplaces().for_each(|place| place.cancel());
    }

    /// Ends everything, and hears how its jobs ended. Repeating it is harmless.
    pub fn dispose(&self) {
        self.workplaces().for_each(|place| place.dispose());
        let watchers = std::mem::take(&mut *self.watchers.lock().unwrap_or_else(PoisonError::into_inner));
        let deadline = Instant::now() + LAST_WORDS;
        while watchers.iter().any(|watcher| !watcher.is_finished()) && Instant::now() < deadline {
            std::thread::sleep(GLANCE);
        }
    }

    fn workplaces(&self) -> impl Iterator<Item = &Arc<dyn Workplace>> {
        std::iter::once(&self.workplace).chain(self.shared.executors.iter().flat_map(Executors::workplaces))
    }
}

fn start_of(shared: &Shared) -> Position {
    Position::new(shared.core.gatekeeper().start())
}
