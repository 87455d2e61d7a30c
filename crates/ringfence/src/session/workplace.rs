//! Workplaces: where commands run.

use std::sync::Arc;

use ringfence_fence::jobs::{JobInfo, JobOutput, OutputSink, TerminalSize};
use ringfence_fence::{BoxFuture, EventSink, Jobs, Sandbox, SandboxFiles, Ticket};
use ringfence_model::{
    Assurance, Error, ErrorKind, ExecRequest, ExecResult, Grant, GrantScope, Policy, Result,
};

/// Runs single commands: all that [`Core`](super::Core) needs to know of a place.
pub trait Runner {
    /// Runs a command and waits for its end.
    fn run(&self, ticket: &Ticket, request: &ExecRequest, events: EventSink<'_>) -> Result<ExecResult>;

    /// Whether a fence holds what runs, so that what it refuses exactly need not be asked about before.
    fn is_fenced(&self) -> bool;

    /// Whether a refused call waits for a person's answer while its command runs. Where not, the command ends first,
    /// and is run again only after the answer.
    fn holds_calls(&self) -> bool;

    /// Runs one command with one more grant, which ends with it. Where calls are held, grants are given to them as they
    /// wait, and nothing is run again.
    fn run_granted(
        &self,
        _: &Grant,
        ticket: &Ticket,
        request: &ExecRequest,
        events: EventSink<'_>,
    ) -> Result<ExecResult> {
        self.run(ticket, request, events)
    }

    /// Lets a grant hold for every later command.
    fn grant(&self, _: &Grant) -> Result<()> {
        Ok(())
    }
}

/// A sandbox with a shell that remembers, wherever it comes from. Calls come from any thread.
pub trait Workplace: Runner + Send + Sync + std::fmt::Debug {
    /// The shell of that name: the same sandbox, but a directory, variables and commands of its own.
    fn shell(&self, name: &str) -> Result<Arc<dyn Workplace>>;

    /// Its background commands; an error where it can have none. New ones begin like this shell.
    fn jobs(&self) -> Result<Arc<dyn Jobs>>;

    /// The files of a sandbox with a file system of its own; none where they are the host's.
    fn files(&self) -> Result<Option<Arc<dyn SandboxFiles>>>;

    /// The policy as the fence enforces it, with everything that it added; none where that is not known.
    fn policy(&self) -> Result<Option<Policy>>;

    /// Which layers hold.
    fn assurance(&self) -> Assurance;

    /// Ends the command that runs, and its processes.
    fn cancel(&self);

    /// Begins anew: directory, variables and jobs are gone, grants stay.
    fn restart(&self) -> Result<()>;

    /// Another workplace of the same making, with nothing shared but the grants.
    fn isolated_copy(&self) -> Result<Arc<dyn Workplace>>;

    /// Ends everything inside. Repeating it is harmless.
    fn dispose(&self);
}

/// The files of a sandbox that must have some.
pub(super) fn own_files(sandbox: &dyn Sandbox) -> Result<Arc<dyn SandboxFiles>> {
    sandbox.files().ok_or_else(|| {
        let message = "this sandbox has a file system of its own, and no way to its files";
        Error::new(ErrorKind::Unsupported, message).hint("read and write files by commands")
    })
}

/// As a policy holds it: a grant for once holds in no policy.
pub(super) fn lasting(grant: &Grant) -> Grant {
    Grant { scope: GrantScope::Session, ..grant.clone() }
}

/// The background commands of a sandbox, with the sandbox.
#[derive(Debug)]
pub(super) struct JobsOf(Arc<dyn Sandbox>);

impl JobsOf {
    pub(super) fn of(sandbox: Arc<dyn Sandbox>) -> Result<Arc<dyn Jobs>> {
        let jobs = Self(sandbox);
        jobs.inner()?;
        Ok(Arc::new(jobs))
    }

    fn inner(&self) -> Result<&dyn Jobs> {
        self.0.jobs().ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, "this sandbox has no background commands and no terminals")
                .hint("run it to its end, with a time limit")
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

    fn follow<'a>(&'a self, id: &'a str, tell: OutputSink<'a>) -> BoxFuture<'a, Result<JobInfo>> {
        Box::pin(async move { self.inner()?.follow(id, tell).await })
    }
}
