//! Whether a container is still what the configuration says: a hash over everything it was made from.
//!
//! SHA-1, as documented; it compares a configuration with itself and protects nothing.

use std::path::Path;

use ringfence_model::config::{DockerSection, WorkspaceAccess};
use serde_json::{Map, Value, json};
use sha1::{Digest as _, Sha1};

/// Raised when the same configuration makes another container than before, so that old ones are replaced.
const MAKE: u32 = 1;

/// What a hash is made of.
#[derive(Debug, Clone, Copy)]
pub struct HashInput<'a> {
    pub docker: &'a DockerSection,
    pub workspace: &'a Path,
    pub agent_workspace: &'a Path,
    pub access: WorkspaceAccess,
    /// The profile itself, not its name: the file may change.
    pub seccomp: Option<&'a str>,
}

/// The order of keys does not matter, what is not written does not count, the order of lists does.
#[must_use]
pub fn config_hash(input: &HashInput<'_>) -> String {
    let docker = serde_json::to_value(input.docker).unwrap_or(Value::Null);
    let all = json!({
        "make": MAKE,
        "docker": docker,
        "workspaceDir": input.workspace.to_string_lossy(),
        "agentWorkspaceDir": input.agent_workspace.to_string_lossy(),
        "workspaceAccess": input.access,
        "seccomp": input.seccomp,
    });
    let digest = Sha1::digest(canonical(all).to_string().as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn canonical(value: Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut entries: Vec<(String, Value)> =
                object.into_iter().filter(|(_, value)| !value.is_null()).collect();
            entries.sort_by(|(one, _), (other, _)| one.cmp(other));
            Value::Object(
                entries.into_iter().map(|(key, value)| (key, canonical(value))).collect::<Map<_, _>>(),
            )
        }
        Value::Array(list) => Value::Array(list.into_iter().map(canonical).collect()),
        plain => plain,
    }
}
