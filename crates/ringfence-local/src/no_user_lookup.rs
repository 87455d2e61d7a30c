//! Telling the C library not to look users up in `/etc/passwd` where that is denied.

use std::path::{Path, PathBuf};

use ringfence_model::Access;
use ringfence_model::policy::Filesystem;

/// The file that tells the C library where to look users up, and what it must say when they are denied.
pub(crate) fn nobody_looked_up(fs: &Filesystem) -> Option<(PathBuf, Vec<u8>)> {
    const SWITCH: &str = "/etc/nsswitch.conf";
    if fs.decide(Path::new("/etc/passwd"), Access::Read).allowed() {
        return None;
    }
    let text = std::fs::read_to_string(SWITCH).ok()?;
    let content = text.lines().map(without_files).collect::<Vec<_>>().join("\n") + "\n";
    Some((SWITCH.into(), content.into_bytes()))
}

/// A line of nsswitch.conf that no longer sends user look-ups to the denied file.
fn without_files(line: &str) -> String {
    match line.split_once(':') {
        Some((database @ ("passwd" | "shadow" | "gshadow"), sources)) => {
            let kept: Vec<&str> =
                sources.split_whitespace().filter(|source| !matches!(*source, "files" | "compat")).collect();
            format!("{database}: {}", kept.join(" "))
        }
        _ => line.to_owned(),
    }
}
