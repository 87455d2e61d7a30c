//! The command's environment: clean, plus what passes, plus what the sandbox itself sets.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ringfence_model::Policy;

use crate::host::Host;

/// Where the sandbox's own directories are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    pub home: PathBuf,
    pub tmp: PathBuf,
    pub run: PathBuf,
}

impl Places {
    /// The usual ones, which a sandbox with mounts has to itself.
    #[must_use]
    pub fn usual(host: &Host) -> Self {
        Self { home: host.home.clone(), tmp: "/tmp".into(), run: "/run".into() }
    }
}

/// Without a network, trying again only takes time: package managers wait more than a minute before they say so.
const AT_ONCE: [(&str, &str); 4] = [
    ("CARGO_NET_RETRY", "0"),
    ("PIP_RETRIES", "0"),
    ("UV_HTTP_RETRIES", "0"),
    ("npm_config_fetch_retries", "0"),
];

/// Puts the environment together. Later layers win: passed, then the sandbox's own, then the policy's
/// `set`, then the call's.
#[must_use]
pub fn build(
    policy: &Policy,
    host: &Host,
    places: &Places,
    cwd: &Path,
    call: &BTreeMap<String, String>,
) -> BTreeMap<OsString, OsString> {
    let has_network = policy.network.is_by_name();
    let policy = &policy.environment;
    let passed = host.environment.iter().filter(|(name, _)| policy.passes(name));
    let mut env: BTreeMap<OsString, OsString> =
        passed.map(|(name, value)| (name.clone(), value.clone())).collect();
    let mut own = |name: &str, value: &OsStr| {
        env.insert(name.into(), value.to_owned());
    };
    own("HOME", places.home.as_os_str());
    own("TMPDIR", places.tmp.as_os_str());
    own("TMPPREFIX", places.tmp.join("zsh").as_os_str());
    own("PWD", cwd.as_os_str());
    own("XDG_RUNTIME_DIR", places.run.as_os_str());
    own("RINGFENCE", OsStr::new("1"));
    own("GIT_TEMPLATE_DIR", templates(&host.path).as_os_str());
    for (name, value) in AT_ONCE.into_iter().filter(|_| !has_network) {
        env.entry(name.into()).or_insert_with(|| value.into());
    }
    let mut own = |name: &str, value: &OsStr| {
        env.insert(name.into(), value.to_owned());
    };
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

/// What `git init` begins with: the templates of the git on the path, if the hooks in them are examples. Others are
/// protected, and it would fail; as it would on macOS, where nobody tells them apart.
fn templates(path: &[PathBuf]) -> PathBuf {
    let is_example = |name: &OsStr| name.to_str().is_some_and(ringfence_git::names::is_sample);
    let are_examples = |templates: &PathBuf| {
        let mut hooks = std::fs::read_dir(templates.join("hooks")).into_iter().flatten();
        templates.is_dir() && hooks.all(|hook| hook.is_ok_and(|hook| is_example(&hook.file_name())))
    };
    let git = path.iter().find(|directory| directory.join("git").exists()).and_then(|found| found.parent());
    let places =
        git.into_iter().chain([Path::new("/usr")]).map(|prefix| prefix.join("share/git-core/templates"));
    places.into_iter().find(are_examples).filter(|_| cfg!(target_os = "linux")).unwrap_or_default()
}

/// What can be handed to `execve`: a name without `=`, and no NUL anywhere.
fn is_sound(name: &OsStr, value: &OsStr) -> bool {
    let (name, value) = (name.as_bytes(), value.as_bytes());
    !name.is_empty() && !name.contains(&b'=') && !name.contains(&0) && !value.contains(&0)
}

#[cfg(test)]
mod tests {
    use ringfence_model::Environment;

    use super::*;

    fn host(variables: &[(&str, &str)]) -> Host {
        Host::from_environment(variables.iter().map(|(name, value)| (name.into(), value.into())).collect())
    }

    #[test]
    fn the_call_wins_over_the_policy_over_the_sandbox() {
        let set = BTreeMap::from([("TMPDIR".into(), "/policy".into()), ("A".into(), "policy".into())]);
        let policy =
            Policy { environment: Environment { set, ..Environment::default() }, ..Policy::default() };
        let call = BTreeMap::from([("A".into(), "call".into()), ("BAD=NAME".into(), "x".into())]);
        let host = host(&[]);
        let env = build(&policy, &host, &Places::usual(&host), Path::new("/p"), &call);
        let get = |name: &str| env.get(OsStr::new(name)).and_then(|value| value.to_str()).map(str::to_owned);
        assert_eq!(get("A").as_deref(), Some("call"));
        assert_eq!(get("TMPDIR").as_deref(), Some("/policy"));
        assert_eq!(get("BAD=NAME"), None);
        assert_eq!(get("PWD").as_deref(), Some("/p"));
    }
}
