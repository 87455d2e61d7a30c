//! The client: finding the engine, calls that end, errors for people.
//!
//! | module | what it holds |
//! |---|---|
//! | [`endpoint`] | where the engine listens |
//! | `trouble` | what went wrong, in words |
//! | [`containers`] | inspect, create, start, remove, list |
//! | [`images`] | is it here, pull, build |
//! | `podman` | what Podman wants to be told differently |
//! | [`attached`] | a program in a container, with its streams |
//!
//! **Invariant:** no call waits for ever. Each has a limit, ends with the engine that serves it, and is given up when nobody
//! waits for it any more.

pub mod attached;
pub mod containers;
pub mod endpoint;
pub mod images;
mod podman;
mod trouble;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bollard::{API_DEFAULT_VERSION, Docker};
use ringfence_model::{Error, ErrorKind, Result};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

pub use endpoint::Endpoint;
pub(crate) use trouble::Trouble;

/// For calls that the engine answers by looking something up.
pub(crate) const QUICK: Duration = Duration::from_secs(30);
/// For calls that make it start or stop processes, on a machine with other things to do.
pub(crate) const SLOW: Duration = Duration::from_secs(120);
/// Whether anybody listens at all.
const HELLO: Duration = Duration::from_secs(10);

/// A connection to one engine. Cheap to clone; works in any runtime, since it has one of its own: the protocol needs tokio's.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    docker: Docker,
    endpoint: Endpoint,
    runtime: Option<Runtime>,
    is_podman: tokio::sync::OnceCell<bool>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Waiting is not allowed where this may be dropped.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Engine").field(&self.0.endpoint).finish()
    }
}

impl Engine {
    /// Connects and agrees on a version of the protocol.
    pub async fn connect(endpoint: Endpoint) -> Result<Self> {
        endpoint.check()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("ringfence-docker")
            .enable_all()
            .build()
            .map_err(|error| Error::new(ErrorKind::Internal, "cannot start threads").caused_by(error))?;
        // The limit of single requests is set by us; pulls take as long as they take.
        let wire_limit = 24 * 60 * 60;
        let docker = match &endpoint {
            Endpoint::Socket(path) => {
                Docker::connect_with_unix(&path.to_string_lossy(), wire_limit, API_DEFAULT_VERSION)
            }
            Endpoint::Http(address) => Docker::connect_with_http(address, wire_limit, API_DEFAULT_VERSION),
        };
        let docker = docker.map_err(|error| trouble::no_engine(&endpoint, error))?;
        let fresh = Self(Arc::new(Inner {
            docker,
            endpoint: endpoint.clone(),
            runtime: Some(runtime),
            is_podman: tokio::sync::OnceCell::new(),
        }));
        let docker = fresh.0.docker.clone();
        fresh.call("agree on a version with the engine", HELLO, docker.negotiate_version()).await.map_err(
            |error| match error.kind {
                ErrorKind::Timeout => error,
                _ => trouble::no_engine(&endpoint, error),
            },
        )?;
        Ok(fresh)
    }

    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.0.endpoint
    }

    /// Whether it is Podman, which understands some things of the same protocol differently.
    pub(crate) async fn is_podman(&self) -> Result<bool> {
        let ask = || async {
            let docker = self.docker().clone();
            let version = self.call("say its version", QUICK, async move { docker.version().await }).await?;
            let parts = version.components.unwrap_or_default();
            Ok::<bool, Error>(parts.iter().any(|part| part.name.starts_with("Podman")))
        };
        self.0.is_podman.get_or_try_init(ask).await.copied()
    }

    pub(crate) fn docker(&self) -> &Docker {
        &self.0.docker
    }

    /// One request, at most so long. It is given up when nobody waits any more.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        what: &str,
        limit: Duration,
        request: impl Future<Output = std::result::Result<T, bollard::errors::Error>> + Send + 'static,
    ) -> Result<T> {
        let limited = self.spawn(async move { tokio::time::timeout(limit, request).await });
        match limited.await {
            Ok(Ok(Ok(value))) => Ok(value),
            Ok(Ok(Err(error))) => Err(Trouble { what, endpoint: self.endpoint() }.of(error)),
            Ok(Err(_)) => Err(Error::new(
                ErrorKind::Timeout,
                format!("the container engine did not {what} within {} s", limit.as_secs()),
            )
            .hint(format!("look after the engine at {}: does `docker ps` answer?", self.endpoint()))),
            Err(_) => Err(Error::new(ErrorKind::Internal, "a task of the container engine's client failed")),
        }
    }

    /// Waits, in whichever runtime the caller is.
    pub(crate) async fn pause(&self, time: Duration) {
        let _ = self.spawn(async move { tokio::time::sleep(time).await }).await;
    }

    /// Work on the client's own threads that nobody waits for.
    pub(crate) fn detach(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.0.runtime {
            runtime.spawn(work);
        }
    }

    /// Work on the client's own threads, ended when what is given here is dropped.
    pub(crate) fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Task<T> {
        match &self.0.runtime {
            Some(runtime) => Task(runtime.spawn(work)),
            // Taken only when the last handle is dropped, so nobody can be here.
            None => unreachable!("the client is gone"),
        }
    }
}

/// Work that ends when nobody waits for it.
#[derive(Debug)]
pub(crate) struct Task<T>(JoinHandle<T>);

impl<T> Future for Task<T> {
    type Output = std::result::Result<T, tokio::task::JoinError>;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        std::pin::Pin::new(&mut self.0).poll(context)
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
