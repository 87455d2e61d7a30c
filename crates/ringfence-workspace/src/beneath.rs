//! Opening beneath a directory descriptor.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use ringfence_model::{Error, ErrorKind, Result};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::error::{explain, explain_io};
use crate::facts::Facts;
use crate::walk;

/// As many links as the kernel itself follows.
pub(crate) const MOST_LINKS: usize = 40;

/// Enough to use a directory as a place, without needing to read it.
#[cfg(target_os = "linux")]
pub(crate) const PLACE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
pub(crate) const PLACE: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// For reading a directory's entries, which must be a directory and no link to one.
pub(crate) const ENTRIES: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Never waits for the other end of a pipe and never takes over a terminal.
pub(crate) const READ: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// A directory held by descriptor, and its path at the time it was opened.
#[derive(Debug)]
pub(crate) struct Root {
    fd: OwnedFd,
    host: PathBuf,
}

/// What happens to a link in the last place of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastLink {
    Follow,
    /// The link itself is meant.
    Keep,
}

/// A name in a directory.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) directory: OwnedFd,
    pub(crate) name: OsString,
}

impl Root {
    /// Opens a directory of the host; the last time that one of its paths is trusted.
    pub(crate) fn open_host(path: &Path) -> Result<Self> {
        let host = path.canonicalize().map_err(|error| explain_io("open the directory", path, error))?;
        let fd = rustix::fs::open(&host, PLACE, Mode::empty())
            .map_err(|errno| explain("open the directory", path, errno))?;
        Ok(Self { fd, host })
    }

    pub(crate) fn from_parts(fd: OwnedFd, host: PathBuf) -> Self {
        Self { fd, host }
    }

    pub(crate) fn host(&self) -> &Path {
        &self.host
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Opens what `path` leads to, following links that stay beneath. `path` may have `..` in it, as the
    /// targets of links do.
    pub(crate) fn open(&self, path: &Path, flags: OFlags) -> std::result::Result<OwnedFd, Errno> {
        match kernel::open(self.fd.as_fd(), or_here(path), flags, kernel::Links::Follow) {
            // The kernel refuses absolute links even when they lead back in; walking tells them apart.
            Err(Errno::XDEV | Errno::NOSYS) => walk::open(self.fd.as_fd(), &self.host, path, flags),
            outcome => outcome,
        }
    }

    /// The directory and name that `path` stands for. The name itself need not exist.
    pub(crate) fn place(&self, path: &Path, last: LastLink) -> std::result::Result<Place, Errno> {
        let mut path = path.to_owned();
        for _ in 0..MOST_LINKS {
            let Some(name) = path.file_name().map(OsStr::to_owned) else {
                // Ends in `..` or is empty: a directory, never a name of its own.
                return Err(Errno::ISDIR);
            };
            let parent = path.parent().unwrap_or(Path::new("")).to_owned();
            let directory = self.open(&parent, PLACE)?;
            if last == LastLink::Keep {
                return Ok(Place { directory, name });
            }
            match rustix::fs::readlinkat(&directory, &name, Vec::new()) {
                Ok(target) => path = self.behind_link(&parent, OsStr::from_bytes(target.as_bytes()))?,
                // Not a link, or not there (yet).
                Err(Errno::INVAL | Errno::NOENT) => return Ok(Place { directory, name }),
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::LOOP)
    }

    /// The path that a link in `parent` leads to, as a path from here.
    fn behind_link(&self, parent: &Path, target: &OsStr) -> std::result::Result<PathBuf, Errno> {
        let target = Path::new(target);
        if target.is_relative() {
            return Ok(parent.join(target));
        }
        target.strip_prefix(&self.host).map(Path::to_owned).map_err(|_| Errno::XDEV)
    }
}

/// Opens what is at `path` below `directory` when no link is on the way.
pub(crate) fn open_plain_at(
    directory: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
) -> std::result::Result<OwnedFd, Errno> {
    match kernel::open(directory, or_here(path), flags, kernel::Links::Refuse) {
        Err(Errno::NOSYS) => walk::open_plain(directory, path, flags),
        outcome => outcome,
    }
}

impl Place {
    /// What is at this place, links not followed; none when nothing is.
    pub(crate) fn facts(&self) -> std::result::Result<Option<Facts>, Errno> {
        facts_at(self.directory.as_fd(), &self.name)
    }

    /// The same, once every removal under way in the directory has come to its end. While the kernel removes
    /// a name it counts the file's names down first and forgets the name after that, so a plain look can
    /// find one that is no longer counted. It holds the directory's lock for all of it, and so does reading
    /// the directory.
    pub(crate) fn settled_facts(&self) -> std::result::Result<Option<Facts>, Errno> {
        read_one_entry(&self.directory)?;
        self.facts()
    }
}

pub(crate) fn facts_at(directory: BorrowedFd<'_>, name: &OsStr) -> std::result::Result<Option<Facts>, Errno> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(Facts::of(&stat))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

pub(crate) fn facts_of(fd: impl AsFd) -> std::result::Result<Facts, Errno> {
    rustix::fs::fstat(fd).map(|stat| Facts::of(&stat))
}

/// Names in a directory, without `.` and `..`, as bytes of the file system.
pub(crate) fn names_in(directory: impl AsFd) -> std::result::Result<Vec<OsString>, Errno> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name.to_vec()));
        }
    }
    Ok(names)
}

#[cfg(target_os = "linux")]
fn read_one_entry(directory: &OwnedFd) -> std::result::Result<(), Errno> {
    let directory = rustix::fs::openat(directory, ".", ENTRIES, Mode::empty())?;
    // Room for one name of any length.
    let mut buffer = [std::mem::MaybeUninit::uninit(); 512];
    rustix::fs::RawDir::new(directory, &mut buffer).next().transpose().map(drop)
}

#[cfg(not(target_os = "linux"))]
fn read_one_entry(directory: &OwnedFd) -> std::result::Result<(), Errno> {
    rustix::fs::Dir::read_from(directory)?.read().transpose().map(drop)
}

pub(crate) fn or_here(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

/// A name that nobody else uses, for a file that lives for a moment.
pub(crate) fn moment_name() -> OsString {
    format!(".ringfence-{}.tmp", uuid::Uuid::now_v7().simple()).into()
}

pub(crate) fn not_a_file(path: &Path) -> Error {
    Error::new(ErrorKind::Validation, format!("{} is not an ordinary file", path.display()))
}

#[cfg(all(target_os = "linux", not(feature = "walk")))]
mod kernel {
    use super::*;
    use rustix::fs::ResolveFlags;

    pub(super) enum Links {
        Follow,
        Refuse,
    }

    /// A lookup that crosses `..` while directories are moved must be tried again.
    const TRIES: usize = 64;

    pub(super) fn open(
        root: BorrowedFd<'_>,
        path: &Path,
        flags: OFlags,
        links: Links,
    ) -> std::result::Result<OwnedFd, Errno> {
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let resolve = match links {
            Links::Follow => beneath,
            Links::Refuse => beneath | ResolveFlags::NO_SYMLINKS,
        };
        let mut outcome = Err(Errno::AGAIN);
        for _ in 0..TRIES {
            outcome = rustix::fs::openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve);
            match outcome {
                Err(Errno::AGAIN | Errno::INTR) => {}
                _ => return outcome,
            }
        }
        outcome
    }
}

#[cfg(not(all(target_os = "linux", not(feature = "walk"))))]
mod kernel {
    use super::*;

    pub(super) enum Links {
        Follow,
        Refuse,
    }

    /// No such call here: everything is walked.
    pub(super) fn open(
        _root: BorrowedFd<'_>,
        _path: &Path,
        _flags: OFlags,
        _links: Links,
    ) -> std::result::Result<OwnedFd, Errno> {
        Err(Errno::NOSYS)
    }
}
