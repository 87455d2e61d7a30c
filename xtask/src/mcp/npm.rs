//! The official Inspector's command line and the conformance suite, from npm.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::json;

use super::fenced_program;
use crate::report::Done;
use crate::{packages, shell, workspace};

/// Pinned, with the node that the Inspector wants: distributions have older ones.
const PACKAGES: &[(&str, &str)] = &[
    ("node", "22.23.3"),
    ("@modelcontextprotocol/inspector", "2.12.0"),
    ("@modelcontextprotocol/conformance", "0.1.16"),
];

pub(crate) fn check() -> Result<Done> {
    let room = workspace::target_directory()?.join("xtask").join("mcp-npm");
    if let Err(error) = install(&room) {
        return Ok(Done::skipped(format!("the clients from npm cannot be installed: {error:#}")));
    }
    let program = match fenced_program()? {
        Ok(program) => program,
        Err(done) => return Ok(done),
    };
    let data = shell::clean_root()?.join("xtask/data");
    shell::run(
        shell::program(room.join("node_modules/node/bin/node"))
            .env("PATH", packages::SYSTEM_PATH)
            .arg(data.join("mcp_npm.mjs"))
            .arg(program)
            .arg(&room)
            .arg(data.join("mcp_conformance.yml")),
    )?;
    Ok(Done::passed())
}

/// Installs the packages, unless these very ones are there.
fn install(room: &Path) -> Result<()> {
    let wanted: serde_json::Map<_, _> =
        PACKAGES.iter().map(|(name, version)| ((*name).to_owned(), json!(version))).collect();
    let manifest = json!({ "private": true, "dependencies": wanted }).to_string();
    let stamp = room.join("installed");
    if std::fs::read_to_string(&stamp).ok().as_deref() == Some(manifest.as_str()) {
        return Ok(());
    }
    std::fs::create_dir_all(room).context("making the directory for packages from npm")?;
    std::fs::write(room.join("package.json"), &manifest).context("writing package.json")?;
    let quietly = ["install", "--no-audit", "--no-fund", "--loglevel=error"];
    shell::run(shell::program("npm").args(quietly).arg("--prefix").arg(room))?;
    std::fs::write(&stamp, &manifest).context("writing the stamp of the packages from npm")
}
