//! Settings that tools of the person's act on by themselves: editors, agents, build tools.
//!
//! They are protected where a person uses them: in the project itself and in what was there before the run. A tree that
//! was made inside is the work, and so are the settings in it: they are made like everything else, and told. The
//! supervisor makes every directory, so it knows which those are, by device, number and time of birth. A directory of the
//! person's that was moved into such a tree is none of them.
//!
//! Elsewhere a person is asked, once for all settings that a command makes: a checkout has many, and must not fail in the
//! middle of it.

use std::cell::RefCell;
use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ringfence_model::policy::BUILT_DIRECTORIES;
use ringfence_model::{
    Access, Decision, DenyReason, Grant, GrantScope, LockExt as _, Operation, PathDecision, PathOutcome,
    Severity, Violation, ViolationKind,
};
use rustix::io::Errno;

use super::ask::Desk;
use super::call::{self, Call};
use super::describe::{self, Denial, Resource};
use super::notif::{self, Notification};
use super::on_behalf::Place;
use super::removal::Identity;
use super::{Answer, Supervisor};

/// More are not remembered: they seem to be somebody's aim. What is not remembered is protected.
const MOST: usize = 200_000;

/// The directories that were made inside, and the settings that were told.
#[derive(Debug, Default)]
pub(super) struct Settings {
    made: RefCell<HashSet<Identity>>,
    told: RefCell<HashSet<PathBuf>>,
}

impl Settings {
    /// A directory was made inside.
    pub(super) fn made(&self, place: &Place) {
        let mut made = self.made.borrow_mut();
        if made.len() < MOST {
            made.extend(Identity::at(place.directory.as_fd(), &place.name));
        }
    }

    fn has(&self, place: &Place) -> bool {
        let made = self.made.borrow();
        let there = || Identity::at(place.directory.as_fd(), &place.name);
        !made.is_empty() && there().is_some_and(|there| made.contains(&there))
    }
}

/// What a person said about settings, in the turn in which it was said.
#[derive(Debug, Default)]
pub(super) struct Book {
    turn: u64,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Unasked,
    Asking(Vec<Notification>),
    Allowed(GrantScope),
    Refused,
}

impl Book {
    fn turn_to(&mut self, turn: u64) -> &mut State {
        let is_over = matches!(self.state, State::Allowed(GrantScope::Once) | State::Refused);
        if std::mem::replace(&mut self.turn, turn) != turn && is_over {
            self.state = State::Unasked;
        }
        &mut self.state
    }
}

/// What comes of a refusal.
pub(super) enum Asked {
    /// The call waits for the answer.
    Waits,
    /// Somebody was asked and said no, for all settings.
    Refused(Denial),
    /// It is nothing to ask about here.
    No(Denial),
}

/// The questions about settings, and the calls that can go on.
#[derive(Debug, Clone, Default)]
pub(super) struct SettingsDesk {
    book: Arc<Mutex<Book>>,
    ready: Arc<Mutex<Vec<Notification>>>,
}

impl SettingsDesk {
    fn allows(&self, turn: u64) -> bool {
        matches!(self.book.locked().turn_to(turn), State::Allowed(_))
    }
}

impl Supervisor<'_> {
    /// What policy says of a path, where settings in the work are the work.
    pub(super) fn decide(&self, path: &Path, access: Access) -> PathDecision<'_> {
        let decision = self.policy.decide(path, access);
        if decision.outcome == PathOutcome::Denied(DenyReason::Denied) && self.is_in_private(path) {
            return self.policy.decide_as_own(path, access);
        }
        if decision.outcome != PathOutcome::Denied(DenyReason::Protected) {
            return decision;
        }
        match self.policy.settings_of(path) {
            Some((_, owner)) if self.is_work(owner) || self.are_settings_allowed() => {
                self.policy.decide_as_work(path, access)
            }
            _ => decision,
        }
    }

    /// Whether a directory's settings are nobody's yet.
    pub(super) fn is_work(&self, directory: &Path) -> bool {
        is_built(directory) || self.place(directory).is_ok_and(|place| self.settings.has(&place))
    }

    pub(super) fn are_settings_allowed(&self) -> bool {
        self.desk.as_ref().is_some_and(|desk| desk.settings.allows(desk.turn()))
    }

    /// Tells of settings that were made.
    pub(super) fn tell_of_settings(&self, notification: &Notification, call: Call, answer: &Answer) {
        let makes = match call {
            Call::Open { flags, .. } => call::writes(flags),
            Call::OpenHow { .. } | Call::Create { .. } | Call::Move { .. } => true,
            _ => false,
        };
        let is_made = matches!(answer, Answer::Give(..) | Answer::Done(Ok(_)));
        let path = self.real.as_path();
        if !makes || !is_made || !self.is_kept(path) {
            return;
        }
        let Some((rule, owner)) = self.policy.settings_of(path) else { return };
        let tops = path.ancestors().take_while(|above| rule.path.covers(above));
        let Some(top) = tops.last().filter(|_| !is_built(owner)) else { return };
        let mut told = self.settings.told.borrow_mut();
        if told.contains(top) || told.len() == MOST {
            return;
        }
        told.insert(top.to_owned());
        let why = rule.source.key.as_deref().unwrap_or_default();
        let violation = Violation {
            kind: ViolationKind::RunsLater,
            severity: Severity::Low,
            blocked: false,
            message: format!("made {}, which {why}", top.display()),
            ..describe::violation(
                notification.tid,
                Denial {
                    operation: Operation::Create,
                    resource: Resource::Path(top.to_owned()),
                    access: Access::Write,
                    reason: DenyReason::Protected,
                    rule: Some((rule.path.to_string(), rule.source.clone())),
                    missing: false,
                },
            )
        };
        self.reporter.tell(violation);
    }

    /// Makes a question of the refusal, if it is about settings that somebody can be asked about.
    pub(super) fn ask_about_settings(
        &mut self,
        listener: BorrowedFd<'_>,
        notification: &Notification,
        denial: Denial,
    ) -> Asked {
        let Resource::Path(path) = &denial.resource else { return Asked::No(denial) };
        let about = match denial.reason {
            DenyReason::Protected => self.policy.settings_of(path),
            _ => None,
        };
        let top = about.and_then(|(rule, _)| path.ancestors().take_while(|p| rule.path.covers(p)).last());
        let Some(top) = top.map(Path::to_owned) else { return Asked::No(denial) };
        if self.desk.is_none() {
            return Asked::No(denial);
        }
        let listener = self.shared_listener(listener);
        let (Some(listener), Some(desk)) = (listener, &self.desk) else { return Asked::No(denial) };
        let grant = Grant { path: top, access: Access::Write, scope: GrantScope::Once, recursive: true };
        desk.ask_about_settings(listener, notification, denial, grant)
    }

    /// Takes up the calls that somebody has allowed meanwhile.
    pub fn resume(&mut self) {
        let Some(desk) = &self.desk else { return };
        let ready = std::mem::take(&mut *desk.settings.ready.locked());
        let Some(listener) = self.listener.clone() else { return };
        for notification in ready {
            self.attend(listener.as_fd(), notification);
        }
    }
}

impl Desk {
    fn ask_about_settings(
        &self,
        listener: Arc<OwnedFd>,
        notification: &Notification,
        denial: Denial,
        grant: Grant,
    ) -> Asked {
        let mut book = self.settings.book.locked();
        let state = book.turn_to(self.turn());
        match state {
            State::Asking(queue) => {
                queue.push(*notification);
                return Asked::Waits;
            }
            State::Refused => return Asked::Refused(denial),
            State::Allowed(_) => return Asked::No(denial),
            State::Unasked => {}
        }
        let violation = describe::violation(notification.tid, denial.clone());
        if !self.ask.wants(&violation) {
            return Asked::No(denial);
        }
        let message =
            format!("{}; the answer holds for all settings that this command makes", violation.message);
        let question = Violation { message, ..violation.clone() };
        *state = State::Asking(vec![*notification]);
        drop(book);
        let desk = self.clone();
        let ask = move || {
            let decision = desk.ask.ask(&question, &grant);
            desk.add_settling(1);
            desk.answer_about_settings(&listener, violation, grant, decision);
            desk.add_settling(-1);
        };
        if std::thread::Builder::new().name("approval".to_owned()).spawn(ask).is_err() {
            self.settings.book.locked().state = State::Unasked;
            return Asked::No(denial);
        }
        Asked::Waits
    }

    fn answer_about_settings(
        &self,
        listener: &Arc<OwnedFd>,
        violation: Violation,
        grant: Grant,
        decision: Decision,
    ) {
        let scope = decision.scope();
        let state = if decision.allows() { State::Allowed(scope) } else { State::Refused };
        let waiting = match std::mem::replace(&mut self.settings.book.locked().state, state) {
            State::Asking(queue) => queue,
            State::Unasked | State::Allowed(_) | State::Refused => vec![],
        };
        self.ask.settled(&violation, &Grant { scope, ..grant }, decision, Ok(()));
        if decision.allows() {
            self.settings.ready.locked().extend(waiting);
            self.ask.wake();
            return;
        }
        self.ask.refused(violation);
        if decision == Decision::Abort && !self.ask.abort() {
            return;
        }
        for notification in waiting {
            let _ = notif::refuse(listener.as_fd(), notification.id, Errno::ACCESS);
        }
    }
}

fn is_built(directory: &Path) -> bool {
    directory.iter().any(|name| BUILT_DIRECTORIES.iter().any(|built| name == *built))
}
