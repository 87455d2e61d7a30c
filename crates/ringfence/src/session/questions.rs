//! Questions: where they go, and how a run ends by them.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringfence_fence::approval::{Approval, AskAbout, Settled};
use ringfence_fence::approve::{Approver, Question};
use ringfence_fence::{BoxFuture, wait_for};
use ringfence_ledger::Redact;
use ringfence_model::config::{Ask, SafetyConfig};
use ringfence_model::{Decision, ErrorKind, Grant, GrantScope, visible};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::event::SessionEvent;
use super::recorder::{Call, Recorder};
use crate::permission::{Answer, ApprovalService, ConfigFileKeeper, Permission};
use crate::setup::Setup;

/// How long a person is waited for who has to find a terminal first.
const ELSEWHERE: Duration = Duration::from_secs(10 * 60);

/// The origin of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The service answered.
    Provider,
    /// It was answered before.
    Cached,
    /// Nobody answered in time.
    Timeout,
    /// There is nobody to ask.
    NoProvider,
    /// The configuration says that nobody is asked.
    Never,
}

/// An answer, and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub answer: Answer,
    pub reason: Reason,
}

impl Outcome {
    #[must_use]
    pub fn allows(&self) -> bool {
        self.answer.decision.allows()
    }

    /// What became of a question that was not answered with yes; none where nobody was asked.
    #[must_use]
    pub fn cause(&self) -> Option<ErrorKind> {
        match self.reason {
            _ if self.allows() => None,
            Reason::Timeout => Some(ErrorKind::ConfirmationTimeout),
            Reason::Provider | Reason::Cached => Some(ErrorKind::ConfirmationRejected),
            Reason::NoProvider | Reason::Never => None,
        }
    }
}

/// Why a run is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    pub error_kind: ErrorKind,
    pub message: String,
    /// What led to it: the call, its tool, and the question or the budget.
    pub details: Value,
}

impl Ended {
    /// For that reason.
    #[must_use]
    pub fn new(error_kind: ErrorKind, message: impl Into<String>, details: Value) -> Self {
        Self { error_kind, message: message.into(), details }
    }
}

/// The one place where questions are asked. Shared by everything of a session.
#[derive(Debug)]
pub struct Questions {
    /// None: what needs a person is refused, and ends the run.
    service: Option<Arc<dyn ApprovalService>>,
    timeout: Duration,
    /// Somebody wrote down how long to wait.
    is_timeout_chosen: bool,
    /// Which refusals of the fence become questions; none: nothing is asked at all.
    about: Option<AskAbout>,
    keeper: ConfigFileKeeper,
    /// Paths and addresses that nobody is asked about.
    never_ask: Vec<PathBuf>,
    recorder: Arc<Recorder>,
    /// Whether refusals can end the run: an agent's does, a person's commands go on.
    is_agents: bool,
    state: Mutex<State>,
    /// The calls that run in a fence now, the latest last.
    running: Mutex<Vec<Call>>,
}

#[derive(Debug, Default)]
struct State {
    /// Keys that were allowed for the session.
    allowed: HashSet<String>,
    /// Grants of the session.
    granted: Vec<Grant>,
    /// The calls in which a key was refused.
    refused: HashMap<String, Vec<String>>,
    /// What a person was asked about for the last time.
    never: Vec<PathBuf>,
    /// The person's words about a refusal in the call that runs, for the agent.
    said: HashMap<String, Vec<(String, Outcome)>>,
    ended: Option<Ended>,
}

impl Questions {
    /// As the configuration says; `service` brings them to a person.
    #[must_use]
    pub fn new(setup: &Setup, service: Option<Arc<dyn ApprovalService>>, recorder: Arc<Recorder>) -> Self {
        let config = &setup.loaded.config;
        Self {
            service,
            timeout: Duration::from_millis(config.safety.approval_timeout_ms),
            is_timeout_chosen: config.safety.approval_timeout_ms
                != SafetyConfig::default().approval_timeout_ms,
            about: match config.ask {
                Ask::Never => None,
                Ask::DenyOnly => Some(AskAbout::DenyList),
                Ask::On => Some(AskAbout::All),
            },
            keeper: ConfigFileKeeper(setup.user_file()),
            never_ask: config.never_ask.iter().map(|entry| never_asked(&entry.text, &setup.home)).collect(),
            recorder,
            is_agents: false,
            state: Mutex::default(),
            running: Mutex::default(),
        }
    }

    /// The questions of an agent's run, which ends when a person ends it, when there is nobody to ask, or when the same
    /// thing is refused for the second time.
    #[must_use]
    pub fn of_an_agent(self) -> Self {
        Self { is_agents: true, ..self }
    }

    #[must_use]
    pub fn recorder(&self) -> &Arc<Recorder> {
        &self.recorder
    }

    #[must_use]
    pub fn redact(&self) -> &dyn Redact {
        self.recorder.redact()
    }

    /// Asks, unless it was answered for the session before. Returns when there is an answer, or no time left.
    pub fn ask(&self, mut permission: Permission, call: &Call) -> Outcome {
        permission.call.clone_from(&call.id);
        permission.session = self.recorder.session().map(str::to_owned);
        permission.timeout_ms = u64::try_from(self.patience().as_millis()).unwrap_or(u64::MAX);
        if let Some(known) = self.known(&permission, call) {
            return known;
        }
        if self.about.is_none() {
            let answer = Answer::deny("nobody is asked here (ask: never)");
            return Outcome { answer, reason: Reason::Never };
        }
        self.recorder.emit(SessionEvent::ApprovalRequested {
            approval_key: permission.key.clone(),
            call_id: call.id.clone(),
            tool: permission.tool.clone(),
            summary: permission.sentence(),
            request: permission.request.clone(),
            permission: Box::new(permission.clone()),
        });
        let (outcome, by) = self.answered(&permission);
        self.settle(&permission, call, &outcome, &by);
        outcome
    }

    /// How long an answer is waited for.
    fn patience(&self) -> Duration {
        let is_elsewhere = self.service.as_ref().is_some_and(|service| service.is_elsewhere());
        if is_elsewhere && !self.is_timeout_chosen { ELSEWHERE } else { self.timeout }
    }

    fn known(&self, permission: &Permission, call: &Call) -> Option<Outcome> {
        let state = self.lock();
        let granted = permission.grant.as_ref().is_some_and(|wanted| {
            state.granted.iter().any(|grant| grant.access.includes(wanted.access) && includes(grant, wanted))
        });
        if granted || state.allowed.contains(&permission.key) {
            drop(state);
            let answer = Answer::new(Decision::AllowSession);
            self.recorder.emit(decided(permission, call, &answer, Reason::Cached));
            return Some(Outcome { answer, reason: Reason::Cached });
        }
        let never = permission.grant.as_ref().is_some_and(|wanted| {
            self.never_ask.iter().chain(&state.never).any(|refused| wanted.path.starts_with(refused))
        });
        if never {
            let answer = Answer::deny("a person said that nobody is asked about this again (neverAsk)");
            return Some(Outcome { answer, reason: Reason::Never });
        }
        // A program that tries again within one command asks nobody again.
        let said = state.said.get(&call.id)?.iter().find(|(key, _)| *key == permission.key)?;
        Some(Outcome { reason: Reason::Cached, ..said.1.clone() })
    }

    fn answered(&self, permission: &Permission) -> (Outcome, String) {
        let Some(service) = &self.service else {
            let answer = Answer::deny("there is nobody to ask");
            return (Outcome { answer, reason: Reason::NoProvider }, "nobody".to_owned());
        };
        let outcome = match wait_for(service.ask(permission), permission.timeout()) {
            // An answer that was not offered allows nothing.
            Some(answer)
                if !permission.options.contains(&answer.decision)
                    && answer.decision != Decision::DenyPermanent =>
            {
                let answer = Answer::deny(format!("{:?} was not among the options", answer.decision));
                Outcome { answer, reason: Reason::Provider }
            }
            Some(mut answer) => {
                answer.code = answer.code.filter(|_| permission.editable);
                Outcome { answer, reason: Reason::Provider }
            }
            None => {
                let answer = Answer::deny("nobody answered in time");
                Outcome { answer, reason: Reason::Timeout }
            }
        };
        let by = if outcome.reason == Reason::Timeout { "timeout" } else { service.name() };
        (outcome, by.to_owned())
    }

    fn settle(&self, permission: &Permission, call: &Call, outcome: &Outcome, by: &str) {
        let answer = &outcome.answer;
        self.recorder.emit(decided(permission, call, answer, outcome.reason));
        // Nobody decided where there is nobody.
        if outcome.reason != Reason::NoProvider {
            self.recorder.decided(permission, call, answer, by);
        }
        let mut state = self.lock();
        if !answer.decision.allows() {
            let said = (permission.key.clone(), outcome.clone());
            state.said.entry(call.id.clone()).or_default().push(said);
        }
        match answer.decision {
            Decision::AllowOnce => {}
            Decision::AllowSession | Decision::AllowPermanent => match &permission.grant {
                Some(grant) => state.granted.push(Grant { scope: GrantScope::Session, ..grant.clone() }),
                // Code that was changed is another request.
                None if answer.code.is_none() => drop(state.allowed.insert(permission.key.clone())),
                None => {}
            },
            Decision::Deny | Decision::DenyPermanent => {
                if answer.decision == Decision::DenyPermanent {
                    state.never.extend(permission.grant.as_ref().map(|grant| grant.path.clone()));
                }
                let calls = state.refused.entry(permission.key.clone()).or_default();
                calls.push(call.id.clone());
                let again = calls.len() > 1;
                let details = details(permission, call);
                if outcome.reason == Reason::NoProvider {
                    let message = "approval is needed, but there is nobody to ask";
                    self.end(&mut state, Ended::new(ErrorKind::ConfigError, message, details));
                } else if again {
                    let message = format!("refused for the second time: {}", permission.resource);
                    self.end(&mut state, Ended::new(ErrorKind::ApprovalDenied, message, details));
                }
            }
            Decision::Abort => {
                let details = details(permission, call);
                self.end(&mut state, Ended::new(ErrorKind::Cancelled, "a person ended the run", details));
            }
        }
        drop(state);
        match answer.decision {
            Decision::AllowPermanent => self.keep(permission),
            Decision::DenyPermanent => self.keep_refusal(permission),
            Decision::AllowOnce | Decision::AllowSession | Decision::Deny | Decision::Abort => {}
        }
    }

    fn keep_refusal(&self, permission: &Permission) {
        let file = self.keeper.0.display();
        let kept = match (&permission.grant, &permission.proposal) {
            (Some(grant), _) => {
                let resource = grant.path.to_string_lossy();
                self.keeper.keep_refusal(grant).map(|()| {
                    let resource = visible(&resource);
                    format!("nobody is asked about {resource} again ({file}); ask again with: ringfence grants revoke {resource}")
                })
            }
            (None, Some(rule)) => self.keeper.keep_denied_rule(rule).map(|()| {
                format!("commands like `{rule}` are refused from now on ({file}); see: ringfence rules list")
            }),
            (None, None) => return,
        };
        self.recorder.emit(match kept {
            Ok(message) => SessionEvent::Kept { message },
            Err(error) => SessionEvent::Warning {
                message: format!("denied, but it will be asked about in later sessions: {}", error.chain()),
            },
        });
    }

    fn keep(&self, permission: &Permission) {
        let file = self.keeper.0.display();
        let kept = match (&permission.grant, &permission.proposal) {
            (Some(grant), _) => self.keeper.keep_grant(grant).map(|()| {
                let path = visible(&grant.path.to_string_lossy());
                format!("granted in {file}; take it back with: ringfence grants revoke {path}")
            }),
            (None, Some(rule)) => self.keeper.keep_rule(rule).map(|()| {
                format!("commands like `{rule}` pass from now on ({file}); see: ringfence rules list")
            }),
            (None, None) => return,
        };
        // An answer that could not be kept holds for the session all the same.
        self.recorder.emit(match kept {
            Ok(message) => SessionEvent::Kept { message },
            Err(error) => SessionEvent::Warning {
                message: format!("allowed, but not for later sessions: {}", error.chain()),
            },
        });
    }

    fn end(&self, state: &mut State, ended: Ended) {
        if state.ended.is_some() || !self.is_agents {
            return;
        }
        self.recorder.emit(SessionEvent::of_end(&ended, self.recorder.locator()));
        state.ended = Some(ended);
    }

    /// Why the run is over, if it is.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        self.lock().ended.clone()
    }

    /// Ends the run from outside, such as by its budget or the agent itself.
    pub fn end_run(&self, ended: Ended) {
        self.end(&mut self.lock(), ended);
    }

    /// Ends the run as planned: later calls are told so, and nothing failed.
    pub(crate) fn end_quietly(&self, message: &str) {
        let mut state = self.lock();
        state.ended.get_or_insert_with(|| Ended::new(ErrorKind::Cancelled, message, Value::Null));
    }

    /// Begins another run of the same session: what was granted stays, refusals are forgotten.
    pub fn begin_run(&self) {
        let mut state = self.lock();
        state.ended = None;
        state.refused.clear();
        state.said.clear();
    }

    /// Grants of the session.
    #[must_use]
    pub fn granted(&self) -> Vec<Grant> {
        self.lock().granted.clone()
    }

    /// Refusals of the person during a call. They are given once.
    pub(crate) fn take_said(&self, call: &Call) -> Vec<Outcome> {
        let said = self.lock().said.remove(&call.id).unwrap_or_default();
        said.into_iter().map(|(_, outcome)| outcome).collect()
    }

    /// Questions of the fence may be on behalf of this call, until what is returned is dropped.
    pub(crate) fn running(&self, call: &Call) -> Running<'_> {
        self.lock_running().push(call.clone());
        Running { questions: self, id: call.id.clone() }
    }

    /// The call of that id, or else the one that began last.
    fn call_of(&self, id: Option<&str>) -> Call {
        let running = self.lock_running();
        let named = id.and_then(|id| running.iter().find(|call| call.id == id));
        named.or(running.last()).cloned().unwrap_or_default()
    }

    fn lock_running(&self) -> MutexGuard<'_, Vec<Call>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For a fence that can hold a call until it is answered; none when nobody is to be asked.
    #[must_use]
    pub fn live(self: &Arc<Self>) -> Option<Approval> {
        if self.service.is_none() && !self.is_agents {
            return None;
        }
        Some(Approval {
            approver: Arc::new(Live(Arc::clone(self))),
            about: self.about?,
            // The time is kept here; this is only a net below it.
            timeout: self.timeout.max(ELSEWHERE) + Duration::from_secs(5),
            on_settled: self.problems(),
        })
    }

    /// Says why an allowed call could still not be carried out.
    fn problems(self: &Arc<Self>) -> Arc<dyn Fn(&Settled) + Send + Sync> {
        let its = Arc::clone(self);
        Arc::new(move |settled| {
            if let Some(problem) = &settled.problem {
                let path = visible(&settled.question.grant.path.to_string_lossy());
                let message =
                    its.redact().redact(&format!("{path} was allowed, but: {problem}")).into_owned();
                its.recorder.emit(SessionEvent::Warning { message });
            }
        })
    }

    /// Whether a refusal becomes a question.
    #[must_use]
    pub fn asks_about(&self, reason: Option<ringfence_model::DenyReason>) -> bool {
        match self.about {
            None => false,
            Some(AskAbout::All) => true,
            Some(AskAbout::DenyList) => reason == Some(ringfence_model::DenyReason::Denied),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As the fence names it: a path without `~`, or an address.
fn never_asked(text: &str, home: &Path) -> PathBuf {
    match Path::new(text).strip_prefix("~") {
        Ok(below) => home.join(below),
        Err(_) => text.into(),
    }
}

fn details(permission: &Permission, call: &Call) -> Value {
    let (tool, resource) = (&permission.tool, &permission.resource);
    json!({ "callId": call.id, "tool": tool, "approvalKey": permission.key, "resource": resource })
}

fn decided(permission: &Permission, call: &Call, answer: &Answer, reason: Reason) -> SessionEvent {
    SessionEvent::ApprovalDecided {
        approval_key: permission.key.clone(),
        call_id: call.id.clone(),
        decision: answer.decision,
        reason,
        message: answer.message.clone(),
    }
}

fn includes(grant: &Grant, wanted: &Grant) -> bool {
    let place = grant.path == wanted.path || (grant.recursive && wanted.path.starts_with(&grant.path));
    place && (grant.recursive || !wanted.recursive)
}

/// A call whose command runs in a fence.
#[derive(Debug)]
pub(crate) struct Running<'a> {
    questions: &'a Questions,
    id: String,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut running = self.questions.lock_running();
        if let Some(at) = running.iter().rposition(|call| call.id == self.id) {
            running.remove(at);
        }
    }
}

/// The questions, as the fence sees them.
#[derive(Debug)]
struct Live(Arc<Questions>);

impl Approver for Live {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Decision> {
        Box::pin(async move {
            let questions = &self.0;
            let call = questions.call_of(question.call.as_deref());
            let permission = Permission::access(&call.tool, question, questions.redact());
            let outcome = questions.ask(permission, &call);
            match outcome.answer.decision {
                // The run is over; the command that asked need not be the last to know.
                Decision::Deny | Decision::DenyPermanent if questions.ended().is_some() => Decision::Abort,
                // It is kept here; a fence refuses the one call.
                Decision::DenyPermanent => Decision::Deny,
                decision => decision,
            }
        })
    }
}
