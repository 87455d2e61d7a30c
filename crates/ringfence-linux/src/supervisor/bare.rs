//! Git directories that come to be during a run under a name that no pattern knows: bare repositories, and what a
//! `.git` file names.
//!
//! git takes a directory for a repository by what it holds: `HEAD`, `objects` and `refs`. Whoever enters it on the host
//! has git read its `config` and run its `hooks`. So in a directory that holds all three these names are protected,
//! and a directory in which they hold anything already does not get the last of the three. Its `config` may
//! be a harmless one; it is put there anew, because somebody may still hold the old one open for writing.

use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::call::{Call, Exchange};
use super::{Answer, Supervisor, git_config};
use ringfence_model::Operation;

/// What makes a directory one of git's.
const MARKS: [&str; 3] = ["HEAD", "objects", "refs"];

/// What git runs, or takes the names of programs from.
const RUN: [&str; 3] = ["config", "config.worktree", "hooks"];

/// Larger ones are not looked through.
const LARGEST: u64 = 64 * 1024;

impl Supervisor<'_> {
    /// Why the call that would be made here must not be: it gives git something to run.
    pub(super) fn feeds_git(&self, call: Call) -> Option<Answer> {
        let root = self.root.as_ref()?.as_fd();
        let (operation, exchanges) = match call {
            Call::Open { .. } | Call::OpenHow { .. } => (Operation::Create, false),
            Call::Change { operation: Operation::Remove, .. } => return None,
            Call::Create { operation, .. } | Call::Change { operation, .. } => (operation, false),
            Call::Bind { .. } => (Operation::Bind, false),
            Call::Move { operation, exchange, .. } => (operation, exchange == Exchange::Yes),
            _ => return None,
        };
        let to = self.real.as_path();
        let from = self.source.as_deref();
        // git's own way to write it, which is judged by its content.
        if let (Operation::Rename, Some(from)) = (operation, from)
            && is_git_directory(root, to.parent()?, None)
            && let Some(done) = git_config::replace(root, &self.own, from, to)
        {
            return Some(Answer::Done(done.map(|()| 0)));
        }
        // A second name would be a way to change it.
        let also = from.filter(|_| exchanges || operation == Operation::Link);
        let feeds = [Some(to), also].into_iter().flatten().any(|path| is_fed(root, path));
        feeds.then(|| self.deny_protected(operation))
    }
}

/// Whether something new at `path` would be something that git runs.
fn is_fed(root: BorrowedFd<'_>, path: &Path) -> bool {
    let is_called = |path: &Path, names: &[&str]| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| names.contains(&name))
    };
    // Those are protected by their names.
    if path.iter().any(|name| name == ".git") {
        return false;
    }
    // It leads to another directory that holds the rest.
    if is_called(path, &["commondir"]) {
        return true;
    }
    let run = path.ancestors().find(|above| is_called(above, &RUN));
    if let Some(directory) = run.and_then(Path::parent)
        && is_git_directory(root, directory, None)
    {
        return true;
    }
    let Some(directory) = path.parent().filter(|_| is_called(path, &MARKS)) else { return false };
    let added = path.file_name().and_then(|name| name.to_str());
    !is_git_directory(root, directory, None)
        && is_git_directory(root, directory, added)
        && !is_harmless(root, directory)
}

/// Whether git would take it for a repository, once it has `added` as well.
fn is_git_directory(root: BorrowedFd<'_>, directory: &Path, added: Option<&str>) -> bool {
    let Ok(directory) = open(root, directory) else { return false };
    let has = |name: &str| rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
    MARKS.iter().all(|mark| added == Some(*mark) || has(mark))
}

/// Whether what git would run there is nothing, or a config that names no program; which is put there anew.
fn is_harmless(root: BorrowedFd<'_>, directory: &Path) -> bool {
    let Ok(directory) = open(root, directory) else { return false };
    let is_missing = |name: &str| {
        let there = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW);
        matches!(there, Err(Errno::NOENT))
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let hooks = rustix::fs::openat(&directory, "hooks", flags, Mode::empty());
    let is_empty = |hooks: OwnedFd| {
        let entries = Dir::read_from(&hooks).map(|entries| entries.flatten().count());
        // `.` and `..`.
        entries.is_ok_and(|count| count <= 2)
    };
    (is_missing("hooks") || hooks.is_ok_and(is_empty))
        && is_missing("config.worktree")
        && (is_missing("config") || renew_config(directory.as_fd()).is_ok())
}

/// Puts a copy of a harmless config in its place.
fn renew_config(directory: BorrowedFd<'_>) -> Result<(), Errno> {
    const NEW: &str = "config.ringfence";
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, "config", flags, Mode::empty())?;
    if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) != FileType::RegularFile {
        return Err(Errno::INVAL);
    }
    let mut text = String::new();
    std::fs::File::from(file).take(LARGEST + 1).read_to_string(&mut text).map_err(|_| Errno::INVAL)?;
    if text.len() as u64 > LARGEST || !git_config::is_harmless(&text) {
        return Err(Errno::ACCESS);
    }
    let create = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let new = rustix::fs::openat(directory, NEW, create, Mode::from_raw_mode(0o644))?;
    let placed = git_config::write_all(&new, text.as_bytes())
        .and_then(|()| rustix::fs::renameat(directory, NEW, directory, "config"));
    if placed.is_err() {
        // Nobody else made it.
        let _ = rustix::fs::unlinkat(directory, NEW, AtFlags::empty());
    }
    placed
}

fn open(root: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Errno> {
    let relative = path.strip_prefix("/").unwrap_or(path);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat2(
        root,
        relative,
        flags,
        Mode::empty(),
        ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS,
    )
}
