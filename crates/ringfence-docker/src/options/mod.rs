//! The configuration, checked: what a container is made of, its name and its hash.
//!
//! [`build`] turns the 23 parameters of the `docker` section, a scope and its workspaces into a [`ContainerSpec`], or says
//! everything that is wrong with them: which key, which value, which rule, and what to do. Nothing has been made until then.
//!
//! | module | what it holds |
//! |---|---|
//! | [`spec`] | the result |
//! | [`refusal`] | how a refusal is worded |
//! | [`forbidden`] | places of the host that no container sees, with reasons |
//! | [`binds`] | sources and targets of binds |
//! | [`mounts`] | where the workspaces are seen |
//! | [`network`] | network modes, name servers, host names |
//! | [`profiles`] | seccomp and AppArmor |
//! | [`mod@env`] | variables |
//! | [`limits`] | processes, memory, processors, ulimits |
//! | [`identity`] | names, labels, image, user |
//! | [`hash`] | whether a container is still what the configuration says |
//!
//! **Invariant:** what is not checked here does not exist: the engine is given a [`ContainerSpec`] and nothing else.
//! **Invariant:** a `dangerously…` key opens exactly the rule it is named after, and leaves a note each time it does.

pub mod binds;
pub mod env;
pub mod forbidden;
pub mod hash;
pub mod identity;
pub mod limits;
pub mod mounts;
pub mod network;
pub mod profiles;
pub mod refusal;
pub mod spec;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ringfence_model::Result;
use ringfence_model::config::{DockerSection, WorkspaceAccess};

pub use env::EnvRules;
pub use forbidden::Forbidden;
pub use identity::{container_key, container_name};
pub use refusal::Findings;
pub use spec::{ContainerSpec, Mount, Note, NoteKind, Ulimit};

/// Everything a container is made from.
#[derive(Debug, Clone)]
pub struct ContainerRequest<'a> {
    /// Where it says nothing, [`DockerSection::built_in`] holds.
    pub docker: &'a DockerSection,
    /// What the container is for: a session, an agent, everybody.
    pub scope_key: &'a str,
    /// The directory that is seen as the working directory.
    pub workspace: &'a Path,
    /// The agent's own; the same directory when the sandbox works there.
    pub agent_workspace: &'a Path,
    pub access: WorkspaceAccess,
    pub surroundings: Surroundings,
    pub env_rules: EnvRules,
    /// Further labels.
    pub labels: BTreeMap<String, String>,
    pub created_at_ms: u64,
}

impl<'a> ContainerRequest<'a> {
    /// One workspace, writable, and nothing else around.
    #[must_use]
    pub fn new(docker: &'a DockerSection, scope_key: &'a str, workspace: &'a Path) -> Self {
        Self {
            docker,
            scope_key,
            workspace,
            agent_workspace: workspace,
            access: WorkspaceAccess::Rw,
            surroundings: Surroundings::default(),
            env_rules: EnvRules::Usual,
            labels: BTreeMap::new(),
            created_at_ms: 0,
        }
    }
}

/// What is known about the host.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// Whose secrets are kept out, besides those of the system.
    pub home: Option<PathBuf>,
    /// Where bind sources may be, besides the workspaces.
    pub bind_roots: Vec<PathBuf>,
    /// What no container sees, besides what [`forbidden`] knows: the engine's socket, denied paths.
    pub forbidden: Vec<Forbidden>,
}

/// Checks everything, and says everything that is wrong at once.
pub fn build(request: &ContainerRequest<'_>) -> Result<ContainerSpec> {
    let docker = effective(request.docker);
    let mut findings = Findings::default();

    let key = identity::container_key(request.scope_key, request.workspace, request.access);
    let name = identity::name(&docker, &key, &mut findings);
    let image = identity::image(&docker, &mut findings);
    let workdir = identity::workdir(&docker, &mut findings);
    let user = identity::user(&docker, request.workspace, &mut findings);
    let tmpfs = mounts::tmpfs(&docker, &workdir, &mut findings);
    let network = network::mode(&docker, &mut findings);
    let profile = profiles::check(&docker, &mut findings);
    let limits = limits::check(&docker, &mut findings);
    let mounts = mounts::check(request, &docker, &workdir, &mut findings);
    let env = env::check(&docker, request.env_rules, &mut findings);
    let dns = network::name_servers(&docker, &mut findings);
    let extra_hosts = network::host_names(&docker, &mut findings);
    let cap_drop = identity::dropped_capabilities(&docker, &mut findings);
    let read_only_root = docker.read_only_root != Some(false);
    if !read_only_root {
        findings.warn("readOnlyRoot", "the container's own files can be changed from inside");
    }
    let config_hash = hash::config_hash(&hash::HashInput {
        docker: &docker,
        workspace: request.workspace,
        agent_workspace: request.agent_workspace,
        access: request.access,
        seccomp: profile.seccomp.as_deref(),
    });
    let notes = findings.settle()?;

    Ok(ContainerSpec {
        labels: identity::labels(request, &config_hash),
        name,
        image,
        config_hash,
        workdir,
        read_only_root,
        tmpfs,
        network,
        user,
        cap_drop,
        security_opt: profile.security_opt(),
        env,
        pids_limit: limits.pids,
        memory: limits.memory,
        memory_swap: limits.memory_swap,
        nano_cpus: limits.nano_cpus,
        ulimits: limits.ulimits,
        dns,
        extra_hosts,
        mounts,
        setup_command: docker.setup_command.as_ref().map(|c| c.as_str().to_owned()).filter(|c| !is_blank(c)),
        notes,
    })
}

/// The section over the built-in one; laying it over twice changes nothing.
#[must_use]
pub fn effective(docker: &DockerSection) -> DockerSection {
    let mut effective = DockerSection::built_in();
    effective.replace_with(docker.clone());
    effective
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}
