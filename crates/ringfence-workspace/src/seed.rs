//! Files that a new workspace starts with.

use std::path::{Path, PathBuf};

use ringfence_model::{ErrorKind, Result};

use crate::tree::ListOptions;
use crate::workspace::{FileKind, RemoveDepth, Workspace};

/// What an agent reads first, when its workspace has it.
pub const BOOTSTRAP_FILES: [&str; 7] =
    ["AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "BOOTSTRAP.md", "HEARTBEAT.md"];

impl Workspace {
    /// Copies those of `names` that `source` has and this workspace has not. Gives what was copied.
    pub fn seed(&self, source: &Workspace, names: &[&str]) -> Result<Vec<PathBuf>> {
        let mut copied = Vec::new();
        for name in names {
            let path = Path::new(name);
            let content = match source.read(path) {
                Err(error) if error.kind == ErrorKind::NotFound => continue,
                content => content?,
            };
            if self.write_new(path, &content)? {
                copied.push(path.to_owned());
            }
        }
        Ok(copied)
    }

    /// Makes the directory `to` here a copy of `from` in `source`: ordinary files only, links left out.
    /// Gives the number of files. A missing source leaves everything as it is.
    pub fn sync_directory(&self, source: &Workspace, from: &Path, to: &Path) -> Result<usize> {
        if source.stat(from)?.is_none_or(|stat| stat.kind != FileKind::Directory) {
            return Ok(0);
        }
        let listing =
            source.list(from, ListOptions { max_entries: usize::MAX, ..ListOptions::recursive() })?;
        self.remove(to, RemoveDepth::Recursive)?;
        self.make_dirs(to)?;
        let mut copied = 0;
        for entry in listing.entries.iter().filter(|entry| entry.kind == FileKind::File) {
            let below = entry.path.strip_prefix(from).unwrap_or(&entry.path);
            self.write(&to.join(below), &source.read(&entry.path)?)?;
            copied += 1;
        }
        Ok(copied)
    }
}
