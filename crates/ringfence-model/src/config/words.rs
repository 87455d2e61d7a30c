//! The words a setting can be. Where stricter and laxer exist, the order of the variants is laxest first,
//! so that "stricter" is `max`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A named set of defaults, expanded when the configuration is loaded. Whatever is written explicitly
/// beats it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// No fence at all: commands run with all rights of the caller. `unfenced` says so.
    #[serde(alias = "unfenced")]
    Dev,
    /// A full fence, without network, with room for builds.
    #[default]
    Balanced,
    /// A full fence with tight limits and every sensitive file refused.
    Prod,
}

impl Profile {
    pub const ALL: [Self; 3] = [Self::Dev, Self::Balanced, Self::Prod];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Dev => "dev",
            Self::Balanced => "balanced",
            Self::Prod => "prod",
        }
    }

    /// The profile of exactly that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let name = if name == "unfenced" { "dev" } else { name };
        Self::ALL.into_iter().find(|profile| profile.name() == name)
    }
}

/// How much is allowed when nothing more specific says so.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Everything that is not denied may be read.
    Permissive,
    /// Exactly the lists that are written, judged by the standard checks.
    Custom,
    #[default]
    Restricted,
    /// Sensitive files refused, no host reachable, the strict checks.
    Strict,
}

/// What the key `mode` may hold: how strict the fence is, or which sessions are inside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ModeWord {
    Permissive,
    /// Another word for `restricted`.
    Normal,
    Restricted,
    Strict,
    Custom,
    /// The same as `"sessions": "off"`.
    Off,
    /// The same as `"sessions": "non-main"`.
    NonMain,
    /// The same as `"sessions": "all"`.
    All,
}

impl ModeWord {
    #[must_use]
    pub fn mode(self) -> Option<Mode> {
        match self {
            Self::Permissive => Some(Mode::Permissive),
            Self::Normal | Self::Restricted => Some(Mode::Restricted),
            Self::Strict => Some(Mode::Strict),
            Self::Custom => Some(Mode::Custom),
            Self::Off | Self::NonMain | Self::All => None,
        }
    }

    #[must_use]
    pub fn sessions(self) -> Option<SessionMode> {
        match self {
            Self::Off => Some(SessionMode::Off),
            Self::NonMain => Some(SessionMode::NonMain),
            Self::All => Some(SessionMode::All),
            Self::Permissive | Self::Normal | Self::Restricted | Self::Strict | Self::Custom => None,
        }
    }
}

impl From<Mode> for ModeWord {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Permissive => Self::Permissive,
            Mode::Custom => Self::Custom,
            Mode::Restricted => Self::Restricted,
            Mode::Strict => Self::Strict,
        }
    }
}

/// Which sessions of an agent host are sandboxed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SessionMode {
    Off,
    /// All but the agent's main session.
    NonMain,
    All,
}

/// Who shares one sandbox. From most shared to most separate.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    Shared,
    #[default]
    Agent,
    Session,
}

/// What a sandbox sees of the agent's workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorkspaceAccess {
    /// The workspace itself, writable.
    Rw,
    /// The workspace, read-only.
    Ro,
    /// A workspace of its own instead.
    None,
}

/// Which mechanism of the operating system holds the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OsMode {
    #[default]
    Auto,
    None,
    Seatbelt,
    Bubblewrap,
}

/// Which launcher of the local fence starts the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Launcher {
    /// The strongest one that works here.
    #[default]
    Auto,
    Native,
    Bwrap,
    Landlock,
    Seatbelt,
    /// Isolates the network and nothing else; only ever by explicit choice.
    NetworkOnly,
}

impl Launcher {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Native => "native",
            Self::Bwrap => "bwrap",
            Self::Landlock => "landlock",
            Self::Seatbelt => "seatbelt",
            Self::NetworkOnly => "network-only",
        }
    }
}

/// How exactly refused accesses are reported.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    Off,
    /// Writes, creations and removals.
    Writes,
    /// Every access.
    #[default]
    Full,
}

/// How strictly the text of a command is judged.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Strictness {
    Minimal,
    #[default]
    Standard,
    /// Chaining and background commands are refused.
    Strict,
}

/// What happens to a command that no list mentions.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum SafetyMode {
    Allow,
    #[default]
    Ask,
    Deny,
}

/// Whether commands are judged before they run.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum GateMode {
    /// They are not.
    Off,
    /// They are, unless the person who runs one says otherwise.
    #[default]
    On,
    /// They are, and nothing on the command line changes that.
    Required,
}

/// Where `run_code` runs code, by how risky it is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum CodeSandbox {
    /// All of it in the session's own sandbox.
    #[default]
    Own,
    /// Where its risk suggests: what is safe in the session's own sandbox, what is not in a container.
    Permissive,
    /// The same, and whatever is not safe in a container, whatever its risk suggests.
    Strict,
}

/// From which risk on a person confirms what no check objects to.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ConfirmFrom {
    /// From none.
    Never,
    /// From critical, where nothing holds the command: no fence, no container.
    #[default]
    Unfenced,
    /// From critical, in a fence too.
    Critical,
    /// From high, in a fence too.
    High,
}

/// Whether a person is asked when the fence refuses something.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// For every refusal that stops the command.
    #[default]
    On,
    /// Only for what is on the deny list.
    DenyOnly,
    /// Refuse without asking.
    Never,
}

/// A ready-made set of limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LimitsPreset {
    Development,
    /// The same as `standard`.
    Default,
    Standard,
    Permissive,
    Strict,
    Unlimited,
}
