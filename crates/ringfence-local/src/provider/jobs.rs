//! Background commands for callers that must not block.

use std::sync::Arc;

use ringfence_fence::BoxFuture;
use ringfence_fence::jobs::{JobInfo, JobOutput, Jobs as FenceJobs, OutputSink, TerminalSize};
use ringfence_model::{ExecRequest, Result};

use crate::offload::offload;
use crate::shell::{JobOptions, Jobs, SharedSandbox, Shell};

/// The background commands of a sandbox and its shell: each begins with that shell's directory, variables,
/// functions, aliases and options.
#[derive(Debug)]
pub struct LocalJobs {
    jobs: Arc<Jobs>,
    like: Arc<Shell>,
}

impl LocalJobs {
    #[must_use]
    pub fn new(sandbox: SharedSandbox, like: Arc<Shell>) -> Self {
        Self { jobs: Arc::new(Jobs::new(sandbox)), like }
    }

    /// The same jobs; those that are started here begin like another shell.
    pub(crate) fn like(&self, shell: Arc<Shell>) -> Self {
        Self { jobs: Arc::clone(&self.jobs), like: shell }
    }

    /// What may take a while, on a thread of its own.
    fn elsewhere<'a, T: Send + 'static>(
        &'a self,
        work: impl FnOnce(&Jobs) -> Result<T> + Send + 'static,
    ) -> BoxFuture<'a, Result<T>> {
        let jobs = Arc::clone(&self.jobs);
        Box::pin(async move { offload(move || work(&jobs)).await? })
    }
}

fn at_once<'a, T: Send + 'a>(value: Result<T>) -> BoxFuture<'a, Result<T>> {
    Box::pin(std::future::ready(value))
}

impl FenceJobs for LocalJobs {
    fn start(&self, request: ExecRequest) -> BoxFuture<'_, Result<JobInfo>> {
        let like = Arc::clone(&self.like);
        self.elsewhere(move |jobs| jobs.start(&request, &JobOptions { like: Some(&like) }))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<JobInfo>>> {
        at_once(Ok(self.jobs.list()))
    }

    fn read<'a>(&'a self, id: &'a str, offset: u64, most: usize) -> BoxFuture<'a, Result<JobOutput>> {
        at_once(self.jobs.read(id, offset, most))
    }

    fn write<'a>(&'a self, id: &'a str, bytes: &'a [u8]) -> BoxFuture<'a, Result<()>> {
        let (id, bytes) = (id.to_owned(), bytes.to_vec());
        self.elsewhere(move |jobs| jobs.write(&id, &bytes))
    }

    fn close_input<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<()>> {
        at_once(self.jobs.close_input(id))
    }

    fn signal<'a>(&'a self, id: &'a str, signal: i32) -> BoxFuture<'a, Result<()>> {
        at_once(self.jobs.signal(id, signal))
    }

    fn resize<'a>(&'a self, id: &'a str, size: TerminalSize) -> BoxFuture<'a, Result<()>> {
        at_once(self.jobs.resize(id, size))
    }

    fn wait<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<JobInfo>> {
        let id = id.to_owned();
        self.elsewhere(move |jobs| jobs.wait(&id))
    }

    fn follow<'a>(&'a self, id: &'a str, tell: OutputSink<'a>) -> BoxFuture<'a, Result<JobInfo>> {
        Box::pin(async move { self.jobs.follow(id, tell) })
    }
}
