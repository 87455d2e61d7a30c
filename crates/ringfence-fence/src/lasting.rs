//! Sandboxes that outlive the process that made them: containers, pods.

use ringfence_model::Result;

use crate::{BoxFuture, SandboxStatus};

/// One of them, as its provider finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastingSandbox {
    /// The provider's own name for it, such as the container's.
    pub name: String,
    /// What it is for; see [`Hooks::scope_key`](crate::Hooks).
    pub scope_key: String,
    /// The image it was made from.
    pub image: String,
    /// What it was made from; empty when that is not known.
    pub config_hash: String,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// Whether it runs.
    pub status: SandboxStatus,
}

/// Finds and removes them, whichever process made them. Only those that belong to the same register are found: one machine may
/// have several, and what another one knows to be in use is not ours to remove.
pub trait Lasting: Send + Sync + std::fmt::Debug {
    /// The provider's name.
    fn provider(&self) -> &str;

    /// Those that are there now.
    fn find(&self) -> BoxFuture<'_, Result<Vec<LastingSandbox>>>;

    /// Ends all that runs in it and removes it. One that is gone is no error.
    fn remove<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<()>>;
}
