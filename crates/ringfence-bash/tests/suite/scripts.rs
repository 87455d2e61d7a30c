//! The shell scripts that happen to be on this machine.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use ringfence_bash::MAX_BYTES;

/// Where scripts are looked for.
const ROOTS: [&str; 7] = ["/usr", "/etc", "/root/.pyenv", "/root/.cargo", "/root/.rustup", "/lib", "/opt"];
/// Enough files to be meaningful, few enough for a test.
const MOST_FILES: usize = 3_000;

/// A script: its path and its text.
pub(super) struct Found {
    pub(super) path: String,
    pub(super) text: Vec<u8>,
}

/// Lists the scripts whose bytes the parser does not refuse as such.
pub(super) fn on_this_machine() -> Vec<Found> {
    let mut paths = Vec::new();
    for root in ROOTS {
        collect(Path::new(root), 14, &mut paths);
    }
    let read = |path: PathBuf| Some(Found { path: path.display().to_string(), text: fs::read(&path).ok()? });
    let plain = |found: &Found| {
        !found.text.contains(&b'\r') && !found.text.contains(&0) && std::str::from_utf8(&found.text).is_ok()
    };
    paths.into_iter().filter_map(read).filter(plain).collect()
}

fn collect(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    let mut entries: Vec<_> = entries.flatten().collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        if found.len() >= MOST_FILES {
            return;
        }
        let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
        if kind.is_dir() && depth > 0 {
            collect(&path, depth - 1, found);
        } else if kind.is_file() && is_script(&path) {
            found.push(path);
        }
    }
}

/// Tells whether a file begins with the name of a Bourne shell, or is called `.sh` or
/// `.bash`, and is not too long. Files with other endings are passed over unopened.
fn is_script(path: &Path) -> bool {
    let named = match path.extension() {
        Some(ext) if ext == "sh" || ext == "bash" => true,
        Some(_) => return false,
        None => false,
    };
    let Ok(file) = fs::File::open(path) else { return false };
    if !file.metadata().is_ok_and(|meta| meta.is_file() && meta.len() <= MAX_BYTES as u64) {
        return false;
    }
    let mut head = Vec::new();
    if file.take(128).read_to_end(&mut head).is_err() {
        return false;
    }
    let head = String::from_utf8_lossy(&head);
    let first = head.lines().next().unwrap_or_default();
    let shell = first.strip_prefix("#!").and_then(|line| {
        let mut words = line.split_whitespace().map(|word| word.rsplit('/').next().unwrap_or(word));
        words.find(|word| *word != "env" && !word.starts_with('-'))
    });
    match shell {
        Some(shell) => matches!(shell, "sh" | "bash" | "dash" | "ash"),
        None => named,
    }
}
