//! What a person answered, and what follows from it.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::decide::Access;

/// A person's answer to one question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// This call only.
    #[serde(alias = "once", alias = "approved")]
    AllowOnce,
    /// As long as this sandbox, across rebuilds.
    #[serde(alias = "session", alias = "approved_for_session")]
    AllowSession,
    /// Written to the user's configuration.
    #[serde(alias = "always")]
    AllowPermanent,
    #[serde(alias = "denied")]
    Deny,
    /// Refused, and nobody is asked about it again: written to the user's configuration.
    #[serde(alias = "never")]
    DenyPermanent,
    /// Refuse and end the run.
    Abort,
}

impl Decision {
    /// How long a yes holds; of a no, for the call.
    #[must_use]
    pub const fn scope(self) -> GrantScope {
        match self {
            Self::AllowSession => GrantScope::Session,
            Self::AllowPermanent => GrantScope::Permanent,
            Self::AllowOnce | Self::Deny | Self::DenyPermanent | Self::Abort => GrantScope::Once,
        }
    }

    #[must_use]
    pub fn allows(self) -> bool {
        matches!(self, Self::AllowOnce | Self::AllowSession | Self::AllowPermanent)
    }
}

/// How long a grant holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GrantScope {
    Once,
    Session,
    Permanent,
}

/// Access to exactly one resource, given by a person. A directory is granted (with all below it) only
/// when the directory itself was what the person was asked about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    /// For [`Access::Connect`], a host and port: `example.com:443`.
    pub path: PathBuf,
    pub access: Access,
    pub scope: GrantScope,
    /// True when the grant covers everything below `path` too.
    #[serde(default)]
    pub recursive: bool,
}
