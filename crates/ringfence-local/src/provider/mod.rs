//! Provider `local`: sandboxes with a shell that remembers, for callers that must not block.
//!
//! | module | what it holds |
//! |---|---|
//! | [`sandbox`] | [`LocalSandbox`]: one prepared fence, its main shell and those with names |
//! | `jobs` | its background commands |
//! | `turns` | one shell: commands in turn, cancelled at any time |

mod jobs;
pub mod sandbox;
mod turns;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use ringfence_fence::{BoxFuture, CreateOptions, Provider, Sandbox, SandboxInfo, SandboxStatus};
use ringfence_model::Result;

use crate::offload::offload;

pub use jobs::LocalJobs;
pub use sandbox::LocalSandbox;

/// The name it is registered under.
pub const KIND: &str = "local";

/// Makes sandboxes of the operating system's own kind. They are gone when nobody holds them any more.
#[derive(Debug, Clone, Default)]
pub struct LocalProvider {
    live: Arc<Mutex<BTreeMap<String, Weak<LocalSandbox>>>>,
}

impl LocalProvider {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn sandboxes(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Weak<LocalSandbox>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Provider for LocalProvider {
    fn kind(&self) -> &str {
        KIND
    }

    fn create(&self, options: CreateOptions) -> BoxFuture<'_, Result<Arc<dyn Sandbox>>> {
        Box::pin(async move {
            let sandbox = Arc::new(offload(move || LocalSandbox::start(options)).await??);
            let mut live = self.sandboxes();
            live.retain(|_, sandbox| sandbox.strong_count() > 0);
            live.insert(sandbox.id().to_owned(), Arc::downgrade(&sandbox));
            Ok(sandbox as Arc<dyn Sandbox>)
        })
    }

    fn destroy<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let found = self.sandboxes().remove(id).and_then(|sandbox| sandbox.upgrade());
            match found {
                Some(sandbox) => sandbox.dispose().await,
                None => Ok(()),
            }
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<SandboxInfo>>> {
        let alive = |(id, sandbox): (&String, &Weak<LocalSandbox>)| {
            let running = sandbox.upgrade()?.is_alive();
            running.then(|| SandboxInfo { id: id.clone(), status: SandboxStatus::Running })
        };
        let infos = self.sandboxes().iter().filter_map(alive).collect();
        Box::pin(std::future::ready(Ok(infos)))
    }
}
