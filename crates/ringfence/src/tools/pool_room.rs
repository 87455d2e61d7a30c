//! A sandbox of a pool as a room: taken for each command, and given back whatever comes of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ringfence_fence::{EventSink, Jobs, Sandbox, SandboxFiles};
use ringfence_model::{Assurance, Error, ErrorKind, ExecRequest, ExecResult, Grant, Result};

use super::room::{Room, block};
use crate::pool::Pool;

/// The pool belongs to whoever made it, and is not stopped from here.
#[derive(Debug)]
pub struct PoolRoom {
    pool: Arc<Pool>,
    session: String,
    running: Mutex<Option<Arc<dyn Sandbox>>>,
}

/// The session's sandbox while it is in use.
struct Held<'a> {
    room: &'a PoolRoom,
    sandbox: Arc<dyn Sandbox>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.room.running().take();
        self.room.pool.release(&self.room.session);
    }
}

impl PoolRoom {
    #[must_use]
    pub fn new(pool: Arc<Pool>, session: impl Into<String>) -> Self {
        Self { pool, session: session.into(), running: Mutex::default() }
    }

    fn running(&self) -> MutexGuard<'_, Option<Arc<dyn Sandbox>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hold(&self) -> Result<Held<'_>> {
        let sandbox = block(Box::pin(self.pool.acquire(&self.session)))?;
        *self.running() = Some(Arc::clone(&sandbox));
        Ok(Held { room: self, sandbox })
    }
}

fn made_before(what: &str) -> Error {
    let text = format!("a sandbox of a pool is made before it is known who gets it, and cannot {what}");
    Error::new(ErrorKind::Unsupported, text)
}

impl Room for PoolRoom {
    fn execute(&self, request: &ExecRequest, events: EventSink<'_>) -> Result<ExecResult> {
        block(self.hold()?.sandbox.execute(request.clone(), events))
    }

    fn holds_calls(&self) -> bool {
        false
    }

    fn execute_granted(&self, _: &Grant, _: &ExecRequest, _: EventSink<'_>) -> Result<ExecResult> {
        Err(made_before("be given more"))
    }

    fn grant(&self, _: &Grant) -> Result<()> {
        Err(made_before("be given more"))
    }

    fn jobs(&self) -> Result<Arc<dyn Jobs>> {
        Err(made_before("keep background commands"))
    }

    fn files(&self) -> Result<Option<Arc<dyn SandboxFiles>>> {
        Ok(self.hold()?.sandbox.files())
    }

    fn assurance(&self) -> Assurance {
        self.hold().map_or_else(|_| Assurance::unsandboxed(), |held| held.sandbox.assurance())
    }

    fn cancel(&self) {
        let running = self.running().clone();
        if let Some(sandbox) = running
            && block(sandbox.cancel()).is_err_and(|error| error.kind == ErrorKind::Unsupported)
        {
            // Nothing finer is offered: the sandbox goes, and what runs in it.
            let _ = block(sandbox.dispose());
        }
    }

    fn restart(&self) -> Result<()> {
        Err(made_before("begin anew"))
    }

    fn isolated_copy(&self) -> Result<Arc<dyn Room>> {
        let session = format!("{}-{}", self.session, uuid::Uuid::now_v7().simple());
        Ok(Arc::new(Self::new(Arc::clone(&self.pool), session)))
    }

    fn dispose(&self) {
        self.cancel();
    }
}
