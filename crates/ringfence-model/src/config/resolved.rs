//! What all layers of configuration come to.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::containers::{BrowserSection, DockerSection};
use super::file::PermanentGrant;
use super::setting::Text;
use super::words::{
    Ask, ConfirmFrom, GateMode, Launcher, Mode, OsMode, Precision, Profile, SafetyMode, Scope, SessionMode,
    Strictness, WorkspaceAccess,
};
use crate::{Limits, NetworkPolicy, PolicyMode, RuleLayer, RuleSource};

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

    pub allow_network: bool,
    pub allowed_hosts: Vec<Entry>,
    pub blocked_hosts: Vec<Entry>,
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
            approval_timeout_ms: 60_000,
        }
    }
}

/// None: the built-in list of the tool policy.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolLists {
    pub allow: Option<Vec<Entry>>,
    pub deny: Option<Vec<Entry>>,
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

/// What an agent host needs to know about one agent's sandbox.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentSandbox {
    pub mode: SessionMode,
    pub scope: Scope,
    pub workspace_access: WorkspaceAccess,
    pub workspace_root: Option<String>,
    pub docker: DockerSection,
    pub browser: BrowserSection,
    pub tools: ToolLists,
    pub prune: Prune,
}

/// What the checks of a command's text may let through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidationContext {
    pub strictness: Strictness,
    pub allow_chaining: bool,
    pub allow_background: bool,
    pub working_dir: Option<String>,
    pub blocked_commands: Vec<String>,
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
            allow_network: false,
            allowed_hosts: vec![],
            blocked_hosts: vec![],
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

impl SandboxConfig {
    /// For small tasks: restricted, two minutes, standard limits.
    #[must_use]
    pub fn restricted() -> Self {
        let limits = Limits { timeout_ms: Some(120_000), ..Limits::standard() };
        Self { limits, ..Self::default() }
    }

    /// Reads everything that is not denied, writes nothing outside the project, asks for a network.
    #[must_use]
    pub fn permissive() -> Self {
        Self {
            mode: Mode::Permissive,
            allow_read: vec![Entry::by_call("/")],
            allow_network: true,
            validation_strictness: Strictness::Minimal,
            limits: Limits { timeout_ms: Some(300_000), ..Limits::permissive() },
            ..Self::default()
        }
    }

    /// Reads and writes in one directory only; no network, tight limits, half a minute.
    #[must_use]
    pub fn strict(working_dir: impl Into<String>) -> Self {
        let dir = working_dir.into();
        Self {
            mode: Mode::Strict,
            allow_read: vec![Entry::by_call(&*dir)],
            allow_write: vec![Entry::by_call(&*dir)],
            working_dir: Some(dir),
            validation_strictness: Strictness::Strict,
            strict_sensitive_files: true,
            limits: Limits { timeout_ms: Some(30_000), ..Limits::strict() },
            ..Self::default()
        }
    }

    /// The part an agent host works with, each field with its default.
    #[must_use]
    pub fn agent_sandbox(&self) -> AgentSandbox {
        AgentSandbox {
            mode: self.sessions.unwrap_or(SessionMode::Off),
            scope: self.scope,
            workspace_access: self.workspace_access.unwrap_or(WorkspaceAccess::None),
            workspace_root: self.workspace_root.clone(),
            docker: self.docker.clone(),
            browser: self.browser.clone(),
            tools: self.tools.clone(),
            prune: self.prune,
        }
    }

    /// Whether the lists let this command through: never when it is blocked; otherwise when it is allowed,
    /// or when nothing in particular is. A quick look at one simple command; the gate judges whole lines.
    #[must_use]
    pub fn is_command_allowed(&self, command: &str) -> bool {
        let listed = |list: &[Entry]| list.iter().any(|entry| command_matches(&entry.text, command));
        !listed(&self.blocked_commands)
            && (self.allowed_commands.is_empty() || listed(&self.allowed_commands))
    }

    /// Whether this host may be reached, as [`NetworkPolicy::refusal_of_host`] answers it.
    #[must_use]
    pub fn is_host_allowed(&self, host: &str) -> bool {
        let texts = |list: &[Entry]| list.iter().map(|entry| entry.text.clone()).collect();
        let policy = NetworkPolicy {
            allow_network: self.allow_network && self.mode != Mode::Strict,
            allowed_hosts: texts(&self.allowed_hosts),
            blocked_hosts: texts(&self.blocked_hosts),
            ..NetworkPolicy::default()
        };
        policy.refusal_of_host(host).is_none()
    }

    /// What the checks of a command's text may let through.
    #[must_use]
    pub fn to_validation_context(&self) -> ValidationContext {
        let strict = self.validation_strictness == Strictness::Strict;
        ValidationContext {
            strictness: self.validation_strictness,
            allow_chaining: !strict,
            allow_background: !strict,
            working_dir: self.working_dir.clone(),
            blocked_commands: self.blocked_commands.iter().map(|entry| entry.text.clone()).collect(),
        }
    }
}

/// Whether `pattern`, taken as words, is how `command` begins. The program is compared by its base name.
#[must_use]
pub fn command_matches(pattern: &str, command: &str) -> bool {
    let mut words = command.split_whitespace();
    let mut wanted = pattern.split_whitespace();
    let (Some(program), Some(word)) = (wanted.next(), words.next()) else { return false };
    let base_name = word.rsplit('/').next().unwrap_or(word);
    if program != word && program != base_name {
        return false;
    }
    wanted.all(|want| words.next() == Some(want))
}
