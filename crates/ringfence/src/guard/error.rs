//! Why a guard said no.

use std::path::PathBuf;

use ringfence_model::{Error, ErrorKind};

/// Why a guard said no, or could not do something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GuardError {
    #[error("{resource}: {current} is more than the limit of {limit}")]
    ResourceLimitExceeded { resource: String, current: u64, limit: u64 },
    #[error("access to {} is denied: {reason}", path.display())]
    PathAccessDenied { path: PathBuf, reason: String },
    #[error("{} is no directory to start a command in", .0.display())]
    NoDirectory(PathBuf),
    #[error("the command is not allowed: {0}")]
    CommandNotAllowed(String),
    #[error("access to {host}:{port} is denied: {reason}")]
    NetworkAccessDenied { host: String, port: u16, reason: String },
    #[error("the command was ended after {0} ms")]
    Timeout(u64),
    #[error("no fence could be started: {0}")]
    InitializationFailed(String),
    #[error("the command could not be started: {0}")]
    SpawnFailed(String),
    #[error("the configuration is wrong: {0}")]
    InvalidConfig(String),
    #[error("permission denied: {0}")]
    PermissionDenied(String),
    #[error("{0}")]
    Internal(String),
}

impl GuardError {
    /// The kind that tools report.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::ResourceLimitExceeded { .. } => ErrorKind::ResourceLimitExceeded,
            Self::PathAccessDenied { .. } => ErrorKind::PathAccessDenied,
            Self::NoDirectory(_) => ErrorKind::Validation,
            Self::CommandNotAllowed(_) => ErrorKind::CommandNotAllowed,
            Self::NetworkAccessDenied { .. } => ErrorKind::NetworkAccessDenied,
            Self::Timeout(_) => ErrorKind::Timeout,
            Self::InitializationFailed(_) => ErrorKind::InitializationFailed,
            Self::SpawnFailed(_) => ErrorKind::SpawnFailed,
            Self::InvalidConfig(_) => ErrorKind::InvalidConfig,
            Self::PermissionDenied(_) => ErrorKind::Permission,
            Self::Internal(_) => ErrorKind::Internal,
        }
    }
}

impl From<Error> for GuardError {
    fn from(error: Error) -> Self {
        let text = error.chain();
        match error.kind {
            ErrorKind::InvalidConfig | ErrorKind::ConfigError | ErrorKind::Validation => {
                Self::InvalidConfig(text)
            }
            ErrorKind::SandboxDenied | ErrorKind::SandboxNotAvailable => Self::InitializationFailed(text),
            ErrorKind::SpawnFailed | ErrorKind::NotFound => Self::SpawnFailed(text),
            ErrorKind::Permission | ErrorKind::PathTraversal => Self::PermissionDenied(text),
            ErrorKind::CommandNotAllowed | ErrorKind::ApprovalDenied => Self::CommandNotAllowed(text),
            _ => Self::Internal(text),
        }
    }
}

impl From<GuardError> for Error {
    fn from(error: GuardError) -> Self {
        Self::new(error.kind(), error.to_string())
    }
}
