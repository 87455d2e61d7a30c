//! The guard of a project.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ringfence_fence::CreateOptions;
use ringfence_gate::policy::{self, PathRules};
use ringfence_gate::{Decision, Language};
use ringfence_local::{Fence, Streams};
use ringfence_model::config::{ConfigFile, Entry, GateMode};
use ringfence_model::{Access, Command, ExecRequest, ExecResult, Limits, Policy, Usage};

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
        Ok(ProjectGuard {
            name: self.name.unwrap_or_else(|| "ringfence".to_owned()),
            keeper,
            policy: setup.policy(),
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
        let config = &self.setup.loaded.config;
        let texts = |list: &[Entry]| list.iter().map(|entry| entry.text.clone()).collect::<Vec<_>>();
        let (sensitive, temporary) =
            (texts(&config.additional_sensitive_files), texts(&config.allowed_tmp_paths));
        let rules = PathRules {
            sensitive: &sensitive,
            strict: config.strict_sensitive_files,
            // A project below a temporary directory is a project.
            temporary: (!resolved.starts_with(&self.setup.project)).then_some(temporary.as_slice()),
        };
        policy::check_path(&self.policy.filesystem, &rules, &resolved, access).map_err(|refusal| {
            GuardError::PathAccessDenied { path: path.to_owned(), reason: refusal.reason }
        })?;
        Ok(resolved)
    }

    fn judged(&self, text: &str) -> Result<(), GuardError> {
        let verdict = self.keeper.judge(Language::Shell, text, Some(self.keeper.project()));
        if verdict.decision == Decision::Allow || self.keeper.mode() == GateMode::Off {
            return Ok(());
        }
        let first = verdict.findings.first();
        let why = first.map_or_else(
            || verdict.risk.reason.clone(),
            |finding| format!("{} [{}/{}]", finding.message, finding.check, finding.rule),
        );
        Err(GuardError::CommandNotAllowed(why))
    }

    fn fits(&self, resource: &str, current: u64) -> Result<(), GuardError> {
        match self.policy.limits.max_file_size_bytes {
            Some(limit) if current > limit => {
                Err(GuardError::ResourceLimitExceeded { resource: resource.to_owned(), current, limit })
            }
            _ => Ok(()),
        }
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
        let resolved = self.allowed(path, Access::Read)?;
        let failed =
            |error: std::io::Error| GuardError::Internal(format!("cannot read {}: {error}", path.display()));
        let mut file = std::fs::File::open(&resolved).map_err(failed)?;
        self.fits("bytes of a file", file.metadata().map_err(failed)?.len())?;
        let mut content = Vec::new();
        file.read_to_end(&mut content).map_err(failed)?;
        Ok(content)
    }

    fn write_file(&self, path: &Path, content: &[u8]) -> Result<(), GuardError> {
        let resolved = self.allowed(path, Access::Write)?;
        self.fits("bytes of a file", content.len() as u64)?;
        std::fs::write(&resolved, content)
            .map_err(|error| GuardError::Internal(format!("cannot write {}: {error}", path.display())))
    }

    fn is_active(&self) -> bool {
        self.fence.as_ref().is_some_and(|fence| fence.assurance().active)
    }

    fn current_usage(&self) -> Usage {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
