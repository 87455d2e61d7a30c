//! Programs of others that a fence may be made with.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{Check, Status};
use crate::host::Host;

/// A tool that takes longer does not work.
const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(target_os = "linux")]
pub(super) fn bubblewrap(host: &Host) -> Check {
    const ID: &str = "bwrap";
    const TITLE: &str = "bubblewrap";
    let cost = "nothing for the native launcher, which does without; there is no bwrap to fall back on";
    let Some(program) = find(host, "bwrap") else {
        return Check::new(ID, TITLE, Status::Missing, "no bwrap on PATH")
            .costs(cost)
            .remedy("sudo apt-get install bubblewrap");
    };
    let version = match run(host, &program, &["--version"]) {
        Ok(text) => text.trim().trim_start_matches("bubblewrap ").to_owned(),
        Err(why) => {
            return Check::new(ID, TITLE, Status::Missing, format!("{}: {why}", program.display()))
                .costs(cost)
                .remedy("sudo apt-get install --reinstall bubblewrap");
        }
    };
    let place = format!("{} {version}", program.display());
    let arguments = [
        "--unshare-all",
        "--die-with-parent",
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "true",
    ];
    match run(host, &program, &arguments) {
        Ok(_) => Check::new(ID, TITLE, Status::Ok, format!("{place}, starts a sandbox")),
        Err(why) => Check::new(ID, TITLE, Status::Degraded, format!("{place} cannot start a sandbox: {why}"))
            .costs(cost)
            .remedy("see user namespaces and a fresh /proc: bwrap needs the same"),
    }
}

pub(super) fn docker(host: &Host) -> Check {
    const ID: &str = "docker";
    const TITLE: &str = "docker";
    let cost = "the provider docker cannot be used; the local fence does without";
    let Some(program) = find(host, "docker") else {
        return Check::new(ID, TITLE, Status::Missing, "no docker on PATH")
            .costs(cost)
            .remedy("sudo apt-get install docker.io");
    };
    match run(host, &program, &["version", "--format", "{{.Server.Version}}"]) {
        Ok(version) => {
            Check::new(ID, TITLE, Status::Ok, format!("{}, server {}", program.display(), version.trim()))
        }
        Err(why) => {
            let remedy = if why.contains("permission denied") {
                "sudo usermod -aG docker \"$USER\", then log in again"
            } else {
                "sudo systemctl start docker"
            };
            let found = format!("{}, but no server: {why}", program.display());
            Check::new(ID, TITLE, Status::Degraded, found).costs(cost).remedy(remedy)
        }
    }
}

#[cfg(target_os = "linux")]
pub(super) fn seatbelt() -> Check {
    let found =
        "macOS only: Seatbelt cannot work on Linux or in a Linux container, Docker Desktop on macOS included";
    Check::new("sandboxExec", "sandbox-exec", Status::NotApplicable, found)
}

fn find(host: &Host, name: &str) -> Option<PathBuf> {
    let runnable = |path: &PathBuf| {
        path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    host.path.iter().map(|directory| directory.join(name)).find(runnable)
}

/// The standard output of a tool, or in words why there is none.
pub(super) fn run(host: &Host, program: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(&host.environment)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) | Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("no answer within {} s", PATIENCE.as_secs()));
            }
        }
    };
    if status.success() {
        return Ok(text(child.stdout.take()));
    }
    let said = text(child.stderr.take());
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty());
    Err(last.map_or_else(|| status.to_string(), str::to_owned))
}

/// What it said, up to a length no tool's answer needs.
fn text(stream: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        let _ = stream.take(64 << 10).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
