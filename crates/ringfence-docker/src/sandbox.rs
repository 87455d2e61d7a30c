//! One sandbox: a container and what runs commands in it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ringfence_fence::{BoxFuture, EventSink, Sandbox, SandboxFiles};
use ringfence_model::{Assurance, Error, ErrorKind, ExecRequest, ExecResult, Layer, PolicyMode, Result};
use ringfence_workspace::PathMap;

use crate::bridge::{Bridge, BridgeOptions, ContainerExec};
use crate::engine::Engine;
use crate::engine::attached::Attached;
use crate::guest::{Link, inside};
use crate::register::Held;

/// What every container has: the engine makes them with these or not at all.
const OF_THE_CONTAINER: [Layer; 8] = [
    Layer::Container,
    Layer::MountNamespace,
    Layer::PidNamespace,
    Layer::NetworkNamespace,
    Layer::IpcNamespace,
    Layer::UtsNamespace,
    Layer::Cgroup,
    Layer::Capabilities,
];

/// What the guest says about itself that is not true inside a container.
const NOT_IN_A_CONTAINER: [&str; 2] =
    ["no namespaces:", "the home directory and the place for temporary files"];

/// What becomes of the container when the sandbox is disposed of.
pub(crate) enum Afterwards {
    /// The next sandbox of the scope uses it.
    Keep,
    /// It is removed; also when this process is killed, since it ends with this connection.
    Remove { _tie: Mutex<Attached> },
}

/// A container with a shell that remembers, and others by name.
pub struct DockerSandbox {
    id: String,
    engine: Engine,
    container: String,
    link: Arc<Link>,
    map: PathMap,
    notes: Vec<String>,
    afterwards: Afterwards,
    /// Held against pruning until it is disposed of.
    held: Mutex<Option<Held>>,
    disposed: Arc<AtomicBool>,
    named: Mutex<BTreeMap<String, Arc<DockerShell>>>,
}

impl std::fmt::Debug for DockerSandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DockerSandbox")
            .field("id", &self.id)
            .field("container", &self.container)
            .finish_non_exhaustive()
    }
}

/// What a sandbox is put together from.
pub(crate) struct Parts {
    pub(crate) id: String,
    pub(crate) engine: Engine,
    pub(crate) container: String,
    pub(crate) link: Link,
    pub(crate) map: PathMap,
    pub(crate) notes: Vec<String>,
    pub(crate) afterwards: Afterwards,
    pub(crate) held: Option<Held>,
}

impl DockerSandbox {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { id, engine, container, link, map, notes, afterwards, held } = parts;
        Self {
            id,
            engine,
            container,
            link: Arc::new(link),
            map,
            notes,
            afterwards,
            held: Mutex::new(held),
            disposed: Arc::default(),
            named: Mutex::default(),
        }
    }

    /// The name of its container.
    #[must_use]
    pub fn container(&self) -> &str {
        &self.container
    }

    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn map(&self) -> &PathMap {
        &self.map
    }

    fn core(&self, shell: Option<&str>) -> Core {
        Core {
            link: Arc::clone(&self.link),
            map: self.map.clone(),
            shell: shell.map(str::to_owned),
            assurance: self.described(),
            disposed: Arc::clone(&self.disposed),
        }
    }

    fn described(&self) -> Assurance {
        let inner = self.link.assurance();
        let mut layers = OF_THE_CONTAINER.to_vec();
        layers.extend(inner.layers.iter().filter(|layer| !OF_THE_CONTAINER.contains(layer)));
        let lost = inner
            .degraded
            .iter()
            .filter(|text| !NOT_IN_A_CONTAINER.iter().any(|start| text.starts_with(start)));
        Assurance {
            requested: PolicyMode::Restricted,
            effective: inner.effective,
            active: true,
            adapter: "docker/guest".to_owned(),
            layers,
            degraded: lost.chain(&self.notes).cloned().collect(),
        }
    }

    fn named(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<DockerShell>>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sandbox for DockerSandbox {
    fn id(&self) -> &str {
        &self.id
    }

    fn assurance(&self) -> Assurance {
        self.described()
    }

    fn execute<'a>(
        &'a self,
        request: ExecRequest,
        events: EventSink<'a>,
    ) -> BoxFuture<'a, Result<ExecResult>> {
        Box::pin(async move { self.core(None).execute(request, events).await })
    }

    fn dispose(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            if self.disposed.swap(true, Ordering::AcqRel) {
                return Ok(());
            }
            self.named().clear();
            self.link.close().await;
            self.held.lock().unwrap_or_else(PoisonError::into_inner).take();
            match &self.afterwards {
                Afterwards::Keep => Ok(()),
                Afterwards::Remove { .. } => self.engine.remove(&self.container).await,
            }
        })
    }

    fn cancel(&self) -> BoxFuture<'_, Result<()>> {
        self.link.cancel(None);
        Box::pin(std::future::ready(Ok(())))
    }

    fn is_alive(&self) -> bool {
        !self.disposed.load(Ordering::Acquire) && self.link.is_alive()
    }

    fn shell<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Arc<dyn Sandbox>>> {
        let shell = if self.is_alive() {
            let mut named = self.named();
            let found = named.get(name).filter(|shell| shell.is_alive()).cloned();
            let shell = found.unwrap_or_else(|| {
                let id = format!("{}/{name}", self.id);
                Arc::new(DockerShell { id, core: self.core(Some(name)), closed: AtomicBool::new(false) })
            });
            named.insert(name.to_owned(), Arc::clone(&shell));
            Ok(shell as Arc<dyn Sandbox>)
        } else {
            Err(Error::new(ErrorKind::SandboxNotAvailable, "the sandbox was closed"))
        };
        Box::pin(std::future::ready(shell))
    }

    fn files(&self) -> Option<Arc<dyn SandboxFiles>> {
        let exec = Arc::new(ContainerExec::new(self.engine.clone(), self.container.as_str()));
        Some(Arc::new(Bridge::new(exec, self.map.clone(), BridgeOptions::default())))
    }
}

/// One shell in the container.
#[derive(Debug)]
struct DockerShell {
    id: String,
    core: Core,
    closed: AtomicBool,
}

impl Sandbox for DockerShell {
    fn id(&self) -> &str {
        &self.id
    }

    fn assurance(&self) -> Assurance {
        self.core.assurance.clone()
    }

    fn execute<'a>(
        &'a self,
        request: ExecRequest,
        events: EventSink<'a>,
    ) -> BoxFuture<'a, Result<ExecResult>> {
        Box::pin(async move {
            if self.closed.load(Ordering::Acquire) {
                return Err(gone());
            }
            self.core.execute(request, events).await
        })
    }

    fn dispose(&self) -> BoxFuture<'_, Result<()>> {
        if !self.closed.swap(true, Ordering::AcqRel)
            && let Some(name) = &self.core.shell
        {
            self.core.link.close_shell(name);
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn cancel(&self) -> BoxFuture<'_, Result<()>> {
        self.core.link.cancel(self.core.shell.as_deref());
        Box::pin(std::future::ready(Ok(())))
    }

    fn is_alive(&self) -> bool {
        !self.closed.load(Ordering::Acquire)
            && !self.core.disposed.load(Ordering::Acquire)
            && self.core.link.is_alive()
    }
}

/// What runs commands of one shell.
#[derive(Debug)]
struct Core {
    link: Arc<Link>,
    map: PathMap,
    shell: Option<String>,
    assurance: Assurance,
    disposed: Arc<AtomicBool>,
}

impl Core {
    async fn execute(&self, mut request: ExecRequest, events: EventSink<'_>) -> Result<ExecResult> {
        if self.disposed.load(Ordering::Acquire) {
            return Err(gone());
        }
        if request.tty {
            return Err(Error::new(ErrorKind::Unsupported, "this sandbox has no terminals"));
        }
        request.cwd = request.cwd.map(|cwd| inside::directory(&cwd, &self.map));
        let result = self.link.execute(self.shell.as_deref(), request, events).await?;
        Ok(ExecResult { sandbox: self.assurance.clone(), ..result })
    }
}

fn gone() -> Error {
    Error::new(ErrorKind::SandboxNotAvailable, "the sandbox was closed; nothing ran")
}
