//! Background commands and terminals of a guest.

use std::sync::Arc;

use ringfence_fence::BoxFuture;
use ringfence_fence::jobs::{JobInfo, JobOutput, Jobs, TerminalSize};
use ringfence_local::guest::job_wire::{Job, JobAnswer, JobCall};
use ringfence_local::guest::wire::Bytes;
use ringfence_model::{Error, ErrorKind, ExecRequest, Result};
use ringfence_workspace::PathMap;

use super::inside;
use crate::way::Way;

/// The jobs of the guest in a container; none without a guest.
#[derive(Debug)]
pub(crate) struct GuestJobs {
    way: Arc<Way>,
    map: PathMap,
}

impl GuestJobs {
    pub(crate) fn of(way: &Arc<Way>, map: &PathMap) -> Option<Self> {
        let has_guest = matches!(**way, Way::Guest(_));
        has_guest.then(|| Self { way: Arc::clone(way), map: map.clone() })
    }

    async fn ask(&self, call: JobCall) -> Result<JobAnswer> {
        match &*self.way {
            Way::Guest(link) => link.job(call).await,
            Way::Plain(_) => Err(Error::new(ErrorKind::Unsupported, "without a guest there are no jobs")),
        }
    }

    fn outside(&self, job: Job) -> JobInfo {
        inside::job_outside(job.into(), &self.map)
    }

    fn job(&self, call: JobCall) -> BoxFuture<'_, Result<JobInfo>> {
        Box::pin(async move {
            match self.ask(call).await? {
                JobAnswer::Job { job } => Ok(self.outside(job)),
                _ => Err(strange()),
            }
        })
    }

    fn done(&self, call: JobCall) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            match self.ask(call).await? {
                JobAnswer::Done => Ok(()),
                _ => Err(strange()),
            }
        })
    }
}

impl Jobs for GuestJobs {
    fn start(&self, mut request: ExecRequest) -> BoxFuture<'_, Result<JobInfo>> {
        request.cwd = request.cwd.map(|cwd| inside::directory(&cwd, &self.map));
        self.job(JobCall::Start { request: Box::new(request.into()) })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<JobInfo>>> {
        Box::pin(async move {
            match self.ask(JobCall::List).await? {
                JobAnswer::Jobs { jobs } => Ok(jobs.into_iter().map(|job| self.outside(job)).collect()),
                _ => Err(strange()),
            }
        })
    }

    fn read<'a>(&'a self, id: &'a str, offset: u64, most: usize) -> BoxFuture<'a, Result<JobOutput>> {
        Box::pin(async move {
            match self.ask(JobCall::Read { job: id.to_owned(), offset, most }).await? {
                JobAnswer::Output { offset, data, job } => {
                    Ok(JobOutput { offset, bytes: data.0, job: self.outside(job) })
                }
                _ => Err(strange()),
            }
        })
    }

    fn write<'a>(&'a self, id: &'a str, bytes: &'a [u8]) -> BoxFuture<'a, Result<()>> {
        self.done(JobCall::Write { job: id.to_owned(), data: Bytes(bytes.to_vec()) })
    }

    fn close_input<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<()>> {
        self.done(JobCall::CloseInput { job: id.to_owned() })
    }

    fn signal<'a>(&'a self, id: &'a str, signal: i32) -> BoxFuture<'a, Result<()>> {
        self.done(JobCall::Signal { job: id.to_owned(), signal })
    }

    fn resize<'a>(&'a self, id: &'a str, size: TerminalSize) -> BoxFuture<'a, Result<()>> {
        self.done(JobCall::Resize { job: id.to_owned(), rows: size.rows, columns: size.columns })
    }

    fn wait<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<JobInfo>> {
        self.job(JobCall::Wait { job: id.to_owned() })
    }
}

/// An answer that is none to the question.
fn strange() -> Error {
    Error::new(ErrorKind::Internal, "the guest in the container answered something else")
}
