//! Everything that is decided about a session, and by which key of the configuration.

use std::path::PathBuf;

use ringfence_model::Result;
use ringfence_model::config::{BrowserSection, DockerSection, Entry, Scope, SessionMode, WorkspaceAccess};
use serde::Serialize;

use super::core::Manager;
use super::place::Place;
use crate::config::Loaded;
use crate::tools::policy::PolicyLayer;

/// The provider whose sandboxes are containers.
pub const DOCKER: &str = "docker";

/// A session: who it is, whether and where it is sandboxed, and why.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxContext {
    /// Whether it is sandboxed.
    pub enabled: bool,
    pub session_key: String,
    pub agent_id: String,
    pub main_session_key: String,
    pub mode: SessionMode,
    pub scope: Scope,
    /// The scope that its sandbox is for.
    pub scope_key: String,
    pub provider: String,
    /// The directory in which it works.
    pub workspace_dir: PathBuf,
    pub agent_workspace_dir: PathBuf,
    pub workspace_access: WorkspaceAccess,
    /// Containers only, as the following.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_workdir: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub docker: Option<DockerSection>,
    pub tools: ToolContext,
    pub browser_allow_host_control: bool,
    /// None unless it is switched on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub browser: Option<BrowserSection>,
    /// Whether files are read and written inside of the container.
    pub fs_bridge: bool,
    /// The settings that decided, most important first.
    pub reasons: Vec<Reason>,
}

/// The tools it is offered.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolContext {
    pub allow: Vec<ListedTool>,
    pub deny: Vec<ListedTool>,
}

/// An entry of a list of tools, and where it was written.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedTool {
    pub name: String,
    pub source: String,
}

/// A setting that had a part in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reason {
    pub key: String,
    pub value: String,
    /// The place where it was written.
    pub source: String,
}

impl Manager {
    /// Says where a session works, or would work. Nothing is made for that.
    pub fn explain(&self, session: &str) -> Result<SandboxContext> {
        let status = self.status(session);
        let setup = self.setup_of(&status);
        let config = &setup.loaded.config;
        let scope_key = self.key_of(&status);
        let is_container = status.sandboxed && config.provider == DOCKER;
        let (workspace_dir, workspace_access) = if status.sandboxed {
            Place::expected(setup, &scope_key)?
        } else {
            (setup.project.clone(), WorkspaceAccess::Rw)
        };
        let docker = is_container.then(|| config.docker.clone());
        let container_name = match &docker {
            Some(docker) => container_name(docker, &scope_key, &workspace_dir, workspace_access)?,
            None => None,
        };
        let tools = PolicyLayer::sandbox(&config.tools);
        let listed = |entries: &[Entry]| {
            let tool =
                |entry: &Entry| ListedTool { name: entry.text.clone(), source: entry.source.to_string() };
            entries.iter().map(tool).collect()
        };
        Ok(SandboxContext {
            enabled: status.sandboxed,
            mode: status.mode,
            scope: config.scope,
            scope_key,
            provider: if status.sandboxed {
                config.provider.clone()
            } else {
                super::unfenced::KIND.to_owned()
            },
            workspace_dir,
            agent_workspace_dir: setup.project.clone(),
            workspace_access,
            container_name,
            container_workdir: docker
                .as_ref()
                .and_then(|docker| docker.workdir.as_ref().map(|text| text.as_str().to_owned())),
            docker,
            tools: ToolContext { allow: listed(&tools.allow), deny: listed(&tools.deny) },
            browser_allow_host_control: config.browser.allow_host_control == Some(true),
            browser: (config.browser.enabled == Some(true)).then(|| config.browser.clone()),
            fs_bridge: is_container,
            reasons: reasons(&setup.loaded, status.mode),
            session_key: status.session_key,
            agent_id: status.agent_id,
            main_session_key: status.main_session_key,
        })
    }
}

fn reasons(loaded: &Loaded, mode: SessionMode) -> Vec<Reason> {
    let config = &loaded.config;
    let reason = |key: &str, value: serde_json::Value| Reason {
        key: key.to_owned(),
        value: value.as_str().map_or_else(|| value.to_string(), str::to_owned),
        source: loaded.origin(key).to_string(),
    };
    let json = |value: serde_json::Result<serde_json::Value>| value.unwrap_or_default();
    let mut reasons = vec![];
    if !config.enabled {
        reasons.push(reason("enabled", false.into()));
    }
    reasons.push(reason("sessions", json(serde_json::to_value(mode))));
    reasons.push(reason("scope", json(serde_json::to_value(config.scope))));
    reasons.push(reason("provider", config.provider.clone().into()));
    let access = match config.workspace_access {
        Some(access) => json(serde_json::to_value(access)),
        None => "the provider's own default".into(),
    };
    reasons.push(reason("workspaceAccess", access));
    reasons
}

#[cfg(feature = "docker")]
fn container_name(
    docker: &DockerSection,
    scope_key: &str,
    workspace: &std::path::Path,
    access: WorkspaceAccess,
) -> Result<Option<String>> {
    use ringfence_docker::options;
    let workspace = workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned());
    options::container_name(docker, &options::container_key(scope_key, &workspace, access)).map(Some)
}

#[cfg(not(feature = "docker"))]
fn container_name(
    _: &DockerSection,
    _: &str,
    _: &std::path::Path,
    _: WorkspaceAccess,
) -> Result<Option<String>> {
    Ok(None)
}
