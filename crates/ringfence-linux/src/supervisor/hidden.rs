//! What the host has and would allow, looked at with the user's own rights.

use std::path::{Path, PathBuf};

use ringfence_model::Access;
use rustix::fs::{AtFlags, CWD};
use rustix::io::Errno;

/// Whether the host has something of that name.
pub(super) fn host_has(path: &Path) -> bool {
    rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

/// Whether the host's own permissions refuse this to the user anyway.
pub(super) fn host_refuses(path: &Path, access: Access) -> bool {
    let rights = match access {
        Access::Read => rustix::fs::Access::READ_OK,
        Access::Write => rustix::fs::Access::WRITE_OK,
        Access::Execute => rustix::fs::Access::EXEC_OK,
    };
    match rustix::fs::accessat(CWD, path, rights, AtFlags::EACCESS) {
        Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => true,
        // A new name: its directory decides.
        Err(Errno::NOENT) if access == Access::Write => path.parent().is_some_and(|parent| {
            matches!(
                rustix::fs::accessat(CWD, parent, rights, AtFlags::EACCESS),
                Err(Errno::ACCESS | Errno::PERM | Errno::ROFS)
            )
        }),
        _ => false,
    }
}

/// Relative names below a directory, at any depth. None when there are more than can be looked at while a
/// call waits.
pub(super) fn names_below(directory: &Path) -> Option<Vec<PathBuf>> {
    const MOST: usize = 20_000;
    let mut names = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(relative) = open.pop() {
        for entry in std::fs::read_dir(directory.join(&relative)).into_iter().flatten().flatten() {
            let name = relative.join(entry.file_name());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(name.clone());
            }
            names.push(name);
            if names.len() == MOST {
                return None;
            }
        }
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_too_large_to_look_at_is_told_apart() {
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(temp.path().join("a/b/c/d/e/hooks")).unwrap();
        let names = names_below(temp.path()).unwrap();
        assert!(names.contains(&PathBuf::from("a/b/c/d/e/hooks")), "{names:?}");
        for number in 0..20_000 {
            std::fs::write(temp.path().join(number.to_string()), "").unwrap();
        }
        assert_eq!(names_below(temp.path()), None);
    }
}
