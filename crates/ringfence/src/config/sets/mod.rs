//! Sets of hosts by the name of a tool: `npm`, `debian`, … Which hosts they are is found on this machine, in the
//! configuration of the tool or by asking the tool for its default; none is written here but those of forges.
//!
//! Nothing of a project is read and nothing in it is run: its file may not widen, and neither may its `.npmrc`.

mod ask;
mod read;
mod tools;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use ringfence_model::config::HOST_SETS;
use ringfence_model::{HostRule, LockExt as _, RuleLayer, RuleSource};
use serde::Serialize;

use super::expand::EnvMap;

/// What is looked at.
#[derive(Debug, Clone)]
pub struct Machine<'a> {
    pub home: &'a Path,
    pub project: &'a Path,
    pub env: &'a EnvMap,
    /// The directory of what holds for all users.
    pub etc: PathBuf,
}

impl<'a> Machine<'a> {
    #[must_use]
    pub fn new(home: &'a Path, project: &'a Path, env: &'a EnvMap) -> Self {
        Self { home, project, env, etc: PathBuf::from("/etc") }
    }

    fn key(&self, set: &'static str) -> (&'static str, u64) {
        let mut hasher = DefaultHasher::new();
        (self.home, self.project, &self.etc).hash(&mut hasher);
        let mut variables: Vec<_> = self.env.iter().collect();
        variables.sort();
        variables.hash(&mut hasher);
        (set, hasher.finish())
    }
}

/// A host of a set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FoundHost {
    /// As a rule: `example.com:443`.
    pub host: String,
    /// The file, variable or command that named it.
    pub from: String,
}

/// A set, and what it is here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostSet {
    pub name: &'static str,
    pub about: &'static str,
    /// None: it cannot be used on this machine.
    pub hosts: Vec<FoundHost>,
}

/// Every set with its hosts here.
#[must_use]
pub fn all(machine: &Machine<'_>) -> Vec<HostSet> {
    let set = |(name, about): &(&'static str, &'static str)| HostSet {
        name,
        about,
        hosts: find(name, machine).to_vec(),
    };
    HOST_SETS.iter().map(set).collect()
}

type Known = Mutex<HashMap<(&'static str, u64), Arc<[FoundHost]>>>;

/// The hosts of a set, looked for once in the life of the process.
#[must_use]
pub fn find(name: &'static str, machine: &Machine<'_>) -> Arc<[FoundHost]> {
    static KNOWN: OnceLock<Known> = OnceLock::new();
    let known = KNOWN.get_or_init(Known::default);
    let key = machine.key(name);
    if let Some(found) = known.locked().get(&key) {
        return Arc::clone(found);
    }
    // Not under the lock: a tool may take its time.
    let found: Arc<[FoundHost]> = tools::find(name, machine).into();
    known.locked().insert(key, Arc::clone(&found));
    found
}

/// The rules of a set that was written at `source`.
pub(super) fn rules(name: &'static str, machine: &Machine<'_>, source: &RuleSource) -> Vec<HostRule> {
    let rule = |found: &FoundHost| {
        let key = Some(format!("set {name}: {}", found.from));
        let source = RuleSource { layer: RuleLayer::Detected, key, ..source.clone() };
        HostRule::parse(&found.host, source).ok()
    };
    find(name, machine).iter().filter_map(rule).collect()
}

pub(super) fn nothing_found(name: &str) -> String {
    format!("the set `{name}` finds no host on this machine")
}

pub(super) fn instead(name: &str) -> String {
    format!("name the hosts instead of `{name}`; `ringfence config sets` shows what is found here")
}

#[cfg(test)]
mod tests;
