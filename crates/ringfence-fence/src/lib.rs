//! What every fence is.
//!
//! A [`Provider`] makes and destroys sandboxes; a [`Sandbox`] runs commands. The two are separate so
//! that whoever runs commands cannot make sandboxes. Providers are found by name in a [`Registry`];
//! third parties register theirs the same way as the built-in ones.
#![forbid(unsafe_code)]

pub mod approval;
pub mod approve;
pub mod conformance;
pub mod files;
pub mod jobs;
pub mod lasting;
mod provider_options;
mod registry;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use ringfence_model::{
    Assurance, Error, ErrorKind, ExecEvent, ExecRequest, ExecResult, Grant, Policy, Result,
};

pub use approval::Approval;
pub use approve::{Approver, Question, wait_for};
pub use files::SandboxFiles;
pub use jobs::Jobs;
pub use lasting::{Lasting, LastingSandbox};
pub use provider_options::ProviderOptions;
pub use registry::{ProviderFactory, Registry};

/// The futures of the fence traits: boxed, because providers are chosen at run time.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Everything a provider needs to make one sandbox.
#[derive(Debug, Clone)]
pub struct CreateOptions {
    /// Where commands start; also the project that the policy allows to write.
    pub cwd: PathBuf,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxStatus {
    Running,
    Stopped,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxInfo {
    pub id: String,
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
    fn id(&self) -> &str;

    /// Which layers hold.
    fn assurance(&self) -> Assurance;

    fn execute<'a>(
        &'a self,
        request: ExecRequest,
        events: EventSink<'a>,
    ) -> BoxFuture<'a, Result<ExecResult>>;

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

    /// Its background commands; none where it can't have any.
    fn jobs(&self) -> Option<&dyn Jobs> {
        None
    }

    /// Its files, where they are its own; none where they are the host's.
    fn files(&self) -> Option<Arc<dyn SandboxFiles>> {
        None
    }
}

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
