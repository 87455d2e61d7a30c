//! A sandbox of a pool as a workplace: taken for each command, and given back whatever comes of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ringfence_fence::{EventSink, Jobs, Sandbox, SandboxFiles, Ticket, block_on as block};
use ringfence_model::{Assurance, Error, ErrorKind, ExecRequest, ExecResult, Grant, Policy, Result};

use super::workplace::{Runner, Workplace};
use crate::pool::Pool;

/// The pool belongs to whoever made it, and is not stopped from here.
#[derive(Debug)]
pub struct Pooled {
    pool: Arc<Pool>,
    session: String,
    running: Mutex<Option<Arc<dyn Sandbox>>>,
}

/// The session's sandbox while it is in use.
struct Held<'a> {
    place: &'a Pooled,
    sandbox: Arc<dyn Sandbox>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.place.running().take();
        self.place.pool.release(&self.place.session);
    }
}

impl Pooled {
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
        Ok(Held { place: self, sandbox })
    }
}

fn made_before(what: &str) -> Error {
    let text = format!("a sandbox of a pool is made before it is known who gets it, and cannot {what}");
    Error::new(ErrorKind::Unsupported, text)
}

impl Runner for Pooled {
    fn run(&self, ticket: &Ticket, request: &ExecRequest, events: EventSink<'_>) -> Result<ExecResult> {
        self.hold()?.sandbox.run(ticket, request, events)
    }

    fn is_fenced(&self) -> bool {
        true
    }

    fn holds_calls(&self) -> bool {
        false
    }

    fn run_granted(&self, _: &Grant, _: &Ticket, _: &ExecRequest, _: EventSink<'_>) -> Result<ExecResult> {
        Err(made_before("be given more"))
    }

    fn grant(&self, _: &Grant) -> Result<()> {
        Err(made_before("be given more"))
    }
}

impl Workplace for Pooled {
    fn shell(&self, _: &str) -> Result<Arc<dyn Workplace>> {
        Err(made_before("have several shells"))
    }

    fn jobs(&self) -> Result<Arc<dyn Jobs>> {
        Err(made_before("keep background commands"))
    }

    fn files(&self) -> Result<Option<Arc<dyn SandboxFiles>>> {
        Ok(self.hold()?.sandbox.files())
    }

    fn policy(&self) -> Result<Option<Policy>> {
        Ok(self.hold()?.sandbox.policy().cloned())
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

    fn isolated_copy(&self) -> Result<Arc<dyn Workplace>> {
        let session = format!("{}-{}", self.session, uuid::Uuid::now_v7().simple());
        Ok(Arc::new(Self::new(Arc::clone(&self.pool), session)))
    }

    fn dispose(&self) {
        self.cancel();
    }
}
