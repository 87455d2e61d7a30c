//! The sandbox that a manager gives to a session as a room.

use std::sync::Arc;

use ringfence_fence::{EventSink, Jobs, Sandbox, SandboxFiles};
use ringfence_model::{Assurance, ErrorKind, ExecRequest, ExecResult, Grant, Layer, Result};

use super::room::{JobsOf, Room, block, lasting, own_files};
use crate::manager::Manager;

/// Made when it is first needed, by the configured provider; rebuilt by the manager when it is gone.
#[derive(Debug)]
pub struct ManagerRoom {
    manager: Arc<Manager>,
    session: String,
}

impl ManagerRoom {
    #[must_use]
    pub fn new(manager: Arc<Manager>, session: impl Into<String>) -> Self {
        Self { manager, session: session.into() }
    }

    fn sandbox(&self) -> Result<Arc<dyn Sandbox>> {
        block(Box::pin(self.manager.sandbox(&self.session)))
    }
}

impl Room for ManagerRoom {
    fn execute(&self, request: &ExecRequest, events: EventSink<'_>) -> Result<ExecResult> {
        block(Box::pin(self.manager.execute(&self.session, request.clone(), events)))
    }

    /// Where somebody is asked at all, a fence with a supervisor does.
    fn holds_calls(&self) -> bool {
        self.manager.asks() && self.assurance().layers.contains(&Layer::Supervisor)
    }

    fn execute_granted(
        &self,
        grant: &Grant,
        request: &ExecRequest,
        events: EventSink<'_>,
    ) -> Result<ExecResult> {
        let (request, grant) = (request.clone(), lasting(grant));
        block(Box::pin(self.manager.execute_granted(&self.session, grant, request, events)))
    }

    fn grant(&self, grant: &Grant) -> Result<()> {
        block(Box::pin(self.manager.grant(&self.session, lasting(grant))))
    }

    fn jobs(&self) -> Result<Arc<dyn Jobs>> {
        JobsOf::of(self.sandbox()?)
    }

    fn files(&self) -> Result<Option<Arc<dyn SandboxFiles>>> {
        if !self.manager.has_own_files(&self.session)? {
            return Ok(None);
        }
        own_files(&*self.sandbox()?).map(Some)
    }

    fn assurance(&self) -> Assurance {
        self.sandbox().map_or_else(|_| Assurance::unsandboxed(), |sandbox| sandbox.assurance())
    }

    fn cancel(&self) {
        let Ok(sandbox) = self.sandbox() else { return };
        if block(sandbox.cancel()).is_err_and(|error| error.kind == ErrorKind::Unsupported) {
            // Nothing finer is offered: the sandbox goes, and what runs in it.
            let _ = block(sandbox.dispose());
        }
    }

    fn restart(&self) -> Result<()> {
        block(Box::pin(self.manager.rebuild(&self.session)))
    }

    fn isolated_copy(&self) -> Result<Arc<dyn Room>> {
        let copy = Self::new(Arc::new(self.manager.isolated_copy()), self.session.clone());
        for grant in self.manager.grants(&self.session) {
            copy.grant(&grant)?;
        }
        Ok(Arc::new(copy))
    }

    /// Shuts the manager down, with all that it made.
    fn dispose(&self) {
        let _ = block(Box::pin(self.manager.shutdown()));
    }
}
