//! A project, a provider and an engine.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ringfence_docker::DockerProvider;
use ringfence_docker::testing::{FULL, TestEngine};
use ringfence_fence::{BoxFuture, CreateOptions, Provider, ProviderOptions, Sandbox, wait_for};
use ringfence_model::{ExecRequest, ExecResult, PathRule, Policy, Result};
use serde_json::{Value, json};

pub(super) const GUEST: &str = env!("CARGO_BIN_EXE_ringfence-guest");

/// As long as anything may take on a machine with other things to do.
const PATIENCE: Duration = Duration::from_secs(300);

pub(super) fn wait<T>(future: BoxFuture<'_, T>) -> T {
    wait_for(future, PATIENCE).expect("it did not end")
}

/// Where tests put projects: engines show nothing of `/tmp`, which is the container's own inside.
pub(super) fn room() -> tempfile::TempDir {
    // A container has these places for itself; a workspace that keeps its path cannot lie in one.
    let ours = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let is_covered = ["/tmp", "/var/tmp", "/run"].iter().any(|own| ours.starts_with(own));
    let directory = if is_covered { std::path::Path::new("/srv") } else { ours };
    tempfile::Builder::new().prefix("docker-").tempdir_in(directory).unwrap()
}

pub(super) struct World {
    pub(super) engine: TestEngine,
    _room: tempfile::TempDir,
    pub(super) project: PathBuf,
    pub(super) provider: Arc<DockerProvider>,
}

impl World {
    pub(super) fn new() -> Option<Self> {
        TestEngine::shared().map(Self::on)
    }

    pub(super) fn on(engine: TestEngine) -> Self {
        let room = room();
        let project = room.path().canonicalize().unwrap().join("project");
        std::fs::create_dir(&project).unwrap();
        Self { engine, _room: room, project, provider: Arc::new(DockerProvider::default()) }
    }

    /// Options of a sandbox for the project, of which `docker` is the section of that name.
    pub(super) fn options(&self, docker: Value) -> CreateOptions {
        let mut policy = Policy::default();
        policy.filesystem.allow_write.push(PathRule::built_in(self.project.as_path()));
        policy.filesystem.deny.push(PathRule::built_in("**/.env"));
        policy.filesystem.protect.push(PathRule::built_in("**/.git/hooks"));
        let mut options = CreateOptions::new(self.project.clone(), policy);
        options.provider_options = provider_options(&self.engine.host(), docker);
        options
    }

    pub(super) fn create(&self, options: CreateOptions) -> Result<Arc<dyn Sandbox>> {
        wait(self.provider.create(options))
    }

    pub(super) fn sandbox(&self) -> Arc<dyn Sandbox> {
        self.create(self.options(json!({}))).unwrap()
    }

    /// What `docker` says.
    pub(super) fn docker(&self, arguments: &[&str]) -> String {
        let output = self.engine.docker(arguments).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }
}

pub(super) fn provider_options(host: &str, docker: Value) -> ProviderOptions {
    let mut section = json!({ "image": FULL });
    for (key, value) in docker.as_object().unwrap() {
        section[key] = value.clone();
    }
    json!({ "docker": section, "guestProgram": GUEST, "engine": host }).into()
}

pub(super) fn run(sandbox: &dyn Sandbox, command: &str) -> ExecResult {
    wait(sandbox.execute(ExecRequest::shell(command), &|_| ())).unwrap()
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
