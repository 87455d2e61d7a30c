//! One shell for callers that do not block: commands in turn, cancelled at any time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ringfence_fence::EventSink;
use ringfence_model::{Error, ErrorKind, ExecEvent, ExecRequest, ExecResult, Result};
use tokio::sync::mpsc;

use crate::offload::{offload, spawn};
use crate::shell::Shell;

/// Events that wait for the caller; then the command waits.
const UNREAD: usize = 32;
/// How often a command that shall end is told so.
const INSISTENCE: Duration = Duration::from_millis(20);

enum News {
    Event(ExecEvent),
    Ended(Box<Result<ExecResult>>),
}

/// One command, from its turn to its end.
#[derive(Debug, Default)]
struct Turn {
    /// Held while the shell is told to cancel, so that never the next command hears it.
    ended: Mutex<bool>,
}

impl Turn {
    fn end(&self) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }

    /// Cancels until it has ended: a command that is just beginning does not hear the first time.
    fn insist(&self, shell: &Shell) {
        while self.cancel_once(shell) {
            std::thread::sleep(INSISTENCE);
        }
    }

    /// False when there is nothing to cancel any more.
    fn cancel_once(&self, shell: &Shell) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if !*ended {
            shell.cancel();
        }
        !*ended
    }
}

/// A shell whose commands wait for each other without holding a thread.
#[derive(Debug)]
pub(crate) struct Turns {
    shell: Arc<Shell>,
    queue: Arc<tokio::sync::Mutex<()>>,
    current: Mutex<Option<Arc<Turn>>>,
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

    pub(crate) fn shell(&self) -> &Shell {
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
        let turn = Arc::new(Turn::default());
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&turn));
        let (tell, mut told) = mpsc::channel(UNREAD);
        let (shell, mine) = (Arc::clone(&self.shell), Arc::clone(&turn));
        spawn(move || {
            // Somebody who does not listen any more misses nothing.
            let events = |event| drop(tell.blocking_send(News::Event(event)));
            let ready = before.map_or(Ok(()), |before| succeed(&shell, &before));
            let result = ready.and_then(|()| shell.execute(&request, &events));
            mine.end();
            drop(queued);
            drop(tell.blocking_send(News::Ended(Box::new(result))));
        })?;
        let mut unless_awaited = Abandoned { turn, shell: Some(Arc::clone(&self.shell)) };
        loop {
            match told.recv().await {
                Some(News::Event(event)) => events(event),
                Some(News::Ended(result)) => {
                    unless_awaited.shell = None;
                    return result.map_err(|error| self.explained(error));
                }
                None => {
                    unless_awaited.shell = None;
                    return Err(Error::new(ErrorKind::Internal, "a thread of the sandbox failed"));
                }
            }
        }
    }

    /// A shell that was closed in between has run nothing.
    fn explained(&self, error: Error) -> Error {
        if self.is_alive() || error.kind != ErrorKind::NotFound { error } else { gone() }
    }

    pub(crate) async fn cancel(&self) -> Result<()> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(turn) = current else { return Ok(()) };
        let shell = Arc::clone(&self.shell);
        offload(move || turn.insist(&shell)).await
    }

    pub(crate) async fn dispose(&self) -> Result<()> {
        self.disposed.store(true, Ordering::Release);
        let shell = Arc::clone(&self.shell);
        offload(move || shell.dispose()).await
    }
}

fn succeed(shell: &Shell, request: &ExecRequest) -> Result<()> {
    let result = shell.execute(request, &|_| ())?;
    if result.exit_code == 0 {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&result.stderr).trim_end().to_owned();
    Err(Error::new(ErrorKind::Validation, format!("cannot run the command there: {why}")))
}

/// Ends the command of a caller who went away.
struct Abandoned {
    turn: Arc<Turn>,
    shell: Option<Arc<Shell>>,
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        if let Some(shell) = self.shell.take() {
            // Mostly this is enough; where there is no thread to insist, it must be.
            self.turn.cancel_once(&shell);
            let turn = Arc::clone(&self.turn);
            let _ = spawn(move || turn.insist(&shell));
        }
    }
}

/// Nothing of the command has run.
fn gone() -> Error {
    Error::new(ErrorKind::SandboxNotAvailable, "the sandbox was closed; nothing ran")
}
