//! Mounts through descriptors: what is mounted, and where, is opened first and cannot be swapped for
//! something else in between.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};

use crate::init::open_target;
use crate::plan::{BindAccess, MountStep};
use crate::report::Step;
use crate::sys::{self, MountAttr, Sys};

/// Where the masks come from. They keep their names: what is unlinked cannot be mounted on, and a grant is
/// mounted on the mask it lifts.
const WORKSHOP: &CStr = c"/.ringfence";
const MASK_FILE: &CStr = c"/.ringfence/file";
const MASK_DIR: &CStr = c"/.ringfence/directory";

const READ_ONLY: MountAttr = MountAttr { set: libc::MOUNT_ATTR_RDONLY, clear: 0 };

/// Where the host's root hangs while the new one is being built.
pub(crate) const OLD_ROOT: &CStr = c"/.host";

/// Makes an empty file system the root, with the host's below [`OLD_ROOT`], which is returned.
pub(crate) fn new_root() -> Result<OwnedFd, (Step, Errno)> {
    let at = |step: Step| move |errno: Errno| (step, errno);
    let root = tmpfs(0o755, None).map_err(at(Step::NewRoot))?;
    attach_over(root.as_fd(), c"/tmp")
        .or_else(|_| attach_over(root.as_fd(), c"/usr"))
        .map_err(at(Step::NewRoot))?;
    rustix::process::fchdir(&root).map_err(at(Step::NewRoot))?;
    rustix::fs::mkdir(c".host", Mode::from_raw_mode(0o700)).map_err(at(Step::NewRoot))?;
    rustix::process::pivot_root(c".", c".host").map_err(at(Step::PivotRoot))?;
    rustix::process::chdir(c"/").map_err(at(Step::PivotRoot))?;
    make_masks().map_err(at(Step::NewRoot))?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(OLD_ROOT, flags, Mode::empty()).map_err(at(Step::PivotRoot))
}

/// Opens a directory of the host's root, and what is mounted on it.
pub(crate) fn directory(host: BorrowedFd<'_>, name: &CStr, how: OFlags) -> Sys<OwnedFd> {
    let flags = how | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(host, name, flags, Mode::empty())
}

/// One that every host has.
pub(crate) fn any_directory(host: BorrowedFd<'_>) -> Sys<&'static CStr> {
    let usual = [c"tmp", c"usr"].into_iter().find(|name| directory(host, name, OFlags::PATH).is_ok());
    usual.ok_or(Errno::NOENT)
}

/// `idmapped_tree` was prepared by the host for the bind that only it could make.
pub(crate) fn execute(
    host: BorrowedFd<'_>,
    idmapped_tree: Option<BorrowedFd<'_>>,
    step: &MountStep,
) -> Sys<()> {
    match step {
        MountStep::Dir { path, mode } => match rustix::fs::mkdir(path.as_c_str(), Mode::from_raw_mode(*mode))
        {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(errno),
        },
        MountStep::File { path } => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            rustix::fs::open(path.as_c_str(), flags, Mode::from_raw_mode(0o644)).map(drop)
        }
        MountStep::Symlink { target, path } => rustix::fs::symlink(target.as_c_str(), path.as_c_str()),
        MountStep::Bind { target, access: BindAccess::Idmapped, .. } => {
            attach(idmapped_tree.ok_or(Errno::BADF)?, open_target(target)?.as_fd())
        }
        MountStep::Bind { source, target, access } => {
            attach(host_tree(host, source, *access)?.as_fd(), open_target(target)?.as_fd())
        }
        MountStep::Tmpfs { target, mode, size } => {
            attach(tmpfs(*mode, *size)?.as_fd(), open_target(target)?.as_fd())
        }
        MountStep::Proc { target } => {
            let proc = new_filesystem(c"proc", &[], READ_ONLY.set | libc::MOUNT_ATTR_NOEXEC)?;
            attach(proc.as_fd(), open_target(target)?.as_fd())
        }
        MountStep::Devpts { target } => {
            let options = [(c"newinstance", c""), (c"ptmxmode", c"0666"), (c"mode", c"0620")];
            let devpts = new_filesystem(c"devpts", &options, libc::MOUNT_ATTR_NOEXEC)?;
            attach(devpts.as_fd(), open_target(target)?.as_fd())
        }
        MountStep::Mask { target } => on_existing(target, |fd| {
            let is_dir = FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode) == FileType::Directory;
            let mask = clone_tree(CWD, if is_dir { MASK_DIR } else { MASK_FILE }, false)?;
            sys::mount_setattr(mask.as_fd(), c"", false, READ_ONLY)?;
            attach(mask.as_fd(), fd)
        }),
        MountStep::Seal { target } => on_existing(target, |fd| {
            let tree = clone_tree(fd, c"", true)?;
            sys::mount_setattr(tree.as_fd(), c"", true, READ_ONLY)?;
            attach(tree.as_fd(), fd)
        }),
        MountStep::Pin { target } => on_existing(target, |fd| attach(clone_tree(fd, c"", true)?.as_fd(), fd)),
        MountStep::Replace { target, content } => on_existing(target, |fd| replace(fd, content)),
        MountStep::ReadOnly { target } => make_read_only(target),
    }
}

fn replace(target: BorrowedFd<'_>, content: &[u8]) -> Sys<()> {
    const NAME: &CStr = c"/.ringfence/replacement";
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::open(NAME, flags, Mode::from_raw_mode(0o444))?;
    let mut rest = content;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest)?;
        rest = &rest[written..];
    }
    let tree = clone_tree(CWD, NAME, false)?;
    sys::mount_setattr(tree.as_fd(), c"", false, READ_ONLY)?;
    attach(tree.as_fd(), target)?;
    rustix::fs::unlink(NAME)
}

/// Runs `mount` on the opened target; a target that vanished since the plan was made, or vanishes meanwhile, needs
/// nothing.
fn on_existing(target: &CStr, mount: impl FnOnce(BorrowedFd<'_>) -> Sys<()>) -> Sys<()> {
    match open_target(target).and_then(|fd| mount(fd.as_fd())) {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

fn bind_attributes(access: BindAccess) -> MountAttr {
    let set = match access {
        BindAccess::ReadOnly | BindAccess::Idmapped => {
            libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV
        }
        BindAccess::ReadWrite => libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV,
        // Read-only does not stop writing *to* a device, only changing the node.
        BindAccess::Device => libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC,
    };
    MountAttr { set, clear: 0 }
}

/// A detached copy of what the host has at `source`, no link followed on the way.
fn host_tree(host: BorrowedFd<'_>, source: &CStr, access: BindAccess) -> Sys<OwnedFd> {
    let relative = source.to_bytes_with_nul();
    let relative = relative.strip_prefix(b"/").unwrap_or(relative);
    // Stripping a leading byte keeps the terminator.
    let relative = CStr::from_bytes_with_nul(relative).map_err(|_| Errno::INVAL)?;
    if relative.is_empty() {
        return bindable(host, access);
    }
    let opened = rustix::fs::openat2(
        host,
        relative,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    )?;
    bindable(opened.as_fd(), access)
}

/// A detached copy of what `source` is, with the attributes of a bind.
pub(crate) fn bindable(source: BorrowedFd<'_>, access: BindAccess) -> Sys<OwnedFd> {
    let tree = clone_tree(source, c"", true)?;
    sys::mount_setattr(tree.as_fd(), c"", true, bind_attributes(access))?;
    Ok(tree)
}

pub(crate) fn clone_tree(dir: BorrowedFd<'_>, path: &CStr, recursive: bool) -> Sys<OwnedFd> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    if recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    open_tree(dir, path, flags)
}

pub(crate) fn attach(tree: BorrowedFd<'_>, target: BorrowedFd<'_>) -> Sys<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, c"", target, c"", flags)
}

/// Attaches a detached mount over a path of the current root.
fn attach_over(tree: BorrowedFd<'_>, path: &CStr) -> Sys<()> {
    move_mount(tree, c"", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

/// A detached tmpfs. One of a limited size has a limited number of files too: an empty one takes memory as well.
pub(crate) fn tmpfs(mode: u32, size: Option<u64>) -> Sys<OwnedFd> {
    const BYTES_FOR_EACH_FILE: u64 = 4096;
    const FEWEST_FILES: u64 = 1024;
    let (mut mode_text, mut size_text, mut files_text) = ([0_u8; 24], [0_u8; 24], [0_u8; 24]);
    let mode = digits(mode.into(), 8, &mut mode_text)?;
    let options: &[_] = match size {
        Some(size) => &[
            (c"mode", mode),
            (c"size", digits(size, 10, &mut size_text)?),
            (c"nr_inodes", digits((size / BYTES_FOR_EACH_FILE).max(FEWEST_FILES), 10, &mut files_text)?),
        ],
        None => &[(c"mode", mode)],
    };
    new_filesystem(c"tmpfs", options, libc::MOUNT_ATTR_NODEV)
}

pub(crate) fn new_filesystem(kind: &CStr, options: &[(&CStr, &CStr)], attributes: u64) -> Sys<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        if value.is_empty() {
            rustix::mount::fsconfig_set_flag(&context, *key)?;
        } else {
            fsconfig_set_string(&context, *key, *value)?;
        }
    }
    fsconfig_create(&context)?;
    let attributes = u32::try_from(attributes | libc::MOUNT_ATTR_NOSUID).map_err(|_| Errno::INVAL)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::from_bits_retain(attributes))
}

/// Writes a number without allocating.
pub(crate) fn digits(mut value: u64, base: u64, buffer: &mut [u8; 24]) -> Sys<&CStr> {
    let mut start = buffer.len() - 1;
    buffer[start] = 0;
    loop {
        start -= 1;
        buffer[start] = b'0' + u8::try_from(value % base).unwrap_or(0);
        value /= base;
        if value == 0 {
            break;
        }
    }
    CStr::from_bytes_with_nul(&buffer[start..]).map_err(|_| Errno::INVAL)
}

/// The two things masks are made of: a file and a directory that nobody may open.
fn make_masks() -> Sys<()> {
    rustix::fs::mkdir(WORKSHOP, Mode::from_raw_mode(0o700))?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    rustix::fs::open(MASK_FILE, flags, Mode::empty())?;
    rustix::fs::mkdir(MASK_DIR, Mode::empty())
}

/// Nothing more is taken from the workshop by name.
pub(crate) fn close_workshop() -> Sys<()> {
    rustix::fs::chmod(WORKSHOP, Mode::empty())
}

pub(crate) fn make_read_only(path: &CStr) -> Sys<()> {
    sys::mount_setattr(CWD, path, false, READ_ONLY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_their_base() {
        let mut buffer = [0; 24];
        assert_eq!(digits(0o1777, 8, &mut buffer).unwrap(), c"1777");
        assert_eq!(digits(0, 10, &mut buffer).unwrap(), c"0");
        assert_eq!(digits(1 << 40, 10, &mut buffer).unwrap(), c"1099511627776");
    }
}
