//! One error for every refusal and failure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something was refused or failed. The serialised names are a wire contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// No fence with the required strength can be started; nothing ran.
    SandboxDenied,
    /// The fence stopped the command and a person may be asked.
    SandboxBlocked,
    /// A person (or the lack of one, or the clock) refused.
    ApprovalDenied,
    /// Policy refuses this, without asking.
    Permission,
    /// A path leaves the room it must stay in.
    PathTraversal,
    PathAccessDenied,
    CommandNotAllowed,
    NetworkAccessDenied,
    ResourceLimitExceeded,
    Timeout,
    Cancelled,
    /// The input is malformed; nothing ran.
    Validation,
    InvalidConfig,
    /// The run cannot go on with this configuration.
    ConfigError,
    NotFound,
    /// The command ran and returned a non-zero status.
    ExitCode,
    HumanRequired,
    ConcurrentAccess,
    SandboxNotAvailable,
    ExecutionRejected,
    ConfirmationTimeout,
    ConfirmationRejected,
    InitializationFailed,
    SpawnFailed,
    Unsupported,
    Internal,
    Unknown,
}

impl ErrorKind {
    /// The wire name, for messages and logs.
    #[must_use]
    pub fn name(self) -> String {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::String(name)) => name,
            _ => "unknown".to_owned(),
        }
    }
}

/// What failed, in words for a person, with the kind a program switches on and hints what to do.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    pub kind: ErrorKind,
    /// Lower-case fragment that fits after "failed:".
    pub message: String,
    /// What the reader can do about it, most useful first.
    pub hints: Vec<String>,
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hints: Vec::new(), source: None }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The message followed by its causes, on one line.
    #[must_use]
    pub fn chain(&self) -> String {
        let mut text = self.message.clone();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_names_are_those_of_the_documents() {
        for (kind, name) in [
            (ErrorKind::SandboxDenied, "sandbox_denied"),
            (ErrorKind::ApprovalDenied, "approval_denied"),
            (ErrorKind::Permission, "permission"),
            (ErrorKind::SandboxBlocked, "sandbox_blocked"),
            (ErrorKind::Timeout, "timeout"),
            (ErrorKind::Validation, "validation"),
            (ErrorKind::PathAccessDenied, "path_access_denied"),
            (ErrorKind::CommandNotAllowed, "command_not_allowed"),
            (ErrorKind::NetworkAccessDenied, "network_access_denied"),
            (ErrorKind::InitializationFailed, "initialization_failed"),
            (ErrorKind::SpawnFailed, "spawn_failed"),
            (ErrorKind::InvalidConfig, "invalid_config"),
            (ErrorKind::Internal, "internal"),
            (ErrorKind::PathTraversal, "path_traversal"),
            (ErrorKind::ConcurrentAccess, "concurrent_access"),
            (ErrorKind::SandboxNotAvailable, "sandbox_not_available"),
            (ErrorKind::ExecutionRejected, "execution_rejected"),
            (ErrorKind::ConfirmationTimeout, "confirmation_timeout"),
            (ErrorKind::ConfirmationRejected, "confirmation_rejected"),
        ] {
            assert_eq!(kind.name(), name);
        }
    }

    #[test]
    fn chain_names_every_cause_once() {
        let error = Error::new(ErrorKind::SpawnFailed, "cannot start bash")
            .caused_by(std::io::Error::other("no such file"));
        assert_eq!(error.chain(), "cannot start bash: no such file");
    }
}
