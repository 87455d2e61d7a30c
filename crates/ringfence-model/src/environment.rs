//! Which variables of the caller reach a command.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use crate::Environment;

/// Variables that pass by default: what programs need to find themselves, the terminal and their tool
/// chains. `*` at the end is a wildcard.
pub const DEFAULT_PASS: &[&str] = &joined::<{ PORTABLE.len() + OF_THE_MACHINE.len() }>();

/// Of those, what means the same on every machine, and so in a container too.
pub const PORTABLE: &[&str] = &[
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TERM",
    "COLORTERM",
    "COLUMNS",
    "LINES",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "CI",
    "DEBIAN_FRONTEND",
    "SOURCE_DATE_EPOCH",
];

/// Those that name places and programs of the machine they come from.
const OF_THE_MACHINE: &[&str] = &[
    // Who and where.
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "PWD",
    "HOSTNAME",
    // The terminal as this machine has it.
    "TERM_PROGRAM",
    "TERMINFO",
    "TERMINFO_DIRS",
    "LS_COLORS",
    // What people like to use.
    "EDITOR",
    "VISUAL",
    "PAGER",
    // Kinds of run.
    "NODE_ENV",
    // Whom this machine's programs trust: without them a company's own hosts are nobody's.
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NIX_SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "PIP_CERT",
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
    // Tool chains.
    "CARGO_HOME",
    "CARGO_TARGET_DIR",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "RUSTFLAGS",
    "GOPATH",
    "GOROOT",
    "GOFLAGS",
    "PYENV_ROOT",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
    "NVM_DIR",
    "NVM_BIN",
    "VOLTA_HOME",
    "PNPM_HOME",
    "BUN_INSTALL",
    "DENO_DIR",
    "JAVA_HOME",
    "MAVEN_HOME",
    "GRADLE_HOME",
    "SDKMAN_DIR",
    "RBENV_ROOT",
    "GEM_HOME",
    "GEM_PATH",
    "DOTNET_ROOT",
    "CC",
    "CXX",
    "CFLAGS",
    "CXXFLAGS",
    "LDFLAGS",
    "MAKEFLAGS",
    "PKG_CONFIG_PATH",
    "XDG_DATA_DIRS",
    "XDG_CONFIG_DIRS",
];

const fn joined<const ALL: usize>() -> [&'static str; ALL] {
    let mut all = [""; ALL];
    let mut at = 0;
    while at < ALL {
        all[at] = if at < PORTABLE.len() { PORTABLE[at] } else { OF_THE_MACHINE[at - PORTABLE.len()] };
        at += 1;
    }
    all
}

/// Names, or ends of names, of variables that hold secrets.
const SECRET_ENDINGS: &[&str] = &[
    "API_KEY",
    "APIKEY",
    "TOKEN",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "PRIVATE_KEY",
    "SECRET",
    "SECRETS",
    "SECRET_KEY",
    "ACCESS_KEY",
    "ACCESS_KEY_ID",
    "_CREDENTIALS",
    "CREDENTIALS",
    "_AUTH",
    "_PAT",
    "_DSN",
    "DATABASE_URL",
    "CONNECTION_STRING",
    "COOKIE",
];

/// Beginnings of the names of variables that hold secrets, or lead to a service outside of the fence.
const SECRET_BEGINNINGS: &[&str] =
    &["AWS_", "AZURE_", "GOOGLE_", "GCP_", "DBUS_", "DOCKER_", "VAULT_", "OP_SESSION"];

/// Variables that lead to an agent or service outside of the fence.
const OUTSIDE: &[&str] = &[
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "SSH_ASKPASS",
    "SSH_CONNECTION",
    "SSH_CLIENT",
    "GPG_AGENT_INFO",
    "GPG_TTY",
    "GIT_ASKPASS",
    "SUDO_ASKPASS",
    "KUBECONFIG",
    "XAUTHORITY",
    "WAYLAND_DISPLAY",
    "DISPLAY",
    "XDG_RUNTIME_DIR",
    "TMUX",
    "VSCODE_IPC_HOOK_CLI",
    "VSCODE_GIT_IPC_HANDLE",
    "LD_PRELOAD",
    "LD_AUDIT",
    "LD_LIBRARY_PATH",
    "DYLD_INSERT_LIBRARIES",
    "DYLD_LIBRARY_PATH",
    "BASH_ENV",
    "ENV",
    "PROMPT_COMMAND",
];

/// Whether a variable of that name must not pass by wildcard: it holds a secret, leads out of the fence, or
/// makes programs load code.
#[must_use]
pub fn is_withheld(name: &str) -> bool {
    holds_secret(name) || OUTSIDE.contains(&name.to_ascii_uppercase().as_str())
}

/// Whether a variable of that name holds a secret, which is then hidden wherever it would be shown.
#[must_use]
pub fn holds_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending))
        || SECRET_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

impl Environment {
    /// Whether the caller's variable of that name reaches the command: it is named exactly, or a wildcard
    /// covers it and it is not one of those withheld.
    #[must_use]
    pub fn passes(&self, name: &OsStr) -> bool {
        let Some(name) = name.to_str() else { return false };
        let mut by_wildcard = false;
        for pattern in &self.pass {
            match pattern.strip_suffix('*') {
                Some(beginning) => by_wildcard |= name.starts_with(beginning),
                None if pattern == name => return true,
                None => {}
            }
        }
        by_wildcard && !is_withheld(name)
    }

    /// The environment of a command: what passes of the caller's, and what is set.
    #[must_use]
    pub fn select(&self, caller: &BTreeMap<OsString, OsString>) -> BTreeMap<OsString, OsString> {
        let passed = caller.iter().filter(|(name, _)| self.passes(name));
        let mut selected: BTreeMap<OsString, OsString> =
            passed.map(|(name, value)| (name.clone(), value.clone())).collect();
        selected.extend(self.set.iter().map(|(name, value)| (name.into(), value.into())));
        selected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(patterns: &[&str]) -> Environment {
        Environment { pass: patterns.iter().map(|p| (*p).to_owned()).collect(), set: BTreeMap::new() }
    }

    #[test]
    fn no_default_is_a_secret() {
        for name in DEFAULT_PASS {
            assert!(!is_withheld(name.trim_end_matches('*')), "{name}");
        }
    }

    #[test]
    fn secrets_pass_only_by_their_exact_name() {
        for name in [
            "OPENAI_API_KEY",
            "GITHUB_TOKEN",
            "PGPASSWORD",
            "DEPLOY_PRIVATE_KEY",
            "CLIENT_SECRET",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "SSH_AUTH_SOCK",
            "GPG_AGENT_INFO",
            "DBUS_SESSION_BUS_ADDRESS",
            "DOCKER_HOST",
            "KUBECONFIG",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_PROFILE",
            "npm_config__authToken",
            "DATABASE_URL",
            "LD_PRELOAD",
            "BASH_ENV",
        ] {
            let os = OsStr::new(name);
            assert!(!pass(DEFAULT_PASS).passes(os), "{name} by default");
            assert!(!pass(&["*"]).passes(os), "{name} by wildcard");
            assert!(pass(&[name]).passes(os), "{name} by name");
        }
    }

    #[test]
    fn ordinary_variables_pass() {
        for name in ["PATH", "HOME", "LC_ALL", "TERM", "CARGO_HOME", "CI", "TZ"] {
            assert!(pass(DEFAULT_PASS).passes(OsStr::new(name)), "{name}");
        }
        assert!(!pass(DEFAULT_PASS).passes(OsStr::new("MY_VARIABLE")));
        assert!(pass(&["MY_*"]).passes(OsStr::new("MY_VARIABLE")));
    }

    #[test]
    fn what_is_set_beats_what_passes() {
        let mut environment = pass(&["A", "B"]);
        environment.set.insert("A".to_owned(), "set".to_owned());
        let caller = [("A", "caller"), ("B", "caller"), ("C", "caller")];
        let caller = caller.map(|(k, v)| (OsString::from(k), OsString::from(v)));
        let selected = environment.select(&BTreeMap::from(caller));
        let want = [("A", "set"), ("B", "caller")].map(|(k, v)| (OsString::from(k), OsString::from(v)));
        assert_eq!(selected, BTreeMap::from(want));
    }
}
