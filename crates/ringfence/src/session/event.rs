//! Events around a tool call, in order: `tool_call_requested`, then (where a person is asked)
//! `approval_requested` and `approval_decided`, `tool_call_started`, `tool_call_finished`. A fence that holds a
//! call asks between the last two.

use ringfence_model::{Decision, ErrorKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::questions::{Ended, Reason};
use super::result::ToolResult;
use crate::permission::Permission;

/// One event. Everything in it is cleaned of known secrets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum SessionEvent {
    ToolCallRequested {
        call_id: String,
        /// The tool, by its own name; `name` is what the caller said.
        tool: String,
        name: String,
        arguments: Value,
    },
    ApprovalRequested {
        approval_key: String,
        call_id: String,
        tool: String,
        summary: String,
        request: Value,
        permission: Box<Permission>,
    },
    ApprovalDecided {
        approval_key: String,
        call_id: String,
        decision: Decision,
        reason: Reason,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    ToolCallStarted {
        call_id: String,
        tool: String,
    },
    /// Output as it comes; not kept in the ledger.
    Output {
        call_id: String,
        stream: Stream,
        data: String,
    },
    ToolCallFinished {
        call_id: String,
        tool: String,
        ok: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// Of a tool. A command of a person, or of a session, has its own result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<Box<ToolResult>>,
    },
    /// A background command of an earlier call ended.
    JobEnded {
        call_id: String,
        job: String,
        exit_code: i32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
    },
    RunFailed {
        error_kind: ErrorKind,
        message: String,
        retryable: bool,
        /// Where everything of the run is recorded: the ledger, and the session's name in it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wal_locator: Option<String>,
        /// What led to it.
        details: Value,
    },
    RunCancelled {
        message: String,
    },
    /// An answer of "always" was kept; the message says where, and how to take it back.
    Kept {
        message: String,
    },
    Warning {
        message: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    Stdout,
    Stderr,
}

impl SessionEvent {
    /// The name on the wire.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::ToolCallRequested { .. } => "tool_call_requested",
            Self::ApprovalRequested { .. } => "approval_requested",
            Self::ApprovalDecided { .. } => "approval_decided",
            Self::ToolCallStarted { .. } => "tool_call_started",
            Self::Output { .. } => "output",
            Self::ToolCallFinished { .. } => "tool_call_finished",
            Self::JobEnded { .. } => "job_ended",
            Self::RunFailed { .. } => "run_failed",
            Self::RunCancelled { .. } => "run_cancelled",
            Self::Kept { .. } => "kept",
            Self::Warning { .. } => "warning",
        }
    }

    pub(crate) fn of_end(ended: &Ended, wal_locator: Option<String>) -> Self {
        let (message, details) = (ended.message.clone(), ended.details.clone());
        match ended.error_kind {
            ErrorKind::Cancelled => Self::RunCancelled { message },
            error_kind => Self::RunFailed { error_kind, message, retryable: false, wal_locator, details },
        }
    }

    /// As it is remembered: what a command printed is not, only how much it was.
    #[must_use]
    pub fn without_output(&self) -> Option<Value> {
        let mut body = match self {
            Self::Output { .. } => return None,
            event => serde_json::to_value(event).ok()?,
        };
        if let Some(result) = body.get_mut("result") {
            for stream in ["stdout", "stderr"] {
                let bytes = result[stream].as_str().map_or(0, str::len);
                result[stream] = serde_json::json!({ "bytes": bytes });
            }
        }
        Some(body)
    }
}
