//! What is said about background commands and terminals.

use ringfence_fence::jobs::{JobInfo, JobOutput, JobState, TerminalSize};
use ringfence_model::Violation;
use serde::{Deserialize, Serialize};

use super::wire::{Bytes, Request};

/// What a guest shall do about a job.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "do")]
pub enum JobCall {
    Start {
        request: Box<Request>,
    },
    List,
    Read {
        job: String,
        offset: u64,
        most: usize,
    },
    Write {
        job: String,
        data: Bytes,
    },
    CloseInput {
        job: String,
    },
    Signal {
        job: String,
        signal: i32,
    },
    Resize {
        job: String,
        rows: u16,
        columns: u16,
    },
    /// Answered when it has ended.
    Wait {
        job: String,
    },
}

/// What came of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum JobAnswer {
    Done,
    Job { job: Job },
    Jobs { jobs: Vec<Job> },
    Output { offset: u64, data: Bytes, job: Job },
}

/// A job as it travels.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    id: String,
    command: String,
    /// None: it runs.
    exit_code: Option<i32>,
    signal: Option<i32>,
    output_bytes: u64,
    truncated: bool,
    timed_out: bool,
    violations: Vec<Violation>,
    blocked_resource: Option<String>,
}

impl From<JobInfo> for Job {
    fn from(info: JobInfo) -> Self {
        let (exit_code, signal) = match info.state {
            JobState::Running => (None, None),
            JobState::Ended { exit_code, signal } => (Some(exit_code), signal),
        };
        Self {
            id: info.id,
            command: info.command,
            exit_code,
            signal,
            output_bytes: info.output_bytes,
            truncated: info.truncated,
            timed_out: info.timed_out,
            violations: info.violations,
            blocked_resource: info.blocked_resource,
        }
    }
}

impl From<Job> for JobInfo {
    fn from(job: Job) -> Self {
        let state = match job.exit_code {
            None => JobState::Running,
            Some(exit_code) => JobState::Ended { exit_code, signal: job.signal },
        };
        Self {
            state,
            output_bytes: job.output_bytes,
            truncated: job.truncated,
            timed_out: job.timed_out,
            violations: job.violations,
            blocked_resource: job.blocked_resource,
            ..Self::running(job.id, job.command)
        }
    }
}

impl From<JobOutput> for JobAnswer {
    fn from(output: JobOutput) -> Self {
        Self::Output { offset: output.offset, data: Bytes(output.bytes), job: output.job.into() }
    }
}

#[must_use]
pub fn size(rows: u16, columns: u16) -> TerminalSize {
    TerminalSize { rows, columns }
}
