//! What cargo knows about this workspace.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::shell;

/// Where cargo builds.
pub(crate) fn target_directory() -> Result<PathBuf> {
    let metadata = metadata()?;
    let directory = metadata["target_directory"].as_str();
    Ok(PathBuf::from(directory.context("cargo metadata has no target directory")?))
}

/// Builds in release mode and gives the place of one executable of it.
pub(crate) fn build(arguments: &[&str], executable: &str) -> Result<PathBuf> {
    let mut cargo = shell::cargo();
    cargo.args(["build", "--release", "--message-format=json-render-diagnostics"]).args(arguments);
    self::executable(&mut cargo, executable)
}

/// The place of one executable that a cargo with JSON messages builds; it depends on how cargo is configured.
pub(crate) fn executable(cargo: &mut Command, name: &str) -> Result<PathBuf> {
    println!("$ {}", shell::line(cargo));
    for line in shell::output(cargo)?.lines().filter(|line| line.starts_with('{')) {
        let message: Value = serde_json::from_str(line).context("reading the messages of cargo")?;
        if let Some(path) = message["executable"].as_str()
            && message["target"]["name"] == name
        {
            return Ok(PathBuf::from(path));
        }
    }
    bail!("cargo built no {name}")
}

/// What the tests are made of, as cargo tells it: built as the step `tests` builds it, so that nothing is built again.
/// Naming single packages would give their dependencies other features, and so build most of them a second time.
pub(crate) fn test_artifacts() -> Result<Vec<Value>> {
    let mut cargo = shell::cargo();
    cargo.args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]);
    println!("$ {}", shell::line(&cargo));
    let messages = shell::output(&mut cargo)?;
    let messages = messages.lines().filter(|line| line.starts_with('{'));
    messages.map(|line| serde_json::from_str(line).context("reading the messages of cargo")).collect()
}

fn metadata() -> Result<Value> {
    let text =
        shell::output(shell::cargo().args(["metadata", "--format-version=1", "--no-deps", "--offline"]))?;
    serde_json::from_str(&text).context("reading cargo metadata")
}
