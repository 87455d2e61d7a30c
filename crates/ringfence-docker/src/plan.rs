//! What one sandbox is made from: the provider's options, the policy and the caller, turned into a specification.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ringfence_fence::CreateOptions;
use ringfence_local::complete::refuse_write_quotas;
use ringfence_model::config::{DockerSection, Precision, Size, WorkspaceAccess};
use ringfence_model::{Access, Error, ErrorKind, PathRule, Policy, Result};
use serde::Deserialize;

use crate::engine::Endpoint;
use crate::images::Recipe;
use crate::options::forbidden::ForbiddenPlaces;
use crate::options::{self, ContainerRequest, ContainerSpec, EnvRules, Forbidden, Surroundings};

/// Whether our own program is put into the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GuestMode {
    /// Where it can run; else the image's own `sh` runs commands, and results say what that does not promise.
    #[default]
    Auto,
    /// Nothing starts without it.
    Required,
    /// Never.
    Off,
}

/// How long a container lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Life {
    /// It is used again by the next sandbox of the same scope.
    #[default]
    Kept,
    /// One for each command, always removed.
    Simple,
}

/// The provider's own section.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ProviderOptions {
    pub docker: DockerSection,
    /// None: the workspace itself, writable.
    pub workspace_access: Option<WorkspaceAccess>,
    /// The agent's workspace, when the sandbox has one of its own.
    pub agent_workspace: Option<PathBuf>,
    pub guest: GuestMode,
    /// A program that can be a guest; see `ringfence_local::guest`.
    pub guest_program: Option<PathBuf>,
    pub life: Life,
    /// Whether an image that is not here is fetched from its registry. The default image always is.
    pub pull: bool,
    /// What an image that is not here is made from.
    pub build: Option<Recipe>,
    /// A command whose directory the container does not have runs where its shell is, with a warning, instead of not at all.
    pub workdir_fallback: bool,
    /// What the guest's supervisor looks at: `full`, `writes` or `off`.
    pub precision: Precision,
    /// Like `DOCKER_HOST`.
    pub engine: Option<String>,
    /// The ledger that containers are registered in. None: nothing is remembered about them.
    pub ledger: Option<PathBuf>,
    /// Which of its variables a container gets: `usual` or `strict`.
    pub env_rules: EnvRules,
    /// The person's home, whose secrets no container sees.
    pub home: Option<PathBuf>,
}

impl ProviderOptions {
    pub fn read(options: &serde_json::Value) -> Result<Self> {
        if options.is_null() {
            return Ok(Self::default());
        }
        serde_json::from_value(options.clone()).map_err(|error| {
            Error::new(ErrorKind::InvalidConfig, format!("provider options of docker: {error}"))
        })
    }

    pub fn endpoint(
        &self,
        environment: &BTreeMap<std::ffi::OsString, std::ffi::OsString>,
    ) -> Result<Endpoint> {
        match &self.engine {
            Some(host) => Endpoint::parse(host),
            None => Endpoint::find(environment),
        }
    }
}

/// Checks everything and gives the container that follows from it.
pub fn specify(
    options: &CreateOptions,
    own: &ProviderOptions,
    endpoint: &Endpoint,
    scope_key: &str,
    now_ms: u64,
) -> Result<ContainerSpec> {
    refuse_what_cannot_be_enforced(&options.policy)?;
    let mut docker = own.docker.clone();
    tighten(&mut docker, &options.policy);
    let mut surroundings = Surroundings { home: own.home.clone(), ..Surroundings::default() };
    if let Endpoint::Socket(path) = endpoint {
        surroundings.forbidden.push(Forbidden::new(path.clone(), "the container engine's socket"));
    }
    show_what_is_allowed(&mut docker, &mut surroundings, options);
    let mut request = ContainerRequest::new(&docker, scope_key, &options.cwd);
    request.access = own.workspace_access.unwrap_or(WorkspaceAccess::Rw);
    if let Some(agents) = &own.agent_workspace {
        request.agent_workspace = agents;
    }
    request.env_rules = own.env_rules;
    request.surroundings = surroundings;
    request.created_at_ms = now_ms;
    let spec = options::build(&request)?;
    refuse_another_network(&spec, &options.policy)?;
    Ok(spec)
}

/// What no container can hold.
fn refuse_what_cannot_be_enforced(policy: &Policy) -> Result<()> {
    refuse_write_quotas(&policy.limits)?;
    let network = &policy.network;
    if network.allow_network && !(network.allowed_hosts.is_empty() && network.allowed_ports.is_empty()) {
        let message = "network.allowedHosts and allowedPorts cannot be enforced by a container that has a network: it reaches everything there";
        return Err(Error::new(ErrorKind::SandboxDenied, message)
            .hint("remove them, or allowNetwork: hosts are reached by name without it"));
    }
    if let Some(rule) = network.allowed_hosts.iter().find(|rule| rule.inspect.is_some()) {
        let message = format!(
            "allowedHosts: what is said to {rule} cannot be looked at: programs in a container do not trust the fence's certificates"
        );
        return Err(Error::new(ErrorKind::SandboxDenied, message)
            .hint("allow the host without methods, paths and credential, or use the provider `local`"));
    }
    Ok(())
}

/// Hosts by name are a container's only way out, or they are no limit.
fn refuse_another_network(spec: &ContainerSpec, policy: &Policy) -> Result<()> {
    if spec.has_no_network() || policy.network.allowed_hosts.is_empty() {
        return Ok(());
    }
    let message =
        format!("allowedHosts cannot be enforced by a container with the network {:?}", spec.network);
    Err(Error::new(ErrorKind::SandboxDenied, message)
        .hint("remove them, or docker.network: hosts are reached by name with the network none"))
}

/// The policy's limits are the container's, where they are stricter.
fn tighten(docker: &mut DockerSection, policy: &Policy) {
    if let Some(most) = policy.limits.max_memory_bytes {
        let written = docker.memory.map_or(u64::MAX, |size| size.0);
        docker.memory = Some(Size(written.min(most)));
        docker.memory_swap = docker.memory;
    }
    // Room for the guest's own processes.
    const OWN: u64 = 8;
    let most = policy.limits.max_processes.and_then(|most| u32::try_from(most.saturating_add(OWN)).ok());
    if let Some(most) = most.and_then(std::num::NonZeroU32::new) {
        docker.pids_limit = Some(docker.pids_limit.map_or(most, |written| written.min(most)));
    }
}

/// Directories that the policy allows besides the workspace are seen at their own place. What no container may see stays out:
/// inside, such a path is the container's own.
fn show_what_is_allowed(
    docker: &mut DockerSection,
    surroundings: &mut Surroundings,
    options: &CreateOptions,
) {
    let forbidden = ForbiddenPlaces::new(surroundings.home.as_deref(), &surroundings.forbidden);
    let files = &options.policy.filesystem;
    let mut shown: Vec<PathBuf> = vec![];
    let rules = files.allow_write.iter().map(|rule| (rule, Access::Write));
    for (rule, access) in rules.chain(files.allow_read.iter().map(|rule| (rule, Access::Read))) {
        let Some(path) = place(rule, &options.cwd) else { continue };
        // What is denied as a whole is not even there.
        let denied = !files.decide(&path, Access::Read).allowed();
        if denied || shown.contains(&path) || forbidden.touched_by(&path).is_some() {
            continue;
        }
        let suffix =
            if access == Access::Write && files.decide(&path, Access::Write).allowed() { "" } else { ":ro" };
        let bind = format!("{0}:{0}{suffix}", path.display());
        docker.binds.get_or_insert_default().push(bind.as_str().into());
        surroundings.bind_roots.push(path.clone());
        shown.push(path);
    }
}

/// Where a rule is about something of the host that is there and not in the workspace anyway.
fn place(rule: &PathRule, workspace: &Path) -> Option<PathBuf> {
    let path = rule.path.as_literal()?;
    let resolved = path.canonicalize().ok()?;
    let speakable = resolved.to_str().is_some_and(|text| !text.contains(':'));
    (speakable && resolved == path && !resolved.starts_with(workspace) && !workspace.starts_with(&resolved))
        .then_some(resolved)
}
