//! Where the shells of a session are: in the local fence, or in a sandbox of another provider.

use std::sync::Arc;
use std::time::Duration;

use ringfence::fence::jobs::{JobInfo, JobOutput, TerminalSize};
use ringfence::fence::{BoxFuture, EventSink, Jobs as FenceJobs, Sandbox, wait_for};
use ringfence::local::approval::Approval;
use ringfence::local::shell::{Jobs, SharedSandbox, Shell, ShellOptions, Ticket};
use ringfence::model::{Assurance, Error, ErrorKind, ExecRequest, ExecResult, Result};

use super::MAIN;

/// Commands may take as long as they like; their own limits end them.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// How often is looked whether a command shall end.
const GLANCE: Duration = Duration::from_millis(100);

#[derive(Debug, Clone)]
pub(crate) enum Place {
    Local(SharedSandbox),
    Other(Arc<dyn Sandbox>),
}

/// One shell.
#[derive(Debug)]
pub(crate) enum Kept {
    Local(Box<Shell>),
    Other(Arc<dyn Sandbox>),
}

impl Place {
    /// The shell of that name. Elsewhere it asks whom the whole sandbox asks.
    pub(crate) fn start(&self, name: &str, approval: Option<Approval>) -> Result<Kept> {
        match self {
            Self::Local(sandbox) => {
                let options = ShellOptions { approval, ..ShellOptions::default() };
                Shell::start_in(sandbox, options).map(|shell| Kept::Local(Box::new(shell)))
            }
            Self::Other(sandbox) if name == MAIN => Ok(Kept::Other(Arc::clone(sandbox))),
            Self::Other(sandbox) => block(sandbox.shell(name)).map(Kept::Other),
        }
    }

    pub(crate) fn jobs(&self) -> AllJobs {
        match self {
            Self::Local(sandbox) => AllJobs::Local(Jobs::new(sandbox.clone())),
            Self::Other(sandbox) => AllJobs::Other(Arc::clone(sandbox)),
        }
    }

    /// Ends everything inside.
    pub(crate) fn close(&self) -> Result<()> {
        match self {
            Self::Local(sandbox) => {
                sandbox.close();
                Ok(())
            }
            Self::Other(sandbox) => block(sandbox.dispose()),
        }
    }
}

impl Kept {
    pub(crate) fn execute(
        &self,
        ticket: &Ticket,
        request: &ExecRequest,
        events: EventSink<'_>,
    ) -> Result<ExecResult> {
        let shell = match self {
            Self::Local(shell) => return shell.execute_as(ticket, request, events),
            Self::Other(shell) => shell,
        };
        let mut running = shell.execute(request.clone(), events);
        loop {
            if let Some(outcome) = wait_for(Box::pin(running.as_mut()), GLANCE) {
                return outcome;
            }
            if ticket.is_cancelled() {
                block(shell.cancel())?;
            }
        }
    }

    pub(crate) fn assurance(&self) -> Assurance {
        match self {
            Self::Local(shell) => shell.assurance(),
            Self::Other(shell) => shell.assurance(),
        }
    }

    /// Ends it. The main one elsewhere ends with its sandbox.
    pub(crate) fn dispose(self, name: &str) {
        match self {
            Self::Local(shell) => shell.dispose(),
            Self::Other(shell) if name != MAIN => drop(block(shell.dispose())),
            Self::Other(_) => {}
        }
    }
}

/// The background commands of all shells.
#[derive(Debug)]
pub(crate) enum AllJobs {
    Local(Jobs),
    Other(Arc<dyn Sandbox>),
}

impl AllJobs {
    pub(crate) fn of(sandbox: &dyn Sandbox) -> Result<&dyn FenceJobs> {
        sandbox.jobs().ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, "this sandbox has no background commands and no terminals")
        })
    }

    pub(crate) fn list(&self) -> Result<Vec<JobInfo>> {
        match self {
            Self::Local(jobs) => Ok(jobs.list()),
            Self::Other(sandbox) => block(Self::of(&**sandbox)?.list()),
        }
    }

    pub(crate) fn read(&self, id: &str, offset: u64, most: usize) -> Result<JobOutput> {
        match self {
            Self::Local(jobs) => jobs.read(id, offset, most),
            Self::Other(sandbox) => block(Self::of(&**sandbox)?.read(id, offset, most)),
        }
    }

    pub(crate) fn write(&self, id: &str, bytes: &[u8]) -> Result<()> {
        match self {
            Self::Local(jobs) => jobs.write(id, bytes),
            Self::Other(sandbox) => block(Self::of(&**sandbox)?.write(id, bytes)),
        }
    }

    pub(crate) fn close_input(&self, id: &str) -> Result<()> {
        match self {
            Self::Local(jobs) => jobs.close_input(id),
            Self::Other(sandbox) => block(Self::of(&**sandbox)?.close_input(id)),
        }
    }

    pub(crate) fn signal(&self, id: &str, signal: i32) -> Result<()> {
        match self {
            Self::Local(jobs) => jobs.signal(id, signal),
            Self::Other(sandbox) => block(Self::of(&**sandbox)?.signal(id, signal)),
        }
    }

    pub(crate) fn resize(&self, id: &str, size: TerminalSize) -> Result<()> {
        match self {
            Self::Local(jobs) => jobs.resize(id, size),
            Self::Other(sandbox) => block(Self::of(&**sandbox)?.resize(id, size)),
        }
    }

    pub(crate) fn wait(&self, id: &str) -> Result<JobInfo> {
        match self {
            Self::Local(jobs) => jobs.wait(id),
            Self::Other(sandbox) => block(Self::of(&**sandbox)?.wait(id)),
        }
    }
}

pub(crate) fn block<T>(work: BoxFuture<'_, Result<T>>) -> Result<T> {
    wait_for(work, FOR_EVER)
        .unwrap_or_else(|| Err(Error::new(ErrorKind::Timeout, "the sandbox did not answer")))
}
