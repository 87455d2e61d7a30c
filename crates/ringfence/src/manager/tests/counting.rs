//! A provider that counts, waits and fails as it is told.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ringfence_fence::{BoxFuture, CreateOptions, EventSink, Provider, Sandbox, SandboxInfo, SandboxStatus};
use ringfence_model::{Assurance, Error, ErrorKind, ExecRequest, ExecResult, PolicyMode, Result};

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) created: AtomicUsize,
    pub(crate) destroyed: AtomicUsize,
    /// Sandboxes that exist, by scope key; more than one of a scope at a time is what must never happen.
    pub(crate) live: Mutex<BTreeMap<String, usize>>,
    pub(crate) most_of_one_scope: AtomicUsize,
    /// How many of the next creations fail.
    pub(crate) failing: AtomicUsize,
    /// How often making and destroying lets others go first.
    pub(crate) slowness: AtomicUsize,
    pub(crate) options: Mutex<Vec<CreateOptions>>,
    pub(crate) ran: AtomicUsize,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Counting(pub(crate) Arc<State>);

impl Counting {
    pub(crate) fn created(&self) -> usize {
        self.0.created.load(Ordering::SeqCst)
    }

    pub(crate) fn destroyed(&self) -> usize {
        self.0.destroyed.load(Ordering::SeqCst)
    }

    pub(crate) fn live(&self) -> usize {
        self.0.live.lock().unwrap().values().sum()
    }

    pub(crate) fn most_of_one_scope(&self) -> usize {
        self.0.most_of_one_scope.load(Ordering::SeqCst)
    }

    async fn dawdle(&self) {
        for _ in 0..self.0.slowness.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
    }
}

/// Counted from the moment it is begun until it is destroyed, or its making is given up.
#[derive(Debug)]
struct Counted {
    state: Arc<State>,
    key: String,
}

impl Counted {
    fn new(state: &Arc<State>, key: String) -> Self {
        let mut live = state.live.lock().unwrap();
        let count = live.entry(key.clone()).or_default();
        *count += 1;
        state.most_of_one_scope.fetch_max(*count, Ordering::SeqCst);
        drop(live);
        Self { state: Arc::clone(state), key }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        *self.state.live.lock().unwrap().get_mut(&self.key).unwrap() -= 1;
    }
}

#[derive(Debug)]
pub(crate) struct Counter {
    id: String,
    state: Arc<State>,
    counted: Mutex<Option<Counted>>,
    pub(crate) gone: AtomicBool,
}

impl Provider for Counting {
    fn kind(&self) -> &str {
        "counting"
    }

    fn create(&self, options: CreateOptions) -> BoxFuture<'_, Result<Arc<dyn Sandbox>>> {
        Box::pin(async move {
            let key = options.hooks.scope_key.clone().unwrap_or_default();
            let counted = Counted::new(&self.0, key);
            self.dawdle().await;
            let fails = |left: usize| left.checked_sub(1);
            if self.0.failing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fails).is_ok() {
                return Err(Error::new(ErrorKind::SandboxDenied, "made to fail"));
            }
            self.0.options.lock().unwrap().push(options);
            let number = self.0.created.fetch_add(1, Ordering::SeqCst);
            Ok(Arc::new(Counter {
                id: format!("counting-{number}"),
                state: Arc::clone(&self.0),
                counted: Mutex::new(Some(counted)),
                gone: AtomicBool::new(false),
            }) as Arc<dyn Sandbox>)
        })
    }

    fn destroy<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.dawdle().await;
            self.0.destroyed.fetch_add(1, Ordering::SeqCst);
            Ok(())
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<SandboxInfo>>> {
        let info = SandboxInfo { id: "counting-0".to_owned(), status: SandboxStatus::Running };
        Box::pin(std::future::ready(Ok(vec![info])))
    }
}

impl Sandbox for Counter {
    fn id(&self) -> &str {
        &self.id
    }

    fn assurance(&self) -> Assurance {
        Assurance { active: true, effective: PolicyMode::Restricted, ..Assurance::unsandboxed() }
    }

    /// The command `gone` finds the sandbox gone; `broken` fails after it may have run.
    fn execute<'a>(&'a self, request: ExecRequest, _: EventSink<'a>) -> BoxFuture<'a, Result<ExecResult>> {
        Box::pin(async move {
            if request == ExecRequest::shell("gone") && self.id == "counting-0" {
                self.gone.store(true, Ordering::SeqCst);
                return Err(Error::new(ErrorKind::SandboxNotAvailable, "gone; nothing ran"));
            }
            self.state.ran.fetch_add(1, Ordering::SeqCst);
            if request == ExecRequest::shell("broken") {
                return Err(Error::new(ErrorKind::Internal, "broken while it ran"));
            }
            Ok(ExecResult { stdout: self.id.clone().into_bytes(), ..ExecResult::silent(self.assurance()) })
        })
    }

    fn dispose(&self) -> BoxFuture<'_, Result<()>> {
        self.gone.store(true, Ordering::SeqCst);
        drop(self.counted.lock().unwrap().take());
        Box::pin(std::future::ready(Ok(())))
    }

    fn is_alive(&self) -> bool {
        !self.gone.load(Ordering::SeqCst)
    }
}
