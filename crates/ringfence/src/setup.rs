//! From where somebody stands to what a sandbox may do: finds the homes, loads the configuration, builds
//! the policy.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfence_fence::ProviderOptions;
use ringfence_ledger::{Redact, Secrets};
use ringfence_model::config::WorkspaceAccess;
use ringfence_model::config::{ConfigFile, Launcher, LocalOptions, LocalSection, OsMode, SeatbeltOptions};
use ringfence_model::environment::holds_secret;
use ringfence_model::violation::annotate;
use ringfence_model::{Error, ErrorKind, ExecResult, Policy, Result, Violation};

use crate::config::expand::Expander;
use crate::config::{self, BadFile, EnvMap, LoadOptions, Loaded, PolicyInputs};

/// Set in every sandbox.
const NESTED: &str = "RINGFENCE";

/// The configuration of one project, and all that its sandboxes are made from.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Absolute, links resolved.
    pub project: PathBuf,
    pub home: PathBuf,
    pub ringfence_home: PathBuf,
    pub env: EnvMap,
    pub loaded: Loaded,
}

/// Removes the values of variables that are named like secrets, and `more`.
pub(crate) fn secrets_of(env: &EnvMap, more: &[String]) -> Arc<dyn Redact> {
    let named = env.iter().filter(|(name, _)| name.to_str().is_some_and(holds_secret));
    let values = named.filter_map(|(_, value)| value.to_str().map(str::to_owned));
    Arc::new(Secrets::new(values.chain(more.iter().cloned())))
}

impl Setup {
    /// Loads everything for `project`, with `call` as the closest layer. Nothing is read from the process
    /// itself: `env` is the caller's environment.
    pub fn load(project: &Path, env: EnvMap, call: ConfigFile, agent: Option<&str>) -> Result<Self> {
        let project = project.canonicalize().map_err(|error| {
            Error::new(ErrorKind::Validation, format!("no such project directory: {}", project.display()))
                .caused_by(error)
        })?;
        if !project.is_dir() {
            let message = format!("the project is not a directory: {}", project.display());
            return Err(Error::new(ErrorKind::Validation, message));
        }
        if let Err(error) = std::fs::read_dir(&project) {
            let message = format!("cannot read the project directory {}", project.display());
            return Err(Error::new(ErrorKind::Validation, message).caused_by(error));
        }
        let home = ringfence_local::host::home_directory(&env);
        let nested =
            env.contains_key(OsStr::new(NESTED)) && !env.contains_key(OsStr::new(config::HOME_VARIABLE));
        let ringfence_home = match config::ringfence_home(&env) {
            // The outer fence hides its own home from everything inside, this program included.
            Ok(_) if nested => home.join(".ringfence-nested"),
            Ok(path) => path,
            Err(_) if !env.contains_key(OsStr::new(config::HOME_VARIABLE)) => home.join(".ringfence"),
            Err(error) => return Err(error),
        };
        let mut options = LoadOptions::new(&project, &home, &ringfence_home, &env);
        options.call = call;
        options.agent = agent;
        // A file that cannot be understood may deny things: running without it would be weaker than meant.
        options.bad_file = BadFile::Refuse;
        let loaded = config::load(&options).or_else(|error| {
            // The check knows more to say about what is wrong.
            config::refuse_errors(&config::check(&options))
                .map_err(|better| better.hint("`ringfence config check` shows everything that is wrong"))?;
            Err(error)
        })?;
        Ok(Self { project, home, ringfence_home, env, loaded })
    }

    /// The policy of a sandbox for this project.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.loaded.policy(&PolicyInputs::new(&self.project, &self.home, &self.ringfence_home, &self.env))
    }

    /// The directory in which commands start: `workingDir`, or the project.
    #[must_use]
    pub fn start(&self) -> PathBuf {
        let expander = Expander { home: &self.home, project: &self.project, env: &self.env };
        let configured = self.loaded.config.working_dir.as_ref().and_then(|text| expander.path(text));
        configured.map_or_else(|| self.project.clone(), |path| path.canonicalize().unwrap_or(path))
    }

    /// Whether a person configured that nothing is fenced in.
    #[must_use]
    pub fn is_switched_off(&self) -> bool {
        let config = &self.loaded.config;
        !config.enabled || config.default_policy == ringfence_model::PolicyMode::None
    }

    /// Removes the values of the caller's variables that are named like secrets, and `more`, from whatever is recorded or
    /// shown.
    #[must_use]
    pub fn secrets(&self, more: &[String]) -> Arc<dyn Redact> {
        secrets_of(&self.env, more)
    }

    /// The violations as text, where they are to be added to the command's standard error.
    pub(crate) fn annotation(&self, result: &ExecResult) -> String {
        if self.loaded.config.annotate_stderr { annotate(&result.violations) } else { String::new() }
    }

    /// Takes out what the configuration does not let a result keep: all violations, or the oldest ones.
    pub(crate) fn drop_violations(&self, result: &mut ExecResult) -> Vec<Violation> {
        let config = &self.loaded.config;
        let most = usize::try_from(config.max_violations).unwrap_or(usize::MAX);
        let excess = result.violations.len().saturating_sub(if config.track_violations { most } else { 0 });
        result.violations.drain(..excess).collect()
    }

    /// Options of the local fence besides the policy. `required` are layers that must hold; `stage` is the
    /// program that bwrap executes inside, which must be able to be one.
    pub fn local_options(&self, required: &[String], stage: Option<&Path>) -> Result<ProviderOptions> {
        let config = &self.loaded.config;
        let own = LocalSection::read(&config.provider_options)?;
        let launcher = match (config.launcher, config.os.mode) {
            (Launcher::Auto, OsMode::Bubblewrap) => Launcher::Bwrap,
            (Launcher::Auto, OsMode::Seatbelt) => Launcher::Seatbelt,
            (Launcher::Auto, OsMode::None) => {
                return Err(Error::new(
                    ErrorKind::SandboxDenied,
                    "os.mode is none: no mechanism of the operating system may hold the command",
                )
                .hint("set os.mode to auto, or defaultPolicy to none to run without a fence"));
            }
            (launcher, _) => launcher,
        };
        Ok(ProviderOptions::Local(LocalOptions {
            precision: config.precision,
            launcher,
            require: required.to_vec(),
            bwrap_path: PathBuf::from(&config.os.bubblewrap.bwrap_path),
            stage: own.stage.or_else(|| stage.map(Path::to_owned)),
            shell_command: own.shell_command.unwrap_or_else(|| LocalOptions::default().shell_command),
            seatbelt: SeatbeltOptions {
                profile: own.seatbelt.profile.or_else(|| config.os.seatbelt.profile.clone()),
                ..own.seatbelt
            },
        }))
    }

    /// The same for a door that works in the project itself: that is where every provider works then, unless something
    /// else is written.
    #[must_use]
    pub fn in_the_project(mut self) -> Self {
        self.loaded.config.workspace_access.get_or_insert(WorkspaceAccess::Rw);
        self
    }

    /// To be called before a fence is planned in which something of an agent's will run: what is not there cannot be
    /// covered or shown. Ringfence's home holds its rules and records; a user who may not make it here cannot make it inside
    /// either. The state of kits lasts only where it is the host's.
    pub fn make_home(&self) -> Result<()> {
        use std::os::unix::fs::DirBuilderExt as _;
        let _ = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.ringfence_home);
        self.loaded.kits.make()
    }

    /// The user's own configuration.
    #[must_use]
    pub fn user_file(&self) -> PathBuf {
        self.ringfence_home.join("sandbox.json")
    }

    #[must_use]
    pub fn ledger_path(&self) -> PathBuf {
        self.ringfence_home.join("ledger.db")
    }
}
