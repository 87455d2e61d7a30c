//! Judge → ask → run → retry → record: the one way of every command.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use ringfence_fence::approve::Question;
use ringfence_fence::jobs::JobInfo;
use ringfence_fence::{EventSink, Ticket};
use ringfence_gate::reading::CodeReader;
use ringfence_gate::{Decision as Verdicts, Language, Verdict};
use ringfence_model::config::GateMode;
use ringfence_model::{
    Access, Assurance, Command, Decision, Error, ErrorKind, ExecRequest, ExecResult, Grant, GrantScope,
    Result, Violation,
};
use serde_json::{Value, json};

use super::event::SessionEvent;
use super::questions::{Outcome, Questions, Reason};
use super::quote::text_of;
use super::recorder::{Call, Recorder};
use super::refusal::{Passed, Refusal, Why};
use super::workplace::Runner;
use crate::gate::{Circumstances, Gatekeeper};
use crate::permission::{ApprovalService, Permission, cleaned};
use crate::setup::Setup;

/// How often code may be edited before it runs.
const MOST_EDITS: usize = 5;
/// How many resources one command may ask for, where it has to be run again for each.
const MOST_RETRIES: usize = 8;

/// Choices of a door; the rest follows from the configuration.
#[derive(Debug, Default)]
pub struct CoreOptions {
    /// The service that answers questions; none: nobody does.
    pub service: Option<Arc<dyn ApprovalService>>,
    /// The ledger in which everything is recorded; see [`open_ledger`](super::recorder::open_ledger).
    pub ledger: Option<Arc<ringfence_ledger::Writer>>,
    /// Hidden wherever they would be shown, besides the values of variables that are named like secrets.
    pub secrets: Vec<String>,
    /// The session's name in the ledger and in questions.
    pub session_key: Option<String>,
    /// The reader of Python and JavaScript for the gate; none: such code is asked about.
    pub code_reader: Option<Arc<dyn CodeReader>>,
    /// The directory in which commands work, when that is not the project, and more that belong to it.
    pub directories: Vec<PathBuf>,
    /// Whether the calls are an agent's: then a refusal can end its run.
    pub is_agents: bool,
}

/// The core that every door goes through.
#[derive(Debug, Clone)]
pub struct Core {
    setup: Arc<Setup>,
    gatekeeper: Gatekeeper,
    questions: Arc<Questions>,
    recorder: Arc<Recorder>,
}

/// A command that somebody wants to run.
#[derive(Debug, Clone)]
pub struct Proposal<'a> {
    /// In which language it is.
    pub language: Language,
    /// As it was given; its text is what is judged.
    pub command: Command,
    /// The directory in which it would run; none: that is not known.
    pub cwd: Option<&'a str>,
    /// The request as it was made: what a question shows and its key is made of.
    pub arguments: Value,
    /// The field of `arguments` that holds the code, which a person may edit.
    pub field: &'static str,
    /// The agent wants more than the fence gives.
    pub escalated: bool,
    /// Whether a fence will hold it, so that what the fence refuses exactly need not be asked about before.
    pub is_fenced: bool,
    /// A person said that it is not to be judged.
    pub is_unjudged: bool,
    /// Its risk decides where it runs, so that it is assessed even when the gate is off.
    pub wants_risk: bool,
}

impl Proposal<'_> {
    /// A shell command that a fence will hold.
    #[must_use]
    pub fn new(command: Command) -> Self {
        Self {
            language: Language::Shell,
            arguments: json!({ "command": text_of(&command) }),
            command,
            cwd: None,
            field: "command",
            escalated: false,
            is_fenced: true,
            is_unjudged: false,
            wants_risk: false,
        }
    }
}

/// A command that may run.
#[derive(Debug)]
pub struct Admitted {
    /// As it was given, or as a person edited it.
    pub command: Command,
    /// The gate's verdict, where it was asked.
    pub verdict: Option<Verdict>,
    /// Why it may run.
    pub how: Passed,
}

impl Admitted {
    /// The code, as text.
    #[must_use]
    pub fn code(&self) -> String {
        text_of(&self.command)
    }
}

/// The outcome of a command.
#[derive(Debug)]
pub struct Ran {
    /// As the configuration lets it be kept and shown.
    pub result: ExecResult,
    /// Violations that the configuration does not let a result keep.
    pub dropped: Vec<Violation>,
    /// The addition to the command's standard error: the violations, where the configuration wants them there.
    pub annotation: String,
}

impl Core {
    /// As a configuration describes it.
    pub fn new(setup: &Arc<Setup>, options: CoreOptions) -> Result<Self> {
        let mut gatekeeper = Gatekeeper::new(setup)?.working_in(options.directories);
        if let Some(reader) = options.code_reader {
            gatekeeper = gatekeeper.reading_code_by(reader);
        }
        let recorder = Arc::new(Recorder::new(setup, options.ledger, &options.secrets, options.session_key));
        let questions = Questions::new(setup, options.service, Arc::clone(&recorder));
        let questions = Arc::new(if options.is_agents { questions.of_an_agent() } else { questions });
        Ok(Self { setup: Arc::clone(setup), gatekeeper, questions, recorder })
    }

    /// The configuration.
    #[must_use]
    pub fn setup(&self) -> &Arc<Setup> {
        &self.setup
    }

    /// The questions to the person.
    #[must_use]
    pub fn questions(&self) -> &Arc<Questions> {
        &self.questions
    }

    /// The recorder, which hears all that happens.
    #[must_use]
    pub fn recorder(&self) -> &Arc<Recorder> {
        &self.recorder
    }

    /// The gatekeeper, which judges without asking or running.
    #[must_use]
    pub fn gatekeeper(&self) -> &Gatekeeper {
        &self.gatekeeper
    }

    /// The whole way of one command: judge, ask, run, retry, record.
    pub fn run(
        &self,
        call: &mut Call,
        mut proposal: Proposal<'_>,
        runner: &dyn Runner,
        ticket: &Ticket,
        mut request: ExecRequest,
        events: EventSink<'_>,
    ) -> std::result::Result<Result<Ran>, Box<Refusal>> {
        proposal.is_fenced = runner.is_fenced();
        self.requested(call, &proposal.arguments);
        let admitted = match self.admit(call, &proposal) {
            Ok(admitted) => admitted,
            Err(refusal) => {
                self.finished(call, false, None);
                return Err(refusal);
            }
        };
        self.started(call);
        let code = admitted.code();
        request.command = admitted.command;
        let outcome = self.execute(call, &code, runner, ticket, request, events);
        let exit_code = outcome.as_ref().ok().map(|ran| ran.result.exit_code);
        self.finished(call, exit_code == Some(0), exit_code);
        Ok(outcome)
    }

    /// Somebody wants something.
    pub fn requested(&self, call: &Call, arguments: &Value) {
        self.recorder.emit(SessionEvent::ToolCallRequested {
            call_id: call.id.clone(),
            tool: call.tool.clone(),
            name: call.tool.clone(),
            arguments: cleaned(arguments, self.recorder.redact()),
        });
    }

    /// It was allowed, and runs from now on.
    pub fn started(&self, call: &Call) {
        let event = SessionEvent::ToolCallStarted { call_id: call.id.clone(), tool: call.tool.clone() };
        self.recorder.emit(event);
    }

    /// It is over.
    pub fn finished(&self, call: &Call, ok: bool, exit_code: Option<i32>) {
        let (call_id, tool) = (call.id.clone(), call.tool.clone());
        self.recorder.emit(SessionEvent::ToolCallFinished { call_id, tool, ok, exit_code, result: None });
    }

    /// The gate's judgement, and a person's where it asks for one. The call gets its row in the ledger, which a refusal
    /// ends.
    pub fn admit(
        &self,
        call: &mut Call,
        proposal: &Proposal<'_>,
    ) -> std::result::Result<Admitted, Box<Refusal>> {
        let (mut command, mut arguments) = (proposal.command.clone(), proposal.arguments.clone());
        let is_off = self.gatekeeper.mode() == GateMode::Off;
        let mut id = self.recorder.start(&command, proposal.cwd.map(PathBuf::from));
        call.execution = Some(id);
        if proposal.is_unjudged {
            self.recorder.judged(id, None, "skipped");
        }
        if (is_off || proposal.is_unjudged) && !proposal.wants_risk {
            return Ok(Admitted { command, verdict: None, how: Passed::Unjudged });
        }
        for _ in 0..=MOST_EDITS {
            let code = text_of(&command);
            let verdict = self.judge(proposal, &code);
            let refusal = |why| Refusal::new(&code, verdict.clone(), why, &self.setup.user_file());
            let how = match verdict.decision {
                _ if is_off || proposal.is_unjudged => Passed::Unjudged,
                Verdicts::Allow => Passed::Allowed,
                Verdicts::Deny => return Err(self.refuse(call, refusal(Why::Denied))),
                Verdicts::Ask if proposal.is_fenced && self.gatekeeper.is_left_to_the_fence(&verdict) => {
                    Passed::LeftToTheFence
                }
                Verdicts::Ask => {
                    let redact = self.recorder.redact();
                    let permission = Permission::execution(&call.tool, &code, &arguments, &verdict, redact);
                    let outcome = self.questions.ask(permission.clone(), call);
                    if !outcome.allows() {
                        let refusal = refusal(why_not(&outcome)).answered(permission, outcome);
                        return Err(self.refuse(call, refusal));
                    }
                    match outcome.answer.code.filter(|edited| *edited != code) {
                        None => Passed::Approved(outcome.answer.decision),
                        Some(edited) => {
                            // Another command has another row, and is judged again.
                            let why = Error::new(ErrorKind::Cancelled, "a person edited it before it ran");
                            self.recorder.failed(id, &why);
                            arguments[proposal.field] = edited.clone().into();
                            command = Command::Shell(edited);
                            id = self.recorder.start(&command, proposal.cwd.map(PathBuf::from));
                            call.execution = Some(id);
                            continue;
                        }
                    }
                }
            };
            if let Some(word) = how.word() {
                self.recorder.judged(id, Some(&verdict), word);
            }
            return Ok(Admitted { command, verdict: Some(verdict), how });
        }
        let code = text_of(&command);
        let verdict = self.judge(proposal, &code);
        let refusal = Refusal::new(&code, verdict, Why::NotApproved, &self.setup.user_file());
        Err(self.refuse(call, refusal))
    }

    fn judge(&self, proposal: &Proposal<'_>, code: &str) -> Verdict {
        let circumstances = Circumstances { is_fenced: proposal.is_fenced, escalated: proposal.escalated };
        self.gatekeeper.judge_as(proposal.language, code, proposal.cwd, circumstances)
    }

    fn refuse(&self, call: &Call, refusal: Refusal) -> Box<Refusal> {
        if let Some(id) = call.execution {
            self.recorder.judged(id, Some(&refusal.verdict), refusal.word());
            self.recorder.never_ran(id, &self.refused(&refusal), &refusal.message());
        }
        Box::new(refusal)
    }

    /// The result of a command that was refused and never ran.
    #[must_use]
    pub fn refused(&self, refusal: &Refusal) -> ExecResult {
        self.ran(refusal.result()).result
    }

    /// Runs what was admitted, and records it. Where the place cannot hold a refused call, a person is asked afterwards,
    /// and the command is run again only then, with exactly what was granted. `code` is what people are shown of it.
    pub fn execute(
        &self,
        call: &mut Call,
        code: &str,
        runner: &dyn Runner,
        ticket: &Ticket,
        mut request: ExecRequest,
        events: EventSink<'_>,
    ) -> Result<Ran> {
        request.call = Some(call.id.clone());
        let request = &request;
        let running = self.questions.running(call);
        let mut outcome = self.record(call, runner.run(ticket, request, events));
        drop(running);
        if runner.holds_calls() {
            return outcome;
        }
        for _ in 0..MOST_RETRIES {
            let Ok(ran) = &outcome else { break };
            let Some(question) = question(&ran.result, code) else { break };
            if ticket.is_cancelled() || !self.questions.asks_about(question.violation.reason) {
                break;
            }
            let permission = Permission::access(&call.tool, &question, self.recorder.redact());
            let answer = self.questions.ask(permission, call).answer.decision;
            if !answer.allows() {
                break;
            }
            call.execution = Some(self.recorder.start(&Command::Shell(code.to_owned()), request.cwd.clone()));
            let again = match answer {
                Decision::AllowOnce => runner.run_granted(&question.grant, ticket, request, events),
                _ => runner.grant(&question.grant).and_then(|()| runner.run(ticket, request, events)),
            };
            outcome = self.record(call, again);
        }
        outcome
    }

    fn record(&self, call: &Call, outcome: Result<ExecResult>) -> Result<Ran> {
        let ran = outcome.map(|result| self.ran(result));
        if let Some(id) = call.execution {
            match &ran {
                Ok(ran) => self.recorder.finish(id, &ran.result),
                Err(error) => self.recorder.failed(id, error),
            }
        }
        ran
    }

    /// A command in the background has ended, or could not begin.
    pub fn job_ended(
        &self,
        call: &Call,
        outcome: Result<JobInfo>,
        sandbox: Assurance,
        started: Instant,
    ) -> Result<Ran> {
        let ran = self.record_job(call, outcome, sandbox, started);
        let exit_code = ran.as_ref().ok().map(|ran| ran.result.exit_code);
        self.finished(call, exit_code == Some(0), exit_code);
        ran
    }

    /// As [`job_ended`](Self::job_ended), where the call that began it is over.
    pub(crate) fn record_job(
        &self,
        call: &Call,
        outcome: Result<JobInfo>,
        sandbox: Assurance,
        started: Instant,
    ) -> Result<Ran> {
        self.record(call, outcome.map(|job| job.result(sandbox, started.elapsed())))
    }

    /// Does what the configuration says about violations.
    #[must_use]
    pub fn ran(&self, mut result: ExecResult) -> Ran {
        result.sort_notices();
        // What a container shows may have another name here.
        if result.sandbox.adapter.starts_with("local/") {
            result.runs_later.retain(|path| Path::new(path).symlink_metadata().is_ok());
        }
        let annotation = self.setup.annotation(&result);
        result.stderr.extend_from_slice(annotation.as_bytes());
        let dropped = self.setup.drop_violations(&mut result);
        Ran { result, dropped, annotation }
    }
}

fn why_not(outcome: &Outcome) -> Why {
    match (outcome.reason, outcome.answer.decision) {
        (Reason::NoProvider | Reason::Never, _) => Why::NobodyToAsk,
        (_, Decision::Abort) => Why::Aborted,
        _ => Why::NotApproved,
    }
}

/// The question about what blocked a command that has ended.
fn question(result: &ExecResult, command: &str) -> Option<Question> {
    let resource = result.blocked_resource.as_deref().filter(|_| result.blocked)?;
    let violation = result.violations.iter().rev().find(|violation| violation.resource == resource)?;
    let path = PathBuf::from(resource);
    if !path.is_absolute() {
        return None;
    }
    let grant = Grant {
        recursive: path.is_dir(),
        path,
        access: violation.access.unwrap_or(Access::Read),
        scope: GrantScope::Once,
    };
    Some(Question { violation: violation.clone(), command: command.to_owned(), grant, call: None })
}
