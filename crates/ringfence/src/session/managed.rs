//! The sandbox that a manager gives to a session as a workplace.

use std::sync::Arc;

use ringfence_fence::{EventSink, Jobs, Sandbox, SandboxFiles, Ticket, block_on};
use ringfence_model::{Assurance, ErrorKind, ExecRequest, ExecResult, Grant, Layer, Policy, Result};

use super::workplace::{JobsOf, Runner, Workplace, lasting, own_files};
use crate::manager::Manager;

/// Made when it is first needed, by the configured provider; rebuilt by the manager when it is gone.
#[derive(Debug, Clone)]
pub struct Managed {
    manager: Arc<Manager>,
    session: String,
    /// None: the main one.
    shell: Option<String>,
}

impl Managed {
    /// The main shell of a session's sandbox.
    #[must_use]
    pub fn new(manager: Arc<Manager>, session: impl Into<String>) -> Self {
        Self { manager, session: session.into(), shell: None }
    }

    /// Makes the sandbox now, if there is none yet.
    pub fn make(&self) -> Result<()> {
        self.sandbox().map(drop)
    }

    fn sandbox(&self) -> Result<Arc<dyn Sandbox>> {
        block_on(Box::pin(async {
            let sandbox = self.manager.sandbox(&self.session).await?;
            match &self.shell {
                Some(name) => sandbox.shell(name).await,
                None => Ok(sandbox),
            }
        }))
    }
}

impl Runner for Managed {
    /// When the sandbox turns out to be gone before anything ran, it is made again, once; a command that may have run
    /// never runs a second time.
    fn run(&self, ticket: &Ticket, request: &ExecRequest, events: EventSink<'_>) -> Result<ExecResult> {
        let sandbox = self.sandbox()?;
        match sandbox.run(ticket, request, events) {
            Err(error) if error.kind == ErrorKind::SandboxNotAvailable => {
                block_on(Box::pin(self.manager.discard(&self.session, &sandbox)));
                let result = self.sandbox()?.run(ticket, request, events)?;
                Ok(ExecResult { restarted: true, ..result })
            }
            outcome => outcome,
        }
    }

    fn is_fenced(&self) -> bool {
        self.manager.is_fenced(&self.session)
    }

    /// A fence with a supervisor does, where somebody is asked at all; and what holds nothing refuses nothing.
    fn holds_calls(&self) -> bool {
        !self.is_fenced() || (self.manager.asks() && self.assurance().layers.contains(&Layer::Supervisor))
    }

    fn run_granted(
        &self,
        grant: &Grant,
        _: &Ticket,
        request: &ExecRequest,
        events: EventSink<'_>,
    ) -> Result<ExecResult> {
        let (request, grant) = (request.clone(), lasting(grant));
        block_on(Box::pin(self.manager.execute_granted(&self.session, grant, request, events)))
    }

    fn grant(&self, grant: &Grant) -> Result<()> {
        block_on(Box::pin(self.manager.grant(&self.session, lasting(grant))))
    }
}

impl Workplace for Managed {
    fn shell(&self, name: &str) -> Result<Arc<dyn Workplace>> {
        Ok(Arc::new(Self { shell: Some(name.to_owned()), ..self.clone() }))
    }

    fn jobs(&self) -> Result<Arc<dyn Jobs>> {
        let sandbox = self.sandbox()?;
        if sandbox.jobs().is_none() && self.shell.is_some() {
            // Jobs of a provider whose shells have none of their own are the sandbox's.
            return JobsOf::of(block_on(Box::pin(self.manager.sandbox(&self.session)))?);
        }
        JobsOf::of(sandbox)
    }

    fn files(&self) -> Result<Option<Arc<dyn SandboxFiles>>> {
        if !self.manager.has_own_files(&self.session)? {
            return Ok(None);
        }
        own_files(&*block_on(Box::pin(self.manager.sandbox(&self.session)))?).map(Some)
    }

    fn policy(&self) -> Result<Option<Policy>> {
        Ok(block_on(Box::pin(self.manager.sandbox(&self.session)))?.policy().cloned())
    }

    fn assurance(&self) -> Assurance {
        self.sandbox().map_or_else(|_| Assurance::unsandboxed(), |sandbox| sandbox.assurance())
    }

    fn cancel(&self) {
        let Ok(sandbox) = self.sandbox() else { return };
        if block_on(sandbox.cancel()).is_err_and(|error| error.kind == ErrorKind::Unsupported) {
            // Nothing finer is offered: the sandbox goes, and what runs in it.
            let _ = block_on(sandbox.dispose());
        }
    }

    fn restart(&self) -> Result<()> {
        block_on(Box::pin(self.manager.rebuild(&self.session)))
    }

    fn isolated_copy(&self) -> Result<Arc<dyn Workplace>> {
        let copy = Self::new(Arc::new(self.manager.isolated_copy()), self.session.clone());
        for grant in self.manager.grants(&self.session) {
            copy.grant(&grant)?;
        }
        Ok(Arc::new(copy))
    }

    /// Of a named shell, that; else everything that the manager made.
    fn dispose(&self) {
        let _ = match &self.shell {
            Some(_) => self.sandbox().and_then(|shell| block_on(shell.dispose())),
            None => block_on(Box::pin(self.manager.shutdown())),
        };
    }
}
