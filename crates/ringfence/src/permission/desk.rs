//! Where questions go, and how a run ends by them.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringfence_fence::approve::{Approver, DEFAULT_TIMEOUT, Question};
use ringfence_fence::{BoxFuture, wait_for};
use ringfence_ledger::Redact;
use ringfence_local::approval::{Approval, AskAbout};
use ringfence_model::{Access, Decision, ErrorKind, Grant, GrantScope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answer::Answer;
use super::keep::Keeper;
use super::request::Permission;
use super::service::ApprovalService;
use crate::tools::event::ToolEvent;
use crate::tools::journal::{CallRef, Journal};

/// What a desk is made of.
#[derive(Debug, Clone)]
pub struct DeskOptions {
    /// None: everything that needs a person is refused, and ends the run.
    pub service: Option<Arc<dyn ApprovalService>>,
    pub timeout: Duration,
    /// Which refusals of the fence become questions; none: none.
    pub about: Option<AskAbout>,
    /// None: nothing can be allowed for good.
    pub keeper: Option<Arc<dyn Keeper>>,
}

impl Default for DeskOptions {
    fn default() -> Self {
        Self { service: None, timeout: DEFAULT_TIMEOUT, about: Some(AskAbout::All), keeper: None }
    }
}

/// Where an answer came from.
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
}

/// Why a run is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    pub error_kind: ErrorKind,
    pub message: String,
}

/// The one place where questions are asked. Shared by all tools of a session.
#[derive(Debug)]
pub struct Desk {
    options: DeskOptions,
    journal: Arc<Journal>,
    state: Mutex<State>,
    /// The call that runs in the fence now.
    current: Mutex<CallRef>,
}

#[derive(Debug, Default)]
struct State {
    /// Keys that were allowed for the session.
    allowed: HashSet<String>,
    /// What was granted for the session.
    granted: Vec<Grant>,
    /// The calls in which a key was refused.
    refused: HashMap<String, Vec<String>>,
    /// What the person said about a refusal in the call that runs, for the agent.
    said: HashMap<String, Vec<(String, Answer)>>,
    ended: Option<Ended>,
}

impl Desk {
    #[must_use]
    pub fn new(options: DeskOptions, journal: Arc<Journal>) -> Self {
        Self { options, journal, state: Mutex::default(), current: Mutex::default() }
    }

    #[must_use]
    pub fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }

    #[must_use]
    pub fn redact(&self) -> &dyn Redact {
        self.journal.redact()
    }

    /// Whether an answer can become a rule for commands.
    #[must_use]
    pub fn keeps_rules(&self) -> bool {
        self.options.keeper.as_ref().is_some_and(|keeper| keeper.keeps_rules())
    }

    /// Asks, unless it was answered for the session before. Returns when there is an answer, or no time left.
    pub fn ask(&self, mut permission: Permission, call: &CallRef) -> Outcome {
        permission.session = self.journal.session().map(str::to_owned);
        permission.timeout_ms = u64::try_from(self.options.timeout.as_millis()).unwrap_or(u64::MAX);
        if self.options.keeper.is_none() {
            permission.options.retain(|option| *option != Decision::AllowPermanent);
        }
        if let Some(known) = self.known(&permission, call) {
            return known;
        }
        self.journal.emit(ToolEvent::ApprovalRequested {
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

    fn known(&self, permission: &Permission, call: &CallRef) -> Option<Outcome> {
        let state = self.lock();
        let granted = permission.grant.as_ref().is_some_and(|wanted| {
            state.granted.iter().any(|grant| grant.access_covers(wanted.access) && includes(grant, wanted))
        });
        if granted || state.allowed.contains(&permission.key) {
            drop(state);
            let answer = Answer::new(Decision::AllowSession);
            self.journal.emit(decided(permission, call, &answer, Reason::Cached));
            return Some(Outcome { answer, reason: Reason::Cached });
        }
        // A program that tries again within one command asks nobody again.
        let said = state.said.get(&call.id)?.iter().find(|(key, _)| *key == permission.key)?;
        Some(Outcome { answer: said.1.clone(), reason: Reason::Cached })
    }

    fn answered(&self, permission: &Permission) -> (Outcome, String) {
        let Some(service) = &self.options.service else {
            let answer = Answer::deny("there is nobody to ask");
            return (Outcome { answer, reason: Reason::NoProvider }, "nobody".to_owned());
        };
        let outcome = match wait_for(service.ask(permission), self.options.timeout) {
            // What was not offered was not allowed.
            Some(answer) if !permission.options.contains(&answer.decision) => {
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

    fn settle(&self, permission: &Permission, call: &CallRef, outcome: &Outcome, by: &str) {
        let answer = &outcome.answer;
        self.journal.emit(decided(permission, call, answer, outcome.reason));
        self.journal.decided(permission, call, answer, by);
        let mut state = self.lock();
        match answer.decision {
            Decision::AllowOnce => {}
            Decision::AllowSession | Decision::AllowPermanent => match &permission.grant {
                Some(grant) => state.granted.push(Grant { scope: GrantScope::Session, ..grant.clone() }),
                // Code that was changed is another request.
                None if answer.code.is_none() => drop(state.allowed.insert(permission.key.clone())),
                None => {}
            },
            Decision::Deny => {
                state.said.entry(call.id.clone()).or_default().push((permission.key.clone(), answer.clone()));
                let calls = state.refused.entry(permission.key.clone()).or_default();
                calls.push(call.id.clone());
                let again = calls.len() > 1;
                if outcome.reason == Reason::NoProvider {
                    self.end(
                        &mut state,
                        ErrorKind::ConfigError,
                        "a person is needed, and there is nobody to ask",
                    );
                } else if again {
                    let message = format!("refused for the second time: {}", permission.resource);
                    self.end(&mut state, ErrorKind::ApprovalDenied, &message);
                }
            }
            Decision::Abort => {
                state.said.entry(call.id.clone()).or_default().push((permission.key.clone(), answer.clone()));
                self.end(&mut state, ErrorKind::Cancelled, "a person ended the run");
            }
        }
        drop(state);
        if answer.decision == Decision::AllowPermanent {
            self.keep(permission);
        }
    }

    fn keep(&self, permission: &Permission) {
        let Some(keeper) = &self.options.keeper else { return };
        let kept = match (&permission.grant, &permission.proposal) {
            (Some(grant), _) => keeper.keep_grant(grant),
            (None, Some(rule)) => keeper.keep_rule(rule),
            (None, None) => Ok(()),
        };
        if let Err(error) = kept {
            // It holds for the session all the same.
            self.journal
                .emit(ToolEvent::Warning { message: format!("not kept for good: {}", error.chain()) });
        }
    }

    fn end(&self, state: &mut State, error_kind: ErrorKind, message: &str) {
        if state.ended.is_some() {
            return;
        }
        let ended = Ended { error_kind, message: message.to_owned() };
        self.journal.emit(ToolEvent::of_end(&ended));
        state.ended = Some(ended);
    }

    /// Why the run is over, if it is.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        self.lock().ended.clone()
    }

    /// Ends the run from outside, such as by its budget or the agent itself.
    pub fn end_run(&self, error_kind: ErrorKind, message: &str) {
        self.end(&mut self.lock(), error_kind, message);
    }

    /// Ends the run as planned: later calls are told so, and nothing failed.
    pub(crate) fn end_quietly(&self, message: &str) {
        let mut state = self.lock();
        state.ended.get_or_insert(Ended { error_kind: ErrorKind::Cancelled, message: message.to_owned() });
    }

    /// Begins another run of the same session: what was granted stays, refusals are forgotten.
    pub fn begin_run(&self) {
        let mut state = self.lock();
        state.ended = None;
        state.refused.clear();
        state.said.clear();
    }

    /// What was granted for the session.
    #[must_use]
    pub fn granted(&self) -> Vec<Grant> {
        self.lock().granted.clone()
    }

    /// What the person refused during a call. Asked once.
    pub(crate) fn take_said(&self, call: &CallRef) -> Vec<Answer> {
        let said = self.lock().said.remove(&call.id).unwrap_or_default();
        said.into_iter().map(|(_, answer)| answer).collect()
    }

    /// Questions of the fence are on behalf of this call from now on.
    pub(crate) fn turn_to(&self, call: &CallRef) {
        call.clone_into(&mut self.current.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// For a fence that can hold a call until it is answered; none when nobody is to be asked.
    #[must_use]
    pub fn live(self: &Arc<Self>) -> Option<Approval> {
        Some(Approval {
            approver: Arc::new(Live(Arc::clone(self))),
            about: self.options.about?,
            // The desk keeps the time itself; this is only a net below it.
            timeout: self.options.timeout + Duration::from_secs(5),
            on_settled: Arc::new(|_| ()),
        })
    }

    /// Whether a refusal becomes a question.
    #[must_use]
    pub fn asks_about(&self, reason: Option<ringfence_model::DenyReason>) -> bool {
        match self.options.about {
            None => false,
            Some(AskAbout::All) => true,
            Some(AskAbout::DenyList) => reason == Some(ringfence_model::DenyReason::Denied),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn decided(permission: &Permission, call: &CallRef, answer: &Answer, reason: Reason) -> ToolEvent {
    ToolEvent::ApprovalDecided {
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

trait AccessCovers {
    fn access_covers(&self, wanted: Access) -> bool;
}

impl AccessCovers for Grant {
    fn access_covers(&self, wanted: Access) -> bool {
        self.access == Access::Write || wanted != Access::Write
    }
}

/// The desk, as the fence sees it.
#[derive(Debug)]
struct Live(Arc<Desk>);

impl Approver for Live {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Decision> {
        Box::pin(async move {
            let desk = &self.0;
            let call = desk.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let permission = Permission::access(&call.tool, question, desk.redact());
            let outcome = desk.ask(permission, &call);
            match outcome.answer.decision {
                // The run is over; the command that asked need not be the last to know.
                Decision::Deny if desk.ended().is_some() => Decision::Abort,
                decision => decision,
            }
        })
    }
}
