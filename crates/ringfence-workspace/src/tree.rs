//! Walking a tree without following any link: listing and measuring.

use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use ringfence_model::{Access, Result};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::beneath::{ENTRIES, facts_at, names_in, open_plain_at};
use crate::error::explain;
use crate::facts::Facts;
use crate::path::Inner;
use crate::workspace::{FileKind, Workspace};

/// What a visitor wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Go on, into the directory if it is one.
    Enter,
    /// Go on, but not into it.
    Skip,
    Stop,
}

/// Shows every entry below `top` to `visitor`, parents before children, names in order. Gives the number of
/// directories that could not be read.
///
/// Directories are opened from the top again each time, with no link allowed on the way: that needs one
/// descriptor however deep the tree is, and a directory replaced by a link is not entered.
pub(crate) fn visit(top: BorrowedFd<'_>, visitor: &mut dyn FnMut(&Path, &Facts) -> Next) -> usize {
    let mut unreadable = 0;
    let mut to_enter = vec![PathBuf::new()];
    while let Some(path) = to_enter.pop() {
        let Ok(directory) = open_plain_at(top, &path, ENTRIES) else {
            unreadable += 1;
            continue;
        };
        let Ok(mut names) = names_in(&directory) else {
            unreadable += 1;
            continue;
        };
        names.sort_unstable();
        let mut below = Vec::new();
        for name in names {
            // Gone in the meantime is no trouble.
            let Ok(Some(facts)) = facts_at(std::os::fd::AsFd::as_fd(&directory), &name) else { continue };
            let entry = path.join(&name);
            match visitor(&entry, &facts) {
                Next::Stop => return unreadable,
                Next::Enter if facts.kind == FileType::Directory => below.push(entry),
                Next::Enter | Next::Skip => {}
            }
        }
        to_enter.extend(below.into_iter().rev());
    }
    unreadable
}

/// How much of a tree to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListOptions {
    /// Levels below the directory; 1 lists only the directory itself.
    pub depth: usize,
    pub max_entries: usize,
}

impl ListOptions {
    pub const MOST_ENTRIES: usize = 10_000;

    /// The directory alone.
    #[must_use]
    pub fn flat() -> Self {
        Self { depth: 1, max_entries: Self::MOST_ENTRIES }
    }

    /// Everything below it, up to a number.
    #[must_use]
    pub fn recursive() -> Self {
        Self { depth: usize::MAX, max_entries: Self::MOST_ENTRIES }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Relative to the workspace.
    pub path: PathBuf,
    pub kind: FileKind,
    pub size: u64,
    pub modified_ms: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listing {
    pub entries: Vec<Entry>,
    /// There were more entries than asked for.
    pub truncated: bool,
    /// Directories that could not be read.
    pub unreadable: usize,
}

impl Workspace {
    /// What is in a directory. Links are listed as links and not entered.
    pub fn list(&self, path: &Path, options: ListOptions) -> Result<Listing> {
        let inner = Inner::new(path)?;
        let top = self.open_directory(&inner)?;
        let mut listing = Listing::default();
        listing.unreadable = visit(std::os::fd::AsFd::as_fd(&top), &mut |below, facts| {
            if listing.entries.len() >= options.max_entries {
                listing.truncated = true;
                return Next::Stop;
            }
            listing.entries.push(Entry {
                path: inner.as_path().join(below),
                kind: FileKind::of(facts),
                size: facts.size,
                modified_ms: facts.modified_ms(),
            });
            if below.components().count() < options.depth { Next::Enter } else { Next::Skip }
        });
        listing.entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(listing)
    }

    /// The bytes of all files; one with several names counts once.
    pub fn size(&self) -> Result<u64> {
        let mut bytes: u64 = 0;
        let mut counted = HashSet::new();
        visit(self.root().fd(), &mut |_, facts| {
            let again = facts.names > 1 && !counted.insert((facts.device, facts.inode));
            if facts.kind == FileType::RegularFile && !again {
                bytes = bytes.saturating_add(facts.size);
            }
            Next::Enter
        });
        Ok(bytes)
    }

    pub(crate) fn open_directory(&self, inner: &Inner) -> Result<std::os::fd::OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened: std::result::Result<_, Errno> = self.root().open(inner.as_path(), flags);
        let directory = opened.map_err(|errno| explain("list", inner.as_path(), errno))?;
        self.guard_open(&directory, Access::Read)?;
        Ok(directory)
    }
}
