//! What has to be known of the machine and the sandbox.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ringfence_model::{Error, ErrorKind, PathPattern, Policy, Result};

use crate::mode::Mode;

/// Directories of the root that are symbolic links on macOS. The kernel compares resolved paths, so a
/// rule about `/tmp/x` has to say `/private/tmp/x`.
pub(crate) const ALIASES: &[&str] = &["etc", "tmp", "var"];

/// Whether rules that refuse also hold for names that differ only in the case of ASCII letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Case {
    /// For volumes that do not distinguish case, the usual ones: `.GIT/hooks` is `.git/hooks`.
    #[default]
    Fold,
    /// For volumes that do.
    Exact,
}

/// The surroundings of one sandbox on macOS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MacEnv {
    /// The user's home directory, resolved.
    pub home: PathBuf,
    /// A directory of this sandbox's own, made by the caller. macOS has no private mounts: what is a
    /// private directory elsewhere becomes a directory below this one here.
    pub private_root: PathBuf,
    pub case: Case,
    pub mode: Mode,
    /// A word that the kernel's log repeats with each refusal, to tell this sandbox from others.
    pub log_tag: Option<String>,
}

impl MacEnv {
    #[must_use]
    pub fn new(home: impl Into<PathBuf>, private_root: impl Into<PathBuf>) -> Self {
        Self {
            home: home.into(),
            private_root: private_root.into(),
            case: Case::default(),
            mode: Mode::default(),
            log_tag: None,
        }
    }

    #[must_use]
    pub fn with_mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    #[must_use]
    pub fn with_case(mut self, case: Case) -> Self {
        self.case = case;
        self
    }

    #[must_use]
    pub fn with_log_tag(mut self, tag: impl Into<String>) -> Self {
        self.log_tag = Some(tag.into());
        self
    }

    /// The tag, when it is one that needs no escaping anywhere.
    pub(crate) fn checked_tag(&self) -> Result<Option<&str>> {
        match self.log_tag.as_deref() {
            Some(tag) if tag.is_empty() || !tag.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') => {
                Err(Error::new(
                    ErrorKind::Validation,
                    format!("log tag {tag:?} may hold letters, digits and hyphens only"),
                ))
            }
            tag => Ok(tag),
        }
    }
}

/// Where the private directories of a policy are on macOS.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PrivatePlaces {
    /// Variables that send programs there.
    pub variables: BTreeMap<String, String>,
    /// Directories that the caller makes, with mode 0700, before the start.
    pub directories: Vec<PathBuf>,
    /// Private directories that no variable leads away from: inside they are simply refused.
    pub unmapped: Vec<String>,
}

impl PrivatePlaces {
    /// Maps the private directories of `policy` to directories below `env.private_root`.
    #[must_use]
    pub fn of(policy: &Policy, env: &MacEnv) -> Self {
        let mut places = Self::default();
        for rule in &policy.filesystem.private {
            let path = rule.path.as_literal();
            if path == Some(env.home.as_path()) {
                places.send("home", &["HOME"], env);
            } else if path.is_some_and(is_temporary) {
                places.send("tmp", &["TMPDIR", "TMP", "TEMP"], env);
            } else {
                places.unmapped.push(rule.path.to_string());
            }
        }
        places
    }

    fn send(&mut self, name: &str, variables: &[&str], env: &MacEnv) {
        let directory = env.private_root.join(name);
        if self.directories.contains(&directory) {
            return;
        }
        for variable in variables {
            self.variables.insert((*variable).to_owned(), directory.to_string_lossy().into_owned());
        }
        self.directories.push(directory);
    }
}

fn is_temporary(path: &Path) -> bool {
    ["/tmp", "/private/tmp", "/var/tmp", "/private/var/tmp"].iter().any(|known| path == Path::new(known))
}

/// The path as the kernel will see it.
pub(crate) fn canonical_path(path: &Path) -> PathBuf {
    for alias in ALIASES {
        if let Ok(rest) = path.strip_prefix(Path::new("/").join(alias)) {
            let base = Path::new("/private").join(alias);
            // Joining an empty rest would add a slash.
            return if rest.as_os_str().is_empty() { base } else { base.join(rest) };
        }
    }
    path.to_owned()
}

/// The patterns that cover, among resolved paths, what `pattern` means.
pub(crate) fn canonical_patterns(pattern: &PathPattern) -> Vec<PathPattern> {
    if let Some(path) = pattern.as_literal() {
        return vec![PathPattern::literal(&canonical_path(path))];
    }
    let mut components = pattern.glob_components();
    let Some(first) = components.next().filter(|first| *first != b"**") else {
        return vec![pattern.clone()];
    };
    let rest: Vec<&[u8]> = components.collect();
    let first_matches = PathPattern::parse_bytes(&[b"/", first].concat());
    let mut patterns = Vec::new();
    if !ALIASES.iter().any(|alias| alias.as_bytes() == first) {
        patterns.push(pattern.clone());
    }
    for alias in ALIASES {
        if first_matches.covers(&Path::new("/").join(alias)) {
            let mut text = format!("/private/{alias}").into_bytes();
            for component in &rest {
                text.push(b'/');
                text.extend_from_slice(component);
            }
            patterns.push(PathPattern::parse_bytes(&text));
        }
    }
    patterns
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_model::PathRule;

    #[test]
    fn aliases_of_the_root_are_resolved() {
        for (pattern, want) in [
            ("/tmp", vec!["/private/tmp"]),
            ("/tmp/x", vec!["/private/tmp/x"]),
            ("/tmpfile", vec!["/tmpfile"]),
            ("/private/etc/hosts", vec!["/private/etc/hosts"]),
            ("/etc/*.conf", vec!["/private/etc/*.conf"]),
            ("/[te]*/x", vec!["/[te]*/x", "/private/etc/x", "/private/tmp/x"]),
            ("/*/x", vec!["/*/x", "/private/etc/x", "/private/tmp/x", "/private/var/x"]),
            ("**/.env", vec!["**/.env"]),
            ("/**/tmp/x", vec!["/**/tmp/x"]),
        ] {
            let got = canonical_patterns(&PathPattern::parse(pattern));
            assert_eq!(got.iter().map(ToString::to_string).collect::<Vec<_>>(), want, "{pattern}");
        }
    }

    #[test]
    fn home_and_temporary_files_move_into_the_sandbox() {
        let mut policy = Policy::default();
        policy.filesystem.private =
            ["/Users/u", "/tmp", "/private/tmp", "/dev/shm"].map(PathRule::built_in).to_vec();
        let places = PrivatePlaces::of(&policy, &MacEnv::new("/Users/u", "/private/var/rf/1"));
        assert_eq!(places.variables["HOME"], "/private/var/rf/1/home");
        assert_eq!(places.variables["TMPDIR"], "/private/var/rf/1/tmp");
        assert_eq!(places.directories.len(), 2);
        assert_eq!(places.unmapped, ["/dev/shm"]);
    }

    #[test]
    fn a_log_tag_is_a_plain_word() {
        let env = MacEnv::new("/Users/u", "/p");
        assert!(env.clone().with_log_tag("rf-1a2b").checked_tag().is_ok());
        for tag in ["", "a b", "a\")", "a\n"] {
            assert!(env.clone().with_log_tag(tag).checked_tag().is_err(), "{tag:?}");
        }
    }
}
