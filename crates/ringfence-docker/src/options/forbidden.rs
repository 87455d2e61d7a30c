//! Places of the host that no container sees, whoever wrote it in the configuration.

use std::path::{Path, PathBuf};

/// A place and why no container sees it, what is in it, or what it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forbidden {
    pub path: PathBuf,
    pub why: String,
}

impl Forbidden {
    pub fn new(path: impl Into<PathBuf>, why: impl Into<String>) -> Self {
        Self { path: path.into(), why: why.into() }
    }
}

type Row = (&'static str, &'static str);

const ROOTS_HOME: &str = "/root";

/// The system's.
pub const SYSTEM: &[Row] = &[
    ("/bin", "the host's programs"),
    ("/boot", "the host's kernel"),
    ("/dev", "devices"),
    ("/etc", "the host's configuration"),
    ("/lib", "the host's libraries"),
    ("/lib32", "the host's libraries"),
    ("/lib64", "the host's libraries"),
    ("/libx32", "the host's libraries"),
    ("/proc", "the host's processes"),
    (ROOTS_HOME, "root's home directory"),
    ("/run", "sockets of the host's services, the container engine's among them"),
    ("/sbin", "the host's programs"),
    ("/sys", "the host's kernel"),
    ("/usr", "the host's programs"),
    ("/var/lib/containerd", "the container engine's own files"),
    ("/var/lib/containers", "the container engine's own files"),
    ("/var/lib/docker", "the container engine's own files"),
    ("/var/lib/kubelet", "credentials of a cluster"),
    ("/var/run", "sockets of the host's services, the container engine's among them"),
    ("/var/spool", "jobs that the host runs"),
    // macOS.
    ("/Library", "the host's programs and settings"),
    ("/System", "the host's programs"),
    ("/private/etc", "the host's configuration"),
    ("/private/var/db", "the host's databases"),
    ("/private/var/run", "sockets of the host's services, the container engine's among them"),
];

/// A person's, below the home directory.
pub const HOME: &[Row] = &[
    (".ssh", "private keys"),
    (".gnupg", "private keys"),
    (".aws", "cloud credentials"),
    (".azure", "cloud credentials"),
    (".config/gcloud", "cloud credentials"),
    (".config/gh", "tokens of the GitHub client"),
    (".config/op", "a password manager's session"),
    (".password-store", "passwords"),
    (".local/share/keyrings", "passwords of the desktop"),
    ("Library/Keychains", "passwords"),
    (".netrc", "passwords of hosts"),
    (".git-credentials", "passwords of git hosts"),
    (".npmrc", "registry tokens"),
    (".pypirc", "registry passwords"),
    (".cargo/credentials", "registry tokens"),
    (".cargo/credentials.toml", "registry tokens"),
    (".mozilla", "cookies and saved passwords"),
    (".config/google-chrome", "cookies and saved passwords"),
    (".config/chromium", "cookies and saved passwords"),
    (".kube", "cluster credentials"),
    // Engines that run without root keep their sockets and images here.
    (".docker", "registry credentials and the container engine's socket"),
    (".colima", "the container engine's socket"),
    (".lima", "the container engine's socket"),
    (".orbstack", "the container engine's socket"),
    (".rd", "the container engine's socket"),
    (".local/share/containers", "the container engine's own files"),
    (".local/share/docker", "the container engine's own files"),
    // What runs later, outside of any container.
    (".bashrc", "every shell runs it"),
    (".bash_profile", "every login shell runs it"),
    (".profile", "every login shell runs it"),
    (".zshrc", "every shell runs it"),
    (".zshenv", "every shell runs it"),
    (".zprofile", "every login shell runs it"),
    (".config/autostart", "the desktop runs what is in it"),
    (".config/systemd", "the session runs what is in it"),
    (".gitconfig", "git runs the programs it names"),
    ("Library/LaunchAgents", "the session runs what is in it"),
];

/// How two places lie to each other, when one shows the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    Same,
    /// The first is inside the second.
    Below,
    /// The second is inside the first.
    Above,
}

impl Relation {
    #[must_use]
    pub fn between(one: &Path, other: &Path) -> Option<Self> {
        match (one.starts_with(other), other.starts_with(one)) {
            (true, true) => Some(Self::Same),
            (true, false) => Some(Self::Below),
            (false, true) => Some(Self::Above),
            (false, false) => None,
        }
    }

    /// Completes "it …".
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Same => "is",
            Self::Below => "is inside",
            Self::Above => "contains",
        }
    }
}

/// All places that a container of this person does not see.
#[derive(Debug, Clone)]
pub struct ForbiddenPlaces {
    /// Each as it is written and, where that differs, as its links resolve.
    places: Vec<Forbidden>,
    /// How many of them, from the first, are the system's.
    system: usize,
}

impl ForbiddenPlaces {
    #[must_use]
    pub fn new(home: Option<&Path>, further: &[Forbidden]) -> Self {
        let mut places = Vec::new();
        let mut add = |path: PathBuf, why: &str| {
            let resolved = std::fs::canonicalize(&path).ok().filter(|resolved| *resolved != path);
            places.push(Forbidden::new(path, why));
            places.extend(resolved.map(|resolved| Forbidden::new(resolved, why)));
            places.len()
        };
        let mut system = 0;
        for (path, why) in SYSTEM {
            // Root's home is somebody's home; then the secrets in it are forbidden, and not the whole.
            if *path != ROOTS_HOME || !home.is_some_and(|home| home.starts_with(ROOTS_HOME)) {
                system = add(PathBuf::from(path), why);
            }
        }
        for (path, why) in home.iter().flat_map(|home| HOME.iter().map(|(path, why)| (home.join(path), why)))
        {
            add(path, why);
        }
        for place in further {
            add(place.path.clone(), &place.why);
        }
        Self { places, system }
    }

    /// The first place that `path` is, is inside, or contains.
    #[must_use]
    pub fn touched_by(&self, path: &Path) -> Option<(Relation, &Forbidden)> {
        self.places.iter().find_map(|place| Some((Relation::between(path, &place.path)?, place)))
    }

    /// As [`touched_by`](Self::touched_by), but a directory that was made for the sandbox may lie inside a place that is
    /// not the system's, such as ringfence's own home.
    #[must_use]
    pub fn shown_by_workspace(&self, path: &Path) -> Option<(Relation, &Forbidden)> {
        self.places.iter().enumerate().find_map(|(at, place)| {
            let relation = Relation::between(path, &place.path)?;
            let inside_ours = relation == Relation::Below && at >= self.system;
            (!inside_ours).then_some((relation, place))
        })
    }
}
