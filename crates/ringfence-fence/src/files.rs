//! Files of sandboxes that have a file system of their own.
//!
//! Whoever hands files out has rules about them, and links lead around rules. So a path is [located](SandboxFiles::locate) first,
//! the place it leads to is judged, and then exactly that place is touched: when somebody inside put a link there meanwhile,
//! or renamed a directory above it, the operation fails and nothing happens.

use std::path::{Path, PathBuf};

use ringfence_model::Result;
use ringfence_workspace::{FileStat, MountMode};

use crate::BoxFuture;

/// What is done about a link at the very end of a path. Those on the way are followed, while they stay in their mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastLink {
    /// It is followed, too.
    Follow,
    /// The link itself is meant.
    Keep,
}

/// A place in a sandbox; no part of it was a link when it was looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// As the sandbox names it.
    pub path: PathBuf,
    /// The same file on the host, for rules about the host's paths. Nobody opens it there.
    pub host: PathBuf,
    /// Relative to where commands start, when it is below.
    pub shown: PathBuf,
    /// Whether the mount that it is in may be written.
    pub mode: MountMode,
    /// None: nothing is there.
    pub stat: Option<FileStat>,
    /// Directories above it that are not there, on the host, outermost first.
    pub missing: Vec<PathBuf>,
}

/// The files of one sandbox. Paths are relative to where its commands start, or absolute: as the sandbox sees them, or the host.
/// What leads out of what the sandbox shows of the host is refused.
pub trait SandboxFiles: Send + Sync + std::fmt::Debug {
    /// Where a path leads, looked up once.
    fn locate<'a>(&'a self, path: &'a Path, last: LastLink) -> BoxFuture<'a, Result<Located>>;

    /// The whole content of a file.
    fn read<'a>(&'a self, at: &'a Located) -> BoxFuture<'a, Result<Vec<u8>>>;

    /// The contents of many files, in their order; none for one that cannot be read.
    fn read_many<'a>(&'a self, files: &'a [Located]) -> BoxFuture<'a, Result<Vec<Option<Vec<u8>>>>>;

    /// Puts `content` in the place of a file, all or nothing; directories above it are made.
    fn write<'a>(&'a self, at: &'a Located, content: &'a [u8]) -> BoxFuture<'a, Result<()>>;

    /// Removes a file, a link or an empty directory.
    fn remove<'a>(&'a self, at: &'a Located) -> BoxFuture<'a, Result<()>>;

    /// What is in each of the directories, sorted by name; none for one that cannot be read. No link is followed: what is known
    /// of one is that it is a link.
    fn list<'a>(&'a self, directories: &'a [Located]) -> BoxFuture<'a, Result<Vec<Option<Vec<Located>>>>>;
}
