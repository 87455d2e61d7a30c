//! Where a project's git directory really is, and what git's configs name.
//!
//! In a linked worktree `.git` is a file that names a directory inside the main repository. That
//! directory must be writable for git to work; but a file in the workspace may not widen the policy,
//! so it is believed only when the main repository points back at this very worktree.

use std::path::{Path, PathBuf};

use ringfence_git::config;
use ringfence_model::policy::Filesystem;
use ringfence_model::{PathRule, RuleLayer, RuleSource};

use crate::scan::Found;

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

/// Protects what the host's git configs name: hooks, includes and programs that lie where the sandbox can write.
pub(crate) fn protect_named(fs: &mut Filesystem, found: &Found, home: &Path) {
    let writable: Vec<PathBuf> =
        fs.allow_write.iter().filter_map(|rule| rule.path.as_literal()).map(Path::to_owned).collect();
    let is_config = |path: &&PathBuf| path.file_name().is_some_and(|name| name == "config");
    let own = found.protected.iter().filter(is_config).cloned();
    let bare = found.git_directories.iter().map(|directory| directory.join("config"));
    let mut files: Vec<(PathBuf, Vec<PathBuf>)> =
        own.chain(bare).map(|config| (config.clone(), files_of(&config))).collect();
    // Those of the person hold in every repository.
    let trees: Vec<PathBuf> =
        files.iter().flat_map(|(_, files)| files.clone()).chain(writable.iter().cloned()).collect();
    for global in [home.join(".gitconfig"), home.join(".config/git/config"), PathBuf::from("/etc/gitconfig")]
    {
        files.push((global, trees.clone()));
    }
    for (config, trees) in files {
        let Ok(text) = std::fs::read_to_string(&config) else { continue };
        for named in config::named_files(&text) {
            let bases: Vec<&Path> = match named.from {
                config::From::Config => config.parent().into_iter().collect(),
                config::From::Files => trees.iter().map(PathBuf::as_path).collect(),
            };
            let written = match named.path.strip_prefix("~/") {
                Some(below) => home.join(below),
                None => PathBuf::from(&named.path),
            };
            for path in bases.iter().map(|base| without_dots(&base.join(&written))) {
                let is_there = !named.must_exist || path.exists();
                // A whole tree is nobody's hook.
                let is_inside = writable.iter().any(|tree| path.starts_with(tree) && path != *tree);
                if is_there && is_inside {
                    let source = RuleSource::layer(RuleLayer::Detected)
                        .with_key(format!("named by git's {}", named.key));
                    fs.protect.push(PathRule::new(path, source));
                }
            }
        }
    }
}

/// The directory of the files that a repository's config is about.
fn files_of(config: &Path) -> Vec<PathBuf> {
    let Some(directory) = config.parent() else { return vec![] };
    let is_dot_git = directory.file_name().is_some_and(|name| name == ".git");
    let files = if is_dot_git { directory.parent() } else { Some(directory) };
    files.map(Path::to_owned).into_iter().collect()
}

fn without_dots(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut path, part| {
        match part {
            std::path::Component::ParentDir => drop(path.pop()),
            std::path::Component::CurDir => {}
            part => path.push(part),
        }
        path
    })
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
