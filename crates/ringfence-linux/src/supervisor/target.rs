//! Looking at the caller: its memory, its directories, and where its paths lead in its own view.
//!
//! Arguments are copied once and judged on the copy. Nothing allocates on the way to "allowed".

use std::ffi::{CStr, OsStr};
use std::io::Write as _;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::call::{Last, PathArg};
use super::network::take_descriptor;
use super::walk::walk;
use crate::sys::{self, Sys};

pub(crate) const PATH_MAX: usize = 4096;

/// An absolute path without `.`, in a buffer of its own, always followed by a NUL.
pub(crate) struct PathBuffer {
    bytes: [u8; PATH_MAX + 1],
    length: usize,
    /// It contains `..`, which only means something once the links before it are resolved.
    dotted: bool,
    /// The text it was made from said that it is a directory.
    ending: Ending,
}

/// How the text of a path ends after its last name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    Name,
    Slash,
    Dot,
}

impl std::fmt::Debug for PathBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_path().fmt(f)
    }
}

impl PathBuffer {
    pub(crate) fn new() -> Self {
        Self { bytes: [0; PATH_MAX + 1], length: 0, dotted: false, ending: Ending::Name }
    }

    pub(crate) fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(self.as_bytes()))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        if self.length == 0 { b"/" } else { &self.bytes[..self.length] }
    }

    pub(crate) fn as_c_str(&self) -> &CStr {
        if self.length == 0 {
            return c"/";
        }
        CStr::from_bytes_with_nul(&self.bytes[..=self.length]).unwrap_or(c"")
    }

    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.length = other.length;
        self.dotted = other.dotted;
        self.ending = other.ending;
        self.bytes[..=self.length].copy_from_slice(&other.bytes[..=self.length]);
    }

    /// Replaces the content by an absolute path. False when it is too long.
    pub(crate) fn set(&mut self, path: &Path) -> bool {
        self.clear();
        self.append(path.as_os_str().as_bytes())
    }

    pub(crate) fn ending(&self) -> Ending {
        self.ending
    }

    /// Whether the text alone does not tell where it leads.
    pub(crate) fn is_dotted(&self) -> bool {
        self.dotted
    }

    pub(crate) fn clear(&mut self) {
        self.set_length(0);
        self.dotted = false;
        self.ending = Ending::Name;
    }

    fn set_length(&mut self, length: usize) {
        self.length = length;
        self.bytes[length] = 0;
    }

    /// Appends the components of `path`. False when it gets too long.
    pub(crate) fn append(&mut self, path: &[u8]) -> bool {
        for component in path.split(|&b| b == b'/') {
            match component {
                b"" | b"." => {}
                name => {
                    self.dotted |= name == b"..";
                    let end = self.length + 1 + name.len();
                    if end > PATH_MAX || name.contains(&0) {
                        return false;
                    }
                    self.bytes[self.length] = b'/';
                    self.bytes[self.length + 1..end].copy_from_slice(name);
                    self.set_length(end);
                }
            }
        }
        true
    }

    /// Whether the last component is no name.
    pub(crate) fn ends_in_dots(&self) -> bool {
        self.as_bytes().ends_with(b"/..")
    }

    /// Removes the last component and returns it in `name`.
    fn split_name(&mut self, name: &mut [u8; 256]) -> usize {
        let split = self.bytes[..self.length].iter().rposition(|&b| b == b'/').unwrap_or(0);
        let length = (self.length - split).saturating_sub(1).min(name.len());
        name[..length].copy_from_slice(&self.bytes[split + 1..split + 1 + length]);
        self.set_length(split);
        length
    }
}

/// Why a path could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unread {
    /// It is empty, not there, or relative to nothing: the kernel will say so itself, in this way.
    Nothing(Errno),
    /// The kernel could use it, relative to a directory deeper than any path can say; nobody can judge it.
    TooLong,
}

/// Reads the caller's path argument and makes it absolute.
pub(crate) fn read_path(tid: i32, argument: PathArg, into: &mut PathBuffer) -> Result<(), Unread> {
    let mut raw = [0_u8; PATH_MAX];
    let text = read_string(tid, argument.address, &mut raw).ok_or(Unread::Nothing(Errno::FAULT))?;
    if text.is_empty() {
        return Err(Unread::Nothing(Errno::NOENT));
    }
    absolute_from(tid, argument.dirfd, text, into)
}

/// Makes a path that the caller gave relative to its working directory absolute.
pub(crate) fn absolute_path(tid: i32, text: &[u8], into: &mut PathBuffer) -> Result<(), Unread> {
    absolute_from(tid, libc::AT_FDCWD, text, into)
}

fn absolute_from(tid: i32, dirfd: i32, text: &[u8], into: &mut PathBuffer) -> Result<(), Unread> {
    into.clear();
    let text = if text.starts_with(b"/") {
        // The aliases of every process for its root and its directory.
        let root = [&b"/proc/self/root"[..], b"/proc/thread-self/root"];
        if let Some(rest) = root.iter().find_map(|alias| strip_alias(text, alias)) {
            rest
        } else if let Some(rest) = strip_alias(text, b"/proc/self/cwd") {
            append_directory(tid, libc::AT_FDCWD, into)?;
            rest
        } else {
            text
        }
    } else {
        append_directory(tid, dirfd, into)?;
        text
    };
    if !into.append(text) {
        return Err(Unread::TooLong);
    }
    into.ending = match text {
        b"." => Ending::Dot,
        _ if text.ends_with(b"/.") => Ending::Dot,
        _ if text.ends_with(b"/") => Ending::Slash,
        _ => Ending::Name,
    };
    Ok(())
}

fn strip_alias<'a>(text: &'a [u8], alias: &[u8]) -> Option<&'a [u8]> {
    text.strip_prefix(alias).filter(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

fn append_directory(tid: i32, dirfd: i32, into: &mut PathBuffer) -> Result<(), Unread> {
    if dirfd == libc::AT_FDCWD {
        return append_link(format_args!("/proc/{tid}/cwd"), into).map_err(Unread::from);
    }
    match append_link(format_args!("/proc/{tid}/fd/{dirfd}"), into) {
        // It hides what it has open from its user. A copy of it tells the same.
        Err(Unfound::Hidden) => {
            let held = take_descriptor(tid, dirfd).ok_or(Unread::Nothing(Errno::BADF))?;
            append_link(format_args!("/proc/self/fd/{}", held.as_raw_fd()), into).map_err(Unread::from)
        }
        appended => appended.map_err(Unread::from),
    }
}

/// Why it is not known where a link of `/proc` leads.
enum Unfound {
    Hidden,
    Unread(Unread),
}

impl From<Unfound> for Unread {
    fn from(unfound: Unfound) -> Self {
        match unfound {
            Unfound::Hidden => Self::Nothing(Errno::BADF),
            Unfound::Unread(unread) => unread,
        }
    }
}

fn append_link(name: std::fmt::Arguments<'_>, into: &mut PathBuffer) -> Result<(), Unfound> {
    let nothing = |errno| Unfound::Unread(Unread::Nothing(errno));
    let mut link = [0_u8; 48];
    let mut cursor = &mut link[..47];
    cursor.write_fmt(name).map_err(|_| nothing(Errno::BADF))?;
    let link = CStr::from_bytes_until_nul(&link).map_err(|_| nothing(Errno::BADF))?;
    let mut target = [0_u8; PATH_MAX];
    let length = match rustix::fs::readlinkat_raw(rustix::fs::CWD, link, &mut target[..]) {
        Ok(length) if length < PATH_MAX => length,
        Ok(_) | Err(Errno::NAMETOOLONG) => return Err(Unfound::Unread(Unread::TooLong)),
        Err(Errno::ACCESS) => return Err(Unfound::Hidden),
        Err(_) => return Err(nothing(Errno::BADF)),
    };
    let target = &target[..length];
    // A pipe or a socket is no place with a path, and neither is a deleted directory; but a directory may
    // just be called so.
    let deleted = || target.ends_with(DELETED) && rustix::fs::stat(link).is_ok_and(|stat| stat.st_nlink == 0);
    if !target.starts_with(b"/") {
        return Err(nothing(Errno::NOTDIR));
    }
    if deleted() {
        return Err(nothing(Errno::NOENT));
    }
    if into.append(target) { Ok(()) } else { Err(Unfound::Unread(Unread::TooLong)) }
}

/// What the kernel appends to the path of something that has no name any more.
const DELETED: &[u8] = b" (deleted)";

/// Reads a C string, first only what is likely to be enough.
pub(crate) fn read_string(tid: i32, address: u64, buffer: &mut [u8; PATH_MAX]) -> Option<&[u8]> {
    const PAGE: u64 = 4096;
    let mut length = 0;
    while length < PATH_MAX {
        let from = address + length as u64;
        // Up to the end of its page: the next one may not be there.
        let in_page = usize::try_from(PAGE - from % PAGE).unwrap_or(PATH_MAX);
        let want = in_page.min(PATH_MAX - length).min(if length == 0 { 256 } else { PATH_MAX });
        let got = sys::read_memory(tid, from, &mut buffer[length..length + want]).ok()?;
        if got == 0 {
            return None;
        }
        if let Some(end) = buffer[length..length + got].iter().position(|&b| b == 0) {
            return Some(&buffer[..length + end]);
        }
        length += got;
    }
    None
}

/// Reads a struct's bytes from the caller.
pub(crate) fn read_bytes(tid: i32, address: u64, buffer: &mut [u8]) -> Sys<usize> {
    sys::read_memory(tid, address, buffer)
}

/// Where a path leads in the sandbox's own view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resolved {
    /// It exists, and `real` holds where it is with all links resolved.
    Exists,
    /// It does not, but its parent does, and `real` holds the parent's place and the name.
    Missing,
    /// Not even the parent is there (or may be passed through); `real` is the path by text.
    Unreachable,
    /// Something that has no path, such as a pipe.
    Nowhere,
}

/// Resolves `path` in the view whose root is `root`, for the thread `tid`.
pub(crate) fn resolve(
    root: BorrowedFd<'_>,
    tid: i32,
    path: &PathBuffer,
    last: Last,
    real: &mut PathBuffer,
) -> Resolved {
    // Without links on the way the text is the truth, which one call tells.
    if !path.is_dotted() && open_beneath(root, path, last, ResolveFlags::NO_SYMLINKS).is_ok() {
        real.copy_from(path);
        return Resolved::Exists;
    }
    let resolved = resolve_links(root, path, last, real);
    if resolved == Resolved::Unreachable || (resolved == Resolved::Missing && is_link(root, real)) {
        let Some((resolved, there)) = walk(root, tid, path.as_path(), last) else { return Resolved::Nowhere };
        return if real.set(&there) { resolved } else { Resolved::Unreachable };
    }
    resolved
}

/// As [`resolve`], for paths through `/proc`, where our own links are not those of the caller.
pub(crate) fn resolve_slowly(
    root: BorrowedFd<'_>,
    tid: i32,
    path: &PathBuffer,
    last: Last,
    real: &mut PathBuffer,
) -> Resolved {
    let Some((resolved, there)) = walk(root, tid, path.as_path(), last) else { return Resolved::Nowhere };
    if real.set(&there) { resolved } else { Resolved::Unreachable }
}

/// Whether the kernel finds what a path names.
pub(crate) fn reach(root: BorrowedFd<'_>, path: &PathBuffer) -> Sys<OwnedFd> {
    open_beneath(root, path, Last::Follow, ResolveFlags::NO_MAGICLINKS)
}

/// Whether the name itself is there after all: a link to nothing, or to something only the caller can reach.
fn is_link(root: BorrowedFd<'_>, path: &PathBuffer) -> bool {
    open_beneath(root, path, Last::Name, ResolveFlags::NO_SYMLINKS).is_ok()
}

fn resolve_links(root: BorrowedFd<'_>, path: &PathBuffer, last: Last, real: &mut PathBuffer) -> Resolved {
    real.copy_from(path);
    match open_beneath(root, path, last, ResolveFlags::NO_MAGICLINKS) {
        Ok(opened) => {
            if real_path(&opened, real).is_none() {
                Resolved::Unreachable
            } else {
                Resolved::Exists
            }
        }
        Err(Errno::NOENT) if !path.ends_in_dots() => {
            let mut name = [0; 256];
            let length = real.split_name(&mut name);
            let opened = open_beneath(root, real, Last::Follow, ResolveFlags::NO_MAGICLINKS);
            if let Ok(opened) = opened
                && real_path(&opened, real).is_some()
                && real.append(&name[..length])
            {
                return Resolved::Missing;
            }
            real.copy_from(path);
            Resolved::Unreachable
        }
        Err(_) => Resolved::Unreachable,
    }
}

fn open_beneath(root: BorrowedFd<'_>, path: &PathBuffer, last: Last, extra: ResolveFlags) -> Sys<OwnedFd> {
    let mut flags = OFlags::PATH | OFlags::CLOEXEC;
    if last == Last::Name {
        flags |= OFlags::NOFOLLOW;
    }
    rustix::fs::openat2(root, path.as_c_str(), flags, Mode::empty(), ResolveFlags::IN_ROOT | extra)
}

/// The path of an open descriptor.
pub(crate) fn real_path(opened: &OwnedFd, into: &mut PathBuffer) -> Option<()> {
    let mut link = [0_u8; 40];
    let mut cursor = &mut link[..39];
    write!(cursor, "/proc/self/fd/{}", opened.as_raw_fd()).ok()?;
    let link = CStr::from_bytes_until_nul(&link).ok()?;
    let mut target = [0_u8; PATH_MAX];
    let length = rustix::fs::readlinkat_raw(rustix::fs::CWD, link, &mut target[..]).ok()?;
    let mut target = &target[..length];
    // The mask over a denied file has no name of its own; its place is that of the file.
    if let Some(place) = target.strip_suffix(DELETED)
        && rustix::fs::fstat(opened).is_ok_and(|stat| stat.st_nlink == 0)
    {
        target = place;
    }
    into.clear();
    (target.starts_with(b"/") && into.append(target)).then_some(())
}

/// As [`real_path`], as a path of its own.
pub(crate) fn link_target(opened: &OwnedFd) -> Option<std::path::PathBuf> {
    let mut buffer = PathBuffer::new();
    real_path(opened, &mut buffer)?;
    Some(buffer.as_path().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn absolute(parts: &[&str]) -> String {
        let mut buffer = PathBuffer::new();
        for part in parts {
            assert!(buffer.append(part.as_bytes()));
        }
        buffer.as_path().display().to_string()
    }

    #[test]
    fn dots_stay_until_the_links_before_them_are_resolved() {
        assert_eq!(absolute(&["/a/b", "../c"]), "/a/b/../c");
        assert_eq!(absolute(&["/a", "./b//c/."]), "/a/b/c");
        assert_eq!(absolute(&["/a..b", "..c"]), "/a..b/..c");
        let mut buffer = PathBuffer::new();
        assert!(buffer.append(b"/a/..b") && !buffer.is_dotted());
        assert!(buffer.append(b"../c") && buffer.is_dotted());
    }

    #[test]
    fn the_memory_of_this_very_process_can_be_read() {
        let path = std::ffi::CString::new("/etc/../etc/hosts").unwrap();
        let mut buffer = PathBuffer::new();
        let argument = PathArg { dirfd: libc::AT_FDCWD, address: path.as_ptr() as u64 };
        let tid = i32::try_from(std::process::id()).unwrap();
        read_path(tid, argument, &mut buffer).unwrap();
        assert_eq!(buffer.as_path(), Path::new("/etc/../etc/hosts"));

        let relative = std::ffi::CString::new("x/y").unwrap();
        let argument = PathArg { dirfd: libc::AT_FDCWD, address: relative.as_ptr() as u64 };
        read_path(tid, argument, &mut buffer).unwrap();
        assert_eq!(buffer.as_path(), std::env::current_dir().unwrap().join("x/y"));
    }

    #[test]
    fn links_are_resolved_and_missing_names_keep_their_parent() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        std::fs::write(root.join("real/file"), "").unwrap();
        std::os::unix::fs::symlink(root.join("real"), root.join("link")).unwrap();
        let host_root = rustix::fs::open(c"/", OFlags::PATH, Mode::empty()).unwrap();
        let mut real = PathBuffer::new();
        let mut look = |path: &Path| {
            let mut buffer = PathBuffer::new();
            buffer.append(path.as_os_str().as_bytes());
            let tid = i32::try_from(std::process::id()).unwrap();
            let root = std::os::fd::AsFd::as_fd(&host_root);
            let resolved = resolve(root, tid, &buffer, Last::Follow, &mut real);
            (resolved, real.as_path().to_owned())
        };
        assert_eq!(look(&root.join("real/file")), (Resolved::Exists, root.join("real/file")));
        assert_eq!(look(&root.join("link/file")), (Resolved::Exists, root.join("real/file")));
        assert_eq!(look(&root.join("link/new")), (Resolved::Missing, root.join("real/new")));
        assert_eq!(look(&root.join("gone/new")).0, Resolved::Unreachable);
    }
}
