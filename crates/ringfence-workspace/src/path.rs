//! Which paths are accepted.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use ringfence_model::{Error, ErrorKind, Result};

/// A path beneath a workspace: no root, no `..`, no `.`, no NUL. Empty means the workspace itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Inner(PathBuf);

impl Inner {
    /// Accepts `path` or says what is wrong with it. Only true parent components are refused: a name may
    /// contain dots as it likes.
    pub(crate) fn new(path: &Path) -> Result<Self> {
        let refused =
            |why: &str| Error::new(ErrorKind::PathTraversal, format!("the path {} {why}", path.display()));
        if path.as_os_str().as_bytes().contains(&0) {
            return Err(Error::new(ErrorKind::Validation, "the path contains a NUL byte"));
        }
        let mut inner = PathBuf::new();
        for component in path.components() {
            match component {
                Component::Normal(name) => inner.push(name),
                Component::CurDir => {}
                Component::ParentDir => return Err(refused("goes up with `..`")),
                Component::RootDir | Component::Prefix(_) => {
                    return Err(refused("is absolute; paths are relative to the workspace"));
                }
            }
        }
        Ok(Self(inner))
    }

    /// As [`new`](Self::new), and not the workspace itself.
    pub(crate) fn of_entry(path: &Path) -> Result<Self> {
        let inner = Self::new(path)?;
        if inner.0.as_os_str().is_empty() {
            return Err(Error::new(ErrorKind::Validation, "the path names the workspace itself"));
        }
        Ok(inner)
    }

    pub(crate) fn as_path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn file_name(&self) -> &OsStr {
        self.0.file_name().unwrap_or_default()
    }

    pub(crate) fn parent(&self) -> Self {
        Self(self.0.parent().map(Path::to_owned).unwrap_or_default())
    }
}

/// Tidies a path as a model or a person typed it: blanks of other alphabets become ordinary ones, a leading
/// `@` (a mention) goes, and `~` becomes `home` when there is one.
#[must_use]
pub fn clean_input(text: &str, home: Option<&Path>) -> PathBuf {
    let blank = |c: char| if c != ' ' && is_unicode_blank(c) { ' ' } else { c };
    let plain: String = text.chars().map(blank).collect();
    let plain = plain.trim();
    let plain = plain.strip_prefix('@').unwrap_or(plain);
    match (plain, home) {
        ("~", Some(home)) => home.to_owned(),
        (_, Some(home)) if plain.starts_with("~/") => {
            home.join(plain.trim_start_matches('~').trim_start_matches('/'))
        }
        _ => PathBuf::from(plain),
    }
}

fn is_unicode_blank(c: char) -> bool {
    matches!(c, '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_true_parents_and_roots_are_refused() {
        for (path, want) in [
            ("a/b", Some("a/b")),
            ("./a//b/.", Some("a/b")),
            ("a..b", Some("a..b")),
            ("..foo/bar..", Some("..foo/bar..")),
            ("...", Some("...")),
            ("", Some("")),
            (".", Some("")),
            ("..", None),
            ("a/../b", None),
            ("a/..", None),
            ("/etc/passwd", None),
            ("//x", None),
        ] {
            let found = Inner::new(Path::new(path));
            assert_eq!(found.ok().map(|inner| inner.0), want.map(PathBuf::from), "{path}");
        }
    }

    #[test]
    fn the_workspace_itself_is_no_entry() {
        assert_eq!(Inner::of_entry(Path::new("./")).unwrap_err().kind, ErrorKind::Validation);
    }

    #[test]
    fn typed_paths_are_tidied() {
        let home = Some(Path::new("/home/u"));
        for (text, want) in [
            ("@src/main.rs", "src/main.rs"),
            ("my\u{a0}file\u{3000}x.txt", "my file x.txt"),
            ("~", "/home/u"),
            ("~/notes", "/home/u/notes"),
            ("~user/x", "~user/x"),
            (" a ", "a"),
            ("~//etc", "/home/u/etc"),
        ] {
            assert_eq!(clean_input(text, home), Path::new(want), "{text:?}");
        }
        assert_eq!(clean_input("~/x", None), Path::new("~/x"));
    }

    proptest! {
        #[test]
        fn an_accepted_path_stays_below_any_root(text in "[a-c./]{0,12}") {
            if let Ok(inner) = Inner::new(Path::new(&text)) {
                let mut depth = 0;
                for component in inner.as_path().components() {
                    prop_assert!(matches!(component, Component::Normal(_)));
                    depth += 1;
                }
                prop_assert!(depth < 12);
            }
        }
    }
}
