//! Asking a tool of this machine, for a short time, where no project can answer in its place.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ringfence_local::printed::printed;

use super::Machine;

/// Longer than any of them takes to print a line.
const PATIENCE: Duration = Duration::from_secs(5);
/// More than any of them prints.
const MOST: u64 = 64 << 10;

/// Variables that tell a tool where things are; everything else could tell it to run something.
const PASSED: &[&str] = &["HOME", "LANG", "XDG_CONFIG_HOME", "GOENV", "GOPROXY", "GOSUMDB", "HF_ENDPOINT"];
/// The beginnings of their own variables, in any case.
const PASSED_BELOW: &[&str] = &["npm_config_", "pip_"];

/// What the tool prints; none where it is not there, fails or takes too long.
pub(super) fn ask(machine: &Machine<'_>, program: &str, arguments: &[&str]) -> Option<String> {
    let directories = directories(machine);
    let program =
        directories.iter().map(|directory| directory.join(program)).find(|path| is_program(path))?;
    let variables = machine.env.iter().filter(|(name, _)| {
        name.to_str().is_some_and(|name| {
            let small = name.to_ascii_lowercase();
            PASSED.contains(&name) || PASSED_BELOW.iter().any(|passed| small.starts_with(passed))
        })
    });
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(variables)
        .env("PATH", std::env::join_paths(&directories).unwrap_or_else(|_| OsString::new()))
        .env("GOTOOLCHAIN", "local")
        // Not the project: tools read what lies where they start.
        .current_dir("/");
    printed(&mut command, PATIENCE, MOST).ok()
}

/// Directories of the search path that are nobody's but the user's.
fn directories(machine: &Machine<'_>) -> Vec<PathBuf> {
    let path = machine.env.get(std::ffi::OsStr::new("PATH")).cloned().unwrap_or_default();
    let is_outside = |directory: &PathBuf| {
        let real = directory.canonicalize().unwrap_or_else(|_| directory.clone());
        directory.is_absolute()
            && !real.starts_with(machine.project)
            && !directory.starts_with(machine.project)
    };
    std::env::split_paths(&path).filter(is_outside).collect()
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
