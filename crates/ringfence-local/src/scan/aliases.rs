//! Other names of a denied file: the mask lies on one name, and a hard link is another.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, RawDir};

/// The names below `roots` of files that are denied under another name. Walks only when such a file has more
/// than one name at all, which is rare; all names must be looked at then, and their numbers tell.
pub(super) fn find(denied: &[PathBuf], roots: &[&Path]) -> Vec<PathBuf> {
    let linked: BTreeSet<(u64, u64)> = denied
        .iter()
        .filter_map(|path| rustix::fs::lstat(path).ok())
        .filter(|stat| stat.st_nlink > 1 && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
        .map(|stat| (stat.st_dev, stat.st_ino))
        .collect();
    let mut found = Vec::new();
    if !linked.is_empty() {
        let mut open: Vec<PathBuf> = roots.iter().map(|root| root.to_path_buf()).collect();
        while let Some(directory) = open.pop() {
            look(&directory, &linked, &mut open, &mut found);
        }
        found.retain(|path| !denied.contains(path));
    }
    found
}

fn look(directory: &Path, linked: &BTreeSet<(u64, u64)>, open: &mut Vec<PathBuf>, found: &mut Vec<PathBuf>) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(opened) = rustix::fs::open(directory, flags, Mode::empty()) else { return };
    let mut buffer = [MaybeUninit::<u8>::uninit(); 16 * 1024];
    let mut entries = RawDir::new(&opened, &mut buffer);
    while let Some(Ok(entry)) = entries.next() {
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let path = directory.join(OsStr::from_bytes(name));
        if matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
            open.push(path.clone());
        }
        let has_its_number = linked.iter().any(|(_, inode)| *inode == entry.ino());
        let is_it =
            || rustix::fs::lstat(&path).is_ok_and(|stat| linked.contains(&(stat.st_dev, stat.st_ino)));
        if has_its_number && is_it() {
            found.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_name_is_found_wherever_it_is() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path();
        std::fs::create_dir_all(root.join("a/node_modules")).unwrap();
        for file in [".env", "a/other", "single"] {
            std::fs::write(root.join(file), "").unwrap();
        }
        std::fs::hard_link(root.join(".env"), root.join("a/node_modules/x")).unwrap();
        std::fs::hard_link(root.join("a/other"), root.join("b")).unwrap();
        let denied = [root.join(".env"), root.join("single")];
        assert_eq!(find(&denied, &[root]), [root.join("a/node_modules/x")]);
        assert_eq!(find(&denied[1..], &[root]), Vec::<PathBuf>::new());
    }
}
