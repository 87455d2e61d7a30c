//! Many workspaces below one directory, one for each session.
//!
//! A session's key can be anything; its directory has the name that [`crate::session_slug`] makes of it, so
//! no key can name a path. The full key is kept in `.keys` beside the workspaces: should two keys ever get
//! the same name, the second one is refused instead of being let into the first one's files.
//!
//! An open workspace is locked (shared) by its directory; cleaning up takes the lock alone, so a workspace
//! in use is never removed, whichever process uses it.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringfence_model::{Error, ErrorKind, Result};
use rustix::fs::{FlockOperation, Mode as FileMode, Timespec, Timestamps};
use rustix::io::Errno;

use crate::beneath::{ENTRIES, PLACE, facts_at, facts_of, names_in, open_plain_at};
use crate::error::{explain, explain_io};
use crate::map::{Mount, MountMode, PathMap};
use crate::slug::{canonical_key, session_slug};
use crate::tree::{self, Next};
use crate::workspace::{HardLinks, Mode, RemoveDepth, Workspace, WorkspaceOptions};
use crate::{beneath::Root, remove};

/// The directories every session workspace has.
pub const DIRECTORIES: [&str; 6] = ["code", "data", "output", "artifacts", "temp", ".memory"];

/// The files an agent keeps its own notes in; made once, empty but for a title.
pub const MEMORY_FILES: [(&str, &str); 3] = [
    (".memory/task_plan.md", "# Task plan\n"),
    (".memory/findings.md", "# Findings\n"),
    (".memory/progress.md", "# Progress\n"),
];

const KEYS: &str = ".keys";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionOptions {
    pub quota_bytes: u64,
    /// Unused for longer than this, a workspace may be cleaned up.
    pub max_idle: Duration,
    /// Where a container sees the workspace.
    pub container_path: PathBuf,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            quota_bytes: 1024 << 20,
            max_idle: Duration::from_secs(24 * 60 * 60),
            container_path: PathBuf::from("/workspace"),
        }
    }
}

/// What a clean-up did, by directory name.
#[derive(Debug, Default)]
pub struct CleanUp {
    pub removed: Vec<String>,
    /// Old, but somebody has it open.
    pub in_use: Vec<String>,
    pub failed: Vec<(String, Error)>,
}

/// The directory with all session workspaces.
#[derive(Debug)]
pub struct Sessions {
    base: Workspace,
    options: SessionOptions,
}

impl Sessions {
    /// Opens the directory, making it (0700) when it is missing.
    pub fn open(base: &Path, options: SessionOptions) -> Result<Self> {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(base);
        made.map_err(|error| explain_io("make the directory", base, error))?;
        let base = Workspace::open(base, WorkspaceOptions::default())?;
        Ok(Self { base, options })
    }

    /// The workspace of a session, made with its layout when it is missing, and held until dropped.
    pub fn session(&self, key: &str, mode: Mode) -> Result<Workspace> {
        let name = session_slug(key);
        self.claim(&name, key)?;
        let directory = self.hold(&name)?;
        // Opened anew for the root: the lock's descriptor stays what it is.
        let failed = |errno| explain("open the workspace", Path::new(&name), errno);
        let place = rustix::fs::openat(&directory, ".", PLACE, FileMode::empty()).map_err(failed)?;
        let options = WorkspaceOptions {
            mode: Mode::ReadWrite,
            hard_links: HardLinks::Refuse,
            quota_bytes: Some(self.options.quota_bytes),
            ..WorkspaceOptions::default()
        };
        let root = Root::from_parts(place, self.base.host_path().join(&name));
        let mut workspace = Workspace::from_root(root, options);
        workspace.in_use = Some(directory);
        for directory in DIRECTORIES {
            workspace.make_dirs(Path::new(directory))?;
        }
        for (file, title) in MEMORY_FILES {
            workspace.write_new(Path::new(file), title.as_bytes())?;
        }
        workspace.settle(mode);
        Ok(workspace)
    }

    /// How a container sees the workspace.
    #[must_use]
    pub fn path_map(&self, workspace: &Workspace) -> PathMap {
        let mode = match workspace.mode() {
            Mode::ReadWrite => MountMode::ReadWrite,
            Mode::ReadOnly => MountMode::ReadOnly,
        };
        let mount = Mount::new(workspace.host_path(), &self.options.container_path, mode);
        PathMap::new(vec![mount], &self.options.container_path)
    }

    /// Removes a session's workspace. False when it has none; an error when it is in use.
    pub fn remove(&self, key: &str) -> Result<bool> {
        let name = session_slug(key);
        if !self.base.exists(Path::new(&name)) {
            return Ok(false);
        }
        self.claim(&name, key)?;
        self.discard(&name)?.map_or_else(
            || {
                let message = format!("the workspace {name} is in use");
                Err(Error::new(ErrorKind::ConcurrentAccess, message))
            },
            |()| Ok(true),
        )
    }

    /// Removes workspaces in which nothing changed for too long. `now_ms` is the time since the Unix epoch.
    pub fn clean_up(&self, now_ms: i64, is_held: &dyn Fn(&str) -> bool) -> Result<CleanUp> {
        let mut outcome = CleanUp::default();
        let idle_ms = i64::try_from(self.options.max_idle.as_millis()).unwrap_or(i64::MAX);
        let keys = match self.base.open_directory(&crate::path::Inner::new(Path::new(KEYS))?) {
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(outcome),
            keys => keys?,
        };
        // Only what has a key is ours to remove.
        let names = names_in(&keys).map_err(|errno| explain("list", Path::new(KEYS), errno))?;
        for name in names {
            // One with a dot is a key that is being written.
            let Some(name) = name.to_str().filter(|name| !name.starts_with('.')).map(str::to_owned) else {
                continue;
            };
            if is_held(&name) {
                outcome.in_use.push(name);
                continue;
            }
            let newest = match self.newest_change(&name) {
                Ok(newest) => newest,
                Err(Errno::NOENT) => None,
                Err(errno) => {
                    outcome.failed.push((name.clone(), explain("look at", Path::new(&name), errno)));
                    continue;
                }
            };
            if newest.is_some_and(|newest| now_ms.saturating_sub(newest) <= idle_ms) {
                continue;
            }
            match self.discard(&name) {
                Ok(Some(())) => outcome.removed.push(name),
                Ok(None) => outcome.in_use.push(name),
                Err(error) => outcome.failed.push((name, error)),
            }
        }
        outcome.removed.sort_unstable();
        Ok(outcome)
    }

    /// When anything in the workspace last changed; none when it is gone.
    fn newest_change(&self, name: &str) -> std::result::Result<Option<i64>, Errno> {
        let directory = open_plain_at(self.base.root().fd(), Path::new(name), ENTRIES)?;
        let mut newest = facts_of(&directory)?.modified_ms();
        tree::visit(directory.as_fd(), &mut |_, facts| {
            newest = newest.max(facts.modified_ms());
            Next::Enter
        });
        Ok(Some(newest))
    }

    /// Removes a workspace and its key unless somebody has it open.
    fn discard(&self, name: &str) -> Result<Option<()>> {
        let failed = |errno| explain("remove the workspace", Path::new(name), errno);
        match open_plain_at(self.base.root().fd(), Path::new(name), ENTRIES) {
            Ok(directory) => {
                match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
                    Ok(()) => {}
                    Err(Errno::WOULDBLOCK) => return Ok(None),
                    Err(errno) => return Err(failed(errno)),
                }
                // It may have been removed and made anew meanwhile; then the lock says nothing of what has the name.
                let held = facts_of(&directory).map_err(failed)?;
                let there = facts_at(self.base.root().fd(), name.as_ref()).map_err(failed)?;
                if !there.is_some_and(|there| there.is_same_file(&held)) {
                    return Ok(None);
                }
                remove::tree(self.base.root().fd(), name.as_ref()).map_err(failed)?;
            }
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(failed(errno)),
        }
        self.base.remove(&Path::new(KEYS).join(name), RemoveDepth::Single)?;
        Ok(Some(()))
    }

    /// Makes sure that the name belongs to exactly this key.
    fn claim(&self, name: &str, key: &str) -> Result<()> {
        let key = canonical_key(key);
        let file = Path::new(KEYS).join(name);
        for _ in 0..3 {
            self.base.write_new(&file, key.as_bytes())?;
            match self.base.read(&file) {
                Ok(owner) if owner == key.as_bytes() => return Ok(()),
                Ok(_) => {
                    let message = format!("the workspace {name} belongs to another session");
                    return Err(Error::new(ErrorKind::Permission, message).hint("use another session key"));
                }
                // Cleaned up between the two; once more.
                Err(error) if error.kind == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::new(ErrorKind::ConcurrentAccess, format!("the workspace {name} is being removed")))
    }

    /// Opens the workspace's directory and locks it, making it when it is missing.
    fn hold(&self, name: &str) -> Result<OwnedFd> {
        let failed = |errno| explain("open the workspace", Path::new(name), errno);
        let base = self.base.root().fd();
        loop {
            match rustix::fs::mkdirat(base, name, FileMode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(failed(errno)),
            }
            let directory = match open_plain_at(base, Path::new(name), ENTRIES) {
                Err(Errno::NOENT) => continue,
                outcome => outcome.map_err(failed)?,
            };
            rustix::fs::flock(&directory, FlockOperation::LockShared).map_err(failed)?;
            // It may have been removed while we waited for the lock.
            let held = facts_of(&directory).map_err(failed)?;
            let there = facts_at(base, std::ffi::OsStr::from_bytes(name.as_bytes())).map_err(failed)?;
            if there.is_some_and(|there| there.is_same_file(&held)) {
                let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
                let times = Timestamps { last_access: now, last_modification: now };
                rustix::fs::futimens(&directory, &times).map_err(failed)?;
                return Ok(directory);
            }
        }
    }
}
