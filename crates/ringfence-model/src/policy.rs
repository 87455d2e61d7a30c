//! What a sandbox may touch. Platform-free; each provider translates it, and refuses to start when it
//! cannot enforce a part of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Grant, HostRule, Limits, PathPattern};

/// The whole policy of one sandbox, with every path absolute and every variable already expanded.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Policy {
    pub filesystem: Filesystem,
    pub network: NetworkPolicy,
    pub limits: Limits,
    pub environment: Environment,
}

/// Which paths exist inside, and what may be done to them.
///
/// Precedence is decided in one place, [`crate::decide`]: grant > deny > protect > allow write >
/// allow read > nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Filesystem {
    /// Readable and writable.
    pub allow_write: Vec<PathRule>,
    /// Readable only.
    pub allow_read: Vec<PathRule>,
    /// Neither readable nor writable, whatever is allowed.
    pub deny: Vec<PathRule>,
    /// Not writable, whatever is allowed; readable where something else allows it.
    pub protect: Vec<PathRule>,
    /// Directories that exist inside as empty, writable, private ones (`/tmp`, the home directory, …).
    pub private: Vec<PathRule>,
    /// What a person granted for this sandbox; beats everything above.
    pub grants: Vec<Grant>,
}

/// A path pattern and where it came from, so that every refusal can name its rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PathRule {
    pub path: PathPattern,
    pub source: RuleSource,
}

impl PathRule {
    pub fn new(path: impl Into<PathPattern>, source: RuleSource) -> Self {
        Self { path: path.into(), source }
    }

    /// A rule of the program itself.
    pub fn built_in(path: impl Into<PathPattern>) -> Self {
        Self::new(path, RuleSource::layer(RuleLayer::BuiltIn))
    }

    /// Whether it is the program's own rule about a name, wherever it is, and about no place.
    #[must_use]
    pub fn is_about_names(&self) -> bool {
        self.source.layer == RuleLayer::BuiltIn && self.path.names_after_depth().is_some()
    }

    /// Whether nothing needs it in a place that ends with the sandbox: nobody runs later what is gone.
    #[must_use]
    pub fn is_about_later(&self) -> bool {
        self.is_about_names() || self.runs_later()
    }

    /// Whether it protects settings that an editor, an agent or another tool of the person's acts on by itself. They are
    /// kept where a person uses them; in a tree that was made inside they are the work.
    #[must_use]
    pub fn runs_later(&self) -> bool {
        self.source.layer == RuleLayer::BuiltIn
            && self.source.key.as_deref().is_some_and(|key| key.starts_with(RUNS_LATER))
    }
}

/// Directories that are built or downloaded rather than written: nobody's editor or agent takes its settings from there.
pub const BUILT_DIRECTORIES: [&str; 14] = [
    "node_modules",
    "target",
    "__pycache__",
    ".venv",
    "venv",
    ".tox",
    ".mypy_cache",
    ".pytest_cache",
    ".gradle",
    ".m2",
    "bower_components",
    ".terraform",
    ".next",
    KITS_DIRECTORY,
];

/// Above the state of agents that live inside: only they act on what is in it.
pub const KITS_DIRECTORY: &str = "ringfence-kits";

/// The beginning of the key of built-in rules about settings, which says who acts on them and how; see [`PathRule::runs_later`].
pub const RUNS_LATER: &str = "runs later";

/// Which layer of configuration a rule came from. Later layers are closer to the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RuleLayer {
    BuiltIn,
    Profile,
    User,
    Agent,
    /// What a kit lets an agent do.
    Kit,
    Project,
    Call,
    /// A person's answer.
    Grant,
    /// Found on this machine (tool chains on PATH and the like).
    Detected,
}

/// Where a rule was written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleSource {
    pub layer: RuleLayer,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The configuration key or command-line option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl RuleSource {
    #[must_use]
    pub fn layer(layer: RuleLayer) -> Self {
        Self { layer, file: None, line: None, key: None }
    }

    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }
}

impl std::fmt::Display for RuleSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let layer = match self.layer {
            RuleLayer::BuiltIn => "built-in",
            RuleLayer::Profile => "profile",
            RuleLayer::User => "user config",
            RuleLayer::Agent => "agent config",
            RuleLayer::Kit => "kit",
            RuleLayer::Project => "project config",
            RuleLayer::Call => "command line",
            RuleLayer::Grant => "grant",
            RuleLayer::Detected => "detected",
        };
        f.write_str(layer)?;
        if let Some(file) = &self.file {
            write!(f, " {}", file.display())?;
            if let Some(line) = self.line {
                write!(f, ":{line}")?;
            }
        }
        if let Some(key) = &self.key {
            write!(f, ": {key}")?;
        }
        Ok(())
    }
}

/// Off unless somebody asks; then by host and port. The local fence never has a raw network.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkPolicy {
    /// The network as it is. Never for `local`.
    pub allow_network: bool,
    pub allowed_hosts: Vec<HostRule>,
    /// Beats what is allowed.
    pub blocked_hosts: Vec<HostRule>,
    pub allowed_ports: Vec<u16>,
    pub blocked_ports: Vec<u16>,
    /// A host in no list is asked about.
    pub ask: bool,
    /// Services on the host's own loopback that may be reached, by port.
    pub host_ports: Vec<u16>,
    /// Connections at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<u64>,
    /// Connections that are begun in a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connections_per_minute: Option<u64>,
    /// Bytes that leave, of all connections together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes_out: Option<u64>,
}

/// The environment of the command: empty, plus what passes, plus what is set.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Environment {
    /// Names passed through from the caller; `*` at the end is a wildcard (`LC_*`).
    pub pass: Vec<String>,
    /// Set to exactly this; beats `pass`.
    pub set: BTreeMap<String, String>,
}

impl Policy {
    /// Paths a person granted access to, as plain paths.
    pub fn granted_paths(&self) -> impl Iterator<Item = &Path> {
        self.filesystem.grants.iter().map(|grant| grant.path.as_path())
    }
}
