//! The directory and its small operations.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ringfence_git::place::Made;
use ringfence_model::{Error, ErrorKind, Result};
use rustix::fs::{AtFlags, FileType, Mode as FileMode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::atomic::{IfThere, Staged, hand_over};
use crate::beneath::{LastLink, PLACE, Place, Root, not_a_file};
use crate::error::{explain, explain_io};
use crate::facts::Facts;
use crate::guard::Guard;
use crate::path::Inner;
use crate::remove;

/// Whether a workspace may be changed through its handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    #[default]
    ReadWrite,
    ReadOnly,
}

/// What to do about files with several names.
///
/// A hard link is as good as the file itself, so a name inside the workspace can be a file of the outside,
/// and nothing tells which of the names was there first. Reading it on behalf of an agent could hand out
/// what the fence keeps from it. Writing needs no rule: files are replaced, never changed in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HardLinks {
    /// A file with more than one name is not read.
    #[default]
    Refuse,
    /// The caller knows that no command could have made a link to the outside; package managers link
    /// their stores into projects.
    Allow,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceOptions {
    pub mode: Mode,
    pub hard_links: HardLinks,
    /// Bytes of all files together; none for a directory that is not ours to limit.
    pub quota_bytes: Option<u64>,
    /// The largest file that is read or edited as a whole.
    pub max_file_bytes: u64,
}

impl Default for WorkspaceOptions {
    fn default() -> Self {
        Self {
            mode: Mode::ReadWrite,
            hard_links: HardLinks::Refuse,
            quota_bytes: None,
            max_file_bytes: 256 << 20,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FileKind {
    File,
    Directory,
    Symlink,
    Other,
}

impl FileKind {
    pub(crate) fn of(facts: &Facts) -> Self {
        match facts.kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Symlink,
            _ => Self::Other,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileStat {
    /// Of what the path leads to; never a link.
    pub kind: FileKind,
    pub size: u64,
    pub modified_ms: i64,
}

/// How much a removal takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoveDepth {
    /// A file, a link, or an empty directory.
    Single,
    /// A directory with everything in it, too.
    Recursive,
}

/// A directory, held by descriptor; see the crate's documentation for what that promises.
#[derive(Debug)]
pub struct Workspace {
    root: Root,
    options: WorkspaceOptions,
    measured: Mutex<Option<Measured>>,
    pub(crate) guard: Option<Arc<dyn Guard>>,
    /// Held by session workspaces, so that nobody cleans them up while they are used.
    pub(crate) in_use: Option<OwnedFd>,
}

/// Why something is not in its place.
enum Uncommitted {
    Failed(Errno),
    Refused(Error),
}

impl From<Errno> for Uncommitted {
    fn from(errno: Errno) -> Self {
        Self::Failed(errno)
    }
}

/// The size as it was last found, plus what was written since.
#[derive(Debug, Clone, Copy)]
struct Measured {
    bytes: u64,
    at: Instant,
}

/// Commands write into a workspace too, so a measurement is not believed for long.
const BELIEVED: Duration = Duration::from_secs(1);

impl Workspace {
    /// Opens an existing directory of the host.
    pub fn open(directory: &Path, options: WorkspaceOptions) -> Result<Self> {
        Ok(Self::from_root(Root::open_host(directory)?, options))
    }

    pub(crate) fn from_root(root: Root, options: WorkspaceOptions) -> Self {
        Self { root, options, measured: Mutex::new(None), guard: None, in_use: None }
    }

    /// From now on `guard` is asked about every file that is read, written, moved or removed.
    #[must_use]
    pub fn guarded(mut self, guard: Arc<dyn Guard>) -> Self {
        self.guard = Some(guard);
        self
    }

    /// Ends the time in which the workspace is set up.
    pub(crate) fn settle(&mut self, mode: Mode) {
        self.options.mode = mode;
        self.forget_size();
    }

    pub(crate) fn root(&self) -> &Root {
        &self.root
    }

    /// Where it was on the host when it was opened.
    #[must_use]
    pub fn host_path(&self) -> &Path {
        self.root.host()
    }

    #[must_use]
    pub fn mode(&self) -> Mode {
        self.options.mode
    }

    /// The path of an entry on the host, for showing and for mounts. Not for opening: use the operations.
    pub fn host_path_of(&self, path: &Path) -> Result<PathBuf> {
        Ok(self.root.host().join(Inner::new(path)?.as_path()))
    }

    /// Turns an absolute path of the host that lies in the workspace into a relative one; a relative one
    /// stays as it is. Both are checked as every path is.
    pub fn relative(&self, path: &Path) -> Result<PathBuf> {
        let relative = path.strip_prefix(self.root.host()).unwrap_or(path);
        Ok(Inner::new(relative)?.as_path().to_owned())
    }

    /// Puts `content` into a file, making it and its parents when they are missing. Readers see the old
    /// content or the new one, nothing between.
    pub fn write(&self, path: &Path, content: &[u8]) -> Result<()> {
        let staged = self.stage(path, content, None)?;
        self.commit(staged, IfThere::Replace, path).map(drop)
    }

    /// Puts staged content into place. The guard is asked about the place as it is then.
    pub(crate) fn commit(&self, staged: Staged, if_there: IfThere, path: &Path) -> Result<bool> {
        if self.guard.is_none() {
            return staged.commit(if_there).map_err(|errno| explain("write", path, errno));
        }
        let judge = |place: &Place| self.guard_new(place, Made::File, None).map_err(Uncommitted::Refused);
        staged.commit_judged(if_there, judge).map_err(|uncommitted| match uncommitted {
            Uncommitted::Failed(errno) => explain("write", path, errno),
            Uncommitted::Refused(error) => error,
        })
    }

    /// As [`write`](Self::write), but an existing file stays as it is. True when it was written.
    pub fn write_new(&self, path: &Path, content: &[u8]) -> Result<bool> {
        self.must_be_writable(path)?;
        let inner = Inner::of_entry(path)?;
        let place = self.place_to_write(&inner)?;
        self.guard_new(&place, Made::File, None)?;
        if place.facts().map_err(|errno| explain("write", path, errno))?.is_some() {
            return Ok(false);
        }
        self.guard_size(content)?;
        self.room_for(content.len())?;
        let staged =
            Staged::with_content(place, None, content).map_err(|error| explain_io("write", path, error))?;
        self.commit(staged, IfThere::Keep, path)
    }

    /// Prepares a write without doing it yet. A file that is new takes mode and owner from `heir_of`.
    pub(crate) fn stage(&self, path: &Path, content: &[u8], heir_of: Option<&Path>) -> Result<Staged> {
        self.must_be_writable(path)?;
        let inner = Inner::of_entry(path)?;
        let place = self.place_to_write(&inner)?;
        self.guard_new(&place, Made::File, None)?;
        self.guard_size(content)?;
        let existing = self.replaceable(&place, path)?;
        let old = existing.map_or(0, |facts| facts.size);
        self.room_for(content.len().saturating_sub(usize::try_from(old).unwrap_or(usize::MAX)))?;
        let model = match (existing, heir_of) {
            (None, Some(other)) => self.facts_behind(&Inner::of_entry(other)?).ok(),
            (existing, _) => existing,
        };
        Staged::with_content(place, model.as_ref(), content).map_err(|error| explain_io("write", path, error))
    }

    /// What a write to `place` would replace.
    fn replaceable(&self, place: &Place, path: &Path) -> Result<Option<Facts>> {
        let Some(facts) = place.facts().map_err(|errno| explain("write", path, errno))? else {
            return Ok(None);
        };
        match facts.kind {
            FileType::RegularFile if !facts.mode.intersects(FileMode::from_raw_mode(0o222)) => {
                let message = format!("cannot write {}: the file is marked read-only", path.display());
                Err(Error::new(ErrorKind::PathAccessDenied, message))
            }
            FileType::RegularFile => Ok(Some(facts)),
            FileType::Directory => Err(explain("write", path, Errno::ISDIR)),
            _ => Err(not_a_file(path)),
        }
    }

    /// Where a write to `inner` goes, parents made.
    pub(crate) fn place_to_write(&self, inner: &Inner) -> Result<Place> {
        let failed = |errno| explain("write", inner.as_path(), errno);
        match self.root.place(inner.as_path(), LastLink::Follow) {
            Err(Errno::NOENT) => {
                self.make_parents(inner)?;
                self.root.place(inner.as_path(), LastLink::Follow).map_err(failed)
            }
            outcome => outcome.map_err(failed),
        }
    }

    fn make_parents(&self, inner: &Inner) -> Result<()> {
        self.make_directories(&inner.parent()).map(drop)
    }

    /// Adds to the end of a file, making it when it is missing. The file is replaced by a longer one:
    /// opened for writing, it could turn out to be somebody else's by another name.
    pub fn append(&self, path: &Path, content: &[u8]) -> Result<()> {
        self.must_be_writable(path)?;
        let mut whole = match self.read(path) {
            Err(error) if error.kind == ErrorKind::NotFound => vec![],
            whole => whole?,
        };
        whole.extend_from_slice(content);
        self.write(path, &whole)
    }

    /// Makes a directory and its missing parents. True when it was missing.
    pub fn make_dirs(&self, path: &Path) -> Result<bool> {
        self.must_be_writable(path)?;
        self.make_directories(&Inner::new(path)?)
    }

    fn make_directories(&self, inner: &Inner) -> Result<bool> {
        let failed = |errno| explain("make the directory", inner.as_path(), errno);
        match self.root.open(inner.as_path(), PLACE) {
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(failed(errno)),
            Ok(_) => return Ok(false),
        }
        let parent = inner.parent();
        self.make_directories(&parent)?;
        let directory = self.root.open(parent.as_path(), PLACE).map_err(failed)?;
        let place = Place { directory, name: inner.file_name().to_owned() };
        self.guard_new(&place, Made::Directory, None)?;
        match rustix::fs::mkdirat(&place.directory, &place.name, FileMode::from_raw_mode(0o755)) {
            Ok(()) => {
                if let Err(refused) = self.guard_new(&place, Made::Directory, None) {
                    rustix::fs::unlinkat(&place.directory, &place.name, AtFlags::REMOVEDIR)
                        .map_err(failed)?;
                    return Err(refused);
                }
                let made = self.root.open(inner.as_path(), PLACE).map_err(failed)?;
                give_directory(&made, &place.directory);
                Ok(true)
            }
            // Somebody was quicker, or a link that leads nowhere has the name; opening tells.
            Err(Errno::EXIST) => self.root.open(inner.as_path(), PLACE).map(|_| false).map_err(failed),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// Removes a file, a link (never what it leads to) or a directory. False when there was nothing.
    pub fn remove(&self, path: &Path, depth: RemoveDepth) -> Result<bool> {
        self.must_be_writable(path)?;
        let inner = Inner::of_entry(path)?;
        let failed = |errno| explain("remove", path, errno);
        let place = match self.root.place(inner.as_path(), LastLink::Keep) {
            Err(Errno::NOENT) => return Ok(false),
            outcome => outcome.map_err(failed)?,
        };
        let Some(facts) = place.facts().map_err(failed)? else { return Ok(false) };
        self.guard_place(&place)?;
        let outcome = match (depth, facts.kind) {
            (RemoveDepth::Recursive, _) => remove::tree(place.directory.as_fd(), &place.name),
            (RemoveDepth::Single, FileType::Directory) => {
                rustix::fs::unlinkat(&place.directory, &place.name, AtFlags::REMOVEDIR)
            }
            (RemoveDepth::Single, _) => rustix::fs::unlinkat(&place.directory, &place.name, AtFlags::empty()),
        };
        self.forget_size();
        outcome.map_err(failed)?;
        Ok(true)
    }

    /// Moves a file, link or directory; parents of the target are made, a file there is replaced.
    pub fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.must_be_writable(to)?;
        let (source, target) = (Inner::of_entry(from)?, Inner::of_entry(to)?);
        let place = self
            .root
            .place(source.as_path(), LastLink::Keep)
            .map_err(|errno| explain("move", from, errno))?;
        let Some(facts) = place.facts().map_err(|errno| explain("move", from, errno))? else {
            return Err(explain("move", from, Errno::NOENT));
        };
        self.guard_place(&place)?;
        self.make_parents(&target)?;
        let there = self
            .root
            .place(target.as_path(), LastLink::Keep)
            .map_err(|errno| explain("move to", to, errno))?;
        let moved = self.directory_at(&place);
        let made = match facts.kind {
            FileType::RegularFile => Made::File,
            FileType::Directory => Made::Directory,
            FileType::Symlink => Made::Symlink,
            _ => Made::Other,
        };
        let judge = || self.guard_new(&there, made, moved.as_ref().map(AsFd::as_fd));
        judge()?;
        let moved_to = |errno| explain("move to", to, errno);
        rustix::fs::renameat(&place.directory, &place.name, &there.directory, &there.name)
            .map_err(moved_to)?;
        judge().or_else(|refused| {
            rustix::fs::renameat(&there.directory, &there.name, &place.directory, &place.name)
                .map_err(moved_to)?;
            Err(refused)
        })
    }

    pub(crate) fn must_be_writable(&self, path: &Path) -> Result<()> {
        match self.options.mode {
            Mode::ReadWrite => Ok(()),
            Mode::ReadOnly => {
                let message = format!("cannot change {}: the workspace is read-only", path.display());
                Err(Error::new(ErrorKind::Permission, message))
            }
        }
    }

    pub(crate) fn options(&self) -> &WorkspaceOptions {
        &self.options
    }

    /// Refuses to grow beyond the quota.
    pub(crate) fn room_for(&self, growth: usize) -> Result<()> {
        let Some(quota) = self.options.quota_bytes else { return Ok(()) };
        let growth = u64::try_from(growth).unwrap_or(u64::MAX);
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        let now = match *measured {
            Some(known) if known.at.elapsed() < BELIEVED => known,
            _ => Measured { bytes: self.size()?, at: Instant::now() },
        };
        let bytes = now.bytes.saturating_add(growth);
        if bytes > quota {
            *measured = None;
            let message = format!("the workspace would have {bytes} bytes, its limit is {quota}");
            return Err(
                Error::new(ErrorKind::ResourceLimitExceeded, message).hint("remove what is no longer needed")
            );
        }
        *measured = Some(Measured { bytes, ..now });
        Ok(())
    }

    fn forget_size(&self) {
        *self.measured.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn give_directory(made: &OwnedFd, parent: &OwnedFd) {
    // A place descriptor cannot change owners on Linux; open it properly when that is needed at all.
    if rustix::process::geteuid().is_root() {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if let Ok(directory) = rustix::fs::openat(made, ".", flags, FileMode::empty()) {
            let _ = hand_over(directory.as_fd(), parent.as_fd(), None);
        }
    }
}
