//! What cargo knows about this workspace.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::shell;

/// The names of the packages in the workspace.
pub(crate) fn members() -> Result<BTreeSet<String>> {
    let metadata = metadata()?;
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    Ok(packages.iter().filter_map(|package| package["name"].as_str().map(str::to_owned)).collect())
}

/// Where cargo builds.
pub(crate) fn target_directory() -> Result<PathBuf> {
    let metadata = metadata()?;
    let directory = metadata["target_directory"].as_str();
    Ok(PathBuf::from(directory.context("cargo metadata has no target directory")?))
}

fn metadata() -> Result<Value> {
    let text =
        shell::output(shell::cargo().args(["metadata", "--format-version=1", "--no-deps", "--offline"]))?;
    serde_json::from_str(&text).context("reading cargo metadata")
}
