//! Reading files and looking at them.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use ringfence_model::{Access, Error, ErrorKind, Result};
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::beneath::{LastLink, PLACE, READ, facts_of, not_a_file};
use crate::error::{explain, explain_io};
use crate::facts::Facts;
use crate::path::Inner;
use crate::workspace::{FileKind, FileStat, HardLinks, Workspace};

/// Attempts to read a file that is moved about.
const TRIES: usize = 16;

impl Workspace {
    /// The whole content of a file.
    pub fn read(&self, path: &Path) -> Result<Vec<u8>> {
        let limit = self.options().max_file_bytes;
        let (content, more) = self.read_up_to(path, limit)?;
        if more {
            let message = format!("{} is larger than {limit} bytes", path.display());
            return Err(Error::new(ErrorKind::ResourceLimitExceeded, message).hint("read a part of it"));
        }
        Ok(content)
    }

    /// The content as text.
    pub fn read_text(&self, path: &Path) -> Result<String> {
        String::from_utf8(self.read(path)?).map_err(|error| {
            Error::new(ErrorKind::Validation, format!("{} is not UTF-8 text", path.display()))
                .caused_by(error)
        })
    }

    /// At most `limit` bytes from the start, and whether there are more.
    pub fn read_up_to(&self, path: &Path, limit: u64) -> Result<(Vec<u8>, bool)> {
        let inner = Inner::of_entry(path)?;
        for _ in 0..TRIES {
            let (file, facts) = self.open_file(&inner)?;
            let mut content = Vec::new();
            let mut reader = (&file).take(limit.saturating_add(1));
            reader.read_to_end(&mut content).map_err(|error| explain_io("read", path, error))?;
            if !self.is_still_ours(&inner, &file, &facts)? {
                continue;
            }
            let kept = usize::try_from(limit).unwrap_or(usize::MAX);
            let more = content.len() > kept;
            content.truncate(kept);
            return Ok((content, more));
        }
        Err(explain("read", path, Errno::AGAIN))
    }

    /// Opens an ordinary file whose content is the workspace's own, as far as one can tell now; ask
    /// [`is_still_ours`](Self::is_still_ours) once it is read.
    pub(crate) fn open_file(&self, inner: &Inner) -> Result<(File, Facts)> {
        let path = inner.as_path();
        let failed = |errno| explain("read", path, errno);
        let fd = self.root().open(path, READ).map_err(failed)?;
        let facts = facts_of(&fd).map_err(failed)?;
        match facts.kind {
            FileType::RegularFile => {}
            FileType::Directory => return Err(explain("read", path, Errno::ISDIR)),
            _ => return Err(not_a_file(path)),
        }
        if facts.names > 1 {
            self.refuse_hard_link(path, facts.names)?;
        }
        self.guard_open(&fd, Access::Read)?;
        Ok((File::from(fd), facts))
    }

    /// Whether what was read from `file` may be given out: a second name could have been taken away for the
    /// moment in which its names were counted. False: try again.
    pub(crate) fn is_still_ours(&self, inner: &Inner, file: &File, before: &Facts) -> Result<bool> {
        let there = self
            .root()
            .place(inner.as_path(), LastLink::Follow)
            .and_then(|place| place.settled_facts()?.ok_or(Errno::NOENT));
        self.is_ours(inner.as_path(), before, there, file)
    }

    /// The same for whoever looked at the name in another way. The order of looks matters: `before`, then
    /// `there` (of a place that has [settled](crate::beneath::Place::settled_facts)), then the file itself.
    pub(crate) fn is_ours(
        &self,
        path: &Path,
        before: &Facts,
        there: std::result::Result<Facts, Errno>,
        file: &File,
    ) -> Result<bool> {
        let now = facts_of(file).map_err(|errno| explain("read", path, errno))?;
        match (self.options().hard_links, now.names) {
            // Replaced or removed meanwhile; nobody else has it.
            (HardLinks::Allow, _) | (_, 0) => Ok(true),
            // The one name it has is the one inside.
            (HardLinks::Refuse, 1) => Ok(there.is_ok_and(|there| {
                there.is_same_file(&now)
                    && !before.names_may_have_changed(&there)
                    && !there.names_may_have_changed(&now)
            })),
            (HardLinks::Refuse, names) => self.refuse_hard_link(path, names).map(|()| true),
        }
    }

    fn refuse_hard_link(&self, path: &Path, names: u64) -> Result<()> {
        if self.options().hard_links == HardLinks::Allow {
            return Ok(());
        }
        let message = format!(
            "cannot read {}: it is a hard link with {names} names, and some may be outside the workspace",
            path.display()
        );
        Err(Error::new(ErrorKind::PathAccessDenied, message).hint("copy the file instead of linking it"))
    }

    /// What a path leads to; none when nothing is there.
    pub fn stat(&self, path: &Path) -> Result<Option<FileStat>> {
        let inner = Inner::new(path)?;
        match self.facts_behind(&inner) {
            Ok(facts) => Ok(Some(FileStat {
                kind: FileKind::of(&facts),
                size: facts.size,
                modified_ms: facts.modified_ms(),
            })),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(errno) => Err(explain("look at", path, errno)),
        }
    }

    /// Follows links that stay inside; works for files that may not be read.
    pub(crate) fn facts_behind(&self, inner: &Inner) -> std::result::Result<Facts, Errno> {
        if inner.as_path().as_os_str().is_empty() {
            return facts_of(self.root().fd());
        }
        let place = self.root().place(inner.as_path(), LastLink::Follow);
        match place {
            // A link to a directory by way of `..` has no name of its own.
            Err(Errno::ISDIR) => facts_of(self.root().open(inner.as_path(), PLACE)?),
            place => place?.facts()?.ok_or(Errno::NOENT),
        }
    }

    /// Whether something is there. A path that is refused does not exist either.
    #[must_use]
    pub fn exists(&self, path: &Path) -> bool {
        matches!(self.stat(path), Ok(Some(_)))
    }
}
