//! Provider `none`: sandboxes that hold nothing. Only for a person to configure.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ringfence_fence::{BoxFuture, CreateOptions, EventSink, Provider, Sandbox, SandboxInfo};
use ringfence_local::offload::offload;
use ringfence_model::{Assurance, Error, ErrorKind, ExecEvent, ExecRequest, ExecResult, Result};

use crate::unsandboxed;

/// The name it is registered under.
pub const KIND: &str = "none";

/// Runs each command by itself, with all rights of the caller.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unfenced;

impl Provider for Unfenced {
    fn kind(&self) -> &str {
        KIND
    }

    fn create(&self, options: CreateOptions) -> BoxFuture<'_, Result<Arc<dyn Sandbox>>> {
        Box::pin(std::future::ready(Ok(Arc::new(Open::new(options)) as Arc<dyn Sandbox>)))
    }

    fn destroy<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<SandboxInfo>>> {
        Box::pin(std::future::ready(Ok(vec![])))
    }
}

#[derive(Debug)]
struct Open {
    id: String,
    cwd: PathBuf,
    env: Arc<BTreeMap<OsString, OsString>>,
    timeout_ms: Option<u64>,
    disposed: AtomicBool,
}

impl Open {
    fn new(options: CreateOptions) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        Self {
            id: format!("unsandboxed-{now}-{:06}", COUNT.fetch_add(1, Ordering::Relaxed) % 1_000_000),
            cwd: options.cwd,
            env: Arc::new(options.environment),
            timeout_ms: options.policy.limits.timeout_ms,
            disposed: AtomicBool::new(false),
        }
    }
}

impl Sandbox for Open {
    fn id(&self) -> &str {
        &self.id
    }

    fn assurance(&self) -> Assurance {
        Assurance::unsandboxed()
    }

    fn execute<'a>(
        &'a self,
        request: ExecRequest,
        events: EventSink<'a>,
    ) -> BoxFuture<'a, Result<ExecResult>> {
        Box::pin(async move {
            if !self.is_alive() {
                return Err(Error::new(ErrorKind::SandboxNotAvailable, "it was closed; nothing ran"));
            }
            let (env, cwd) = (Arc::clone(&self.env), self.cwd.clone());
            let timeout = request.timeout_ms.into_iter().chain(self.timeout_ms).min();
            let result = offload(move || {
                let timeout = timeout.map(Duration::from_millis);
                unsandboxed::run(&request, &env, &cwd, unsandboxed::Output::Capture, timeout)
            })
            .await??;
            events(ExecEvent::Stdout(result.stdout.clone()));
            events(ExecEvent::Stderr(result.stderr.clone()));
            Ok(result)
        })
    }

    /// Nothing is remembered from one command to the next, so every shell is like the first.
    fn shell<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Arc<dyn Sandbox>>> {
        let shell = Self {
            id: format!("{}/{name}", self.id),
            cwd: self.cwd.clone(),
            env: Arc::clone(&self.env),
            timeout_ms: self.timeout_ms,
            disposed: AtomicBool::new(!self.is_alive()),
        };
        Box::pin(std::future::ready(Ok(Arc::new(shell) as Arc<dyn Sandbox>)))
    }

    fn dispose(&self) -> BoxFuture<'_, Result<()>> {
        self.disposed.store(true, Ordering::Release);
        Box::pin(std::future::ready(Ok(())))
    }

    fn is_alive(&self) -> bool {
        !self.disposed.load(Ordering::Acquire)
    }
}
