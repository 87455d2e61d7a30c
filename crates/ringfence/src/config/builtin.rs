//! Built-in rules: which paths are denied, which are protected, which are the sandbox's own.
//! Each with its reason.

/// A path pattern (`~` is the home directory) and why it is here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    pub path: &'static str,
    pub reason: &'static str,
}

const fn row(path: &'static str, reason: &'static str) -> Row {
    Row { path, reason }
}

/// Neither readable nor writable, whatever is allowed. Ringfence's own home is added to it.
pub const DENY: &[Row] = &[
    row("~/.ssh", "private keys"),
    row("~/.aws", "cloud credentials"),
    row("~/.gnupg", "private keys"),
    row("~/.config/gcloud", "cloud credentials"),
    row("~/.azure", "cloud credentials"),
    row("/etc/passwd", "names of the host's users"),
    row("/etc/shadow", "password hashes"),
    row("**/.env", "an application's secrets"),
    row("**/.envrc", "secrets, and code that runs on entering the directory"),
    row("**/.env.local", "an application's secrets"),
    row("**/credentials.json", "says so itself"),
    row("**/secrets.json", "says so itself"),
    row("**/.env.production", "an application's secrets"),
    row("**/secrets.yaml", "says so itself"),
    row("**/.secrets", "says so itself"),
    row("~/.docker", "registry credentials"),
    row("~/.kube", "cluster credentials"),
    row("~/.npmrc", "registry tokens"),
    row("~/.pypirc", "registry passwords"),
    row("~/.netrc", "passwords of hosts"),
    row("~/.git-credentials", "passwords of git hosts"),
    row("~/.cargo/credentials", "registry tokens"),
    row("~/.cargo/credentials.toml", "registry tokens"),
    row("~/.config/gh", "tokens of the GitHub client"),
    row("~/.config/op", "a password manager's session"),
    row("~/.password-store", "passwords"),
    row("~/.local/share/keyrings", "passwords of the desktop"),
    row("~/.mozilla", "cookies and saved passwords"),
    row("~/.config/google-chrome", "cookies and saved passwords"),
    row("~/.config/chromium", "cookies and saved passwords"),
];

/// The further secrets of a macOS home.
pub const DENY_MACOS: &[Row] = &[
    row("~/Library/Keychains", "passwords"),
    row("~/Library/Cookies", "cookies"),
    row("~/Library/Application Support/Google/Chrome", "cookies and saved passwords"),
    row("~/Library/Application Support/Firefox", "cookies and saved passwords"),
    row("/private/etc/passwd", "names of the host's users"),
    row("/private/etc/master.passwd", "password hashes"),
];

/// Readable where allowed, never writable: what is in them runs later, outside of the fence. What depends on who uses the
/// place it is in is another table, [`RUNS_LATER`](super::runs_later::RUNS_LATER).
pub const PROTECT: &[Row] = &[
    row("**/.git/hooks", "git runs what is in it"),
    row("**/.git/config", "git runs the programs it names"),
    row("**/.git/config.worktree", "git runs the programs it names"),
    row("**/.git/info/attributes", "chooses the filters git runs"),
    row("**/.git/modules/**/hooks", "git runs what is in it, for a submodule"),
    row("**/.git/modules/**/config", "git runs the programs it names, for a submodule"),
    row("**/.git/worktrees/*/config.worktree", "git runs the programs it names, for a worktree"),
    row("~/.bashrc", "every shell runs it"),
    row("~/.bash_profile", "every login shell runs it"),
    row("~/.bash_login", "every login shell runs it"),
    row("~/.bash_logout", "every login shell runs it"),
    row("~/.bash_aliases", "every shell runs it"),
    row("~/.profile", "every login shell runs it"),
    row("~/.zshrc", "every shell runs it"),
    row("~/.zshenv", "every shell runs it"),
    row("~/.zprofile", "every login shell runs it"),
    row("~/.zlogin", "every login shell runs it"),
    row("~/.zlogout", "every login shell runs it"),
    row("~/.inputrc", "binds keys to commands"),
    row("~/.config/fish", "every shell runs it"),
    row("~/.config/environment.d", "sets variables of every session"),
    row("~/.config/autostart", "the desktop runs what is in it"),
    row("~/.config/systemd", "the session runs what is in it"),
    row("~/.local/share/systemd", "the session runs what is in it"),
    row("~/Library/LaunchAgents", "the session runs what is in it"),
    row("~/.gitconfig", "git runs the programs it names"),
    row("~/.config/git", "git runs the programs it names"),
];

/// Empty, writable and the sandbox's own, on Linux; the home directory is added to it.
pub const PRIVATE_LINUX: &[Row] =
    &[row("/tmp", "temporary files"), row("/var/tmp", "temporary files"), row("/dev/shm", "shared memory")];

/// The same on macOS.
pub const PRIVATE_MACOS: &[Row] =
    &[row("/private/tmp", "temporary files"), row("/private/var/tmp", "temporary files")];

/// Ports of services that a program has no business with unless somebody says so.
pub const BLOCKED_PORTS: [u16; 10] = [22, 23, 25, 110, 143, 445, 3306, 5432, 6379, 27017];

/// Which system's rows apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    Linux,
    MacOs,
}

impl Platform {
    /// The one this program runs on.
    #[must_use]
    pub fn current() -> Self {
        if cfg!(target_os = "macos") { Self::MacOs } else { Self::Linux }
    }

    #[must_use]
    pub fn private(self) -> &'static [Row] {
        match self {
            Self::Linux => PRIVATE_LINUX,
            Self::MacOs => PRIVATE_MACOS,
        }
    }

    #[must_use]
    pub fn deny(self) -> &'static [&'static [Row]] {
        match self {
            Self::Linux => &[DENY],
            Self::MacOs => &[DENY, DENY_MACOS],
        }
    }
}
