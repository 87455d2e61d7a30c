//! What the exit statuses of the scripts mean.

use std::path::Path;

use ringfence_model::{Error, ErrorKind};

use crate::exec::Finished;

/// How a script says what it found. The numbers are those in `scripts/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Escape,
    Absent,
    NoDirectory,
    Closed,
    LinkLoop,
    NoReadlink,
    Special,
    SeveralNames,
    Directory,
    Incomplete,
    WriteProtected,
    /// A link is where none was, or something was renamed.
    Changed,
}

impl Found {
    pub(super) fn of(code: i32) -> Option<Self> {
        Some(match code {
            80 => Self::Escape,
            81 => Self::Absent,
            82 => Self::NoDirectory,
            83 => Self::Closed,
            84 => Self::LinkLoop,
            85 => Self::NoReadlink,
            86 => Self::Special,
            87 => Self::SeveralNames,
            88 => Self::Directory,
            89 => Self::Incomplete,
            90 => Self::WriteProtected,
            91 => Self::Changed,
            _ => return None,
        })
    }

    fn words(self) -> (ErrorKind, &'static str) {
        match self {
            Self::Escape => (ErrorKind::PathTraversal, "a symbolic link leads out of its mount"),
            Self::Absent => (ErrorKind::NotFound, "there is no such file or directory"),
            Self::NoDirectory => (ErrorKind::Validation, "a part of the path is no directory"),
            Self::Closed => (ErrorKind::PathAccessDenied, "a directory on the way cannot be entered"),
            Self::LinkLoop => (ErrorKind::PathTraversal, "too many symbolic links follow each other"),
            Self::NoReadlink => (ErrorKind::Unsupported, "the image has no readlink, or no /proc"),
            Self::Special => (ErrorKind::PathAccessDenied, "it is no ordinary file"),
            Self::SeveralNames => (
                ErrorKind::PathAccessDenied,
                "the file has several names, and one of them may be outside of the mount",
            ),
            Self::Directory => (ErrorKind::Validation, "it is a directory"),
            Self::Incomplete => (ErrorKind::Cancelled, "not all bytes arrived, and nothing was changed"),
            Self::WriteProtected => (ErrorKind::PathAccessDenied, "the file is write-protected"),
            Self::Changed => (
                ErrorKind::ConcurrentAccess,
                "it was exchanged while it was looked at, and nothing was done with it",
            ),
        }
    }

    pub(super) fn error(self, doing: &str, path: &Path) -> Error {
        let (kind, words) = self.words();
        Error::new(kind, format!("cannot {doing} {}: {words}", path.display()))
    }
}

/// The error of a script that did not end with 0.
pub(super) fn failure(doing: &str, path: &Path, finished: &Finished) -> Error {
    if let Some(found) = Found::of(finished.code) {
        return found.error(doing, path);
    }
    let said = String::from_utf8_lossy(&finished.stderr);
    let said = said.trim();
    // The words of the C library, in the C locale that the scripts set.
    let kind = [
        ("Read-only file system", ErrorKind::Permission),
        ("Permission denied", ErrorKind::PathAccessDenied),
        ("Operation not permitted", ErrorKind::PathAccessDenied),
        ("No space left", ErrorKind::ResourceLimitExceeded),
        ("Disk quota exceeded", ErrorKind::ResourceLimitExceeded),
        ("File too large", ErrorKind::ResourceLimitExceeded),
        ("File name too long", ErrorKind::Validation),
        ("Directory not empty", ErrorKind::Validation),
        ("not found", ErrorKind::Unsupported),
    ]
    .into_iter()
    .find_map(|(words, kind)| said.contains(words).then_some(kind));
    let why = if said.is_empty() { format!("status {}", finished.code) } else { said.to_owned() };
    let error =
        Error::new(kind.unwrap_or(ErrorKind::Internal), format!("cannot {doing} {}: {why}", path.display()));
    match kind {
        Some(ErrorKind::Unsupported) => {
            error.hint("files in a container need sh, cat, chmod, ls, mkdir, mv, readlink, rm, rmdir, stat and wc in its image")
        }
        Some(ErrorKind::ResourceLimitExceeded) => error.hint("free some space, or raise the limit"),
        _ => error,
    }
}
