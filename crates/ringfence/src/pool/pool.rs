//! The book and real sandboxes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ringfence_fence::{CreateOptions, Provider, Sandbox};
use ringfence_local::offload::spawn;
use ringfence_model::{Error, ErrorKind, Result};
use tokio::sync::Notify;

use super::book::{Book, PoolConfig, State, Statistics, Step, Ticket};
use super::keeper::{self, Bell};

/// Told what a person should know.
pub type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// Sandboxes of one kind for many sessions.
#[derive(Debug)]
pub struct Pool {
    core: Arc<Core>,
    bell: Arc<Bell>,
}

pub(super) struct Core {
    provider: Arc<dyn Provider>,
    options: CreateOptions,
    warn: Warn,
    began: Instant,
    stopped: AtomicBool,
    accounts: Mutex<Accounts>,
    changed: Notify,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("provider", &self.provider).finish_non_exhaustive()
    }
}

struct Accounts {
    book: Book,
    sandboxes: BTreeMap<Ticket, Arc<dyn Sandbox>>,
    /// Those that could not be destroyed; they keep their places until they are.
    stuck: Vec<Ticket>,
}

impl Pool {
    /// An empty pool; [`start`](Self::start) fills it. `warn` hears of sandboxes that could not be made in advance.
    pub fn new(
        provider: Arc<dyn Provider>,
        options: CreateOptions,
        config: PoolConfig,
        warn: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        let accounts = Accounts { book: Book::new(config), sandboxes: BTreeMap::new(), stuck: vec![] };
        let core = Core {
            provider,
            options,
            warn: Arc::new(warn),
            began: Instant::now(),
            stopped: AtomicBool::new(false),
            accounts: Mutex::new(accounts),
            changed: Notify::new(),
        };
        Self { core: Arc::new(core), bell: Arc::default() }
    }

    /// Makes the warm ones, and starts the thread that keeps them and sweeps. One that cannot be made is warned of.
    pub async fn start(&self) -> Result<()> {
        self.core.warm_up().await;
        let (core, bell) = (Arc::downgrade(&self.core), Arc::clone(&self.bell));
        let interval = self.core.locked().book.config().sweep;
        spawn(move || keeper::keep(&core, &bell, interval))
    }

    /// Gives the session a sandbox: its own, a warm one, or a new one; waits while there are as many as there may be. A
    /// session that has one in use gets an error.
    pub async fn acquire(&self, session: &str) -> Result<Arc<dyn Sandbox>> {
        let sandbox = self.core.acquire(session).await?;
        self.bell.look_now();
        Ok(sandbox)
    }

    /// The session does not need its sandbox for now; it stays the session's, with everything in it. One that died is
    /// destroyed at the next use.
    pub fn release(&self, session: &str) {
        let core = &self.core;
        core.locked().book.release(session, core.now());
        core.changed.notify_waiters();
    }

    /// One sweep, as it happens by itself from time to time.
    pub async fn sweep(&self) {
        self.core.tend().await;
    }

    #[must_use]
    pub fn state(&self, session: &str) -> Option<State> {
        self.core.locked().book.state(session)
    }

    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.core.locked().book.statistics()
    }

    /// Destroys everything, in use or not, and ends the thread. Callers that wait, or come later, get an error.
    pub async fn stop(&self) -> Result<()> {
        self.bell.end();
        self.core.stop().await
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.bell.end();
    }
}

impl Core {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn locked(&self) -> MutexGuard<'_, Accounts> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn acquire(self: &Arc<Self>, session: &str) -> Result<Arc<dyn Sandbox>> {
        loop {
            // Registered before the look, so that no change in between is missed.
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.stopped.load(Ordering::Acquire) {
                return Err(Error::new(ErrorKind::SandboxNotAvailable, "the pool was stopped"));
            }
            let step = self.locked().book.acquire(session, self.now())?;
            match step {
                Step::Use(ticket) => {
                    let found = self.locked().sandboxes.get(&ticket).cloned();
                    match found {
                        Some(sandbox) if sandbox.is_alive() => return Ok(sandbox),
                        _ => {
                            self.locked().book.leave(ticket);
                            self.destroy(ticket).await?;
                        }
                    }
                }
                Step::Make(ticket) => return self.make(ticket).await,
                Step::Destroy(ticket) => self.destroy(ticket).await?,
                Step::Wait => changed.await,
            }
        }
    }

    /// Fills a place of the book. Given up or failed, the place is free again.
    async fn make(self: &Arc<Self>, ticket: Ticket) -> Result<Arc<dyn Sandbox>> {
        let place = Reserved { core: self, ticket: Some(ticket) };
        let sandbox = self.provider.create(self.options.clone()).await?;
        {
            let mut accounts = self.locked();
            accounts.book.made(ticket, self.now());
            accounts.sandboxes.insert(ticket, Arc::clone(&sandbox));
        }
        place.keep();
        if self.stopped.load(Ordering::Acquire) {
            self.locked().book.leave(ticket);
            self.destroy(ticket).await?;
            return Err(Error::new(ErrorKind::SandboxNotAvailable, "the pool was stopped"));
        }
        Ok(sandbox)
    }

    /// Destroys what the book says is leaving; only then its place is free.
    async fn destroy(self: &Arc<Self>, ticket: Ticket) -> Result<()> {
        let leaving = Leaving { core: Arc::clone(self), ticket: Some(ticket) };
        leaving.end().await
    }

    async fn warm_up(self: &Arc<Self>) {
        while !self.stopped.load(Ordering::Acquire) {
            let Some(ticket) = self.locked().book.warm_one(self.now()) else { return };
            if let Err(error) = self.make(ticket).await {
                (self.warn)(&format!("cannot make a sandbox in advance: {}", error.chain()));
                return;
            }
            self.changed.notify_waiters();
        }
    }

    /// Sweeps, then makes what should be warm.
    pub(super) async fn tend(self: &Arc<Self>) {
        let leaving = {
            let mut accounts = self.locked();
            let mut leaving = std::mem::take(&mut accounts.stuck);
            leaving.extend(accounts.book.sweep(self.now()));
            leaving
        };
        for ticket in leaving {
            if let Err(error) = self.destroy(ticket).await {
                (self.warn)(&format!("cannot destroy a sandbox that nobody needs: {}", error.chain()));
            }
        }
        self.warm_up().await;
    }

    fn forget(&self, ticket: Ticket) {
        let mut accounts = self.locked();
        accounts.sandboxes.remove(&ticket);
        accounts.book.gone(ticket);
        drop(accounts);
        self.changed.notify_waiters();
    }

    async fn stop(self: &Arc<Self>) -> Result<()> {
        self.stopped.store(true, Ordering::Release);
        self.changed.notify_waiters();
        let all = {
            let mut accounts = self.locked();
            let mut all = std::mem::take(&mut accounts.stuck);
            all.extend(accounts.book.close());
            all
        };
        let mut outcome = Ok(());
        for ticket in all {
            outcome = outcome.and(self.destroy(ticket).await);
        }
        outcome
    }
}

/// A place in the book whose sandbox is being made.
struct Reserved<'a> {
    core: &'a Core,
    ticket: Option<Ticket>,
}

impl Reserved<'_> {
    fn keep(mut self) {
        self.ticket = None;
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.core.locked().book.gone(ticket);
            self.core.changed.notify_waiters();
        }
    }
}

/// A sandbox that is being destroyed. Its place is free afterwards, whoever waited for that.
struct Leaving {
    core: Arc<Core>,
    ticket: Option<Ticket>,
}

impl Leaving {
    async fn end(mut self) -> Result<()> {
        let Some(ticket) = self.ticket else { return Ok(()) };
        let sandbox = self.core.locked().sandboxes.get(&ticket).cloned();
        let outcome = match sandbox {
            Some(sandbox) => {
                let destroyed = self.core.provider.destroy(sandbox.id()).await;
                destroyed.and(sandbox.dispose().await)
            }
            None => Ok(()),
        };
        self.ticket = None;
        match outcome {
            Ok(()) => self.core.forget(ticket),
            Err(_) => self.core.locked().stuck.push(ticket),
        }
        outcome
    }
}

impl Drop for Leaving {
    /// The caller who destroyed it went away: somebody else must, or its place would never be free.
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        let core = Arc::clone(&self.core);
        let finish = move || {
            let leaving = Leaving { core, ticket: Some(ticket) };
            ringfence_fence::wait_for(Box::pin(leaving.end()), Duration::from_secs(600));
        };
        if spawn(finish).is_err() {
            self.core.forget(ticket);
        }
    }
}
