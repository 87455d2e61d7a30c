//! What every fence is.
//!
//! A [`Provider`] makes and destroys sandboxes; a [`Sandbox`] runs commands. The two are separate so
//! that whoever runs commands cannot make sandboxes. Providers are found by name in a [`Registry`];
//! third parties register theirs the same way as the built-in ones.
#![forbid(unsafe_code)]

pub mod approve;
pub mod conformance;
mod registry;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use ringfence_model::{Assurance, ExecEvent, ExecRequest, ExecResult, Policy, Result};

pub use approve::{Approver, Question};
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
    /// The provider's own section of the configuration.
    pub provider_options: serde_json::Value,
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
}
