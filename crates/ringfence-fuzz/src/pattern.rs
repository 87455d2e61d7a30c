//! The patterns of path rules.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ringfence_model::PathPattern;

/// A pattern, a line end, a path. What covers a path covers everything below it; a pattern that is written down and read
/// again covers the same; and a plain path covers itself, whatever characters it has.
pub fn policy_pattern(bytes: &[u8]) {
    let mut lines = bytes.splitn(2, |byte| *byte == b'\n');
    let (text, path) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let pattern = PathPattern::parse_bytes(text);
    let Some(path) = clean(path) else { return };
    let covers = pattern.covers(&path);
    assert!(!pattern.matches_exactly(&path) || covers, "{pattern:?} {path:?}");
    assert!(!covers || pattern.covers(&path.join("below/it")), "{pattern:?} {path:?}");
    if std::str::from_utf8(text).is_ok() {
        assert_eq!(PathPattern::parse(&pattern.to_syntax()).covers(&path), covers, "{pattern:?} {path:?}");
    }
    assert!(PathPattern::literal(&path).covers(&path), "{path:?}");
}

/// An absolute path without `.` and `..`, as the matcher is given.
fn clean(bytes: &[u8]) -> Option<PathBuf> {
    let names = bytes.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && !name.contains(&0));
    let mut path = PathBuf::from("/");
    for name in names {
        if name == b"." || name == b".." {
            return None;
        }
        path.push(Path::new(OsStr::from_bytes(name)));
    }
    Some(path)
}
