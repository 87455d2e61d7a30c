//! Where a project's git directory really is, and what git's configs name.
//!
//! In a linked worktree `.git` is a file that names a directory inside the main repository. That
//! directory must be writable for git to work; but a file in the workspace may not widen the policy,
//! so it is believed only when the main repository points back at this very worktree.

#[cfg(target_os = "linux")]
mod named;

use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
pub(crate) use named::protect_named;

/// The main repository's git directory, when `project` is a linked worktree of it.
#[must_use]
pub fn common_dir_of_worktree(project: &Path) -> Option<PathBuf> {
    let link = project.join(".git");
    let text = read_small(&link)?;
    let git_dir = project.join(text.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?;
    let back = PathBuf::from(read_small(&git_dir.join("gitdir"))?.trim());
    if back.canonicalize().ok()? != link.canonicalize().ok()? {
        return None;
    }
    let common = git_dir.join(read_small(&git_dir.join("commondir"))?.trim()).canonicalize().ok()?;
    let is_git_dir = common.join("HEAD").is_file() && common.join("objects").is_dir();
    (is_git_dir && git_dir.starts_with(&common)).then_some(common)
}

/// A short text file that is really a file; anything else is no git pointer.
fn read_small(path: &Path) -> Option<String> {
    let metadata = path.symlink_metadata().ok()?;
    (metadata.is_file() && metadata.len() < 4096).then(|| std::fs::read_to_string(path).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_worktree_is_believed_only_when_the_repository_points_back() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let (main, tree) = (root.join("main/.git"), root.join("tree"));
        fs::create_dir_all(main.join("worktrees/tree")).unwrap();
        fs::create_dir_all(main.join("objects")).unwrap();
        fs::create_dir(&tree).unwrap();
        fs::write(main.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(main.join("worktrees/tree/commondir"), "../..\n").unwrap();
        fs::write(tree.join(".git"), format!("gitdir: {}\n", main.join("worktrees/tree").display())).unwrap();
        assert_eq!(common_dir_of_worktree(&tree), None, "no back pointer yet");

        fs::write(main.join("worktrees/tree/gitdir"), format!("{}\n", tree.join(".git").display())).unwrap();
        assert_eq!(common_dir_of_worktree(&tree), Some(main));

        let liar = root.join("liar");
        fs::create_dir(&liar).unwrap();
        fs::copy(tree.join(".git"), liar.join(".git")).unwrap();
        assert_eq!(common_dir_of_worktree(&liar), None, "the repository names another worktree");
    }
}
