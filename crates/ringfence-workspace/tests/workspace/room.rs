//! A workspace with an outside that must stay as it is.

use std::path::{Path, PathBuf};

use ringfence_workspace::{Workspace, WorkspaceOptions};

pub(crate) const SECRET: &[u8] = b"the secret of the outside\n";

/// `<temp>/inside` is the workspace; `<temp>/outside` holds the canary.
pub(crate) struct Room {
    top: tempfile::TempDir,
    pub(crate) workspace: Workspace,
}

impl Room {
    pub(crate) fn new() -> Self {
        Self::with(WorkspaceOptions::default())
    }

    pub(crate) fn with(options: WorkspaceOptions) -> Self {
        let top = tempfile::tempdir().unwrap();
        for directory in ["inside", "outside"] {
            std::fs::create_dir(top.path().join(directory)).unwrap();
        }
        std::fs::write(top.path().join("outside/canary"), SECRET).unwrap();
        let workspace = Workspace::open(&top.path().join("inside"), options).unwrap();
        Self { top, workspace }
    }

    /// A path on the host, below the workspace.
    pub(crate) fn host(&self, path: &str) -> PathBuf {
        self.top.path().join("inside").join(path)
    }

    pub(crate) fn outside(&self) -> PathBuf {
        self.top.path().join("outside")
    }

    pub(crate) fn canary(&self) -> PathBuf {
        self.outside().join("canary")
    }

    #[track_caller]
    pub(crate) fn assert_outside_untouched(&self) {
        assert_eq!(std::fs::read(self.canary()).unwrap(), SECRET);
        let names: Vec<_> =
            std::fs::read_dir(self.outside()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["canary"]);
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let listing =
            self.workspace.list(Path::new(""), ringfence_workspace::ListOptions::recursive()).unwrap();
        listing.entries.into_iter().map(|entry| entry.path.display().to_string()).collect()
    }
}

pub(crate) fn p(text: &str) -> &Path {
    Path::new(text)
}
