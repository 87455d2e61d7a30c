//! The tool chains that the user's PATH really points to: found, not guessed.
//!
//! Every directory on PATH outside the system's own is shown read-only together with the installation
//! it belongs to; so is what the links in such a directory point to. Credential files that tools keep
//! beside their caches are on the deny list and stay masked.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::host::{Host, canonical};

/// A directory to show, and how.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Toolchain {
    /// Show it read-only as it is.
    Whole(PathBuf),
    /// Make it a private writable directory and show each entry read-only: tools that keep locks and
    /// caches beside their binaries can then still write theirs.
    Entries(PathBuf),
}

impl Toolchain {
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Whole(path) | Self::Entries(path) => path,
        }
    }
}

/// A marker directory of a tool manager: a PATH entry below it means the whole of it is needed.
const MANAGERS: [&str; 12] = [
    ".pyenv",
    ".rbenv",
    ".nodenv",
    ".goenv",
    ".nvm",
    ".fnm",
    ".volta",
    ".asdf",
    ".sdkman",
    ".bun",
    ".deno",
    ".local/share/mise",
];

const DISTRIBUTION: [&str; 5] = ["/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/games"];

/// Finds the tool chains outside `visible`, the directories that are shown anyway.
#[must_use]
pub fn find(host: &Host, visible: &[&Path]) -> BTreeSet<Toolchain> {
    let is_visible = |path: &Path| visible.iter().any(|root| path.starts_with(root));
    let mut found = BTreeSet::new();
    for dir in &host.path {
        let Some(dir) = canonical(dir) else { continue };
        if !is_visible(&dir) {
            add_installation(&mut found, host, &dir);
        }
        // The distribution's own directories hold thousands of links, all within the system.
        if DISTRIBUTION.iter().any(|own| dir == Path::new(own)) {
            continue;
        }
        for target in link_targets(&dir) {
            if !is_visible(&target) {
                add_installation(&mut found, host, &target);
            }
        }
    }
    for (variable, fallback) in
        [("RUSTUP_HOME", ".rustup"), ("GOROOT", ""), ("JAVA_HOME", ""), ("VIRTUAL_ENV", "")]
    {
        let path = match host.variable(variable) {
            Some(value) => PathBuf::from(value),
            None if fallback == ".rustup"
                && found.contains(&Toolchain::Entries(host.home.join(".cargo"))) =>
            {
                host.home.join(fallback)
            }
            None => continue,
        };
        if let Some(path) = canonical(&path)
            && !is_visible(&path)
            && is_reasonable(&path, host)
        {
            found.insert(Toolchain::Whole(path));
        }
    }
    found
}

/// The installation that a directory of programs belongs to.
fn add_installation(found: &mut BTreeSet<Toolchain>, host: &Host, bin: &Path) {
    for manager in MANAGERS {
        let root = host.home.join(manager);
        if bin.starts_with(&root) {
            found.insert(Toolchain::Whole(root));
            return;
        }
    }
    let is_bin = bin.file_name().is_some_and(|name| name == "bin" || name == "sbin");
    let prefix = bin.parent().filter(|_| is_bin);
    match prefix {
        // ~/.cargo/bin and the like: a tool's state directory, which it also wants to write to.
        Some(prefix)
            if prefix.parent() == Some(&host.home)
                && is_hidden(prefix)
                && prefix != host.home.join(".local") =>
        {
            found.insert(Toolchain::Entries(prefix.to_owned()));
        }
        Some(prefix) if is_reasonable(prefix, host) && prefix != host.home.join(".local") => {
            found.insert(Toolchain::Whole(prefix.to_owned()));
        }
        _ if is_reasonable(bin, host) => {
            found.insert(Toolchain::Whole(bin.to_owned()));
        }
        _ => {}
    }
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// Showing the root, the home directory or one of its parents would show far more than tools.
fn is_reasonable(path: &Path, host: &Host) -> bool {
    path.parent().is_some() && !host.home.starts_with(path) && path.components().count() > 2
}

/// The directories to which the symbolic links in a directory of programs lead out of it.
fn link_targets(dir: &Path) -> BTreeSet<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return BTreeSet::new() };
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()))
        .map(|entry| entry.path())
        // Most name their neighbour, which is one of the entries.
        .filter(|link| std::fs::read_link(link).is_ok_and(|to| to.as_os_str().as_bytes().contains(&b'/')))
        .filter_map(|link| canonical(&link)?.parent().map(Path::to_owned))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn host_with(home: &Path, path: &[PathBuf]) -> Host {
        let joined = std::env::join_paths(path).unwrap();
        Host::from_environment(BTreeMap::from([
            ("HOME".into(), home.as_os_str().to_owned()),
            ("PATH".into(), joined),
        ]))
    }

    #[test]
    fn installations_are_found_from_path_alone() {
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path().canonicalize().unwrap().join("u");
        for dir in [
            ".cargo/bin",
            ".rustup",
            ".pyenv/shims",
            ".nvm/versions/node/v20/bin",
            ".local/bin",
            "go/bin",
            ".local/share/pipx/venvs/black/bin",
            "bin",
        ] {
            std::fs::create_dir_all(home.join(dir)).unwrap();
        }
        std::fs::write(home.join(".local/share/pipx/venvs/black/bin/black"), "").unwrap();
        std::os::unix::fs::symlink(
            home.join(".local/share/pipx/venvs/black/bin/black"),
            home.join(".local/bin/black"),
        )
        .unwrap();
        let on_path = [
            ".cargo/bin",
            ".pyenv/shims",
            ".nvm/versions/node/v20/bin",
            ".local/bin",
            "go/bin",
            "bin",
            "gone",
        ]
        .map(|dir| home.join(dir));
        let found = find(&host_with(&home, &on_path), &[Path::new("/usr")]);
        let want: BTreeSet<Toolchain> = [
            Toolchain::Entries(home.join(".cargo")),
            Toolchain::Whole(home.join(".rustup")),
            Toolchain::Whole(home.join(".pyenv")),
            Toolchain::Whole(home.join(".nvm")),
            Toolchain::Whole(home.join(".local/bin")),
            Toolchain::Whole(home.join(".local/share/pipx/venvs/black")),
            Toolchain::Whole(home.join("go")),
            Toolchain::Whole(home.join("bin")),
        ]
        .into();
        assert_eq!(found, want);
    }

    #[test]
    fn the_home_directory_itself_is_never_a_tool_chain() {
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path().canonicalize().unwrap().join("u");
        std::fs::create_dir_all(home.join("bin")).unwrap();
        let found = find(&host_with(&home, &[home.clone(), home.join("bin")]), &[]);
        assert_eq!(found, BTreeSet::from([Toolchain::Whole(home.join("bin"))]));
    }
}
