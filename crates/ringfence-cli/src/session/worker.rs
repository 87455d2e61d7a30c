//! One shell of a session and its queue.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use ringfence::local::approval::Approval;
use ringfence::local::native::Native;
use ringfence::local::shell::{Shell, ShellOptions};
use ringfence::model::{ErrorKind, Result};
use serde_json::{Value, json};

use super::wire::{Job, Wire};

#[derive(Debug)]
pub(crate) struct Worker {
    desk: Arc<Desk>,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
struct Desk {
    name: String,
    wire: Arc<Wire>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Job>,
    running: Option<(Value, Arc<Shell>)>,
    closed: bool,
}

impl Worker {
    pub(crate) fn spawn(
        name: &str,
        native: Arc<Native>,
        wire: Arc<Wire>,
        approval: Option<Approval>,
    ) -> Self {
        let desk =
            Arc::new(Desk { name: name.to_owned(), wire, state: Mutex::default(), changed: Condvar::new() });
        let its = Arc::clone(&desk);
        let thread = std::thread::spawn(move || its.work(&native, approval));
        Self { desk, thread }
    }

    pub(crate) fn give(&self, job: Box<Job>) {
        self.desk.lock().queue.push_back(*job);
        self.desk.changed.notify_one();
    }

    /// Whether this id runs or waits here.
    pub(crate) fn cancel(&self, id: &Value) -> bool {
        let mut state = self.desk.lock();
        if let Some((running, shell)) = &state.running
            && running == id
        {
            shell.cancel();
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

    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.queue.pop_front() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn work(self: Arc<Self>, native: &Arc<Native>, approval: Option<Approval>) {
        let mut shell: Option<Arc<Shell>> = None;
        while let Some(job) = self.next() {
            let started = match &shell {
                Some(shell) => Ok(Arc::clone(shell)),
                None => self.start(native, approval.clone()),
            };
            let outcome = started.and_then(|started| {
                shell = Some(Arc::clone(&started));
                self.lock().running = Some((job.id.clone(), Arc::clone(&started)));
                let events = |event| self.wire.event(Some(&job.id), &self.name, &event);
                let outcome = started.execute(&job.request, &events);
                self.lock().running = None;
                outcome
            });
            match outcome {
                Ok(result) => self.wire.send(&json!({ "id": job.id, "event": "result", "result": result })),
                Err(error) => self.wire.failed(&job.id, error.kind, &error.chain()),
            }
        }
        if let Some(shell) = shell {
            shell.dispose();
        }
    }

    fn start(self: &Arc<Self>, native: &Arc<Native>, approval: Option<Approval>) -> Result<Arc<Shell>> {
        let its = Arc::clone(self);
        let background = Arc::new(move |event| its.wire.event(None, &its.name, &event));
        let options = ShellOptions { approval, background, ..ShellOptions::default() };
        Shell::start(Arc::clone(native), options).map(Arc::new)
    }
}
