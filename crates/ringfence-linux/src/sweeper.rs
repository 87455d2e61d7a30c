//! Removes a directory of the sandbox's own from the host, whatever the command left in it.
//!
//! Runs when everything inside is gone, so nothing changes meanwhile. Follows no link, allocates nothing.

use std::ffi::CStr;
use std::io::Write as _;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RawDir};
use rustix::io::Errno;

use crate::sys::Sys;

/// Below this, a directory is moved to the top and emptied from there.
const DEEPEST: u32 = 64;
/// Each round removes at least what one look at every directory shows.
const MOST_ROUNDS: u32 = 10_000;

pub(crate) fn remove_tree(path: &CStr) {
    let mut moved = 0;
    for _ in 0..MOST_ROUNDS {
        match rustix::fs::unlinkat(CWD, path, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            // Done, or nothing that could be done.
            _ => return,
        }
        let Ok(top) = open_directory(CWD, path) else { return };
        if empty(top.as_fd(), top.as_fd(), 0, &mut moved).is_err() {
            return;
        }
    }
}

fn empty(top: BorrowedFd<'_>, dir: BorrowedFd<'_>, depth: u32, moved: &mut u32) -> Sys<()> {
    let mut buffer = [MaybeUninit::<u8>::uninit(); 2048];
    let mut entries = RawDir::new(dir, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => continue,
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(errno) => return Err(errno),
        }
        if depth == DEEPEST {
            let mut place = [0_u8; 32];
            *moved += 1;
            let _ = write!(&mut place[..31], ".deep-{moved}");
            let place = CStr::from_bytes_until_nul(&place).map_err(|_| Errno::INVAL)?;
            rustix::fs::renameat(dir, name, top, place)?;
            continue;
        }
        let child = open_directory(dir, name)?;
        empty(top, child.as_fd(), depth + 1, moved)?;
        match rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR) {
            // The next round shows entries that this one did not.
            Ok(()) | Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Opens a directory and makes sure that it can be emptied.
fn open_directory(dir: BorrowedFd<'_>, name: &CStr) -> Sys<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let all = Mode::from_raw_mode(0o700);
    let opened = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            rustix::fs::chmodat(dir, name, all, AtFlags::empty())?;
            rustix::fs::openat(dir, name, flags, Mode::empty())?
        }
        other => other?,
    };
    if rustix::fs::fstat(&opened)?.st_mode & 0o700 != 0o700 {
        rustix::fs::fchmod(&opened, all)?;
    }
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn deep_closed_and_linked_trees_go_and_what_links_lead_to_stays() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("sandbox");
        let kept = temp.path().join("kept");
        std::fs::create_dir(&kept).unwrap();
        std::fs::write(kept.join("file"), "x").unwrap();

        let mut deep = root.clone();
        for level in 0..200 {
            deep.push(format!("d{level}"));
        }
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(deep.join("leaf"), "").unwrap();
        for count in 0..500 {
            std::fs::write(root.join(format!("file-with-a-long-name-{count}")), "").unwrap();
        }
        std::os::unix::fs::symlink(&kept, root.join("link")).unwrap();
        let closed = root.join("closed");
        std::fs::create_dir(&closed).unwrap();
        std::fs::write(closed.join("inner"), "").unwrap();
        std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o000)).unwrap();

        remove_tree(&CString::new(root.as_os_str().as_bytes()).unwrap());
        assert!(!root.exists());
        assert!(kept.join("file").exists());
    }
}
