//! What every fence is.
//!
//! A [`Provider`] makes and destroys sandboxes; a [`Sandbox`] runs commands. The two are separate so
//! that whoever runs commands cannot make sandboxes. Providers are found by name in a [`Registry`];
//! third parties register theirs the same way as the built-in ones.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod approval;
pub mod approve;
pub mod conformance;
pub mod files;
pub mod jobs;
pub mod lasting;
mod provider_options;
mod registry;
mod ticket;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ringfence_model::{
    Assurance, Error, ErrorKind, ExecEvent, ExecRequest, ExecResult, Grant, Policy, Result,
};

pub use approval::Approval;
pub use approve::{Approver, Question, block_on, wait_for};
pub use files::SandboxFiles;
pub use jobs::Jobs;
pub use lasting::{Lasting, LastingSandbox};
pub use provider_options::ProviderOptions;
pub use registry::{ProviderFactory, Registry};
pub use ticket::{Ticket, Waker};

/// The futures of the fence traits: boxed, because providers are chosen at run time.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Everything a provider needs to make one sandbox.
#[derive(Debug, Clone)]
pub struct CreateOptions {
    /// Where commands start; also the project that the policy allows to write.
    pub cwd: PathBuf,
    /// What the sandbox may touch.
    pub policy: Policy,
    /// The caller's environment, of which the policy lets some names through.
    pub environment: BTreeMap<OsString, OsString>,
    /// What the provider is told besides.
    pub provider_options: ProviderOptions,
    /// Whom the sandbox turns to by itself.
    pub hooks: Hooks,
}

impl CreateOptions {
    /// Nobody is asked, the provider is not told anything of its own, and the environment is empty.
    #[must_use]
    pub fn new(cwd: PathBuf, policy: Policy) -> Self {
        Self {
            cwd,
            policy,
            environment: BTreeMap::new(),
            provider_options: ProviderOptions::None,
            hooks: Hooks::default(),
        }
    }
}

/// Receives output that comes when no command runs: of jobs that a command left behind.
pub type Background = Arc<dyn Fn(ExecEvent) + Send + Sync>;

/// Told, in a line of words, what happens while something takes long.
pub type Progress = Arc<dyn Fn(&str) + Send + Sync>;

/// Whom a sandbox turns to by itself.
#[derive(Clone, Default)]
pub struct Hooks {
    /// What the sandbox is for (a session, an agent, everybody): the same for each rebuild of it. Containers are named by it.
    pub scope_key: Option<String>,
    /// Who is asked about refusals, by a fence that can hold a call meanwhile. None: nobody.
    pub approval: Option<Approval>,
    /// Hears output that comes when no command runs. None: nobody.
    pub background: Option<Background>,
    /// Hears what is done while a sandbox takes long to be made, such as the pull of an image.
    pub progress: Option<Progress>,
}

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooks")
            .field("scope_key", &self.scope_key)
            .field("approval", &self.approval)
            .finish_non_exhaustive()
    }
}

/// Whether a sandbox can run commands now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxStatus {
    /// It runs.
    Running,
    /// It was made and is stopped.
    Stopped,
}

/// A sandbox as its provider lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxInfo {
    /// The provider's own id for it.
    pub id: String,
    /// Whether it runs.
    pub status: SandboxStatus,
}

/// Makes, lists and destroys sandboxes of one kind.
pub trait Provider: Send + Sync + std::fmt::Debug {
    /// The name it is registered and configured under.
    fn kind(&self) -> &str;

    /// Makes a sandbox, or fails: a provider never starts with a rule silently missing.
    fn create(&self, options: CreateOptions) -> BoxFuture<'_, Result<Arc<dyn Sandbox>>>;

    /// Destroys the sandbox of that id; an unknown id is no error.
    fn destroy<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<()>>;

    /// The sandboxes of this provider that are there now.
    fn list(&self) -> BoxFuture<'_, Result<Vec<SandboxInfo>>>;

    /// Whether its sandboxes have a file system of their own, so that files are read and written through them and not on the
    /// host; see [`Sandbox::files`].
    fn has_own_files(&self) -> bool {
        false
    }
}

/// Receives what happens while a command runs. Called from the thread that serves the sandbox, so it
/// must not block for long.
pub type EventSink<'a> = &'a (dyn Fn(ExecEvent) + Send + Sync);

/// One live sandbox.
pub trait Sandbox: Send + Sync + std::fmt::Debug {
    /// The id that its provider knows it by.
    fn id(&self) -> &str;

    /// Which layers hold.
    fn assurance(&self) -> Assurance;

    /// Runs one command to its end. `events` hears output and violations as they come; the result has all of it.
    fn execute<'a>(
        &'a self,
        request: ExecRequest,
        events: EventSink<'a>,
    ) -> BoxFuture<'a, Result<ExecResult>>;

    /// Runs a command on this thread and waits for its end; `ticket` cancels it at any time.
    fn run(&self, ticket: &Ticket, request: &ExecRequest, events: EventSink<'_>) -> Result<ExecResult> {
        if ticket.is_cancelled() {
            return Err(Error::new(ErrorKind::Cancelled, "cancelled before it ran"));
        }
        let mut running = self.execute(request.clone(), events);
        loop {
            if let Some(outcome) = wait_for(Box::pin(running.as_mut()), GLANCE) {
                return outcome;
            }
            if ticket.is_cancelled() {
                block_on(self.cancel())?;
            }
        }
    }

    /// Ends everything that runs inside and frees what the sandbox held. Repeating it is harmless.
    fn dispose(&self) -> BoxFuture<'_, Result<()>>;

    /// Ends the command that runs, if one does, with all its processes. Its result comes as always. The sandbox and, where
    /// it can, its shell stay.
    fn cancel(&self) -> BoxFuture<'_, Result<()>> {
        not_supported("end a single command")
    }

    /// Whether it can still run commands. What cannot be known without trying is taken for alive.
    fn is_alive(&self) -> bool {
        true
    }

    /// Lets through what a person granted for the session.
    fn grant<'a>(&'a self, _: &'a Grant) -> BoxFuture<'a, Result<Granted>> {
        Box::pin(std::future::ready(Ok(Granted::AfterRebuild)))
    }

    /// The shell of that name: the same sandbox, but with a directory, variables and commands of its own. It is made
    /// when it is asked for first; disposing of it ends that shell only.
    fn shell<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Arc<dyn Sandbox>>> {
        not_supported("have several shells")
    }

    /// The policy as it is enforced, with everything that the fence added; none where that is not known.
    fn policy(&self) -> Option<&Policy> {
        None
    }

    /// Its background commands; none where it can't have any.
    fn jobs(&self) -> Option<&dyn Jobs> {
        None
    }

    /// Its files, where they are its own; none where they are the host's.
    fn files(&self) -> Option<Arc<dyn SandboxFiles>> {
        None
    }
}

/// How often is looked whether a command was cancelled, where the sandbox does not wait for that by itself.
const GLANCE: Duration = Duration::from_millis(100);

/// When a grant holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Granted {
    /// The next command has it.
    Now,
    /// Only a sandbox made with it does.
    AfterRebuild,
}

fn not_supported<'a, T: Send + 'a>(what: &str) -> BoxFuture<'a, Result<T>> {
    let error = Error::new(ErrorKind::Unsupported, format!("this sandbox cannot {what}"));
    Box::pin(std::future::ready(Err(error)))
}
