mod escapes;
mod everyday;
mod located;
mod shells;
mod streams;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfence_workspace::{Mount, MountMode, PathMap};

use super::{Bridge, BridgeOptions};
use shells::Shell;

/// A "container" whose root is a directory that goes away, with a writable and a read-only mount.
pub(super) struct Inside {
    _directory: tempfile::TempDir,
    pub(super) root: PathBuf,
    shell: Shell,
    pub(super) options: BridgeOptions,
}

impl Inside {
    fn new(shell: &Shell) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for name in ["workspace", "agent", "outside"] {
            std::fs::create_dir(root.join(name)).unwrap();
        }
        std::fs::write(root.join("outside/secret"), "secret").unwrap();
        Self { _directory: directory, root, shell: shell.clone(), options: BridgeOptions::default() }
    }

    pub(super) fn bridge(&self) -> Bridge {
        let mount =
            |name: &str, mode| Mount::new(Path::new(&format!("/host/{name}")), &self.root.join(name), mode);
        let mounts = vec![mount("workspace", MountMode::ReadWrite), mount("agent", MountMode::ReadOnly)];
        let map = PathMap::new(mounts, &self.root.join("workspace"));
        Bridge::new(Arc::new(self.shell.clone()), map, self.options.clone())
    }

    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// All names below the root, so that nothing left behind goes unseen.
    pub(super) fn everything(&self) -> Vec<PathBuf> {
        fn walk(directory: &Path, into: &mut Vec<PathBuf>) {
            for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
                if entry.file_type().unwrap().is_dir() {
                    walk(&entry.path(), into);
                }
                into.push(entry.path());
            }
        }
        let mut found = Vec::new();
        walk(&self.root, &mut found);
        found.sort();
        found
    }
}

/// Runs `test` with each shell in a runtime of its own.
pub(super) fn with_every_shell<F: Future<Output = ()>>(test: impl Fn(Inside) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for shell in shells::all() {
        eprintln!("with {shell:?}");
        runtime.block_on(test(Inside::new(&shell)));
    }
}
