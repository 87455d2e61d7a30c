//! Runs the fence's tests again as an ordinary user.
//!
//! Root passes many checks that nobody else passes, so a fence tested only as root is hardly tested.
//! When this program runs as root, the test binaries that are already built run once more as a numeric
//! user that owns nothing. Root's tool chain is usually below a closed home directory; inside a mount
//! namespace of its own it is bound to an open place. The namespace ends with the run and the scratch
//! directory is removed, so nothing is left on the host.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::notes::Notes;
use crate::packages::SYSTEM_PATH;
use crate::report::Done;
use crate::{mcp, shell, test, workspace};

/// A user and group that own nothing on any machine we know.
pub(crate) const USER: u32 = 54321;

/// Whose tests depend on who runs them; packages are named as their directories.
const PACKAGES: &[&str] = &["ringfence-linux", "ringfence-local", "ringfence-cli"];

const SCRIPT: &str = include_str!("unprivileged.sh");

pub(crate) fn run() -> Result<Done> {
    if shell::user_id()? != 0 {
        return Ok(Done::skipped("not root: the tests above already ran as an ordinary user, and only so"));
    }
    let binaries = test_binaries()?;
    if binaries.is_empty() {
        return Ok(Done::skipped(format!("none of {} has tests", PACKAGES.join(", "))));
    }
    // Removed from out here, where the tool chain is not mounted into it.
    let scratch = shell::ScratchDir::new("unprivileged")?;
    let mut list = String::new();
    for (directory, binary) in &binaries {
        writeln!(list, "{}\t{}", directory.display(), binary.display())?;
    }
    if let Some(client) = mcp_client(scratch.path())? {
        writeln!(list, "{}\t{}", scratch.path().display(), client.display())?;
    }
    let list_file = scratch.path().join("binaries");
    std::fs::write(&list_file, list).context("writing the list of test binaries")?;

    // The only directory there that the user can write to.
    let notes = Notes::at(scratch.path().join("tmp/notes"));
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let from_environment = |name: &str, fallback: &str| {
        std::env::var_os(name).map_or_else(|| home.join(fallback), PathBuf::from)
    };
    let mut command = shell::program("unshare");
    command
        .args(["--mount", "--propagation", "private", "bash", "-c", SCRIPT, "unprivileged.sh"])
        .arg(scratch.path())
        .arg(USER.to_string())
        .arg(shell::clean_root()?)
        .arg(from_environment("RUSTUP_HOME", ".rustup"))
        .arg(from_environment("CARGO_HOME", ".cargo").join("bin"))
        .arg(SYSTEM_PATH)
        .arg(format!("{}={}", ringfence_testing::NOTES, notes.path().display()));
    if let Ok(known) = std::env::var(ringfence_testing::WITHOUT) {
        command.arg(format!("{}={known}", ringfence_testing::WITHOUT));
    }
    // Where the registries' certificates are somebody's own, these say so to tools that have no configuration for it.
    for name in ["SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"] {
        if let Ok(file) = std::env::var(name) {
            command.arg(format!("{name}={file}"));
        }
    }
    println!("{} test binaries as user {USER}", binaries.len());
    // The script is an argument; showing the command would print all of it.
    let run = shell::run_tests_as(&mut command, "unshare --mount … setpriv … TEST-BINARY")?;
    test::judge(run, &notes)
}

/// A program that is the Python client of the MCP server, so that this too is tried as an ordinary user.
fn mcp_client(scratch: &Path) -> Result<Option<PathBuf>> {
    let Ok(command) = mcp::python_client()? else {
        println!("no MCP client from PyPI, see the step mcp-python");
        return Ok(None);
    };
    let file = scratch.join("mcp-python");
    let words: Vec<String> = command.iter().map(|word| format!("'{}'", word.display())).collect();
    std::fs::write(&file, format!("#!/bin/sh\nexec {}\n", words.join(" ")))
        .and_then(|()| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)))
        .context("writing the MCP client's program")?;
    Ok(Some(file))
}

/// Directory to run in, and executable, of every test binary.
fn test_binaries() -> Result<Vec<(PathBuf, PathBuf)>> {
    let mut binaries = Vec::new();
    for message in workspace::test_artifacts()? {
        if message["profile"]["test"] != true {
            continue;
        }
        let (Some(manifest), Some(executable)) =
            (message["manifest_path"].as_str(), message["executable"].as_str())
        else {
            continue;
        };
        let directory = Path::new(manifest).parent().context("a manifest has no directory")?;
        if PACKAGES.iter().any(|name| directory.ends_with(name)) {
            binaries.push((directory.to_owned(), PathBuf::from(executable)));
        }
    }
    binaries.sort();
    Ok(binaries)
}
