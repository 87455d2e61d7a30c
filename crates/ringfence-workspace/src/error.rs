//! Failures of the kernel in words for a person.

use std::path::Path;

use ringfence_model::{Error, ErrorKind};
use rustix::io::Errno;

/// Says that `doing` something to `path` failed, and of which kind that failure is.
pub(crate) fn explain(doing: &str, path: &Path, errno: Errno) -> Error {
    let shown = path.display();
    let (kind, message) = match errno {
        Errno::XDEV => {
            (ErrorKind::PathTraversal, format!("cannot {doing} {shown}: it leads out of the workspace"))
        }
        Errno::LOOP => (
            ErrorKind::PathTraversal,
            format!("cannot {doing} {shown}: it goes through a link that is refused or never ends"),
        ),
        Errno::NOENT => {
            (ErrorKind::NotFound, format!("cannot {doing} {shown}: there is no such file or directory"))
        }
        Errno::ACCESS | Errno::PERM => (ErrorKind::PathAccessDenied, format!("cannot {doing} {shown}")),
        Errno::ROFS => (ErrorKind::Permission, format!("cannot {doing} {shown}")),
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => {
            (ErrorKind::ResourceLimitExceeded, format!("cannot {doing} {shown}"))
        }
        Errno::AGAIN => (
            ErrorKind::ConcurrentAccess,
            format!("cannot {doing} {shown}: directories are being moved around it"),
        ),
        Errno::ISDIR | Errno::NOTDIR | Errno::NOTEMPTY | Errno::EXIST | Errno::INVAL | Errno::NAMETOOLONG => {
            (ErrorKind::Validation, format!("cannot {doing} {shown}"))
        }
        _ => (ErrorKind::Internal, format!("cannot {doing} {shown}")),
    };
    Error::new(kind, message).caused_by(std::io::Error::from(errno))
}

pub(crate) fn explain_io(doing: &str, path: &Path, error: std::io::Error) -> Error {
    match Errno::from_io_error(&error) {
        Some(errno) => explain(doing, path, errno),
        None => {
            Error::new(ErrorKind::Internal, format!("cannot {doing} {}", path.display())).caused_by(error)
        }
    }
}
