//! Resolving a path component by component, for kernels that cannot do it beneath a directory themselves,
//! and for absolute links that lead back in.
//!
//! Each step opens one name in a directory held by descriptor and never follows a link; links are read and
//! their targets walked the same way. `..` goes back to the directory we came from, not to whatever its
//! parent is by now, so that a directory moved away meanwhile leads nowhere.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::beneath::{MOST_LINKS, PLACE, facts_of, or_here};

enum Step {
    Up,
    Into(OsString),
}

/// Opens what `path` leads to beneath `root`, whose own path on the host is `host`.
pub(crate) fn open(root: BorrowedFd<'_>, host: &Path, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut steps = VecDeque::new();
    prepend(&mut steps, path)?;
    let mut inside: Vec<OwnedFd> = Vec::new();
    let mut links = 0;
    while let Some(step) = steps.pop_front() {
        let name = match step {
            Step::Up => {
                inside.pop().ok_or(Errno::XDEV)?;
                continue;
            }
            Step::Into(name) => name,
        };
        let here = inside.last().map_or(root, AsFd::as_fd);
        let last = steps.is_empty();
        let wanted = if last { flags } else { PLACE };
        match open_name(here, &name, wanted)? {
            Opened::File(fd) if last => return Ok(fd),
            Opened::File(fd) => inside.push(fd),
            Opened::Link(target) => {
                links += 1;
                if links > MOST_LINKS {
                    return Err(Errno::LOOP);
                }
                let target = Path::new(&target);
                if target.is_absolute() {
                    let back_in = target.strip_prefix(host).map_err(|_| Errno::XDEV)?;
                    inside.clear();
                    prepend(&mut steps, back_in)?;
                } else {
                    prepend(&mut steps, target)?;
                }
            }
        }
    }
    // The path ended in a directory we already hold.
    let here = inside.last().map_or(root, AsFd::as_fd);
    rustix::fs::openat(here, Path::new("."), flags | OFlags::CLOEXEC, Mode::empty())
}

/// Opens what is at `path` when no link is on the way.
pub(crate) fn open_plain(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut here: Option<OwnedFd> = None;
    let mut components = path.components().peekable();
    while let Some(component) = components.next() {
        let Component::Normal(name) = component else { return Err(Errno::XDEV) };
        let last = components.peek().is_none();
        let from = here.as_ref().map_or(root, AsFd::as_fd);
        match open_name(from, name, if last { flags } else { PLACE })? {
            Opened::File(fd) if last => return Ok(fd),
            Opened::File(fd) => here = Some(fd),
            Opened::Link(_) => return Err(Errno::LOOP),
        }
    }
    rustix::fs::openat(root, or_here(Path::new("")), flags | OFlags::CLOEXEC, Mode::empty())
}

enum Opened {
    File(OwnedFd),
    Link(OsString),
}

fn open_name(directory: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> Result<Opened, Errno> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(directory, name, flags, Mode::empty()) {
        // A descriptor that is only a place may have been opened on the link itself.
        Ok(fd) if facts_of(&fd)?.kind == FileType::Symlink => read_link(directory, name),
        Ok(fd) => Ok(Opened::File(fd)),
        Err(errno @ (Errno::LOOP | Errno::NOTDIR | Errno::MLINK)) => match read_link(directory, name) {
            Err(Errno::INVAL) => Err(errno),
            outcome => outcome,
        },
        Err(errno) => Err(errno),
    }
}

fn read_link(directory: BorrowedFd<'_>, name: &OsStr) -> Result<Opened, Errno> {
    let target = rustix::fs::readlinkat(directory, name, Vec::new())?;
    Ok(Opened::Link(OsStr::from_bytes(target.as_bytes()).to_owned()))
}

/// Puts the steps of `path` before those still to go.
fn prepend(steps: &mut VecDeque<Step>, path: &Path) -> Result<(), Errno> {
    let mut new = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => new.push(Step::Into(name.to_owned())),
            Component::ParentDir => new.push(Step::Up),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return Err(Errno::XDEV),
        }
    }
    for step in new.into_iter().rev() {
        steps.push_front(step);
    }
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::beneath::READ;
    use proptest::prelude::*;
    use rustix::fs::ResolveFlags;
    use std::os::unix::fs::symlink;

    /// The same verdict as the kernel's, on a tree full of links (relative ones: the kernel refuses all
    /// absolute ones).
    #[test]
    fn walking_agrees_with_the_kernel() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        std::fs::write(top.join("outside"), "x").unwrap();
        let host = top.join("root");
        std::fs::create_dir_all(host.join("a/b")).unwrap();
        std::fs::write(host.join("a/b/f"), "x").unwrap();
        for (target, link) in [
            ("a", "l"),
            ("../b/f", "a/b/g"),
            ("..", "a/b/up"),
            ("../../..", "a/b/out"),
            ("loop", "loop"),
            ("nowhere", "dangling"),
            ("../outside", "escape"),
            ("a/b/f/x", "through-file"),
        ] {
            symlink(target, host.join(link)).unwrap();
        }
        let root = rustix::fs::open(&host, PLACE, Mode::empty()).unwrap();
        const NAMES: [&str; 12] =
            ["a", "b", "f", "g", "l", "up", "out", "loop", "dangling", "escape", "..", "through-file"];
        let paths = proptest::collection::vec(proptest::sample::select(&NAMES[..]), 1..6);
        proptest!(|(parts in paths)| {
            let path: std::path::PathBuf = parts.iter().collect();
            let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
            let kernel = rustix::fs::openat2(&root, &path, READ, Mode::empty(), beneath);
            let walked = open(root.as_fd(), &host, &path, READ);
            match (kernel, walked) {
                (Ok(kernel), Ok(walked)) => {
                    prop_assert!(facts_of(kernel).unwrap().is_same_file(&facts_of(walked).unwrap()));
                }
                (Err(kernel), Err(walked)) => prop_assert_eq!(kernel, walked, "{}", path.display()),
                (kernel, walked) => prop_assert!(false, "{}: {:?} {:?}", path.display(), kernel, walked),
            }
        });
    }
}
