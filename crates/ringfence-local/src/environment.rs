//! The command's environment: clean, plus what passes, plus what the sandbox itself sets.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ringfence_model::Environment;

use crate::host::Host;

/// Never passed by a wildcard or a default, only when somebody names them exactly: secrets, and the
/// sockets of agents that act with the user's rights.
const SECRET_SUFFIXES: [&str; 8] =
    ["API_KEY", "TOKEN", "PASSWORD", "PASSWD", "PRIVATE_KEY", "SECRET", "CREDENTIALS", "ACCESS_KEY"];
const SECRET_PREFIXES: [&str; 4] = ["AWS_", "DBUS_", "GPG_", "SSH_"];
const SECRET_NAMES: [&str; 5] =
    ["DOCKER_HOST", "KUBECONFIG", "DATABASE_URL", "XAUTHORITY", "WAYLAND_DISPLAY"];

/// Whether a variable of that name is likely to hold a secret or a way to the host.
#[must_use]
pub fn looks_secret(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    SECRET_SUFFIXES.iter().any(|suffix| upper.ends_with(suffix))
        || SECRET_PREFIXES.iter().any(|prefix| upper.starts_with(prefix))
        || SECRET_NAMES.contains(&upper.as_str())
}

/// Variables that make the loader, the shell or git run something else: dropped even when named, since
/// they would change what runs inside before anything is judged.
const NEVER: [&str; 6] = ["LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "BASH_ENV", "ENV", "PROMPT_COMMAND"];

/// Puts the environment together. Later layers win: passed, then the sandbox's own, then the policy's
/// `set`, then the call's.
#[must_use]
pub fn build(
    policy: &Environment,
    host: &Host,
    cwd: &Path,
    call: &BTreeMap<String, String>,
) -> BTreeMap<OsString, OsString> {
    let mut env = BTreeMap::new();
    for (name, value) in &host.environment {
        if name.to_str().is_some_and(|name| passes(policy, name)) {
            env.insert(name.clone(), value.clone());
        }
    }
    let mut own = |name: &str, value: &OsStr| {
        env.insert(name.into(), value.to_owned());
    };
    own("HOME", host.home.as_os_str());
    own("TMPDIR", OsStr::new("/tmp"));
    own("TMPPREFIX", OsStr::new("/tmp/zsh"));
    own("PWD", cwd.as_os_str());
    own("XDG_RUNTIME_DIR", OsStr::new("/run"));
    own("RINGFENCE", OsStr::new("1"));
    // Templates are mostly sample hooks, and hooks are protected: without this `git init` would fail.
    own("GIT_TEMPLATE_DIR", OsStr::new(""));
    if let Ok(path) = std::env::join_paths(&host.path) {
        own("PATH", &path);
    }
    if rustix::process::geteuid().is_root() {
        // tar restores owners when it thinks it is root, which nobody inside can.
        own("TAR_OPTIONS", OsStr::new("--no-same-owner"));
    }
    for (name, value) in policy.set.iter().chain(call) {
        env.insert(name.into(), value.into());
    }
    env.retain(|name, value| is_sound(name, value));
    env
}

fn passes(policy: &Environment, name: &str) -> bool {
    if NEVER.contains(&name) {
        return false;
    }
    let exactly = policy.pass.iter().any(|pattern| pattern == name);
    let by_wildcard = || {
        policy
            .pass
            .iter()
            .any(|pattern| pattern.strip_suffix('*').is_some_and(|prefix| name.starts_with(prefix)))
    };
    exactly || (by_wildcard() && !looks_secret(name))
}

/// What can be handed to `execve`: a name without `=`, and no NUL anywhere.
fn is_sound(name: &OsStr, value: &OsStr) -> bool {
    let (name, value) = (name.as_bytes(), value.as_bytes());
    !name.is_empty() && !name.contains(&b'=') && !name.contains(&0) && !value.contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(variables: &[(&str, &str)]) -> Host {
        Host::from_environment(variables.iter().map(|(name, value)| (name.into(), value.into())).collect())
    }

    #[test]
    fn only_what_is_listed_passes_and_secrets_only_by_name() {
        let host = host(&[
            ("HOME", "/home/u"),
            ("LANG", "C.UTF-8"),
            ("LC_TIME", "de_DE"),
            ("MY_API_KEY", "x"),
            ("MY_COLOR", "red"),
            ("SSH_AUTH_SOCK", "/tmp/agent"),
            ("LD_PRELOAD", "/evil.so"),
            ("RANDOM_THING", "1"),
        ]);
        let policy = Environment {
            pass: ["LANG", "LC_*", "MY_*", "LD_PRELOAD"].map(String::from).to_vec(),
            ..Environment::default()
        };
        let env = build(&policy, &host, Path::new("/p"), &BTreeMap::new());
        let has = |name: &str| env.contains_key(OsStr::new(name));
        assert!(has("LANG") && has("LC_TIME") && has("MY_COLOR"));
        for absent in ["MY_API_KEY", "SSH_AUTH_SOCK", "LD_PRELOAD", "RANDOM_THING"] {
            assert!(!has(absent), "{absent}");
        }

        let named = Environment { pass: vec!["MY_API_KEY".into()], ..Environment::default() };
        let env = build(&named, &host, Path::new("/p"), &BTreeMap::new());
        assert_eq!(env.get(OsStr::new("MY_API_KEY")).map(OsString::as_os_str), Some(OsStr::new("x")));
    }

    #[test]
    fn the_call_wins_over_the_policy_over_the_sandbox() {
        let policy = Environment {
            set: BTreeMap::from([("TMPDIR".into(), "/policy".into()), ("A".into(), "policy".into())]),
            ..Environment::default()
        };
        let call = BTreeMap::from([("A".into(), "call".into()), ("BAD=NAME".into(), "x".into())]);
        let env = build(&policy, &host(&[]), Path::new("/p"), &call);
        let get = |name: &str| env.get(OsStr::new(name)).and_then(|value| value.to_str()).map(str::to_owned);
        assert_eq!(get("A").as_deref(), Some("call"));
        assert_eq!(get("TMPDIR").as_deref(), Some("/policy"));
        assert_eq!(get("BAD=NAME"), None);
        assert_eq!(get("PWD").as_deref(), Some("/p"));
    }
}
