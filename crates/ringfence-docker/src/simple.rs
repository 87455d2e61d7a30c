//! One container for each command, always removed: for code that must not find anything of what ran before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ringfence_fence::{BoxFuture, CreateOptions, EventSink, Sandbox, SandboxFiles};
use ringfence_model::{Assurance, Error, ErrorKind, ExecRequest, ExecResult, Result};
use ringfence_workspace::PathMap;

use crate::bridge::{Bridge, BridgeOptions, ContainerExec};
use crate::exec::{Exec, Finished, Input, Output, Script};
use crate::provider::Maker;
use crate::sandbox::DockerSandbox;

/// A sandbox that has a container only while a command runs.
#[derive(Debug)]
pub struct SimpleSandbox {
    id: String,
    maker: Arc<Maker>,
    options: CreateOptions,
    assurance: Assurance,
    map: PathMap,
    disposed: AtomicBool,
}

/// Runs each script of the file bridge in a container of its own.
#[derive(Debug)]
struct SimpleExec {
    maker: Arc<Maker>,
    options: CreateOptions,
}

impl Exec for SimpleExec {
    fn run<'a>(
        &'a self,
        script: Script<'a>,
        input: Input<'a>,
        output: Output<'a>,
    ) -> BoxFuture<'a, Result<Finished>> {
        Box::pin(async move {
            let sandbox = self.maker.make(self.options.clone()).await?;
            let exec = ContainerExec::new(sandbox.engine().clone(), sandbox.container());
            let outcome = exec.run(script, input, output).await;
            let removed = sandbox.dispose().await;
            let finished = outcome?;
            removed.map(|()| finished)
        })
    }
}

impl SimpleSandbox {
    /// Makes one container and removes it, so that what is wrong is known before the first command.
    pub(crate) async fn start(id: String, maker: Arc<Maker>, mut options: CreateOptions) -> Result<Self> {
        options.hooks.scope_key = None;
        let trial = maker.make(options.clone()).await?;
        let (assurance, map) = (trial.assurance(), trial.map().clone());
        trial.dispose().await?;
        Ok(Self { id, maker, options, assurance, map, disposed: AtomicBool::new(false) })
    }

    async fn fresh(&self) -> Result<Arc<DockerSandbox>> {
        if !self.is_alive() {
            return Err(Error::new(ErrorKind::SandboxNotAvailable, "the sandbox was closed; nothing ran"));
        }
        self.maker.make(self.options.clone()).await
    }
}

impl Sandbox for SimpleSandbox {
    fn id(&self) -> &str {
        &self.id
    }

    fn assurance(&self) -> Assurance {
        self.assurance.clone()
    }

    fn execute<'a>(
        &'a self,
        request: ExecRequest,
        events: EventSink<'a>,
    ) -> BoxFuture<'a, Result<ExecResult>> {
        Box::pin(async move {
            let sandbox = self.fresh().await?;
            // Whoever stops waiting drops the sandbox, and with it the connection that its container lives by.
            let outcome = sandbox.execute(request, events).await;
            let removed = sandbox.dispose().await;
            let result = outcome?;
            removed.map(|()| result)
        })
    }

    fn dispose(&self) -> BoxFuture<'_, Result<()>> {
        self.disposed.store(true, Ordering::Release);
        Box::pin(std::future::ready(Ok(())))
    }

    fn is_alive(&self) -> bool {
        !self.disposed.load(Ordering::Acquire)
    }

    fn files(&self) -> Option<Arc<dyn SandboxFiles>> {
        let exec = SimpleExec { maker: Arc::clone(&self.maker), options: self.options.clone() };
        Some(Arc::new(Bridge::new(Arc::new(exec), self.map.clone(), BridgeOptions::default())))
    }
}
