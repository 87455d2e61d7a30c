//! The guard of a project.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ringfence_fence::CreateOptions;
use ringfence_gate::policy;
use ringfence_gate::{Decision, Language};
use ringfence_local::{Fence, Streams};
use ringfence_model::config::{ConfigFile, GateMode};
use ringfence_model::{Access, Command, ExecRequest, ExecResult, Limits, Policy, Usage};

use super::files::{Files, Rules};
use super::{Guard, GuardError};
use crate::config::EnvMap;
use crate::gate::{CodeReader, Gatekeeper};
use crate::setup::Setup;

/// Makes a [`ProjectGuard`].
#[derive(Debug, Default)]
pub struct GuardBuilder {
    name: Option<String>,
    environment: EnvMap,
    settings: ConfigFile,
    agent: Option<String>,
    reader: Option<Arc<dyn CodeReader>>,
}

impl GuardBuilder {
    /// A name for people and logs.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The caller's environment: home, search path, and what the policy lets through.
    #[must_use]
    pub fn environment(mut self, environment: EnvMap) -> Self {
        self.environment = environment;
        self
    }

    /// Settings that are closer than all files.
    #[must_use]
    pub fn settings(mut self, settings: ConfigFile) -> Self {
        self.settings = settings;
        self
    }

    /// The agent whose section of the configuration applies.
    #[must_use]
    pub fn agent(mut self, agent: impl Into<String>) -> Self {
        self.agent = Some(agent.into());
        self
    }

    /// Who reads Python and JavaScript: a [`Worker`](crate::gate::Worker), or
    /// [`InProcess`](crate::gate::InProcess) where that is acceptable. Without one such code is not allowed.
    #[must_use]
    pub fn code_reader(mut self, reader: Arc<dyn CodeReader>) -> Self {
        self.reader = Some(reader);
        self
    }

    /// Loads the configuration of a project and prepares its fence; none is started where it is switched off.
    pub fn build(self, project: &Path) -> Result<ProjectGuard, GuardError> {
        let setup = Arc::new(Setup::load(project, self.environment, self.settings, self.agent.as_deref())?);
        let fence = if setup.is_switched_off() {
            None
        } else {
            setup.make_home();
            Some(Fence::prepare(CreateOptions {
                cwd: setup.project.clone(),
                policy: setup.policy(),
                environment: setup.env.clone(),
                provider_options: setup.local_options(&[], None)?,
                hooks: Default::default(),
            })?)
        };
        let mut keeper = Gatekeeper::new(&setup)?;
        if let Some(reader) = self.reader {
            keeper = keeper.reading_code_by(reader);
        }
        let policy = setup.policy();
        let rules = Arc::new(Rules::new(&setup, policy.filesystem.clone()));
        Ok(ProjectGuard {
            name: self.name.unwrap_or_else(|| "ringfence".to_owned()),
            keeper,
            files: Files::new(Arc::clone(&rules), policy.limits.max_file_size_bytes)?,
            rules,
            policy,
            setup,
            fence,
            used: Mutex::default(),
        })
    }
}

/// Answers by the configuration of one project.
#[derive(Debug)]
pub struct ProjectGuard {
    name: String,
    setup: Arc<Setup>,
    policy: Policy,
    rules: Arc<Rules>,
    files: Files,
    keeper: Gatekeeper,
    fence: Option<Fence>,
    used: Mutex<Usage>,
}

impl ProjectGuard {
    #[must_use]
    pub fn builder() -> GuardBuilder {
        GuardBuilder::default()
    }

    /// Absolute, links resolved as far as the path exists, and without `..` in the rest.
    fn resolved(&self, path: &Path) -> PathBuf {
        let path = self.setup.project.join(path);
        let mut rest: Vec<OsString> = Vec::new();
        let mut known = path.as_path();
        loop {
            if let Ok(real) = known.canonicalize() {
                return clean(&rest.iter().rev().fold(real, |path, name| path.join(name)));
            }
            match (known.components().next_back(), known.parent()) {
                (Some(name), Some(parent)) => {
                    rest.push(name.as_os_str().to_owned());
                    known = parent;
                }
                _ => return clean(&path),
            }
        }
    }

    fn allowed(&self, path: &Path, access: Access) -> Result<PathBuf, GuardError> {
        let resolved = self.resolved(path);
        self.rules.check(&resolved, access).map_err(|refusal| GuardError::PathAccessDenied {
            path: path.to_owned(),
            reason: refusal.reason,
        })?;
        Ok(resolved)
    }

    fn judged(&self, text: &str) -> Result<(), GuardError> {
        let verdict = self.keeper.judge(Language::Shell, text, Some(self.keeper.project()));
        if verdict.decision == Decision::Allow || self.keeper.mode() == GateMode::Off {
            return Ok(());
        }
        let why = match verdict.passed() {
            Err(finding) => finding.to_string(),
            Ok(_) => verdict.risk.reason.clone(),
        };
        Err(GuardError::CommandNotAllowed(why))
    }
}

/// Without `.` and `..`; `..` at the root stays there.
fn clean(path: &Path) -> PathBuf {
    let mut out = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => out.push(name),
            Component::ParentDir => drop(out.pop()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    out
}

impl Guard for ProjectGuard {
    fn name(&self) -> &str {
        &self.name
    }

    fn check_path(&self, path: &Path, write: bool) -> Result<(), GuardError> {
        self.allowed(path, if write { Access::Write } else { Access::Read }).map(drop)
    }

    fn check_command(&self, command: &str) -> Result<(), GuardError> {
        self.judged(command)
    }

    fn check_network(&self, host: &str, port: u16) -> Result<(), GuardError> {
        policy::check_network(&self.policy.network, host, port).map_err(|refusal| {
            GuardError::NetworkAccessDenied { host: host.to_owned(), port, reason: refusal.reason }
        })
    }

    fn resource_limits(&self) -> &Limits {
        &self.policy.limits
    }

    fn execute(
        &self,
        program: &str,
        arguments: &[&str],
        directory: Option<&Path>,
        variables: &[(&str, &str)],
    ) -> Result<ExecResult, GuardError> {
        let command = Command::Argv(std::iter::once(&program).chain(arguments).map(Into::into).collect());
        self.judged(&crate::gate::text_of(&command))?;
        let cwd = directory.map(|path| self.allowed(path, Access::Read)).transpose()?;
        if let Some(path) = cwd.as_ref().filter(|path| !path.is_dir()) {
            return Err(GuardError::NoDirectory(path.clone()));
        }
        let fence = self.fence.as_ref().ok_or_else(|| {
            GuardError::InitializationFailed("the sandbox is switched off in the configuration".to_owned())
        })?;
        let mut request = ExecRequest::new(command);
        request.cwd = cwd;
        request.env =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let result = fence.run(&request, Streams::Capture, &|_| {})?;
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.cpu_ms = Some(used.cpu_ms.unwrap_or(0) + result.usage.cpu_ms.unwrap_or(0));
        used.max_memory_bytes = used.max_memory_bytes.max(result.usage.max_memory_bytes);
        if result.timed_out {
            return Err(GuardError::Timeout(self.policy.limits.timeout_ms.unwrap_or(0)));
        }
        Ok(result)
    }

    fn read_file(&self, path: &Path) -> Result<Vec<u8>, GuardError> {
        self.files.read(path, &self.allowed(path, Access::Read)?)
    }

    fn write_file(&self, path: &Path, content: &[u8]) -> Result<(), GuardError> {
        self.files.write(path, &self.allowed(path, Access::Write)?, content)
    }

    fn is_active(&self) -> bool {
        self.fence.as_ref().is_some_and(|fence| fence.assurance().active)
    }

    fn current_usage(&self) -> Usage {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
