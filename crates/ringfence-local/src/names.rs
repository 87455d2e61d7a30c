//! Which names directories hold, each directory listed once.
//!
//! Policies name dozens of files in the home directory, most of which are not there. Listing the directory once
//! is cheaper than asking for each.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A directory with more entries is not read to its end.
const MOST: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Names {
    directories: HashMap<Vec<u8>, Content>,
}

#[derive(Debug)]
enum Content {
    Known(HashSet<Vec<u8>>),
    /// There is no such directory.
    Nothing,
    /// It cannot be listed, or has too many entries.
    Unknown,
}

impl Names {
    /// Whether there is certainly nothing at `path`, not even a dangling link.
    pub(crate) fn lack(&mut self, path: &Path) -> bool {
        let bytes = path.as_os_str().as_bytes();
        let Some(slash) = bytes.iter().rposition(|&b| b == b'/') else { return false };
        let (parent, name) = (&bytes[..slash.max(1)], &bytes[slash + 1..]);
        if name.is_empty() {
            return false;
        }
        if !self.directories.contains_key(parent) {
            self.directories.insert(parent.to_owned(), list(parent));
        }
        match self.directories.get(parent) {
            Some(Content::Known(names)) => !names.contains(name),
            Some(Content::Nothing) => true,
            Some(Content::Unknown) | None => false,
        }
    }
}

fn list(directory: &[u8]) -> Content {
    let entries = match std::fs::read_dir(OsStr::from_bytes(directory)) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Content::Nothing;
        }
        Err(_) => return Content::Unknown,
    };
    let mut names = HashSet::new();
    for entry in entries {
        let Ok(entry) = entry else { return Content::Unknown };
        if names.len() == MOST {
            return Content::Unknown;
        }
        names.insert(entry.file_name().into_encoded_bytes());
    }
    Content::Known(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_certainly_not_there_is_lacking() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path();
        std::fs::write(root.join("file"), "").unwrap();
        std::os::unix::fs::symlink("nowhere", root.join("link")).unwrap();
        let mut names = Names::default();
        assert!(!names.lack(&root.join("file")));
        assert!(!names.lack(&root.join("link")));
        assert!(names.lack(&root.join("other")));
        assert!(names.lack(&root.join("gone/other")));
        assert!(names.lack(&root.join("file/below")));
        assert!(!names.lack(Path::new("/usr")));
        assert!(!names.lack(Path::new("/")));
        assert!(!names.lack(Path::new("/proc/self/exe")));
    }
}
