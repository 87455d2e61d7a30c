//! Files that usually hold secrets or run code, by name; and the temporary directories agents may use.

use std::path::{Component, Path};

/// A name, or two names below each other, that marks a file as sensitive wherever it is. Entries ending in
/// `/` are directories: they and everything below are sensitive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SensitiveName {
    pub name: &'static str,
    /// Ordinary tools have to read it (git its own configuration), so a fence refuses writing only.
    pub read_by_tools: bool,
    pub reason: &'static str,
}

const fn secret(name: &'static str, reason: &'static str) -> SensitiveName {
    SensitiveName { name, read_by_tools: false, reason }
}

const fn tool(name: &'static str, reason: &'static str) -> SensitiveName {
    SensitiveName { name, read_by_tools: true, reason }
}

pub const SENSITIVE_NAMES: &[SensitiveName] = &[
    tool(".gitconfig", "git runs the programs it names"),
    tool(".git/config", "git runs the programs it names"),
    tool(".git/hooks/", "git runs what is in it"),
    secret(".bashrc", "every shell runs it"),
    secret(".bash_profile", "every login shell runs it"),
    secret(".bash_history", "typed passwords end up here"),
    secret(".zshrc", "every shell runs it"),
    secret(".zsh_history", "typed passwords end up here"),
    secret(".profile", "every login shell runs it"),
    secret(".zprofile", "every login shell runs it"),
    secret(".ssh/", "private keys"),
    secret(".aws/", "cloud credentials"),
    secret(".docker/", "registry credentials"),
    secret(".kube/", "cluster credentials"),
    secret(".gnupg/", "private keys"),
    secret(".npmrc", "registry tokens"),
    secret(".pypirc", "registry passwords"),
    secret(".netrc", "passwords of hosts"),
    secret(".cargo/credentials", "registry tokens"),
    secret(".cargo/credentials.toml", "registry tokens"),
    secret(".env", "an application's secrets"),
    secret(".env.local", "an application's secrets"),
    secret(".env.production", "an application's secrets"),
    secret("secrets.yaml", "says so itself"),
    secret("secrets.json", "says so itself"),
    secret(".secrets", "says so itself"),
    secret(".vscode/settings.json", "tokens of extensions; programs the editor runs"),
    secret(".idea/", "tokens of plug-ins; programs the editor runs"),
];

/// Prefixes of the host's temporary directories that agents may write below.
pub const TEMP_PREFIXES: [&str; 4] =
    ["/tmp/ringfence/", "/tmp/ringfence-agent/", "/private/tmp/ringfence/", "/private/tmp/ringfence-agent/"];

const TEMP_DIRECTORIES: [&str; 5] =
    ["/tmp", "/var/tmp", "/private/tmp", "/private/var/tmp", "/private/var/folders"];

/// Whether `path`, absolute or relative, is sensitive by one of the built-in names.
#[must_use]
pub fn is_sensitive(path: &Path) -> bool {
    sensitive_name(path).is_some()
}

/// The built-in name that makes `path` sensitive.
#[must_use]
pub fn sensitive_name(path: &Path) -> Option<&'static SensitiveName> {
    SENSITIVE_NAMES.iter().find(|entry| name_matches(entry.name, path))
}

/// Whether `path` is sensitive by `name`: whole components are compared, never parts of them. A directory's
/// name (ending in `/`) covers what is below it; so does a file's, should it be a directory after all.
#[must_use]
pub fn name_matches(name: &str, path: &Path) -> bool {
    let mut wanted = name.split('/').filter(|part| !part.is_empty() && *part != ".").peekable();
    if wanted.peek().is_none() {
        return false;
    }
    let parts = path.components().filter(|part| matches!(part, Component::Normal(_)));
    let mut rest = parts;
    loop {
        let mut here = rest.clone();
        if wanted.clone().all(|want| here.next().is_some_and(|part| part.as_os_str() == want)) {
            return true;
        }
        if rest.next().is_none() {
            return false;
        }
    }
}

/// Whether `path` lies in one of the host's temporary directories.
#[must_use]
pub fn is_temp(path: &Path) -> bool {
    TEMP_DIRECTORIES.iter().any(|dir| path.starts_with(dir))
}

/// Whether the rules for temporary files let `path` be written: outside temporary directories they have
/// nothing to say; inside, only below the known prefixes and those in `extra`.
#[must_use]
pub fn is_temp_write_allowed<'a>(path: &Path, extra: impl IntoIterator<Item = &'a str>) -> bool {
    let below = |prefix: &str| path.starts_with(prefix.trim_end_matches('/'));
    !is_temp(path) || TEMP_PREFIXES.into_iter().any(below) || extra.into_iter().any(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_the_documents_each_with_a_reason() {
        let documented: [(&str, &[&str]); 6] = [
            ("git", &[".gitconfig", ".git/config", ".git/hooks/"]),
            (
                "shells",
                &[
                    ".bashrc",
                    ".bash_profile",
                    ".bash_history",
                    ".zshrc",
                    ".zsh_history",
                    ".profile",
                    ".zprofile",
                ],
            ),
            ("keys", &[".ssh/", ".aws/", ".docker/", ".kube/", ".gnupg/"]),
            ("packages", &[".npmrc", ".pypirc", ".netrc", ".cargo/credentials", ".cargo/credentials.toml"]),
            (
                "secrets",
                &[".env", ".env.local", ".env.production", "secrets.yaml", "secrets.json", ".secrets"],
            ),
            ("editors", &[".vscode/settings.json", ".idea/"]),
        ];
        let names: Vec<&str> = documented.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        assert_eq!(SENSITIVE_NAMES.iter().map(|entry| entry.name).collect::<Vec<_>>(), names);
        assert!(SENSITIVE_NAMES.iter().all(|entry| !entry.reason.is_empty()));
        for name in names {
            let below = if name.ends_with('/') { format!("{name}deep/file") } else { name.to_owned() };
            assert!(is_sensitive(&Path::new("/home/u/project").join(&below)), "{below}");
            assert!(is_sensitive(Path::new(&below)), "relative {below}");
            let other = format!("{}x", name.trim_end_matches('/'));
            assert!(!is_sensitive(&Path::new("/home/u/project").join(&other)), "{other}");
        }
    }

    #[test]
    fn whole_components_are_compared() {
        for (path, want) in [
            ("/home/u/.ssh", true),
            ("/home/u/.ssh/id_ed25519", true),
            (".ssh/config", true),
            ("./project/.env", true),
            ("/p/.git/config", true),
            ("/p/sub/.git/hooks/pre-commit", true),
            ("/p/.cargo/credentials.toml", true),
            ("/p/.env.example", false),
            ("/p/.envrc", false),
            ("/p/my.env", false),
            ("/p/.sshx/id", false),
            ("/p/x.ssh/id", false),
            ("/p/.git/configs", false),
            ("/p/git/config", false),
            ("/p/.vscode/extensions.json", false),
            ("/p/.git/x/config", false),
        ] {
            assert_eq!(is_sensitive(Path::new(path)), want, "{path}");
        }
    }

    #[test]
    fn further_names_match_the_same_way() {
        for (name, path, want) in [
            ("vault/", "/p/vault/key", true),
            ("vault/", "/p/vaults/key", false),
            ("a/b.txt", "/x/a/b.txt", true),
            ("a/b.txt", "/x/a/c/b.txt", false),
            ("", "/x", false),
            ("/", "/x", false),
        ] {
            assert_eq!(name_matches(name, Path::new(path)), want, "{name} {path}");
        }
    }

    #[test]
    fn temporary_files_go_below_the_known_prefixes() {
        for (path, want) in [
            ("/tmp/ringfence/a", true),
            ("/tmp/ringfence-agent/a/b", true),
            ("/private/tmp/ringfence/a", true),
            ("/private/tmp/ringfence-agent/a", true),
            ("/tmp/ringfenced/a", false),
            ("/tmp/a", false),
            ("/var/tmp/a", false),
            ("/tmpfiles/a", true),
            ("/home/u/a", true),
            ("/tmp/build/a", true),
        ] {
            assert_eq!(is_temp_write_allowed(Path::new(path), ["/tmp/build/"]), want, "{path}");
        }
    }
}
