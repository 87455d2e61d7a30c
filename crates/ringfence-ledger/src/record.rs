//! The records, as plain data with camelCase names.

use std::path::PathBuf;

use ringfence_model::{Access, Command, Decision, Degradation, ExecResult, Grant, Layer, Violation};
use serde::{Deserialize, Serialize};

use crate::{ExecutionId, GrantId, now_ms};

/// A command that is about to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionStart {
    pub id: ExecutionId,
    pub command: Command,
    pub cwd: Option<PathBuf>,
    pub project: Option<PathBuf>,
    /// The session it belongs to, when it has one.
    pub session_key: Option<String>,
}

impl ExecutionStart {
    /// An execution that starts now; its id carries the time.
    #[must_use]
    pub fn new(command: Command) -> Self {
        Self { id: ExecutionId::new(), command, cwd: None, project: None, session_key: None }
    }
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionEnd {
    pub id: ExecutionId,
    pub finished_ms: u64,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub blocked: bool,
    pub timed_out: bool,
    pub duration_ms: Option<f64>,
    /// Provider and launcher, such as `local/native`.
    pub adapter: Option<String>,
    pub layers: Vec<Layer>,
    pub degraded: Vec<Degradation>,
    /// Why it could not run at all, when it could not.
    pub failure: Option<String>,
}

impl ExecutionEnd {
    #[must_use]
    pub fn of(id: ExecutionId, result: &ExecResult) -> Self {
        Self {
            id,
            finished_ms: now_ms(),
            exit_code: Some(result.exit_code),
            signal: result.signal,
            blocked: result.blocked,
            timed_out: result.timed_out,
            duration_ms: Some(result.duration_ms),
            adapter: Some(result.sandbox.adapter.clone()),
            layers: result.sandbox.layers.clone(),
            degraded: result.sandbox.degraded.clone(),
            failure: None,
        }
    }

    /// It never ran: the fence could not start, or the gate refused.
    #[must_use]
    pub fn failed(id: ExecutionId, why: impl Into<String>) -> Self {
        Self {
            id,
            finished_ms: now_ms(),
            exit_code: None,
            signal: None,
            blocked: false,
            timed_out: false,
            duration_ms: None,
            adapter: None,
            layers: vec![],
            degraded: vec![],
            failure: Some(why.into()),
        }
    }
}

/// How far an execution got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Status {
    Running,
    Finished,
    /// It never ran.
    Failed,
    /// It started, and the process that watched it is gone without saying how it ended.
    Interrupted,
}

/// One execution as it is remembered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Execution {
    pub id: ExecutionId,
    pub status: Status,
    pub started_ms: u64,
    pub finished_ms: Option<u64>,
    /// The text as a person would type it, without known secrets.
    pub command: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    pub cwd: Option<String>,
    pub project: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    pub blocked: bool,
    pub timed_out: bool,
    #[serde(serialize_with = "ringfence_model::rounded_option")]
    pub duration_ms: Option<f64>,
    pub adapter: Option<String>,
    pub launcher: Option<String>,
    pub layers: Vec<String>,
    pub degraded: Vec<Degradation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    pub owner_pid: u32,
}

/// One refused access and the execution it happened in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerViolation {
    pub id: i64,
    pub execution_id: Option<ExecutionId>,
    /// The command of that execution, for showing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    pub violation: Violation,
}

/// A question and what a person answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decided {
    pub time_ms: u64,
    pub execution_id: Option<ExecutionId>,
    pub decision: Decision,
    /// What sort of thing was asked for, such as `filesystem`, `network`, `tool`.
    pub kind: String,
    pub resource: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The approval key, when the request had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Who answered: `terminal`, `callback`, `auto-deny`, a user's name.
    pub by: String,
}

/// A grant, and whether it still holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Granted {
    pub id: GrantId,
    pub created_ms: u64,
    pub grant: Grant,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<ExecutionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_ms: Option<u64>,
}

impl Granted {
    #[must_use]
    pub fn new(grant: Grant) -> Self {
        Self {
            id: GrantId::new(),
            created_ms: now_ms(),
            grant,
            session_key: None,
            project: None,
            execution_id: None,
            revoked_ms: None,
        }
    }
}

/// Anything else worth remembering, such as a break-glass option or a rebuilt sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    pub time_ms: u64,
    pub execution_id: Option<ExecutionId>,
    /// Lower-case, such as `sandbox_rebuilt`.
    pub kind: String,
    pub body: serde_json::Value,
}

impl Event {
    pub fn now(kind: impl Into<String>, body: serde_json::Value) -> Self {
        Self { time_ms: now_ms(), execution_id: None, kind: kind.into(), body }
    }
}
