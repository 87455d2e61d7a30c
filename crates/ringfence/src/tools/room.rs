//! Where the commands of an agent run.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ringfence_fence::{BoxFuture, CreateOptions, EventSink, Provider, Sandbox, wait_for};
use ringfence_model::{Assurance, Error, ErrorKind, ExecRequest, ExecResult, Grant, GrantScope, Result};

/// A place for commands: a shell, a sandbox, a container. Calls come from any thread.
pub trait Room: Send + Sync + std::fmt::Debug {
    fn execute(&self, request: &ExecRequest, events: EventSink<'_>) -> Result<ExecResult>;

    /// Whether a refused call waits for a person's answer while its command runs. Where not, the command ends
    /// first, and is run again only after the answer.
    fn holds_calls(&self) -> bool;

    /// Runs one command with one more grant, which ends with it.
    fn execute_granted(
        &self,
        grant: &Grant,
        request: &ExecRequest,
        events: EventSink<'_>,
    ) -> Result<ExecResult>;

    /// Lets a grant hold for every later command.
    fn grant(&self, grant: &Grant) -> Result<()>;

    /// Which layers hold.
    fn assurance(&self) -> Assurance;

    /// Ends the command that runs, and its processes.
    fn cancel(&self);

    /// Begins anew: directory, variables and jobs are gone, grants stay.
    fn restart(&self) -> Result<()>;

    /// Another room of the same making, with nothing shared but the grants.
    fn isolated_copy(&self) -> Result<Arc<dyn Room>>;

    /// Ends everything inside. Repeating it is harmless.
    fn dispose(&self);
}

/// No command takes this long.
const FOREVER: Duration = Duration::from_secs(30 * 24 * 3600);

fn block<T>(future: BoxFuture<'_, Result<T>>) -> Result<T> {
    wait_for(future, FOREVER)
        .unwrap_or_else(|| Err(Error::new(ErrorKind::Timeout, "the sandbox does not answer")))
}

/// A sandbox of any provider, made when it is first needed. Grants are part of its policy, so a new one makes a
/// new sandbox.
#[derive(Debug)]
pub struct ProviderRoom {
    provider: Arc<dyn Provider>,
    options: Mutex<CreateOptions>,
    live: Mutex<Option<Arc<dyn Sandbox>>>,
}

impl ProviderRoom {
    #[must_use]
    pub fn new(provider: Arc<dyn Provider>, options: CreateOptions) -> Self {
        Self { provider, options: Mutex::new(options), live: Mutex::default() }
    }

    fn options(&self) -> CreateOptions {
        self.options.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn sandbox(&self) -> Result<Arc<dyn Sandbox>> {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sandbox) = &*live {
            return Ok(Arc::clone(sandbox));
        }
        let sandbox = block(self.provider.create(self.options()))?;
        *live = Some(Arc::clone(&sandbox));
        Ok(sandbox)
    }

    fn end(&self) -> Result<()> {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner).take();
        live.map_or(Ok(()), |sandbox| block(self.provider.destroy(sandbox.id())))
    }
}

/// As a policy holds it: a grant for once holds in no policy.
fn lasting(grant: &Grant) -> Grant {
    Grant { scope: GrantScope::Session, ..grant.clone() }
}

impl Room for ProviderRoom {
    fn execute(&self, request: &ExecRequest, events: EventSink<'_>) -> Result<ExecResult> {
        block(self.sandbox()?.execute(request.clone(), events))
    }

    fn holds_calls(&self) -> bool {
        false
    }

    fn execute_granted(
        &self,
        grant: &Grant,
        request: &ExecRequest,
        events: EventSink<'_>,
    ) -> Result<ExecResult> {
        let mut options = self.options();
        options.policy.filesystem.grants.push(lasting(grant));
        let sandbox = block(self.provider.create(options))?;
        let outcome = block(sandbox.execute(request.clone(), events));
        block(self.provider.destroy(sandbox.id()))?;
        outcome
    }

    fn grant(&self, grant: &Grant) -> Result<()> {
        let mut options = self.options.lock().unwrap_or_else(PoisonError::into_inner);
        options.policy.filesystem.grants.push(lasting(grant));
        drop(options);
        self.end()
    }

    fn assurance(&self) -> Assurance {
        self.sandbox().map_or_else(|_| Assurance::unsandboxed(), |sandbox| sandbox.assurance())
    }

    fn cancel(&self) {
        // Nothing finer is offered: the sandbox goes, and what runs in it.
        let _ = self.end();
    }

    fn restart(&self) -> Result<()> {
        self.end()
    }

    fn isolated_copy(&self) -> Result<Arc<dyn Room>> {
        Ok(Arc::new(Self::new(Arc::clone(&self.provider), self.options())))
    }

    fn dispose(&self) {
        let _ = self.end();
    }
}
