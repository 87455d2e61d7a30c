//! What all layers of configuration come to.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::containers::{BrowserSection, DockerSection};
use super::file::PermanentGrant;
use super::hosts::HostEntry;
use super::setting::Text;
use super::words::{
    Ask, CodeSandbox, ConfirmFrom, GateMode, Launcher, Mode, OsMode, Precision, Profile, SafetyMode, Scope,
    SessionMode, Strictness, WorkspaceAccess,
};
use crate::{Limits, PolicyMode, RuleLayer, RuleSource};

/// An entry of a list, as it was written, and where.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry {
    pub text: String,
    pub source: RuleSource,
}

impl Entry {
    pub fn new(text: impl Into<String>, source: RuleSource) -> Self {
        Self { text: text.into(), source }
    }

    /// An entry that a program handed in.
    pub fn by_call(text: impl Into<String>) -> Self {
        Self::new(text, RuleSource::layer(RuleLayer::Call))
    }
}

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::by_call(Text::deserialize(deserializer)?.into_string()))
    }
}

/// The whole configuration of one sandbox: every setting has a value. Serialised, it is a valid
/// configuration file again.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxConfig {
    pub enabled: bool,
    pub provider: String,
    pub provider_options: serde_json::Map<String, serde_json::Value>,
    pub profile: Profile,
    pub default_policy: PolicyMode,
    pub os: OsConfig,
    pub launcher: Launcher,
    pub mode: Mode,
    /// None: whatever the host of the sessions does by default.
    pub sessions: Option<SessionMode>,
    pub scope: Scope,
    /// None: the provider's own default (`local` works in the project, containers have their own).
    pub workspace_access: Option<WorkspaceAccess>,
    /// None: `sandboxes` in ringfence's home.
    pub workspace_root: Option<String>,
    pub working_dir: Option<String>,

    pub allow_read: Vec<Entry>,
    pub allow_write: Vec<Entry>,
    pub deny: Vec<Entry>,
    pub protect: Vec<Entry>,
    pub grants: Vec<PermanentGrant>,
    pub never_ask: Vec<Entry>,

    pub allow_network: bool,
    pub allowed_hosts: Vec<HostEntry>,
    pub blocked_hosts: Vec<Entry>,
    pub network: HostsConfig,
    pub allowed_ports: Vec<u16>,
    pub blocked_ports: Vec<u16>,

    pub allowed_commands: Vec<Entry>,
    pub blocked_commands: Vec<Entry>,
    pub safety: SafetyConfig,
    pub ask: Ask,
    pub validation_strictness: Strictness,

    pub limits: Limits,

    pub env_passthrough: Vec<Entry>,
    pub env_override: BTreeMap<String, String>,

    pub track_violations: bool,
    pub max_violations: u32,
    pub annotate_stderr: bool,
    pub precision: Precision,
    pub additional_sensitive_files: Vec<Entry>,
    pub strict_sensitive_files: bool,
    pub allowed_tmp_paths: Vec<Entry>,

    pub docker: DockerSection,
    pub browser: BrowserSection,
    pub tools: ToolLists,
    pub prune: Prune,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OsConfig {
    pub mode: OsMode,
    pub seatbelt: SeatbeltConfig,
    pub bubblewrap: BubblewrapConfig,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SeatbeltConfig {
    /// None: the profile is made from the policy.
    pub profile: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BubblewrapConfig {
    pub bwrap_path: String,
    pub unshare_net: bool,
}

impl Default for OsConfig {
    fn default() -> Self {
        Self {
            mode: OsMode::Auto,
            seatbelt: SeatbeltConfig::default(),
            bubblewrap: BubblewrapConfig { bwrap_path: "bwrap".to_owned(), unshare_net: true },
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SafetyConfig {
    pub gate: GateMode,
    pub mode: SafetyMode,
    pub allowlist: Vec<Entry>,
    pub denylist: Vec<Entry>,
    pub tool_allowlist: Vec<Entry>,
    pub tool_denylist: Vec<Entry>,
    pub confirm_from: ConfirmFrom,
    pub code_sandbox: CodeSandbox,
    pub approval_timeout_ms: u64,
}

impl Default for SafetyConfig {
    fn default() -> Self {
        Self {
            gate: GateMode::On,
            mode: SafetyMode::Ask,
            allowlist: vec![],
            denylist: vec![],
            tool_allowlist: vec![],
            tool_denylist: vec![],
            confirm_from: ConfirmFrom::default(),
            code_sandbox: CodeSandbox::default(),
            approval_timeout_ms: 60_000,
        }
    }
}

/// Hosts that are reached by name, besides the lists of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostsConfig {
    pub ask: bool,
    pub host_ports: Vec<u16>,
    /// None: as many as it likes.
    pub max_connections: Option<u64>,
    /// None: as many as it likes.
    pub max_connections_per_minute: Option<u64>,
    /// None: as much as it likes.
    pub max_bytes_out: Option<u64>,
}

/// Which tools an agent has, and how much it may do with them. No list: the built-in one of the tool policy.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolLists {
    pub allow: Option<Vec<Entry>>,
    pub deny: Option<Vec<Entry>>,
    /// None: as many as it likes.
    pub max_steps: Option<u64>,
    /// None: as long as it likes.
    pub max_seconds: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Prune {
    pub idle_hours: u32,
    pub max_age_days: u32,
}

impl Default for Prune {
    fn default() -> Self {
        Self { idle_hours: 24, max_age_days: 7 }
    }
}

impl Default for SandboxConfig {
    /// The bare defaults, without the built-in lists of paths that the loader adds.
    fn default() -> Self {
        Self {
            enabled: true,
            provider: "local".to_owned(),
            provider_options: serde_json::Map::new(),
            profile: Profile::Balanced,
            default_policy: PolicyMode::Restricted,
            os: OsConfig::default(),
            launcher: Launcher::Auto,
            mode: Mode::Restricted,
            sessions: None,
            scope: Scope::Agent,
            workspace_access: None,
            workspace_root: None,
            working_dir: None,
            allow_read: vec![],
            allow_write: vec![],
            deny: vec![],
            protect: vec![],
            grants: vec![],
            never_ask: vec![],
            allow_network: false,
            allowed_hosts: vec![],
            blocked_hosts: vec![],
            network: HostsConfig::default(),
            allowed_ports: vec![],
            blocked_ports: vec![],
            allowed_commands: vec![],
            blocked_commands: vec![],
            safety: SafetyConfig::default(),
            ask: Ask::On,
            validation_strictness: Strictness::Standard,
            limits: Limits::development(),
            env_passthrough: vec![],
            env_override: BTreeMap::new(),
            track_violations: true,
            max_violations: 1000,
            annotate_stderr: false,
            precision: Precision::Full,
            additional_sensitive_files: vec![],
            strict_sensitive_files: false,
            allowed_tmp_paths: vec![],
            docker: DockerSection::built_in(),
            browser: BrowserSection::built_in(),
            tools: ToolLists::default(),
            prune: Prune::default(),
        }
    }
}
