//! The tools there are.

use schemars::{JsonSchema, Schema, schema_for};
use serde::Serialize;

use super::args;

/// A tool as an agent framework needs it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolSpec {
    pub name: &'static str,
    pub description: &'static str,
    /// JSON schema of the arguments.
    pub input_schema: Schema,
    pub effect: Effect,
}

/// The effect that a tool can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Looks only.
    Reads,
    /// Changes files of the workspace.
    Writes,
    /// Runs things in the fence.
    Executes,
    /// Neither: ends the run.
    Controls,
}

fn spec<T: JsonSchema>(name: &'static str, effect: Effect, description: &'static str) -> ToolSpec {
    ToolSpec { name, description, input_schema: schema_for!(T), effect }
}

/// Every built-in tool, before any policy.
#[must_use]
pub fn all() -> Vec<ToolSpec> {
    vec![
        spec::<args::Bash>(
            "bash",
            Effect::Executes,
            "Run a command in a sandboxed shell that keeps its state: the project is writable, the home directory and /tmp \
             are private, and there is no network unless it was configured.",
        ),
        spec::<args::RunCode>(
            "run_code",
            Effect::Executes,
            "Run code in the sandbox, without network; lists the files it made.",
        ),
        spec::<args::Jobs>(
            "jobs",
            Effect::Executes,
            "Run commands in the background: start, list, read their output, write to them, signal them.",
        ),
        spec::<args::Read>("read", Effect::Reads, "Read a text file of the workspace, lines numbered."),
        spec::<args::Write>("write", Effect::Writes, "Write a file of the workspace."),
        spec::<args::Edit>("edit", Effect::Writes, "Replace text in a file of the workspace."),
        spec::<args::ApplyPatch>("apply_patch", Effect::Writes, "Apply a patch to files of the workspace."),
        spec::<args::List>("list", Effect::Reads, "List a directory of the workspace."),
        spec::<args::Search>("search", Effect::Reads, "Find lines in the workspace that contain a text."),
        spec::<args::Exit>("exit", Effect::Controls, "End the run."),
    ]
}

/// The tool of that name or alias.
#[must_use]
pub fn find(name: &str) -> Option<ToolSpec> {
    let wanted = super::policy::canonical(name);
    all().into_iter().find(|spec| super::policy::canonical(spec.name) == wanted)
}
