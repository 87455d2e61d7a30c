//! What only root can read below `/etc`.
//!
//! Inside, root has no capabilities but is still the owner of such files. For everybody else the kernel
//! refuses them; for root a mask must.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ringfence_model::PathRule;
use ringfence_model::RuleLayer::{BuiltIn, Detected};
use ringfence_model::policy::Filesystem;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

/// The outermost files and directories below `directory` that others than their owner cannot read. What is denied as a
/// whole needs no look: an outer fence would take one for an attempt.
#[must_use]
pub fn closed_to_others(directory: &Path, deny: &[PathRule]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        if !deny.iter().any(|rule| rule.path.as_literal() == Some(&directory)) {
            look(&directory, &mut open, &mut found);
        }
    }
    found
}

fn look(directory: &Path, open: &mut Vec<PathBuf>, found: &mut Vec<PathBuf>) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(opened) = rustix::fs::open(directory, flags, Mode::empty()) else { return };
    let Ok(entries) = Dir::read_from(&opened) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") || entry.file_type() == FileType::Symlink {
            continue;
        }
        let Ok(stat) = rustix::fs::statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let path = || directory.join(OsStr::from_bytes(name.to_bytes()));
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        let needed = if is_directory { Mode::ROTH | Mode::XOTH } else { Mode::ROTH };
        if !Mode::from_raw_mode(stat.st_mode).contains(needed) {
            found.push(path());
        } else if is_directory {
            open.push(path());
        }
    }
}

/// Whether somebody wants it, or something in it, to be seen.
#[must_use]
pub fn is_wanted(fs: &Filesystem, path: &Path) -> bool {
    let by_somebody = |rule: &&PathRule| !matches!(rule.source.layer, BuiltIn | Detected);
    let rules = fs.allow_read.iter().chain(&fs.allow_write).filter(by_somebody);
    let below = |literal: Option<&Path>| literal.is_some_and(|literal| literal.starts_with(path));
    rules.clone().any(|rule| rule.path.covers(path) || below(rule.path.as_literal()))
        || fs.grants.iter().any(|grant| path.starts_with(&grant.path) || grant.path.starts_with(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_model::RuleSource;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_others_cannot_read_is_found_unless_it_was_allowed() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path();
        for directory in ["open", "closed", "wanted"] {
            std::fs::create_dir(root.join(directory)).unwrap();
        }
        for (file, mode) in
            [("open/key", 0o600), ("open/hosts", 0o644), ("closed/x", 0o644), ("wanted/key", 0o640)]
        {
            std::fs::write(root.join(file), "").unwrap();
            std::fs::set_permissions(root.join(file), std::fs::Permissions::from_mode(mode)).unwrap();
        }
        std::fs::set_permissions(root.join("closed"), std::fs::Permissions::from_mode(0o700)).unwrap();
        let source = RuleSource::layer(ringfence_model::RuleLayer::Call);
        let fs = Filesystem {
            allow_read: vec![PathRule::built_in(root), PathRule::new(root.join("wanted/key"), source)],
            ..Filesystem::default()
        };
        let mut found = closed_to_others(root, &[]);
        found.retain(|path| !is_wanted(&fs, path));
        found.sort();
        assert_eq!(found, [root.join("closed"), root.join("open/key")]);
    }
}
