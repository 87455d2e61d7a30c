//! A home, a project and the files in them, for tests of the whole.

mod checks;
mod grants;
mod hosts;
mod kits;
mod layers;
mod policies;
mod profiles;
mod projects;
mod properties;
mod reading;
mod rules;
mod schemas;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use ringfence_gate::{Decision, Gate, Language, Options, Request};
use ringfence_model::{Access, Policy, RuleLayer};

/// A place of its own on the disk.
struct World {
    root: TempDir,
    env: EnvMap,
}

impl World {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let world = Self { env: EnvMap::new(), root };
        for dir in [world.home(), world.project()] {
            std::fs::create_dir_all(dir).unwrap();
        }
        world
    }

    fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    fn project(&self) -> PathBuf {
        self.home().join("project")
    }

    fn ringfence_home(&self) -> PathBuf {
        self.home().join(".ringfence")
    }

    fn user_file(&self) -> PathBuf {
        self.ringfence_home().join("sandbox.json")
    }

    fn project_file(&self) -> PathBuf {
        self.project().join(".ringfence/sandbox.json")
    }

    fn user(self, text: &str) -> Self {
        write(&self.user_file(), text);
        self
    }

    fn project_says(self, text: &str) -> Self {
        write(&self.project_file(), text);
        self
    }

    fn env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    fn with<T>(
        &self,
        change: impl FnOnce(&mut LoadOptions<'_>),
        run: impl FnOnce(&LoadOptions<'_>) -> T,
    ) -> T {
        let (project, home, ringfence_home) = (self.project(), self.home(), self.ringfence_home());
        let mut options = LoadOptions::new(&project, &home, &ringfence_home, &self.env);
        change(&mut options);
        run(&options)
    }

    fn load(&self) -> Loaded {
        self.with(|_| {}, |options| load(options).unwrap())
    }

    /// Loads with the section of an agent.
    fn load_agent(&self, agent: &str) -> Loaded {
        let agent = agent.to_owned();
        let (project, home, ringfence_home) = (self.project(), self.home(), self.ringfence_home());
        let mut options = LoadOptions::new(&project, &home, &ringfence_home, &self.env);
        options.agent = Some(&agent);
        load(&options).unwrap()
    }

    fn load_with(&self, objects: Vec<Value>, call: Value) -> Loaded {
        let call = serde_json::from_value(call).unwrap();
        self.with(
            |options| {
                options.objects = objects;
                options.call = call;
            },
            |options| load(options).unwrap(),
        )
    }

    fn policy(&self) -> Policy {
        self.policy_of(&self.load())
    }

    fn policy_of(&self, loaded: &Loaded) -> Policy {
        let (project, home, ringfence_home) = (self.project(), self.home(), self.ringfence_home());
        let mut inputs = PolicyInputs::new(&project, &home, &ringfence_home, &self.env);
        inputs.platform = builtin::Platform::Linux;
        loaded.policy(&inputs)
    }

    fn check(&self) -> Vec<Diagnostic> {
        self.with(|_| {}, check)
    }
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn host_texts(entries: &[HostEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.text.as_str()).collect()
}

fn texts(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.text.as_str()).collect()
}

/// The entries that a layer above the built-in ones added.
fn added(entries: &[Entry]) -> Vec<&str> {
    let own = entries.iter().filter(|entry| entry.source.layer != RuleLayer::BuiltIn);
    own.map(|entry| entry.text.as_str()).collect()
}

fn patterns(rules: &[ringfence_model::PathRule]) -> Vec<String> {
    rules.iter().map(|rule| rule.path.to_string()).collect()
}

fn kinds(found: &[Diagnostic]) -> Vec<(DiagnosticKind, &str)> {
    found.iter().map(|d| (d.kind, d.key.as_deref().unwrap_or_default())).collect()
}

fn may(policy: &Policy, path: impl AsRef<Path>, access: Access) -> bool {
    policy.filesystem.decide(path.as_ref(), access).allowed()
}

/// Whether the lists of commands let this one run, as the gate reads them.
fn is_listed(config: &SandboxConfig, command: &str) -> bool {
    let options = Options::default().restricted_to(&config.allowed_commands, &config.blocked_commands);
    let request = Request::new(Language::Shell, command, "/p", "/h");
    Gate::new(options.unwrap()).judge(&request).decision != Decision::Deny
}
