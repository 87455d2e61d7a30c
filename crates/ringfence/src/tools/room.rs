//! Where the commands of an agent run.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ringfence_fence::jobs::{JobInfo, JobOutput, TerminalSize};
use ringfence_fence::{BoxFuture, CreateOptions, EventSink, Jobs, Provider, Sandbox, SandboxFiles, wait_for};
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

    /// Its background commands; an error where it can have none.
    fn jobs(&self) -> Result<Arc<dyn Jobs>>;

    /// The files of a room whose sandbox has a file system of its own; none where they are the host's.
    fn files(&self) -> Result<Option<Arc<dyn SandboxFiles>>> {
        Ok(None)
    }

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

pub(crate) fn block<T>(future: BoxFuture<'_, Result<T>>) -> Result<T> {
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

/// The files of a sandbox that must have some.
pub(crate) fn own_files(sandbox: &dyn Sandbox) -> Result<Arc<dyn SandboxFiles>> {
    sandbox.files().ok_or_else(|| {
        let message = "this sandbox has a file system of its own, and no way to its files";
        Error::new(ErrorKind::Unsupported, message).hint("read and write files by commands")
    })
}

/// The background commands of a sandbox, with the sandbox.
#[derive(Debug)]
pub(crate) struct JobsOf(Arc<dyn Sandbox>);

impl JobsOf {
    pub(crate) fn of(sandbox: Arc<dyn Sandbox>) -> Result<Arc<dyn Jobs>> {
        let jobs = Self(sandbox);
        jobs.inner()?;
        Ok(Arc::new(jobs))
    }

    fn inner(&self) -> Result<&dyn Jobs> {
        self.0.jobs().ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, "this sandbox cannot run commands in the background")
                .hint("run it with `bash`, and a time limit")
        })
    }
}

impl Jobs for JobsOf {
    fn start(&self, request: ExecRequest) -> BoxFuture<'_, Result<JobInfo>> {
        Box::pin(async move { self.inner()?.start(request).await })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<JobInfo>>> {
        Box::pin(async move { self.inner()?.list().await })
    }

    fn read<'a>(&'a self, id: &'a str, offset: u64, most: usize) -> BoxFuture<'a, Result<JobOutput>> {
        Box::pin(async move { self.inner()?.read(id, offset, most).await })
    }

    fn write<'a>(&'a self, id: &'a str, bytes: &'a [u8]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { self.inner()?.write(id, bytes).await })
    }

    fn close_input<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { self.inner()?.close_input(id).await })
    }

    fn signal<'a>(&'a self, id: &'a str, signal: i32) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { self.inner()?.signal(id, signal).await })
    }

    fn resize<'a>(&'a self, id: &'a str, size: TerminalSize) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { self.inner()?.resize(id, size).await })
    }

    fn wait<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<JobInfo>> {
        Box::pin(async move { self.inner()?.wait(id).await })
    }
}

/// As a policy holds it: a grant for once holds in no policy.
pub(crate) fn lasting(grant: &Grant) -> Grant {
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

    fn jobs(&self) -> Result<Arc<dyn Jobs>> {
        JobsOf::of(self.sandbox()?)
    }

    fn files(&self) -> Result<Option<Arc<dyn SandboxFiles>>> {
        if !self.provider.has_own_files() {
            return Ok(None);
        }
        own_files(&*self.sandbox()?).map(Some)
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
