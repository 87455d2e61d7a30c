//! The policy that follows from a configuration: every path absolute, every rule with its source.

use std::ffi::OsStr;
use std::path::Path;

use ringfence_model::config::{Entry, HostWord, Mode, PermanentGrant, SandboxConfig, WorkspaceAccess};
use ringfence_model::environment::DEFAULT_PASS;
use ringfence_model::sensitive::SENSITIVE_NAMES;
use ringfence_model::{
    Access, Environment, Filesystem, Grant, GrantScope, HostRule, NetworkPolicy, PathPattern, PathRule,
    Policy, RuleLayer, RuleSource,
};

use super::builtin::{BLOCKED_PORTS, Platform, Row};
use super::expand::{EnvMap, Expander};
use super::load::{Loaded, add_built_in};
use super::sets::{self, Machine};

/// Inputs of a policy besides the configuration.
#[derive(Debug, Clone, Copy)]
pub struct PolicyInputs<'a> {
    /// Absolute.
    pub project: &'a Path,
    /// The user's home directory, absolute.
    pub home: &'a Path,
    /// See [`super::ringfence_home`].
    pub ringfence_home: &'a Path,
    pub env: &'a EnvMap,
    /// Grants of a person for this session.
    pub grants: &'a [Grant],
    pub platform: Platform,
}

impl<'a> PolicyInputs<'a> {
    #[must_use]
    pub fn new(project: &'a Path, home: &'a Path, ringfence_home: &'a Path, env: &'a EnvMap) -> Self {
        Self { project, home, ringfence_home, env, grants: &[], platform: Platform::current() }
    }
}

impl Loaded {
    /// The policy of a sandbox with this configuration.
    #[must_use]
    pub fn policy(&self, inputs: &PolicyInputs<'_>) -> Policy {
        build(&self.config, inputs, self.origin("workingDir"))
    }
}

/// The policy of a sandbox with a configuration built in code. The built-in deny and protect lists are part
/// of it even when the configuration has none.
#[must_use]
pub fn policy(config: &SandboxConfig, inputs: &PolicyInputs<'_>) -> Policy {
    let mut config = config.clone();
    add_built_in(&mut config, inputs.platform, inputs.home, inputs.ringfence_home);
    if config.provider == "local" {
        config.allow_network = false;
    }
    build(&config, inputs, RuleSource::layer(RuleLayer::Call).with_key("workingDir"))
}

fn build(config: &SandboxConfig, inputs: &PolicyInputs<'_>, working_dir: RuleSource) -> Policy {
    Policy {
        filesystem: filesystem(config, inputs, working_dir),
        network: network(config, inputs),
        limits: config.limits.clone(),
        environment: environment(config),
    }
}

/// Rules in order, no pattern twice: the first one that has it is named.
struct Rules<'a> {
    expander: Expander<'a>,
    rules: Vec<PathRule>,
}

impl<'a> Rules<'a> {
    fn new(expander: Expander<'a>, room: usize) -> Self {
        Self { expander, rules: Vec::with_capacity(room) }
    }

    fn add(mut self, pattern: PathPattern, source: RuleSource) -> Self {
        if !self.rules.iter().any(|rule| rule.path == pattern) {
            self.rules.push(PathRule::new(pattern, source));
        }
        self
    }

    fn text(self, text: &str, source: RuleSource) -> Self {
        let pattern = self.expander.of(source.layer).pattern(text).pattern;
        self.add(pattern, source)
    }

    fn entries(self, entries: &[Entry]) -> Self {
        entries.iter().fold(self, |mut rules, entry| {
            if entry.source.layer != RuleLayer::BuiltIn {
                return rules.text(&entry.text, entry.source.clone());
            }
            // The built-in lists have nothing twice (a test sees to that) and come first; comparing them with
            // each other would be most of the time a start spends here.
            let pattern = rules.expander.pattern(&entry.text).pattern;
            rules.rules.push(PathRule::new(pattern, entry.source.clone()));
            rules
        })
    }

    fn rows(self, rows: &[Row], key: &str) -> Self {
        rows.iter().fold(self, |rules, row| rules.add(PathPattern::parse(row.path), built_in(key)))
    }
}

fn built_in(key: &str) -> RuleSource {
    RuleSource::layer(RuleLayer::BuiltIn).with_key(key)
}

fn filesystem(config: &SandboxConfig, inputs: &PolicyInputs<'_>, working_dir: RuleSource) -> Filesystem {
    let expander = Expander { home: inputs.home, project: inputs.project, env: inputs.env };
    let rules = |room| Rules::new(expander, room);

    // The project first, then what the configuration adds.
    let project = PathPattern::literal(inputs.project);
    let mut allow_write = rules(config.allow_write.len() + 4);
    let mut allow_read = rules(config.allow_read.len() + 2);
    match config.workspace_access {
        None | Some(WorkspaceAccess::Rw) => allow_write = allow_write.add(project, built_in("project")),
        Some(WorkspaceAccess::Ro) => allow_read = allow_read.add(project, built_in("workspaceAccess")),
        Some(WorkspaceAccess::None) => {}
    }
    if let Some(dir) = &config.working_dir {
        allow_write = allow_write.text(dir, working_dir);
    }
    allow_write = allow_write.entries(&config.allow_write).entries(&config.allowed_tmp_paths);

    if config.mode == Mode::Permissive {
        allow_read = allow_read.text("/", built_in("mode"));
    }
    allow_read = allow_read.entries(&config.allow_read);

    let strict = config.strict_sensitive_files;
    let mut deny = rules(config.deny.len() + SENSITIVE_NAMES.len()).entries(&config.deny);
    let mut protect = rules(config.protect.len() + 8).entries(&config.protect);
    let extra =
        config.additional_sensitive_files.iter().map(|entry| (entry.text.as_str(), entry.source.clone()));
    if strict {
        let names = SENSITIVE_NAMES.iter().filter(|name| !name.read_by_tools);
        deny = names.fold(deny, |deny, name| {
            deny.add(sensitive(&expander, name.name), built_in("strictSensitiveFiles"))
        });
        deny = extra
            .fold(deny, |deny, (name, source)| deny.add(sensitive(&expander.of(source.layer), name), source));
    } else {
        protect = extra.fold(protect, |protect, (name, source)| {
            protect.add(sensitive(&expander.of(source.layer), name), source)
        });
    }

    let mut private = rules(6)
        .add(PathPattern::literal(inputs.home), built_in("home"))
        .rows(inputs.platform.private(), "private");
    if let Some(dir) = temporary_directory(inputs) {
        private = private.add(PathPattern::literal(dir), built_in("TMPDIR"));
    }

    let mut grants: Vec<Grant> =
        config.grants.iter().filter_map(|grant| permanent(grant, inputs.home)).collect();
    for grant in inputs.grants.iter().filter(|grant| grant.access != Access::Connect) {
        if !grants.contains(grant) {
            grants.push(grant.clone());
        }
    }
    Filesystem {
        allow_write: allow_write.rules,
        allow_read: allow_read.rules,
        deny: deny.rules,
        protect: protect.rules,
        private: private.rules,
        grants,
    }
}

/// A sensitive name as a pattern that holds at every depth; a path stays a path.
fn sensitive(expander: &Expander<'_>, name: &str) -> PathPattern {
    if name.starts_with(['/', '~', '$']) || name.starts_with("**/") {
        return expander.pattern(name).pattern;
    }
    let name = PathPattern::literal(Path::new(name.trim_end_matches('/')));
    PathPattern::parse(&format!("**/{}", name.to_syntax()))
}

/// macOS gives every user a temporary directory of their own; elsewhere `/tmp` is the one inside.
fn temporary_directory<'a>(inputs: &PolicyInputs<'a>) -> Option<&'a Path> {
    let dir = Path::new(inputs.env.get(OsStr::new("TMPDIR"))?);
    let proper = dir.is_absolute()
        && dir.components().count() > 1
        && !dir.components().any(|part| matches!(part, std::path::Component::ParentDir))
        && !dir.starts_with(inputs.project);
    (proper && inputs.platform == Platform::MacOs).then_some(dir)
}

/// A grant's path is literal: only `~` in front of it is expanded, and it must be absolute then.
fn permanent(grant: &PermanentGrant, home: &Path) -> Option<Grant> {
    let path = match grant.path.strip_prefix('~') {
        Some("") => home.to_path_buf(),
        Some(below) => home.join(below.strip_prefix('/')?),
        None => Path::new(&grant.path).to_path_buf(),
    };
    let plain =
        path.is_absolute() && !path.components().any(|part| matches!(part, std::path::Component::ParentDir));
    plain.then_some(Grant {
        path,
        access: grant.access,
        scope: GrantScope::Permanent,
        recursive: grant.recursive,
    })
}

fn network(config: &SandboxConfig, inputs: &PolicyInputs<'_>) -> NetworkPolicy {
    let machine = Machine::new(inputs.home, inputs.project, inputs.env);
    let rules = |text: &str, source: &RuleSource| match HostWord::of(text) {
        Ok(HostWord::Set(name)) => sets::rules(name, &machine, source),
        _ => HostRule::parse(text, source.clone()).into_iter().collect(),
    };
    let allowed = config.allowed_hosts.iter().flat_map(|entry| match entry.rule() {
        Some(rule) => vec![rule],
        None => rules(&entry.text, &entry.source),
    });
    let blocked = config.blocked_hosts.iter().flat_map(|entry| rules(&entry.text, &entry.source));
    let granted = inputs.grants.iter().filter(|grant| grant.access == Access::Connect).filter_map(|grant| {
        let source = RuleSource::layer(RuleLayer::Grant);
        HostRule::parse(grant.path.to_str()?, source).ok()
    });
    let strict = config.mode == Mode::Strict;
    // A person who names a port means it, also when it is one of those blocked by default.
    let mut blocked_ports: Vec<u16> =
        BLOCKED_PORTS.into_iter().filter(|port| !config.allowed_ports.contains(port)).collect();
    super::merge::append(&mut blocked_ports, config.blocked_ports.iter().copied());
    NetworkPolicy {
        allow_network: config.allow_network && !strict,
        allowed_hosts: if strict { vec![] } else { allowed.chain(granted).collect() },
        blocked_hosts: blocked.collect(),
        allowed_ports: config.allowed_ports.clone(),
        blocked_ports,
        ask: config.network.ask && !strict,
        host_ports: if strict { vec![] } else { config.network.host_ports.clone() },
        max_connections: config.network.max_connections,
        max_connections_per_minute: config.network.max_connections_per_minute,
        max_bytes_out: config.network.max_bytes_out,
    }
}

fn environment(config: &SandboxConfig) -> Environment {
    let mut pass: Vec<String> = DEFAULT_PASS.iter().map(|name| (*name).to_owned()).collect();
    super::merge::append(&mut pass, config.env_passthrough.iter().map(|entry| entry.text.clone()));
    Environment { pass, set: config.env_override.clone() }
}
