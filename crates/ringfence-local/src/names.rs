//! Which names directories hold, each directory listed once.
//!
//! Policies name dozens of files in the home directory, most of which are not there. Listing the directory once
//! is cheaper than asking for each.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A directory with more entries is not read to its end.
const MOST: usize = 4096;

/// A directory is listed when it is asked about for this time; before, a look at the file itself is cheaper.
const WORTH_IT: usize = 4;

#[derive(Debug, Default)]
pub(crate) struct Names {
    directories: HashMap<Vec<u8>, Content>,
}

#[derive(Debug)]
enum Content {
    /// Asked about so often.
    Asked(usize),
    /// The hashes of its names, sorted. Two names of one hash do no harm: what may be there is looked at.
    Known(Vec<u64>),
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
        let Some(content) = self.directories.get_mut(parent) else {
            self.directories.insert(parent.to_owned(), Content::Asked(1));
            return false;
        };
        if let Content::Asked(times) = content {
            *times += 1;
            if *times < WORTH_IT {
                return false;
            }
            *content = list(parent);
        }
        match content {
            Content::Known(names) => names.binary_search(&hash(name)).is_err(),
            Content::Nothing => true,
            Content::Unknown | Content::Asked(_) => false,
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
    let mut names = Vec::new();
    for entry in entries {
        let Ok(entry) = entry else { return Content::Unknown };
        if names.len() == MOST {
            return Content::Unknown;
        }
        names.push(hash(entry.file_name().as_bytes()));
    }
    names.sort_unstable();
    Content::Known(names)
}

/// FNV-1a.
fn hash(name: &[u8]) -> u64 {
    name.iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
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
        for _ in 1..WORTH_IT {
            for path in ["other", "gone/other", "file/below"] {
                assert!(!names.lack(&root.join(path)), "not looked at yet");
            }
        }
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
