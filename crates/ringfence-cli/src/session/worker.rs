//! One shell of a session and its queue.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use ringfence::fence::Ticket;
use ringfence::model::{ErrorKind, ExecResult, Result};
use ringfence::session::{Call, Core, Refusal, Shell, Workplace};
use serde_json::Value;

use super::jobs::SessionJobs;
use super::questions::WireQuestions;
use super::wire::{Job, Wire};

#[derive(Debug)]
pub(crate) struct Worker {
    queue: Arc<Queue>,
    thread: JoinHandle<()>,
}

/// Parts that all shells of a session share.
#[derive(Debug, Clone)]
pub(crate) struct Common {
    pub(crate) core: Core,
    pub(crate) jobs: Arc<SessionJobs>,
    pub(crate) wire: Arc<Wire>,
    pub(crate) questions: Arc<WireQuestions>,
}

#[derive(Debug)]
struct Queue {
    name: String,
    common: Common,
    shell: Shell,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Job>,
    running: Option<(Value, Ticket)>,
    closed: bool,
}

impl Worker {
    pub(crate) fn spawn(name: &str, common: Common, place: Arc<dyn Workplace>) -> Self {
        let queue = Arc::new(Queue {
            name: name.to_owned(),
            shell: Shell::new(&common.core, place),
            common,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let its = Arc::clone(&queue);
        let thread = std::thread::spawn(move || its.work());
        Self { queue, thread }
    }

    pub(crate) fn give(&self, job: Box<Job>) {
        self.queue.lock().waiting.push_back(*job);
        self.queue.changed.notify_one();
    }

    /// Whether this id runs or waits here.
    pub(crate) fn cancel(&self, id: &Value) -> bool {
        let mut state = self.queue.lock();
        if let Some((running, ticket)) = &state.running
            && running == id
        {
            ticket.cancel();
            self.queue.common.jobs.cancel(id);
            return true;
        }
        let before = state.waiting.len();
        state.waiting.retain(|job| job.id != *id);
        let found = state.waiting.len() < before;
        drop(state);
        if found {
            self.queue.common.wire.failed(id, ErrorKind::Cancelled, "cancelled before it ran");
        }
        found
    }

    /// Does what is left, then ends the shell.
    pub(crate) fn finish(self) {
        self.queue.lock().closed = true;
        self.queue.changed.notify_one();
        let _ = self.thread.join();
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next command, which from now on is what runs.
    fn next(self: &Arc<Self>) -> Option<(Job, Ticket)> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.waiting.pop_front() {
                let (its, id) = (Arc::clone(self), job.id.clone());
                let late = Arc::new(move |event| its.common.wire.late(&id, &its.name, &event));
                let ticket = Ticket::with_late(late);
                state.running = Some((job.id.clone(), ticket.clone()));
                return Some((job, ticket));
            }
            if state.closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn work(self: Arc<Self>) {
        while let Some((job, ticket)) = self.next() {
            let mut call = Call::new("session");
            self.common.questions.belongs(&call.id, &self.name);
            self.common.wire.begins(&call.id, &job.id);
            let outcome = if job.background || job.request.tty {
                self.as_job(&mut call, &job)
            } else {
                self.in_the_shell(&mut call, &job, &ticket)
            };
            self.common.questions.forget(&call.id);
            self.common.wire.ends(&call.id);
            self.lock().running = None;
            match outcome {
                Ok(Some(result)) => self.common.wire.result(&job.id, &result),
                // It goes on in the background.
                Ok(None) => {}
                Err(error) => self.common.wire.failed(&job.id, error.kind, &error.chain()),
            }
        }
        if self.name != super::MAIN {
            self.shell.dispose();
        }
    }

    fn in_the_shell(&self, call: &mut Call, job: &Job, ticket: &Ticket) -> Result<Option<ExecResult>> {
        let events = |event| self.common.wire.event(&job.id, &self.name, &event);
        match self.shell.run(call, ticket, job.request.clone(), &events) {
            Ok(outcome) => outcome.map(|ran| Some(ran.result)),
            Err(refusal) => Ok(Some(self.refused(&refusal))),
        }
    }

    fn as_job(&self, call: &mut Call, job: &Job) -> Result<Option<ExecResult>> {
        let admitted = match self.shell.admit(call, &job.request) {
            Ok(admitted) => admitted,
            Err(refusal) => return Ok(Some(self.refused(&refusal))),
        };
        let mut request = job.request.clone();
        request.command = admitted.command;
        self.common.jobs.run(call, job, request, &self.shell, &self.name)
    }

    fn refused(&self, refusal: &Refusal) -> ExecResult {
        self.common.core.refused(refusal)
    }
}
