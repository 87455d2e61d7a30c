//! One shell for callers that do not block: commands in turn, cancelled at any time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ringfence_fence::EventSink;
use ringfence_model::{Error, ErrorKind, ExecEvent, ExecRequest, ExecResult, Result};
use tokio::sync::mpsc;

use crate::offload::{offload, spawn};
use crate::shell::{Shell, Ticket};

/// Events that wait for the caller; then the command waits.
const UNREAD: usize = 32;

enum News {
    Event(ExecEvent),
    Ended(Box<Result<ExecResult>>),
}

/// A shell whose commands wait for each other without holding a thread.
#[derive(Debug)]
pub(crate) struct Turns {
    shell: Arc<Shell>,
    queue: Arc<tokio::sync::Mutex<()>>,
    current: Mutex<Option<Ticket>>,
    disposed: AtomicBool,
}

impl Turns {
    pub(crate) fn new(shell: Shell) -> Self {
        Self {
            shell: Arc::new(shell),
            queue: Arc::default(),
            current: Mutex::default(),
            disposed: AtomicBool::new(false),
        }
    }

    pub(crate) fn shell(&self) -> &Arc<Shell> {
        &self.shell
    }

    pub(crate) fn is_alive(&self) -> bool {
        !self.disposed.load(Ordering::Acquire)
    }

    /// Runs a command when it is its turn; `before`, in the same turn, must succeed for that. When nobody waits for the
    /// result any more, the command is ended.
    pub(crate) async fn execute(
        &self,
        before: Option<ExecRequest>,
        request: ExecRequest,
        events: EventSink<'_>,
    ) -> Result<ExecResult> {
        let queued = Arc::clone(&self.queue).lock_owned().await;
        if !self.is_alive() {
            return Err(gone());
        }
        let ticket = Ticket::new();
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(ticket.clone());
        let (tell, mut told) = mpsc::channel(UNREAD);
        let (shell, mine) = (Arc::clone(&self.shell), ticket.clone());
        spawn(move || {
            // Somebody who does not listen any more misses nothing.
            let events = |event| drop(tell.blocking_send(News::Event(event)));
            let ready = before.map_or(Ok(()), |before| succeed(&shell, &mine, &before));
            let result = ready.and_then(|()| shell.execute_as(&mine, &request, &events));
            drop(queued);
            drop(tell.blocking_send(News::Ended(Box::new(result))));
        })?;
        let mut unless_awaited = Abandoned(Some(ticket));
        let ended = loop {
            match told.recv().await {
                Some(News::Event(event)) => events(event),
                Some(News::Ended(result)) => break *result,
                None => break Err(Error::new(ErrorKind::Internal, "a thread of the sandbox failed")),
            }
        };
        unless_awaited.0 = None;
        ended.map_err(|error| self.explained(error))
    }

    /// As [`execute`](Self::execute), on the thread of a caller that waits: the shell itself lets one in after the other.
    pub(crate) fn run(
        &self,
        ticket: &Ticket,
        before: Option<ExecRequest>,
        request: &ExecRequest,
        events: EventSink<'_>,
    ) -> Result<ExecResult> {
        if !self.is_alive() {
            return Err(gone());
        }
        let ready = before.map_or(Ok(()), |before| succeed(&self.shell, ticket, &before));
        let ended = ready.and_then(|()| self.shell.execute_as(ticket, request, events));
        ended.map_err(|error| self.explained(error))
    }

    /// A shell that was closed in between has run nothing.
    fn explained(&self, error: Error) -> Error {
        if self.is_alive() || error.kind != ErrorKind::NotFound { error } else { gone() }
    }

    /// Ends the command whose turn it is. Nothing happens to one that has ended.
    pub(crate) fn cancel(&self) {
        if let Some(ticket) = &*self.current.lock().unwrap_or_else(PoisonError::into_inner) {
            ticket.cancel();
        }
        self.shell.cancel();
    }

    pub(crate) async fn dispose(&self) -> Result<()> {
        self.disposed.store(true, Ordering::Release);
        let shell = Arc::clone(&self.shell);
        offload(move || shell.dispose()).await
    }
}

fn succeed(shell: &Shell, ticket: &Ticket, request: &ExecRequest) -> Result<()> {
    let result = shell.execute_as(ticket, request, &|_| ())?;
    if result.exit_code == 0 {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&result.stderr).trim_end().to_owned();
    Err(Error::new(ErrorKind::Validation, format!("cannot run the command there: {why}")))
}

/// Ends the command of a caller who went away.
struct Abandoned(Option<Ticket>);

impl Drop for Abandoned {
    fn drop(&mut self) {
        if let Some(ticket) = &self.0 {
            ticket.cancel();
        }
    }
}

/// Nothing of the command has run.
fn gone() -> Error {
    Error::new(ErrorKind::SandboxNotAvailable, "the sandbox was closed; nothing ran")
}
