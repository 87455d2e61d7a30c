//! A second opinion: rules about single paths inside of a workspace.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use ringfence_model::{Access, Error, ErrorKind, Result};

use crate::beneath::Place;
use crate::workspace::Workspace;

/// Says whether one file may be read or written. It is told the path of what was really opened, by the kernel,
/// so no link inside of the workspace leads around it. Removing a tree asks about its top only.
pub trait Guard: Send + Sync + std::fmt::Debug {
    fn may(&self, host_path: &Path, access: Access) -> Result<()>;

    /// Whether something that git would run or believe may be made there all the same.
    fn feeds_git(&self, host_path: &Path) -> Result<()> {
        let message = format!("{} would be something that git runs or believes", host_path.display());
        Err(Error::new(ErrorKind::PathAccessDenied, message))
    }

    /// Whether a file that is about to be written may be this large.
    fn may_hold(&self, bytes: usize) -> Result<()> {
        let _ = bytes;
        Ok(())
    }
}

impl Workspace {
    /// The guard's word on what `fd` is.
    pub(crate) fn guard_open(&self, fd: impl AsFd, access: Access) -> Result<()> {
        match &self.guard {
            None => Ok(()),
            Some(guard) => guard.may(&real_path(fd)?, access),
        }
    }

    /// The guard's word on how large a file becomes.
    pub(crate) fn guard_size(&self, content: &[u8]) -> Result<()> {
        self.guard.as_ref().map_or(Ok(()), |guard| guard.may_hold(content.len()))
    }

    /// The guard's word on a name that is about to be written, moved or removed.
    pub(crate) fn guard_place(&self, place: &Place) -> Result<()> {
        match &self.guard {
            None => Ok(()),
            Some(guard) => guard.may(&real_path(&place.directory)?.join(&place.name), Access::Write),
        }
    }
}

/// Where the kernel says that an open file is.
pub(crate) fn real_path(fd: impl AsFd) -> Result<PathBuf> {
    let unknown = |errno: rustix::io::Errno| {
        Error::new(ErrorKind::PathAccessDenied, "cannot tell which file was opened")
            .caused_by(std::io::Error::from(errno))
    };
    let path = kernel_name(fd.as_fd()).map_err(unknown)?;
    // A file without a name any more has no rule either.
    if path.as_os_str().as_encoded_bytes().ends_with(b" (deleted)") || !path.is_absolute() {
        let message = format!("cannot tell which file was opened: {}", path.display());
        return Err(Error::new(ErrorKind::PathAccessDenied, message));
    }
    Ok(path)
}

#[cfg(target_os = "linux")]
fn kernel_name(fd: std::os::fd::BorrowedFd<'_>) -> rustix::io::Result<PathBuf> {
    use std::os::fd::AsRawFd as _;
    use std::os::unix::ffi::OsStringExt as _;
    let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let name = rustix::fs::readlink(link, Vec::new())?;
    Ok(std::ffi::OsString::from_vec(name.into_bytes()).into())
}

#[cfg(not(target_os = "linux"))]
fn kernel_name(fd: std::os::fd::BorrowedFd<'_>) -> rustix::io::Result<PathBuf> {
    use std::os::unix::ffi::OsStringExt as _;
    let name = rustix::fs::getpath(fd)?;
    Ok(std::ffi::OsString::from_vec(name.into_bytes()).into())
}
