//! Completes a policy with what every local sandbox needs: the system's own directories, the tool
//! chains on PATH, private places for temporary files and the home directory, and the system's secrets
//! on the deny list.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ringfence_model::{
    CredentialSource, Error, ErrorKind, Limits, NetworkPolicy, PathPattern, PathRule, Policy, Result,
    RuleLayer, RuleSource,
};

use crate::git;
use crate::host::{Host, canonical, canonical_or_same};
use crate::names::Names;
use crate::system::System;
use crate::toolchains::{self, Toolchain};

/// Readable inside although the home directory is private: who commits, and how git behaves.
const HOME_READABLE: [&str; 2] = [".gitconfig", ".config/git"];

/// A policy with everything the local fence adds, and what of it is not a plain path rule.
#[derive(Debug, Clone)]
pub struct Completed {
    pub policy: Policy,
    /// Private directories whose host entries are shown read-only.
    pub opened: Vec<PathBuf>,
}

/// Adds the local fence's own rules to `policy`, for commands that start in `project`.
#[must_use]
pub fn complete(policy: Policy, project: &Path, host: &Host) -> Completed {
    complete_for(System::this(), policy, project, host)
}

/// As [`complete`], for a machine with the directories of `system`.
pub(crate) fn complete_for(system: &System, mut policy: Policy, project: &Path, host: &Host) -> Completed {
    let detected = |key: &str| RuleSource::layer(RuleLayer::Detected).with_key(key);
    let built_in = || RuleSource::layer(RuleLayer::BuiltIn);
    let fs = &mut policy.filesystem;

    let mut names = Names::default();
    for rules in [&mut fs.allow_write, &mut fs.allow_read, &mut fs.deny, &mut fs.protect] {
        resolve_links(rules, &mut names);
    }
    let by_the_user =
        |rule: &&PathRule| !matches!(rule.source.layer, RuleLayer::BuiltIn | RuleLayer::Detected);
    let user_roots: Vec<PathBuf> = fs
        .allow_write
        .iter()
        .chain(fs.allow_read.iter().filter(by_the_user))
        .filter_map(|rule| rule.path.as_literal())
        .map(Path::to_owned)
        .chain([host.home.clone()])
        .collect();

    let visible: Vec<PathBuf> =
        system.readable.iter().map(PathBuf::from).filter(|dir| dir.exists()).collect();
    for dir in &visible {
        add(&mut fs.allow_read, PathRule::new(dir.as_path(), built_in().with_key("system")));
    }
    for dir in system.private.iter().map(Path::new).chain([host.home.as_path()]) {
        add(&mut fs.private, PathRule::built_in(dir));
    }
    for path in system.secrets {
        add(&mut fs.deny, PathRule::built_in(*path));
    }
    for path in credential_files(&policy.network, host) {
        for path in [canonical_or_same(&path), path] {
            add(&mut fs.deny, PathRule::new(path, detected("credential of a host")));
        }
    }

    let shown: Vec<&Path> = visible.iter().map(PathBuf::as_path).collect();
    let mut opened = Vec::new();
    for toolchain in toolchains::find(host, &shown) {
        match toolchain {
            Toolchain::Whole(path) => fs.allow_read.push(PathRule::new(path, detected("tool chain on PATH"))),
            Toolchain::Entries(path) => {
                fs.private.push(PathRule::new(path.as_path(), detected("tool chain on PATH")));
                for entry in std::fs::read_dir(&path).into_iter().flatten().flatten() {
                    fs.allow_read.push(PathRule::new(entry.path(), detected("tool chain on PATH")));
                }
                opened.push(path);
            }
        }
    }
    for name in HOME_READABLE {
        let path = host.home.join(name);
        if path.exists() {
            fs.allow_read.push(PathRule::new(path, detected("git identity")));
        }
    }
    if let Some(common) = git::common_dir_of_worktree(project) {
        fs.allow_write.push(PathRule::new(common, detected("repository of this worktree")));
    }
    anchor(&mut fs.deny, &user_roots);
    anchor(&mut fs.protect, &user_roots);
    Completed { policy, opened }
}

/// What no local fence can hold.
pub(crate) fn refuse_what_cannot_be_enforced(policy: &Policy, cwd: &Path) -> Result<()> {
    if policy.network.allow_network {
        return Err(Error::new(
            ErrorKind::SandboxDenied,
            "network.allowNetwork cannot be enforced by the local fence: it has no filtered network",
        )
        .hint("remove allowNetwork, or use a provider with a network"));
    }
    refuse_write_quotas(&policy.limits)?;
    refuse_too_little_memory(&policy.limits)?;
    if cwd.parent().is_none() {
        return Err(Error::new(ErrorKind::SandboxDenied, "the project cannot be the root directory")
            .hint("start in the project's own directory, or name it with --project"));
    }
    if ["/home", "/Users"].map(Path::new).contains(&cwd) {
        let message =
            format!("the project cannot be {}: the home directories of everybody are in it", cwd.display());
        return Err(Error::new(ErrorKind::SandboxDenied, message)
            .hint("start in the project's own directory, or name it with --project"));
    }
    Ok(())
}

/// Where nothing leads out, no request is looked into, and no credential kept from whoever has it already.
pub(crate) fn refuse_inspection(policy: &Policy) -> Result<()> {
    match policy.network.allowed_hosts.iter().find(|rule| rule.inspect.is_some()) {
        Some(rule) => {
            let message = format!("allowedHosts: what is said to {rule} cannot be looked at on this system");
            Err(Error::new(ErrorKind::SandboxDenied, message)
                .hint("allow the host without methods, paths and credential, or not at all"))
        }
        None => Ok(()),
    }
}

/// Files that hold a credential are kept from commands wherever they are.
fn credential_files(network: &NetworkPolicy, host: &Host) -> Vec<PathBuf> {
    let inspects = network.allowed_hosts.iter().filter_map(|rule| rule.inspect.as_ref());
    let sources =
        inspects.filter_map(|inspect| inspect.credential.as_ref()).map(|credential| &credential.from);
    sources
        .filter_map(|source| match source {
            CredentialSource::File(path) => Some(expanded(path, host)),
            CredentialSource::Variables(_) | CredentialSource::Command(_) => None,
        })
        .collect()
}

/// With the home directory in the place of `~`.
pub(crate) fn expanded(path: &Path, host: &Host) -> PathBuf {
    path.strip_prefix("~").map_or_else(|_| path.to_owned(), |below| host.home.join(below))
}

/// With so little a program ends before its first instruction, and nobody can say why.
fn refuse_too_little_memory(limits: &Limits) -> Result<()> {
    const LEAST: u64 = 8 << 20;
    match limits.max_memory_bytes {
        Some(memory) if memory < LEAST => {
            let message =
                format!("a memory limit of {memory} bytes is less than any program needs to start (8M)");
            Err(Error::new(ErrorKind::InvalidConfig, message)
                .hint("numbers without a unit are bytes: write 512M or 2G (--memory, limits.maxMemoryBytes)"))
        }
        _ => Ok(()),
    }
}

/// Nobody counts what is written: a file that is open is written without a call that could be held.
pub fn refuse_write_quotas(limits: &Limits) -> Result<()> {
    let quotas =
        [("maxFileWrites", limits.max_file_writes), ("maxTotalWriteBytes", limits.max_total_write_bytes)];
    match quotas.iter().find(|(_, quota)| quota.is_some()) {
        Some((key, _)) => {
            let message = format!("limits.{key} cannot be enforced: nobody counts what commands write");
            Err(Error::new(ErrorKind::InvalidConfig, message)
                .hint(format!("remove limits.{key}; maxFileSizeBytes limits each file")))
        }
        None => Ok(()),
    }
}

/// Adds a rule unless the policy has one about the same path.
fn add(rules: &mut Vec<PathRule>, rule: PathRule) {
    if !rules.iter().any(|known| known.path == rule.path) {
        rules.push(rule);
    }
}

/// Rules about paths that are links hold for what the links lead to as well.
fn resolve_links(rules: &mut Vec<PathRule>, names: &mut Names) {
    let mut resolved = Vec::new();
    // Most rules share a few parents, and most of their paths do not exist.
    let mut parents: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    for rule in rules.iter() {
        if let Some(path) = rule.path.as_literal() {
            let there = if names.lack(path) { None } else { canonical(path) };
            let canonical = there.unwrap_or_else(|| match (path.parent(), path.file_name()) {
                (Some(parent), Some(name)) => {
                    parents.entry(parent.to_owned()).or_insert_with(|| canonical_or_same(parent)).join(name)
                }
                _ => path.to_owned(),
            });
            if canonical != path {
                resolved
                    .push(PathRule { path: PathPattern::literal(&canonical), source: rule.source.clone() });
            }
        }
    }
    rules.extend(resolved);
}

/// A rule for "every depth" is about the user's own trees. Below the system's directories the same
/// names are part of packages (an `.env` in a node module's tests, a `.git/config` in a template).
fn anchor(rules: &mut Vec<PathRule>, roots: &[PathBuf]) {
    let mut anchored = Vec::with_capacity(rules.len());
    for rule in rules.drain(..) {
        let syntax = rule.path.to_syntax().into_owned();
        if rule.path.is_glob() && syntax.starts_with("**/") {
            for root in roots {
                let root = PathPattern::literal(root).to_syntax().into_owned();
                let path = PathPattern::parse(&format!("{}/{syntax}", root.trim_end_matches('/')));
                anchored.push(PathRule { path, source: rule.source.clone() });
            }
        } else {
            anchored.push(rule);
        }
    }
    *rules = anchored;
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_model::{Access, PathOutcome};
    use std::collections::BTreeMap;

    fn sample(project: &Path, home: &Path) -> Policy {
        let mut policy = Policy::default();
        policy.filesystem.allow_write.push(PathRule::built_in(project));
        policy.filesystem.deny.push(PathRule::built_in("**/.env"));
        policy.filesystem.deny.push(PathRule::built_in(home.join(".ssh")));
        let host = Host::from_environment(BTreeMap::from([
            ("HOME".into(), home.as_os_str().to_owned()),
            ("PATH".into(), "/usr/bin".into()),
        ]));
        complete(policy, project, &host).policy
    }

    #[test]
    fn the_system_is_readable_and_its_secrets_are_not() {
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path().canonicalize().unwrap();
        let project = home.join("project");
        std::fs::create_dir(&project).unwrap();
        let policy = sample(&project, &home);
        let allowed = |path: &Path, access| policy.filesystem.decide(path, access).allowed();
        assert!(allowed(Path::new("/usr/bin/env"), Access::Execute));
        assert!(!allowed(Path::new("/usr/bin/env"), Access::Write));
        assert!(!allowed(Path::new("/etc/shadow"), Access::Read));
        assert!(!allowed(Path::new("/etc/ssh/ssh_host_rsa_key"), Access::Read));
        assert!(allowed(&project.join("src/main.rs"), Access::Write));
        assert!(!allowed(&project.join("a/b/.env"), Access::Read));
        assert!(!allowed(&home.join(".ssh/id_rsa"), Access::Read));
        assert_eq!(
            policy.filesystem.decide(&home.join(".cache/x"), Access::Write).outcome,
            PathOutcome::Private
        );
    }

    #[test]
    fn every_depth_means_the_users_trees() {
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path().canonicalize().unwrap();
        let policy = sample(&home.join("p"), &home);
        assert!(policy.filesystem.decide(Path::new("/usr/lib/node_modules/x/.env"), Access::Read).allowed());
    }

    #[test]
    fn a_rule_about_a_link_holds_for_its_target() {
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path().canonicalize().unwrap();
        std::fs::create_dir_all(home.join("vault/ssh")).unwrap();
        std::os::unix::fs::symlink(home.join("vault/ssh"), home.join(".ssh")).unwrap();
        let project = home.join("vault");
        let policy = sample(&project, &home);
        assert!(!policy.filesystem.decide(&home.join("vault/ssh/id"), Access::Read).allowed());
    }
}
