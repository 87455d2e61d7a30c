//! Finds what the deny and protect patterns match in the user's trees, in one walk.
//!
//! Only patterns need a walk; plain paths are looked up directly. Directories that are built or
//! downloaded rather than written (`node_modules`, `target`, …) are not entered: they can hold a
//! hundred thousand files, and the supervisor judges what is opened in them anyway.

mod aliases;
mod roots_own;

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ringfence_model::PathPattern;
use ringfence_model::policy::{BUILT_DIRECTORIES, Filesystem};
use rustix::fs::{FileType, Mode, OFlags, RawDir};

pub use roots_own::{closed_to_others, is_wanted};

/// What one walk found, each path once.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Found {
    pub denied: Vec<PathBuf>,
    pub protected: Vec<PathBuf>,
    /// Other names of denied files, made by hard links.
    pub aliases: Vec<PathBuf>,
    /// Git directories that are not called `.git`: bare repositories, and those that a `.git` file names.
    pub git_directories: Vec<PathBuf>,
    /// What only root can read in a directory of the system that everybody sees, when root is who runs this.
    pub roots_own: Vec<PathBuf>,
    /// Sockets that something on the host listens on, or did.
    pub sockets: Vec<PathBuf>,
    /// More was there than the walk was willing to look at; the deepest part was left out.
    pub incomplete: bool,
}

/// Enough for any project; beyond it the walk stops and says so.
const MAX_ENTRIES: usize = 2_000_000;
const MAX_DEPTH: usize = 64;

/// The user's own trees: what may be written, and what somebody asked to be shown.
#[must_use]
pub fn roots(fs: &Filesystem) -> Vec<&Path> {
    use ringfence_model::RuleLayer::{BuiltIn, Detected};
    let by_somebody = |rule: &&ringfence_model::PathRule| !matches!(rule.source.layer, BuiltIn | Detected);
    let shown = fs.allow_read.iter().filter(by_somebody);
    fs.allow_write.iter().chain(shown).filter_map(|rule| rule.path.as_literal()).collect()
}

/// Walks `roots` (outermost only; nested ones are visited once).
#[must_use]
pub fn scan(fs: &Filesystem, roots: &[&Path]) -> Found {
    let mut found = Found::default();
    let mut outermost: Vec<&Path> = Vec::new();
    let mut sorted = roots.to_vec();
    sorted.sort();
    for root in sorted {
        if !outermost.iter().any(|outer| root.starts_with(outer)) {
            outermost.push(root);
        }
    }
    let (names, wild) = by_last_component(fs);
    let mut walk = Walk { fs, found: &mut found, names, wild, budget: MAX_ENTRIES };
    for root in &outermost {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if let Ok(dir) = rustix::fs::open(*root, flags, Mode::empty()) {
            walk.directory(&dir, &mut root.to_path_buf(), 0);
        }
    }
    found.aliases = aliases::find(&found.denied, &outermost);
    found
}

/// Rules that follow from what was found.
pub fn add_rules(fs: &mut Filesystem, found: &Found) {
    use ringfence_model::{PathRule, RuleLayer, RuleSource};
    let detected = |key: &str| RuleSource::layer(RuleLayer::Detected).with_key(key);
    fs.deny.extend(found.aliases.iter().map(|path| PathRule::new(path.as_path(), detected("hard link"))));
    // As of every `.git`; git runs what they hold or name.
    const RUN: [&str; 4] = ["hooks", "config", "config.worktree", "info/attributes"];
    for directory in &found.git_directories {
        fs.protect.extend(RUN.map(|name| PathRule::new(directory.join(name), detected("git directory"))));
    }
}

/// The patterns by what their last components tell: plain names, with which most entries are dismissed by one
/// comparison, and those that end in a wildcard, which are tried on each.
fn by_last_component(fs: &Filesystem) -> (Vec<&[u8]>, Vec<&PathPattern>) {
    let (mut names, mut wild) = (Vec::new(), Vec::new());
    for rule in fs.deny.iter().chain(&fs.protect).filter(|rule| rule.path.is_glob()) {
        match rule.path.glob_components().last() {
            Some(last) if !last.iter().any(|b| matches!(b, b'*' | b'?' | b'[' | b'\\')) => names.push(last),
            _ => wild.push(&rule.path),
        }
    }
    names.sort_unstable();
    names.dedup();
    (names, wild)
}

struct Walk<'a> {
    fs: &'a Filesystem,
    found: &'a mut Found,
    names: Vec<&'a [u8]>,
    wild: Vec<&'a PathPattern>,
    budget: usize,
}

impl Walk<'_> {
    fn directory(&mut self, dir: &OwnedFd, path: &mut PathBuf, depth: usize) {
        let mut buffer = [MaybeUninit::<u8>::uninit(); 16 * 1024];
        let mut subdirectories: Vec<Vec<u8>> = Vec::new();
        let mut entries = RawDir::new(dir, &mut buffer);
        let mut of_git = 0;
        while let Some(Ok(entry)) = entries.next() {
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if self.budget == 0 {
                self.found.incomplete = true;
                return;
            }
            self.budget -= 1;
            let kind = entry.file_type();
            of_git += usize::from(matches!(name, b"HEAD" | b"objects" | b"refs"));
            path.push(OsStr::from_bytes(name));
            let matched = self.entry(path, name, kind);
            path.pop();
            // Some file systems do not tell the type; opening as a directory will.
            let enter = matches!(kind, FileType::Directory | FileType::Unknown)
                && !matched
                && name != b"objects"
                && !BUILT_DIRECTORIES.iter().any(|skipped| skipped.as_bytes() == name);
            if enter {
                subdirectories.push(name.to_owned());
            }
        }
        if of_git == 3 && path.file_name().is_some_and(|name| name != ".git") {
            self.found.git_directories.push(path.clone());
        }
        if depth == MAX_DEPTH {
            self.found.incomplete |= !subdirectories.is_empty();
            return;
        }
        for name in subdirectories {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            if let Ok(child) = rustix::fs::openat(dir, name.as_slice(), flags, Mode::empty()) {
                path.push(OsStr::from_bytes(&name));
                self.directory(&child, path, depth + 1);
                path.pop();
            }
        }
    }

    /// Notes an entry that a pattern matches; true when there is no need to look below it.
    fn entry(&mut self, path: &Path, name: &[u8], kind: FileType) -> bool {
        if kind == FileType::Socket {
            self.found.sockets.push(path.to_owned());
            return true;
        }
        let is_known = |name: &[u8]| self.names.binary_search(&name).is_ok();
        let in_other_case = name.iter().any(u8::is_ascii_uppercase) && is_known(&name.to_ascii_lowercase());
        let interesting =
            is_known(name) || in_other_case || self.wild.iter().any(|pattern| pattern.covers(path));
        if !interesting {
            return false;
        }
        let matches = |rules: &[ringfence_model::PathRule]| {
            rules.iter().any(|rule| rule.path.is_glob() && rule.path.covers(path))
        };
        let is_denied_so =
            |rule: &ringfence_model::PathRule| rule.is_about_names() && rule.path.covers_in_other_case(path);
        if matches(&self.fs.deny) || (in_other_case && self.fs.deny.iter().any(is_denied_so)) {
            self.found.denied.push(path.to_owned());
            return true;
        }
        if matches(&self.fs.protect) {
            self.found.protected.push(path.to_owned());
            // Denied names may still lie below something protected.
            return false;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_model::PathRule;
    use std::fs;

    #[test]
    fn matches_are_found_at_every_depth_in_one_walk() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        for dir in ["a/b", ".git/hooks", "vendor/lib/.git/hooks", "node_modules/x", "secret.d/.env"] {
            fs::create_dir_all(root.join(dir)).unwrap();
        }
        for file in [".env", "a/b/.env", "a/.environment", "a/b/my.pem", "node_modules/x/.env", ".git/config"]
        {
            fs::write(root.join(file), "").unwrap();
        }
        let _listener = std::os::unix::net::UnixListener::bind(root.join("a/host.sock")).unwrap();
        let rule = |pattern: &str| PathRule::built_in(format!("{}/{pattern}", root.display()));
        let fs = Filesystem {
            deny: vec![rule("**/.env"), rule("**/*.pem")],
            protect: vec![rule("**/.git/hooks"), rule("**/.git/config")],
            ..Filesystem::default()
        };
        let mut found = scan(&fs, &[&root, &root.join("a")]);
        found.denied.sort();
        found.protected.sort();
        let paths = |names: &[&str]| names.iter().map(|name| root.join(name)).collect::<Vec<_>>();
        assert_eq!(found.denied, paths(&[".env", "a/b/.env", "a/b/my.pem", "secret.d/.env"]));
        assert_eq!(found.protected, paths(&[".git/config", ".git/hooks", "vendor/lib/.git/hooks"]));
        assert_eq!(found.sockets, paths(&["a/host.sock"]));
        assert!(!found.incomplete);
    }

    #[test]
    fn wildcard_names_are_matched_too() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        fs::write(root.join("server.key"), "").unwrap();
        let fs = Filesystem {
            deny: vec![PathRule::built_in(format!("{}/**/*.key", root.display()))],
            ..Filesystem::default()
        };
        assert_eq!(scan(&fs, &[&root]).denied, [root.join("server.key")]);
    }
}
