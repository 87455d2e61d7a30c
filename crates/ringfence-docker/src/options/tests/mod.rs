mod bind_model;
mod parameters;
mod refusals;

use std::path::{Path, PathBuf};

use ringfence_model::Result;
use ringfence_model::config::{DockerSection, WorkspaceAccess};

use super::{ContainerRequest, ContainerSpec, Surroundings, build};

/// A workspace, an agent's workspace and a home, below a directory that goes away.
pub(super) struct Host {
    pub(super) directory: tempfile::TempDir,
    pub(super) workspace: PathBuf,
    pub(super) agents: PathBuf,
    pub(super) home: PathBuf,
}

impl Host {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let make = |name: &str| {
            let path = root.join(name);
            std::fs::create_dir_all(&path).unwrap();
            path
        };
        let (workspace, agents, home) = (make("sandbox"), make("agent"), make("home"));
        make("home/.ssh");
        Self { directory, workspace, agents, home }
    }

    pub(super) fn root(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap()
    }

    pub(super) fn build_with(
        &self,
        docker: serde_json::Value,
        access: WorkspaceAccess,
    ) -> Result<ContainerSpec> {
        self.build_from(&section(docker), access)
    }

    pub(super) fn build_from(
        &self,
        docker: &DockerSection,
        access: WorkspaceAccess,
    ) -> Result<ContainerSpec> {
        let agent_workspace: &Path =
            if access == WorkspaceAccess::Rw { &self.workspace } else { &self.agents };
        build(&ContainerRequest {
            agent_workspace,
            access,
            surroundings: Surroundings { home: Some(self.home.clone()), ..Surroundings::default() },
            created_at_ms: 1_700_000_000_000,
            ..ContainerRequest::new(docker, "agent:main:chat-7", &self.workspace)
        })
    }

    pub(super) fn build(&self, docker: serde_json::Value) -> ContainerSpec {
        self.build_with(docker, WorkspaceAccess::Rw).unwrap()
    }
}

pub(super) fn section(value: serde_json::Value) -> DockerSection {
    serde_json::from_value(value).unwrap()
}
