//! Following symbolic links one by one, so that each can be shown.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use serde::Serialize;

/// As many as the kernel follows.
const MOST: usize = 40;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Link {
    pub(super) path: PathBuf,
    /// As it is written in the link.
    pub(super) target: PathBuf,
}

/// The path without links, `.` and `..`, and the links that were followed. A name that does not exist stays as it
/// is written.
pub(super) fn resolve(path: &Path) -> (PathBuf, Vec<Link>) {
    let mut links = Vec::new();
    let mut resolved = PathBuf::from("/");
    let mut rest: VecDeque<OsString> = parts(path).collect();
    while let Some(part) = rest.pop_front() {
        if part == ".." {
            resolved.pop();
            continue;
        }
        resolved.push(&part);
        if links.len() == MOST {
            continue;
        }
        let Ok(target) = std::fs::read_link(&resolved) else { continue };
        for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
            rest.push_front(part);
        }
        links.push(Link { path: resolved.clone(), target: target.clone() });
        resolved.pop();
        if target.is_absolute() {
            resolved = PathBuf::from("/");
        }
    }
    (resolved, links)
}

fn parts(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_as_the_kernel_does() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/file"), "").unwrap();
        symlink("a/b", root.join("relative")).unwrap();
        symlink(root.join("relative"), root.join("absolute")).unwrap();
        symlink("loop", root.join("loop")).unwrap();

        let (path, links) = resolve(&root.join("absolute/../file"));
        assert_eq!(path, root.join("a/file"), "the parent of what the link leads to");
        let names: Vec<_> = links.iter().map(|link| link.path.clone()).collect();
        assert_eq!(names, [root.join("absolute"), root.join("relative")]);

        assert_eq!(resolve(&root.join("a/./new/name")).0, root.join("a/new/name"));
        assert_eq!(resolve(Path::new("/../..")).0, Path::new("/"));
        assert_eq!(resolve(&root.join("loop")).1.len(), MOST);
    }
}
