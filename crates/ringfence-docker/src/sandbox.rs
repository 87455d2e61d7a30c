//! One sandbox: a container and what runs commands in it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ringfence_fence::{BoxFuture, EventSink, Jobs, Sandbox, SandboxFiles};
use ringfence_model::{
    Assurance, Degradation, DegradationCode, Error, ErrorKind, ExecRequest, ExecResult, Result,
};
use ringfence_workspace::PathMap;

use crate::bridge::{Bridge, BridgeOptions, ContainerExec};
use crate::engine::Engine;
use crate::engine::attached::Attached;
use crate::guest::{GuestJobs, inside};
use crate::plain::NO_SUCH_PLACE;
use crate::register::Held;
use crate::way::Way;

/// What happens to a command whose directory cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Elsewhere {
    /// It does not run: what it would do in another one, nobody knows.
    Nowhere,
    /// It runs where its shell is, with a warning.
    TheWorkspace,
}

/// What becomes of the container when the sandbox is disposed of.
pub(crate) enum Afterwards {
    /// The next sandbox of the scope uses it.
    Keep,
    /// It is removed; also when this process is killed, since it ends with this connection, or with the guest's where the guest is what
    /// it runs.
    Remove { held_by: Mutex<Option<Attached>> },
}

/// A container with a shell that remembers, and others by name.
pub struct DockerSandbox {
    id: String,
    engine: Engine,
    container: String,
    way: Arc<Way>,
    jobs: Option<GuestJobs>,
    map: PathMap,
    notes: Vec<Degradation>,
    elsewhere: Elsewhere,
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
    pub(crate) way: Way,
    pub(crate) map: PathMap,
    pub(crate) notes: Vec<Degradation>,
    pub(crate) elsewhere: Elsewhere,
    pub(crate) afterwards: Afterwards,
    pub(crate) held: Option<Held>,
}

impl DockerSandbox {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { id, engine, container, way, map, notes, elsewhere, afterwards, held } = parts;
        let way = Arc::new(way);
        Self {
            id,
            engine,
            container,
            jobs: GuestJobs::of(&way, &map),
            way,
            map,
            notes,
            elsewhere,
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
            way: Arc::clone(&self.way),
            map: self.map.clone(),
            shell: shell.map(str::to_owned),
            assurance: self.described(),
            elsewhere: self.elsewhere,
            disposed: Arc::clone(&self.disposed),
        }
    }

    fn described(&self) -> Assurance {
        let mut assurance = self.way.assurance();
        assurance.degraded.extend(self.notes.iter().cloned());
        assurance
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
            // What is removed as a whole need not end by itself first.
            if matches!(self.afterwards, Afterwards::Keep) {
                self.way.close().await;
            }
            self.held.lock().unwrap_or_else(PoisonError::into_inner).take();
            match &self.afterwards {
                Afterwards::Keep => Ok(()),
                Afterwards::Remove { .. } => self.engine.remove(&self.container).await,
            }
        })
    }

    fn cancel(&self) -> BoxFuture<'_, Result<()>> {
        self.way.cancel(None);
        Box::pin(std::future::ready(Ok(())))
    }

    fn is_alive(&self) -> bool {
        !self.disposed.load(Ordering::Acquire) && self.way.is_alive()
    }

    fn jobs(&self) -> Option<&dyn Jobs> {
        self.jobs.as_ref().map(|jobs| jobs as &dyn Jobs)
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
            self.core.way.close_shell(name);
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn cancel(&self) -> BoxFuture<'_, Result<()>> {
        self.core.way.cancel(self.core.shell.as_deref());
        Box::pin(std::future::ready(Ok(())))
    }

    fn is_alive(&self) -> bool {
        !self.closed.load(Ordering::Acquire)
            && !self.core.disposed.load(Ordering::Acquire)
            && self.core.way.is_alive()
    }
}

/// What runs commands of one shell.
#[derive(Debug)]
struct Core {
    way: Arc<Way>,
    map: PathMap,
    shell: Option<String>,
    assurance: Assurance,
    elsewhere: Elsewhere,
    disposed: Arc<AtomicBool>,
}

impl Core {
    async fn execute(&self, mut request: ExecRequest, events: EventSink<'_>) -> Result<ExecResult> {
        if self.disposed.load(Ordering::Acquire) {
            return Err(gone());
        }
        if request.tty {
            return Err(Error::new(ErrorKind::Unsupported, "a command on a terminal is a job")
                .hint("start it as one; containers without a guest have none"));
        }
        request.cwd = request.cwd.map(|cwd| inside::directory(&cwd, &self.map));
        let mut sandbox = self.assurance.clone();
        let result = match self.way.execute(self.shell.as_deref(), request.clone(), events).await {
            // Nothing has run.
            Err(error) if self.elsewhere == Elsewhere::TheWorkspace && is_no_such_place(&error) => {
                let cwd = request.cwd.take().unwrap_or_default();
                let warning = format!(
                    "{} cannot be used in the container: the command ran in the shell's directory",
                    cwd.display()
                );
                sandbox.degraded.push(Degradation::new(DegradationCode::OtherDirectory, warning));
                self.way.execute(self.shell.as_deref(), request, events).await?
            }
            other => other?,
        };
        Ok(ExecResult { sandbox, ..result })
    }
}

fn is_no_such_place(error: &Error) -> bool {
    error.kind == ErrorKind::Validation && error.message.starts_with(NO_SUCH_PLACE)
}

fn gone() -> Error {
    Error::new(ErrorKind::SandboxNotAvailable, "the sandbox was closed; nothing ran")
}
