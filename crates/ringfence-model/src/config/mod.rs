//! Configuration as data: what one file may say ([`ConfigFile`]), and what all layers together come to
//! ([`SandboxConfig`]). No I/O: reading and merging files is the façade's work.
//!
//! Every setting has one name, in camelCase. Its snake_case spelling and a few older names are accepted
//! on reading ([`aliases`]), never written.

pub mod aliases;
mod containers;
mod file;
mod hosts;
mod kits;
mod limits;
mod local;
mod object;
mod resolved;
mod setting;
mod words;

pub use containers::{BrowserSection, DockerSection};
pub use file::{
    AgentSection, BubblewrapSection, ConfigFile, FilesystemSection, HostsSection, NetworkSection, OsSection,
    PermanentGrant, PolicySection, PruneSection, SafetySection, SeatbeltSection, ToolsSection,
};
pub use hosts::{BlockedHost, HOST_SETS, HostEntry, HostSetting, HostWord};
pub use kits::{Kit, KitFile, KitHost, KitName, KitPath, KitVariable};
pub use limits::{LimitRow, LimitsSection, LimitsSetting};
pub use local::{LocalOptions, LocalSection, SeatbeltOptions};
pub use resolved::{
    BubblewrapConfig, Entry, HostsConfig, OsConfig, Prune, SafetyConfig, SandboxConfig, SeatbeltConfig,
    ToolLists,
};
pub use setting::{Positive, Seconds, Setting, Size, Text};
pub use words::{
    Ask, CodeSandbox, ConfirmFrom, GateMode, Launcher, LimitsPreset, Mode, ModeWord, OsMode, Precision,
    Profile, SafetyMode, Scope, SessionMode, Strictness, WorkspaceAccess,
};
