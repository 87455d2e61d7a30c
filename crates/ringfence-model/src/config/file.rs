//! What one `sandbox.json` may say. Everything is optional; what is not written stays as the layers below
//! have it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::containers::{BrowserSection, DockerSection};
use super::hosts::{BlockedHost, HostSetting};
use super::kits::Kit;
use super::limits::LimitsSetting;
use super::object::{objects_only, written_as_derived};
use super::setting::{Seconds, Setting, Size, Text};
use super::words::{
    Ask, CodeSandbox, ConfirmFrom, GateMode, Launcher, ModeWord, OsMode, Precision, Profile, SafetyMode,
    Scope, SessionMode, Strictness, WorkspaceAccess,
};
use crate::{Access, PolicyMode};

type Texts = Option<Vec<Text>>;
type Json = serde_json::Map<String, serde_json::Value>;

/// One layer of configuration.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields, remote = "Self")]
#[schemars(title = "Ringfence sandbox.json")]
pub struct ConfigFile {
    /// For editors: where the schema of this file is.
    #[serde(rename = "$schema")]
    pub schema: Option<String>,
    /// Whether commands run inside a fence at all.
    pub enabled: Setting<bool>,
    /// Which kind of fence: `local`, `docker`, … or a registered one.
    pub provider: Setting<Text>,
    /// The provider's own settings; merged key by key, the later layer wins.
    #[serde(alias = "provider_options")]
    pub provider_options: Option<Json>,
    /// The named set of defaults everything else builds on.
    #[serde(deserialize_with = "not_null")]
    #[schemars(with = "Profile")]
    pub profile: Option<Profile>,
    /// Whether commands are restricted when nobody says otherwise.
    #[serde(alias = "default_policy")]
    pub default_policy: Setting<PolicyMode>,
    /// Mechanisms of the operating system.
    pub os: Option<OsSection>,
    /// The launcher of the local fence.
    pub launcher: Setting<Launcher>,
    /// How much is allowed when nothing more specific says so.
    pub mode: Setting<ModeWord>,
    /// Which sessions of an agent host are sandboxed.
    pub sessions: Setting<SessionMode>,
    /// Who shares one sandbox.
    pub scope: Setting<Scope>,
    /// Older spelling of `scope`: true is `session`, false is `shared`.
    #[serde(alias = "per_session")]
    pub per_session: Setting<bool>,
    /// What a sandbox sees of the agent's workspace.
    #[serde(alias = "workspace_access")]
    pub workspace_access: Setting<WorkspaceAccess>,
    /// Where workspaces of sandboxes live.
    #[serde(alias = "workspace_root")]
    pub workspace_root: Setting<Text>,
    /// Where commands start; readable and writable.
    #[serde(alias = "working_dir")]
    pub working_dir: Setting<Text>,

    /// Paths that may be read.
    #[serde(alias = "allow_read", alias = "allowedReadPaths", alias = "allowed_read_paths")]
    pub allow_read: Texts,
    /// Paths that may be read and written.
    #[serde(
        alias = "allow_write",
        alias = "whitelist",
        alias = "allowedWritePaths",
        alias = "allowed_write_paths"
    )]
    pub allow_write: Texts,
    /// Paths that may neither be read nor written, whatever is allowed.
    #[serde(alias = "blacklist")]
    pub deny: Texts,
    /// Paths that may be read but never written, whatever is allowed.
    pub protect: Texts,
    /// Grants that a person gave with "always". Written by ringfence; they beat `deny`.
    pub grants: Option<Vec<PermanentGrant>>,
    /// Paths (with what is below them) and addresses that are refused without a question. Written by ringfence when a
    /// person says "never ask again".
    #[serde(alias = "never_ask")]
    pub never_ask: Texts,
    /// The same lists in another place.
    pub policy: Option<PolicySection>,

    /// Asks for a raw network. The local fence never has one; see `allowedHosts`.
    #[serde(alias = "allow_network")]
    pub allow_network: Setting<bool>,
    /// Hosts that may be reached: names, `*.below`, `.domain`, ranges of addresses, sets.
    #[serde(alias = "allowed_hosts")]
    pub allowed_hosts: Option<Vec<HostSetting>>,
    /// Hosts that may not be reached, whatever is allowed.
    #[serde(alias = "blocked_hosts")]
    pub blocked_hosts: Option<Vec<BlockedHost>>,
    /// More about hosts that are reached by name.
    pub network: Option<HostsSection>,
    /// Ports that may be reached.
    #[serde(alias = "allowed_ports")]
    pub allowed_ports: Option<Vec<std::num::NonZeroU16>>,
    /// Ports that may not be reached.
    #[serde(alias = "blocked_ports")]
    pub blocked_ports: Option<Vec<std::num::NonZeroU16>>,

    /// When not empty, only these commands run.
    #[serde(alias = "allowed_commands")]
    pub allowed_commands: Texts,
    /// Commands that never run; several words match as words.
    #[serde(alias = "blocked_commands")]
    pub blocked_commands: Texts,
    /// What is asked, allowed and refused before a command runs.
    pub safety: Option<SafetySection>,
    /// Whether a person is asked when the fence refuses something.
    pub ask: Setting<Ask>,
    /// How strictly the text of a command is judged.
    #[serde(alias = "validation_strictness")]
    pub validation_strictness: Setting<Strictness>,

    /// Wall-clock time of one command; the same as `limits.timeoutMs`, in seconds.
    pub timeout: Setting<Seconds>,
    /// Resource limits.
    pub limits: Setting<LimitsSetting>,

    /// Names of environment variables that pass through; `*` at the end is a wildcard.
    #[serde(alias = "env_passthrough")]
    pub env_passthrough: Texts,
    /// Environment variables that are set to exactly this.
    #[serde(alias = "env_override")]
    pub env_override: Option<BTreeMap<String, String>>,

    /// Whether refusals are remembered.
    #[serde(alias = "track_violations")]
    pub track_violations: Setting<bool>,
    /// How many refusals are remembered.
    #[serde(alias = "max_violations")]
    pub max_violations: Setting<u32>,
    /// Whether refusals are appended to the command's standard error.
    #[serde(alias = "annotate_stderr")]
    pub annotate_stderr: Setting<bool>,
    /// How exactly refusals are reported.
    pub precision: Setting<Precision>,
    /// Further names of sensitive files; a name ending in `/` is a directory.
    #[serde(alias = "additional_sensitive_files")]
    pub additional_sensitive_files: Texts,
    /// Whether sensitive files are refused rather than merely named.
    #[serde(alias = "strict_sensitive_files")]
    pub strict_sensitive_files: Setting<bool>,
    /// Directories of the host's own `/tmp` that may be written.
    #[serde(alias = "allowed_tmp_paths")]
    pub allowed_tmp_paths: Texts,

    /// The container provider.
    pub docker: Option<DockerSection>,
    /// The browser of a session.
    pub browser: Option<BrowserSection>,
    /// Which tools an agent may use inside a sandbox.
    pub tools: Option<ToolsSection>,
    /// When unused sandboxes are removed.
    pub prune: Option<PruneSection>,

    /// Kits that are used, by name: what an agent needs to live inside.
    #[serde(alias = "use_kits")]
    pub use_kits: Texts,
    /// Kits of your own, by name; one that is built in is replaced.
    pub kits: Option<BTreeMap<String, Kit>>,

    /// Settings of single agents, by name; they beat the rest of this file.
    pub agents: Option<BTreeMap<String, AgentSection>>,
}

/// One agent's settings: everything a file may say, except further agents, grants and kits.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentSection(pub Box<ConfigFile>);

impl<'de> Deserialize<'de> for AgentSection {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let section: ConfigFile = super::object::read(deserializer)?;
        let present = [
            section.agents.is_some(),
            section.grants.is_some(),
            section.kits.is_some(),
            section.schema.is_some(),
        ];
        for (key, present) in TOP_ONLY.into_iter().zip(present) {
            if present {
                return Err(D::Error::custom(format_args!("`{key}` belongs at the top of the file")));
            }
        }
        Ok(Self(Box::new(section)))
    }
}

impl JsonSchema for AgentSection {
    fn schema_name() -> Cow<'static, str> {
        "AgentSection".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        // The same keys as a file's, minus those that belong at the top. Generating them here, instead of
        // referring to the file's schema, is what ends the recursion.
        let mut schema = ConfigFile::json_schema(generator);
        if let Some(serde_json::Value::Object(properties)) = schema.get_mut("properties") {
            for key in TOP_ONLY {
                properties.shift_remove(key);
            }
        }
        schema.remove("title");
        schema.insert("description".to_owned(), "Settings of one agent".into());
        schema
    }
}

/// Keys that an agent's section may not have.
const TOP_ONLY: [&str; 4] = ["agents", "grants", "kits", "$schema"];

/// Which mechanism of the operating system, and its own settings.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields, remote = "Self")]
pub struct OsSection {
    pub mode: Setting<OsMode>,
    pub seatbelt: Option<SeatbeltSection>,
    pub bubblewrap: Option<BubblewrapSection>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields, remote = "Self")]
pub struct SeatbeltSection {
    /// A Seatbelt profile to use instead of the one made from the policy.
    pub profile: Setting<Text>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields, remote = "Self")]
pub struct BubblewrapSection {
    /// The program, by name or path.
    #[serde(alias = "bwrap_path")]
    pub bwrap_path: Setting<Text>,
    /// Whether the network is isolated; the local fence always does.
    #[serde(alias = "unshare_net")]
    pub unshare_net: Setting<bool>,
}

/// `policy`: the lists of paths and the network, as an older file has them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields, remote = "Self")]
pub struct PolicySection {
    pub filesystem: Option<FilesystemSection>,
    pub network: Option<NetworkSection>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields, remote = "Self")]
pub struct FilesystemSection {
    /// The same as `allowWrite` at the top.
    #[serde(alias = "allow_write", alias = "whitelist")]
    pub allow_write: Texts,
    /// The same as `allowRead` at the top.
    #[serde(alias = "allow_read")]
    pub allow_read: Texts,
    /// The same as `deny` at the top.
    #[serde(alias = "blacklist")]
    pub deny: Texts,
    /// The same as `protect` at the top.
    pub protect: Texts,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields, remote = "Self")]
pub struct NetworkSection {
    /// The same as `allowNetwork` at the top.
    #[serde(alias = "allow_network")]
    pub allow_network: Setting<bool>,
    /// The same as `allowedHosts` at the top.
    #[serde(alias = "allowed_hosts")]
    pub allowed_hosts: Option<Vec<HostSetting>>,
    /// The same as `blockedHosts` at the top.
    #[serde(alias = "blocked_hosts")]
    pub blocked_hosts: Option<Vec<BlockedHost>>,
}

/// `network`: hosts that are reached by name, besides the lists of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields, remote = "Self")]
pub struct HostsSection {
    /// Whether a person is asked about a host in no list.
    pub ask: Setting<bool>,
    /// Ports of this machine's own loopback that may be reached.
    #[serde(alias = "host_ports")]
    pub host_ports: Option<Vec<std::num::NonZeroU16>>,
    /// Connections at once.
    #[serde(alias = "max_connections")]
    pub max_connections: Setting<std::num::NonZeroU64>,
    /// Connections that are begun in a minute.
    #[serde(alias = "max_connections_per_minute")]
    pub max_connections_per_minute: Setting<std::num::NonZeroU64>,
    /// Bytes that may leave, of all connections together.
    #[serde(alias = "max_bytes_out")]
    pub max_bytes_out: Setting<Size>,
}

/// What is asked, allowed and refused before a command runs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields, remote = "Self")]
pub struct SafetySection {
    /// Whether commands are judged before they run.
    pub gate: Setting<GateMode>,
    /// What happens to a command that no list mentions.
    pub mode: Setting<SafetyMode>,
    /// Commands that run without a question.
    pub allowlist: Texts,
    /// Commands that are refused without a question.
    pub denylist: Texts,
    /// Custom tools that run without a question.
    #[serde(alias = "tool_allowlist")]
    pub tool_allowlist: Texts,
    /// Custom tools that are refused without a question.
    #[serde(alias = "tool_denylist")]
    pub tool_denylist: Texts,
    /// From which risk on a person confirms what no check objects to.
    #[serde(alias = "confirm_from")]
    pub confirm_from: Setting<ConfirmFrom>,
    /// Where `run_code` runs code, by how risky it is.
    #[serde(alias = "code_sandbox")]
    pub code_sandbox: Setting<CodeSandbox>,
    /// How long a question waits for its answer; no answer is a refusal.
    #[serde(alias = "approval_timeout_ms")]
    pub approval_timeout_ms: Setting<std::num::NonZeroU64>,
}

/// Tools by name or group; `*` is a wildcard. The closest layer that has a list decides.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields, remote = "Self")]
pub struct ToolsSection {
    pub allow: Texts,
    pub deny: Texts,
    /// How many calls one run of an agent may make; refused ones are not counted.
    #[serde(alias = "max_steps")]
    pub max_steps: Setting<std::num::NonZeroU64>,
    /// How many seconds one run of an agent may take.
    #[serde(alias = "max_seconds")]
    pub max_seconds: Setting<std::num::NonZeroU64>,
}

/// When unused sandboxes are removed; 0 turns that test off.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields, remote = "Self")]
pub struct PruneSection {
    #[serde(alias = "idle_hours")]
    pub idle_hours: Setting<u32>,
    #[serde(alias = "max_age_days")]
    pub max_age_days: Setting<u32>,
}

/// Access to exactly one resource, given by a person with "always".
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, remote = "Self")]
pub struct PermanentGrant {
    /// Absolute, or below `~`; taken literally otherwise.
    #[schemars(length(min = 1))]
    pub path: String,
    #[serde(deserialize_with = "of_a_path")]
    #[schemars(schema_with = "access_to_a_path")]
    pub access: Access,
    /// True when everything below `path` is granted too.
    #[serde(default)]
    pub recursive: bool,
}

objects_only!(
    ConfigFile,
    OsSection,
    SeatbeltSection,
    BubblewrapSection,
    PolicySection,
    FilesystemSection,
    NetworkSection,
    HostsSection,
    SafetySection,
    ToolsSection,
    PruneSection,
    PermanentGrant,
);
written_as_derived!(PermanentGrant);

/// Hosts are in a list of their own.
fn of_a_path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Access, D::Error> {
    match Access::deserialize(deserializer)? {
        Access::Connect => Err(D::Error::custom("a host belongs in `allowedHosts`")),
        access => Ok(access),
    }
}

fn access_to_a_path(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["read", "execute", "write"] })
}

fn not_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Profile>, D::Error> {
    Profile::deserialize(deserializer).map(Some)
}
