//! One shell of a session and its queue.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use ringfence::ledger::ExecutionId;
use ringfence::local::approval::Approval;
use ringfence::local::shell::Ticket;
use ringfence::model::{Error, ErrorKind, ExecResult, Result};
use serde_json::Value;

use super::door::Door;
use super::journal::{Journal, Page};
use super::permission::Counter;
use super::place::{Kept, Place};
use super::wire::{Job, Wire};
use super::yard::Yard;
use crate::gate::Judged;

#[derive(Debug)]
pub(crate) struct Worker {
    desk: Arc<Desk>,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
struct Desk {
    name: String,
    place: Place,
    yard: Arc<Yard>,
    wire: Arc<Wire>,
    journal: Arc<Journal>,
    page: Arc<Page>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Job>,
    running: Option<(Value, Ticket)>,
    closed: bool,
}

impl Worker {
    #[expect(clippy::too_many_arguments, reason = "what all shells of a session share")]
    pub(crate) fn spawn(
        name: &str,
        place: Place,
        yard: Arc<Yard>,
        wire: Arc<Wire>,
        journal: Arc<Journal>,
        counter: &Arc<Counter>,
        page: Arc<Page>,
        mut door: Door,
    ) -> Self {
        let approval = counter.approval(name, &journal, &page);
        let desk = Arc::new(Desk {
            name: name.to_owned(),
            place,
            yard,
            wire,
            journal,
            page,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let its = Arc::clone(&desk);
        let thread = std::thread::spawn(move || its.work(approval, &mut door));
        Self { desk, thread }
    }

    pub(crate) fn give(&self, job: Box<Job>) {
        self.desk.lock().queue.push_back(*job);
        self.desk.changed.notify_one();
    }

    /// Whether this id runs or waits here.
    pub(crate) fn cancel(&self, id: &Value) -> bool {
        let mut state = self.desk.lock();
        if let Some((running, ticket)) = &state.running
            && running == id
        {
            ticket.cancel();
            self.desk.yard.cancel(id);
            return true;
        }
        let before = state.queue.len();
        state.queue.retain(|job| job.id != *id);
        let found = state.queue.len() < before;
        drop(state);
        if found {
            self.desk.wire.failed(id, ErrorKind::Cancelled, "cancelled before it ran");
        }
        found
    }

    /// Does what is left, then ends the shell.
    pub(crate) fn finish(self) {
        self.desk.lock().closed = true;
        self.desk.changed.notify_one();
        let _ = self.thread.join();
    }
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next command, which from now on is what runs.
    fn next(self: &Arc<Self>) -> Option<(Job, Ticket)> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.queue.pop_front() {
                let (its, id) = (Arc::clone(self), job.id.clone());
                let late = Arc::new(move |event| its.wire.late(&id, &its.name, &event));
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

    fn work(self: Arc<Self>, approval: Option<Approval>, door: &mut Door) {
        let mut shell: Option<Kept> = None;
        while let Some((job, ticket)) = self.next() {
            let execution = self.journal.start(&job.request.command);
            self.page.turn_to(execution);
            let judged = door.judge(&job.request.command);
            self.journal.judged(execution, &judged);
            let outcome = match &judged {
                Judged::Refused(refusal) => Ok(refusal.result()),
                Judged::Admitted(_) | Judged::Skipped if job.background => {
                    match self.start(&mut shell, approval.clone(), &job, &ticket, execution) {
                        Ok(()) => {
                            self.lock().running = None;
                            continue;
                        }
                        Err(error) => Err(error),
                    }
                }
                Judged::Admitted(_) | Judged::Skipped => {
                    self.run(&mut shell, approval.clone(), &job, &ticket)
                }
            };
            door.follow(outcome.as_ref().ok());
            self.journal.finish(execution, &outcome);
            self.lock().running = None;
            match outcome {
                Ok(result) => self.wire.result(&job.id, &result),
                Err(error) => self.wire.failed(&job.id, error.kind, &error.chain()),
            }
        }
        if let Some(shell) = shell {
            shell.dispose(&self.name);
        }
    }

    fn run(
        &self,
        shell: &mut Option<Kept>,
        approval: Option<Approval>,
        job: &Job,
        ticket: &Ticket,
    ) -> Result<ExecResult> {
        let shell = self.shell(shell, approval, ticket)?;
        if job.request.tty {
            return self.yard.run(job, shell, &self.name);
        }
        shell.execute(ticket, &job.request, &|event| self.wire.event(&job.id, &self.name, &event))
    }

    /// Starts it in the background. The ledger, and whoever reads, hear of its end when it comes.
    fn start(
        &self,
        shell: &mut Option<Kept>,
        approval: Option<Approval>,
        job: &Job,
        ticket: &Ticket,
        execution: ExecutionId,
    ) -> Result<()> {
        let shell = self.shell(shell, approval, ticket)?;
        let started = self.yard.start(job, shell)?;
        let (yard, journal, assurance) =
            (Arc::clone(&self.yard), Arc::clone(&self.journal), shell.assurance());
        let id = job.id.clone();
        std::thread::spawn(move || {
            let outcome = yard.until_end(&id, &started, assurance);
            journal.finish(execution, &outcome);
        });
        Ok(())
    }

    fn shell<'a>(
        &self,
        shell: &'a mut Option<Kept>,
        approval: Option<Approval>,
        ticket: &Ticket,
    ) -> Result<&'a Kept> {
        if ticket.is_cancelled() {
            return Err(Error::new(ErrorKind::Cancelled, "cancelled before it ran"));
        }
        match shell {
            Some(shell) => Ok(shell),
            None => Ok(shell.insert(self.place.start(&self.name, approval)?)),
        }
    }
}
