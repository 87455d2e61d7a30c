//! One execution: what to run, what happens meanwhile, what came of it, and under which fence.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Connection;
use crate::{Degradation, DegradationCode, Violation, ViolationKind};

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// A program and its arguments, run without a shell.
    Argv(Vec<OsString>),
    /// Shell text, run by `bash -c`.
    Shell(String),
}

/// One word for a shell, whatever is in it.
#[must_use]
pub fn shell_word(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Milliseconds since the Unix epoch, now.
#[must_use]
pub fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Where the command's standard input comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Stdin {
    #[default]
    Empty,
    /// The caller's own.
    Inherit,
    Bytes(Vec<u8>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecRequest {
    pub command: Command,
    /// Absolute; must lie inside what the policy lets the command see. None: the sandbox's own.
    pub cwd: Option<PathBuf>,
    /// Added to the sandbox's environment for this command.
    pub env: BTreeMap<String, String>,
    pub stdin: Stdin,
    /// Beats the policy's only when it is shorter.
    pub timeout_ms: Option<u64>,
    /// Run on a terminal of its own.
    pub tty: bool,
    /// The size of that terminal; none: 24 rows of 80 columns.
    pub size: Option<TerminalSize>,
    /// Whose request this is. Questions that the fence asks meanwhile name it.
    pub call: Option<String>,
}

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    pub rows: u16,
    pub columns: u16,
}

impl Default for TerminalSize {
    fn default() -> Self {
        Self { rows: 24, columns: 80 }
    }
}

impl ExecRequest {
    #[must_use]
    pub fn shell(text: impl Into<String>) -> Self {
        Self::new(Command::Shell(text.into()))
    }

    #[must_use]
    pub fn argv<S: Into<OsString>>(argv: impl IntoIterator<Item = S>) -> Self {
        Self::new(Command::Argv(argv.into_iter().map(Into::into).collect()))
    }

    #[must_use]
    pub fn new(command: Command) -> Self {
        Self {
            command,
            cwd: None,
            env: BTreeMap::new(),
            stdin: Stdin::Empty,
            timeout_ms: None,
            tty: false,
            size: None,
            call: None,
        }
    }
}

/// What happens while a command runs.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ExecEvent {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    Violation(Box<Violation>),
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecResult {
    #[serde(with = "text_or_base64")]
    #[schemars(with = "String")]
    pub stdout: Vec<u8>,
    #[serde(with = "text_or_base64")]
    #[schemars(with = "String")]
    pub stderr: Vec<u8>,
    /// The command's own status; 128+n after signal n, 124 after a timeout.
    pub exit_code: i32,
    /// The signal that ended it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// The fence stopped something that matters: a denied resource is on the deny list, or something
    /// was refused and the command failed.
    pub blocked: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_resource: Option<String>,
    pub violations: Vec<Violation>,
    /// Settings that were made, on which an editor, an agent or another tool acts by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs_later: Vec<String>,
    /// Remotes of the project's repositories that are others than before, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed_remotes: Vec<String>,
    /// Hosts that were connected to, as far as these connections have ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connections: Vec<Connection>,
    pub timed_out: bool,
    /// Output was longer than the cap; its head and tail are kept.
    pub truncated: bool,
    /// The shell it ran in had to be replaced: its directory, variables and jobs are gone.
    #[serde(default)]
    pub restarted: bool,
    #[serde(serialize_with = "crate::rounded")]
    #[schemars(with = "f64")]
    pub duration_ms: f64,
    pub usage: Usage,
    pub sandbox: Assurance,
}

impl ExecResult {
    /// That of a command which said nothing, met nothing and ended well, to be filled in.
    #[must_use]
    pub fn silent(sandbox: Assurance) -> Self {
        Self {
            stdout: vec![],
            stderr: vec![],
            exit_code: 0,
            signal: None,
            blocked: false,
            blocked_reason: None,
            blocked_resource: None,
            violations: vec![],
            runs_later: vec![],
            changed_remotes: vec![],
            connections: vec![],
            timed_out: false,
            truncated: false,
            restarted: false,
            duration_ms: 0.0,
            usage: Usage::default(),
            sandbox,
        }
    }
}

impl ExecResult {
    /// Takes what was told and not refused out of the violations.
    pub fn sort_notices(&mut self) {
        for violation in std::mem::take(&mut self.violations) {
            match violation.kind {
                ViolationKind::RunsLater => self.runs_later.push(violation.resource),
                ViolationKind::RemoteChanged => self.changed_remotes.push(violation.message),
                ViolationKind::Connected => self.connections.extend(violation.connection.map(|told| *told)),
                _ => self.violations.push(violation),
            }
        }
    }
}

/// What the command used, as far as it is known.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
    /// Peak resident memory of the largest process, or of the tree where a cgroup measures it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_memory_bytes: Option<u64>,
}

/// How strong a fence was asked for, and had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PolicyMode {
    /// No fence.
    None,
    Restricted,
}

/// A mechanism that holds the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Layer {
    UserNamespace,
    MountNamespace,
    PidNamespace,
    NetworkNamespace,
    IpcNamespace,
    UtsNamespace,
    CgroupNamespace,
    Landlock,
    Seccomp,
    Supervisor,
    Cgroup,
    Rlimits,
    Capabilities,
    Seatbelt,
    Container,
}

/// Which layers really held for a run, so that a caller can demand a minimum and a person can tell a
/// real sandbox from a mere approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Assurance {
    pub requested: PolicyMode,
    pub effective: PolicyMode,
    pub active: bool,
    /// Provider and launcher, such as `local/native`.
    pub adapter: String,
    pub layers: Vec<Layer>,
    /// What this run does not promise although a full fence would.
    pub degraded: Vec<Degradation>,
}

impl Assurance {
    /// For a run that a person configured to have no fence.
    #[must_use]
    pub fn unsandboxed() -> Self {
        Self {
            requested: PolicyMode::None,
            effective: PolicyMode::None,
            active: false,
            adapter: "none".to_owned(),
            layers: vec![],
            degraded: vec![Degradation::new(
                DegradationCode::NoFence,
                "no fence: the command ran with all rights of its user",
            )],
        }
    }
}

/// Output as text when it is valid UTF-8, else as `base64:` followed by the encoded bytes, so that no
/// byte is lost on the way through JSON.
mod text_or_base64 {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serializer};

    const PREFIX: &str = "base64:";

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(bytes) {
            Ok(text) if !text.starts_with(PREFIX) => serializer.serialize_str(text),
            _ => serializer.serialize_str(&format!("{PREFIX}{}", STANDARD.encode(bytes))),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.strip_prefix(PREFIX) {
            Some(encoded) => STANDARD.decode(encoded).map_err(serde::de::Error::custom),
            None => Ok(text.into_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn result(stdout: Vec<u8>) -> ExecResult {
        ExecResult { stdout, ..ExecResult::silent(Assurance::unsandboxed()) }
    }

    #[test]
    fn text_stays_readable_on_the_wire() {
        let json = serde_json::to_value(result(b"hi\n".to_vec())).unwrap();
        assert_eq!(json["stdout"], "hi\n");
        assert_eq!(json["exitCode"], 0);
        assert_eq!(json["timedOut"], false);
    }

    proptest! {
        #[test]
        fn no_byte_is_lost(bytes in proptest::collection::vec(any::<u8>(), 0..40), prefixed in any::<bool>()) {
            let mut stdout = if prefixed { b"base64:".to_vec() } else { vec![] };
            stdout.extend(bytes);
            let json = serde_json::to_string(&result(stdout.clone())).unwrap();
            let back: ExecResult = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(back.stdout, stdout);
        }
    }
}
