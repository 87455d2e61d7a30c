//! Bash as the oracle: does it read a text without a complaint? It only reads
//! (`-n`): nothing of the text ever runs.

use std::io::Write;
use std::process::{Command, Stdio};

/// Asks `bash -n`; `None` if there is no bash on this machine.
pub(super) fn accepts(text: &[u8]) -> Option<bool> {
    let spawned = Command::new("bash")
        .args(["--norc", "--noprofile", "-n"])
        .env_clear()
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = spawned.ok()?;
    let mut stdin = child.stdin.take()?;
    let text = text.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&text));
    let output = child.wait_with_output().ok()?;
    // Bash may stop reading at an error; then the pipe breaks, which is an answer too.
    let _ = writer.join();
    // For some errors inside `[[` bash complains and still ends with status 0.
    let quiet = String::from_utf8_lossy(&output.stderr).lines().all(|line| line.contains("warning: "));
    Some(output.status.success() && quiet)
}
