//! Arguments of each tool. The schemas that agents see are made from these types.

use ringfence_gate::risk::Sandbox;
use ringfence_model::{Error, ErrorKind, Result};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Runs a shell command.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Bash {
    /// The command. `read`, `write`, `edit` and `bash` as first word are agent commands; `mcp:` and `skill:` go to
    /// extensions.
    pub command: String,
    /// Milliseconds after which the command and its processes are ended.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub timeout_ms: Option<u64>,
    /// Standard input; empty without it.
    #[serde(default)]
    pub stdin: Option<String>,
    /// Begin with a new shell: directory, variables and jobs are gone.
    #[serde(default)]
    pub restart: bool,
    /// `inherit` or `restricted`; a call cannot ask for less than what is configured.
    #[serde(default)]
    pub sandbox: Option<String>,
    /// More is needed than the sandbox gives; a person is asked.
    #[serde(default)]
    pub escalated: bool,
}

/// Runs code in a language and lists the files that it made.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RunCode {
    pub code: String,
    /// `python`, `javascript`, `shell`, or another that is configured.
    #[serde(default = "python")]
    pub language: String,
    /// Seconds.
    #[serde(default = "half_a_minute")]
    #[schemars(range(min = 1, max = 300))]
    pub timeout: u64,
    /// `inherit` or `restricted`; or one that is wanted at least: `subprocess`, `docker`, `aio`.
    #[serde(default)]
    pub sandbox: Option<String>,
    #[serde(default)]
    pub escalated: bool,
}

fn python() -> String {
    "python".to_owned()
}

fn half_a_minute() -> u64 {
    30
}

/// Runs commands in the background.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Jobs {
    pub action: JobAction,
    /// To start.
    #[serde(default)]
    pub command: Option<String>,
    /// Which job; all actions but `start` and `list` need it.
    #[serde(default)]
    pub id: Option<String>,
    /// The first byte to read: 0, then what the last read called `nextOffset`.
    #[serde(default)]
    pub offset: u64,
    /// How many bytes to read.
    #[serde(default)]
    #[schemars(range(min = 4, max = 65536))]
    pub limit: Option<usize>,
    /// Milliseconds that a read waits where there is nothing new, while the job runs.
    #[serde(default)]
    #[schemars(range(max = 60000))]
    pub wait_ms: u64,
    /// To write to it; to start it with.
    #[serde(default)]
    pub input: Option<String>,
    /// No more input comes after this.
    #[serde(default)]
    pub close_input: bool,
    /// To send to all its processes.
    #[serde(default)]
    pub signal: Option<JobSignal>,
    /// Milliseconds after which the started job is ended.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub timeout_ms: Option<u64>,
    /// It gets a terminal: what is written is typed there.
    #[serde(default)]
    pub tty: bool,
    #[serde(default)]
    pub escalated: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum JobAction {
    /// Start `command`, and go on.
    Start,
    /// All jobs.
    List,
    /// Output of job `id` from `offset` on.
    Read,
    /// Write `input` to job `id`.
    Write,
    /// Send `signal` to job `id`.
    Signal,
    /// End job `id` at once.
    Kill,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum JobSignal {
    Int,
    Term,
    Kill,
    Hup,
    Quit,
    Stop,
    Cont,
    Usr1,
    Usr2,
}

/// Reads a text file with numbered lines.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Read {
    /// Relative to the workspace, or absolute and inside of it.
    pub path: String,
    /// The first line, counted from 1.
    #[serde(default)]
    pub offset: Option<usize>,
    /// How many lines.
    #[serde(default)]
    pub limit: Option<usize>,
}

/// Writes a file, making its directories.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Write {
    pub path: String,
    pub content: String,
    /// More is wanted than files of the workspace; a person is asked.
    #[serde(default)]
    pub escalated: bool,
}

/// Replaces text in a file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Edit {
    pub path: String,
    /// Exactly as it stands in the file.
    pub old: String,
    pub new: String,
    /// Every occurrence, not only the first.
    #[serde(default)]
    pub all: bool,
    /// More is wanted than files of the workspace; a person is asked.
    #[serde(default)]
    pub escalated: bool,
}

/// Applies a patch to several files: all of it or nothing.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ApplyPatch {
    /// From `*** Begin Patch` to `*** End Patch`.
    pub patch: String,
    /// More is wanted than files of the workspace; a person is asked.
    #[serde(default)]
    pub escalated: bool,
}

/// Lists a directory.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct List {
    #[serde(default)]
    pub path: String,
    #[serde(default)]
    pub recursive: bool,
}

/// Finds lines that contain a text.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Search {
    /// Plain text, one line.
    pub text: String,
    #[serde(default)]
    pub path: String,
    #[serde(default)]
    pub ignore_case: bool,
}

/// Ends the run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Exit {
    /// The result, in the agent's words.
    #[serde(default)]
    pub message: String,
}

/// Reads arguments, or says what is wrong with them.
pub(crate) fn parse<T: DeserializeOwned>(arguments: &Value) -> Result<T> {
    serde_path_to_error::deserialize(arguments).map_err(|error| {
        let place = error.path().to_string();
        let at = if place == "." { String::new() } else { format!("`{place}`: ") };
        Error::new(ErrorKind::Validation, format!("wrong arguments: {at}{}", error.into_inner()))
    })
}

/// The sandbox that code is to have at least. A call cannot ask for less than what is configured.
pub(crate) fn wished_sandbox(wish: Option<&str>) -> Result<Option<Sandbox>> {
    match wish.map(str::to_lowercase).as_deref() {
        Some("subprocess") => Ok(Some(Sandbox::Subprocess)),
        Some("docker" | "docker_simple") => Ok(Some(Sandbox::Docker)),
        Some("aio" | "aio_sandbox") => Ok(Some(Sandbox::Aio)),
        _ => check_sandbox(wish).map(|()| None),
    }
}

/// A call may only ask for the fence that is there anyway.
pub(crate) fn check_sandbox(wish: Option<&str>) -> Result<()> {
    match wish.map(str::to_lowercase).as_deref() {
        None | Some("inherit" | "restricted") => Ok(()),
        Some(other) => Err(Error::new(
            ErrorKind::Validation,
            format!(
                "sandbox is `inherit` or `restricted`, not `{other}`; a call cannot switch the fence off"
            ),
        )),
    }
}
