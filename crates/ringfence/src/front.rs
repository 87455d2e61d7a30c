//! The front door: everything for one project behind one object.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ringfence_fence::{CreateOptions, Ticket};
use ringfence_gate::reading::CodeReader;
use ringfence_gate::{Language, Verdict, policy};
use ringfence_ledger::Writer;
use ringfence_local::Streams;
use ringfence_local::offload::offload;
use ringfence_model::config::ConfigFile;
use ringfence_model::{Access, Error, ErrorKind, ExecRequest, ExecResult, PathPattern, Policy, Result};
use serde_json::{Map, Value, json};

use crate::config::EnvMap;
use crate::manager::{Manager, ManagerOptions, Warn, built_in};
use crate::permission::{Answer, ApprovalService, Callback, Permission};
use crate::session::recorder::{Keeping, open_ledger};
use crate::session::{
    Call, Core, CoreOptions, Managed, OneCommand, Proposal, Ran, Refusal, SessionEvent, Shell, Workplace,
};
use crate::setup::Setup;
use crate::tools::{OpenTools, Tools};
use crate::unsandboxed;

/// The provider whose fence is this machine's own.
const LOCAL: &str = "local";

/// Chooses what a [`Ringfence`] may do, closer than all configuration files.
pub struct Builder {
    project: PathBuf,
    environment: EnvMap,
    settings: Map<String, Value>,
    wrong: Option<Error>,
    agent: Option<String>,
    service: Option<Arc<dyn ApprovalService>>,
    reader: Option<Arc<dyn CodeReader>>,
    stage: Option<PathBuf>,
    secrets: Vec<String>,
    warn: Warn,
    keeps_ledger: bool,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("project", &self.project).finish_non_exhaustive()
    }
}

impl Builder {
    /// The caller's environment: home, search path, and what the policy lets through. Nothing is read from the process
    /// itself, so without this the home is empty and programs are looked for in `/usr/bin:/bin`.
    #[must_use]
    pub fn environment(mut self, environment: EnvMap) -> Self {
        self.environment = environment;
        self
    }

    /// A setting by its name in `sandbox.json`, for those that have no method here.
    #[must_use]
    pub fn setting(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.settings.insert(key.to_owned(), value.into());
        self
    }

    /// Whether commands run inside a fence at all.
    #[must_use]
    pub fn enabled(self, enabled: bool) -> Self {
        self.setting("enabled", enabled)
    }

    /// How much is allowed when nothing more specific says so: `restricted`, `permissive` or `strict`.
    #[must_use]
    pub fn mode(self, mode: &str) -> Self {
        self.setting("mode", mode)
    }

    /// The directory in which commands start: one below the project, or one that may be written.
    #[must_use]
    pub fn working_dir(self, path: impl AsRef<Path>) -> Self {
        self.path("workingDir", path.as_ref(), |settings, path| {
            settings.insert("workingDir".to_owned(), path);
        })
    }

    /// Lets a path be read.
    #[must_use]
    pub fn allow_read(self, path: impl AsRef<Path>) -> Self {
        self.path("allowRead", path.as_ref(), |settings, path| push(settings, "allowRead", path))
    }

    /// Lets a path be read and written.
    #[must_use]
    pub fn allow_write(self, path: impl AsRef<Path>) -> Self {
        self.path("allowWrite", path.as_ref(), |settings, path| push(settings, "allowWrite", path))
    }

    /// Lets nobody read or write a path, whatever allows it.
    #[must_use]
    pub fn deny(self, path: impl AsRef<Path>) -> Self {
        self.path("deny", path.as_ref(), |settings, path| push(settings, "deny", path))
    }

    /// Lets only the commands that are named this way run.
    #[must_use]
    pub fn allow_command(mut self, command: &str) -> Self {
        push(&mut self.settings, "allowedCommands", command.into());
        self
    }

    /// Refuses a command. Several words (`rm -rf`) match as words.
    #[must_use]
    pub fn block_command(mut self, command: &str) -> Self {
        push(&mut self.settings, "blockedCommands", command.into());
        self
    }

    /// How long a command may take.
    #[must_use]
    pub fn timeout(self, most: Duration) -> Self {
        self.setting("timeout", most.as_secs_f64())
    }

    /// Bytes of memory of all processes together.
    #[must_use]
    pub fn memory_limit(self, bytes: u64) -> Self {
        self.limit("maxMemoryBytes", bytes)
    }

    /// CPU seconds of each process.
    #[must_use]
    pub fn cpu_limit(self, seconds: u64) -> Self {
        self.limit("maxCpuSeconds", seconds)
    }

    /// Bytes that are kept of each output stream.
    #[must_use]
    pub fn output_limit(self, bytes: u64) -> Self {
        self.limit("maxOutputBytes", bytes)
    }

    /// Bytes of the largest file that may be written.
    #[must_use]
    pub fn file_size_limit(self, bytes: u64) -> Self {
        self.limit("maxFileSizeBytes", bytes)
    }

    /// The agent whose section of the configuration applies.
    #[must_use]
    pub fn agent(mut self, agent: impl Into<String>) -> Self {
        self.agent = Some(agent.into());
        self
    }

    /// Chooses who answers questions. Without anybody, what needs approval is refused.
    #[must_use]
    pub fn ask(self, answer: impl Fn(&Permission) -> Answer + Send + Sync + 'static) -> Self {
        self.approvals(Arc::new(Callback(answer)))
    }

    /// As [`ask`](Self::ask), by a service.
    #[must_use]
    pub fn approvals(mut self, service: Arc<dyn ApprovalService>) -> Self {
        self.service = Some(service);
        self
    }

    /// Chooses who reads Python and JavaScript for the gate: a [`Worker`](crate::gate::Worker), or
    /// [`InProcess`](crate::gate::InProcess) where that is acceptable. Without one such code is asked about.
    #[must_use]
    pub fn code_reader(mut self, reader: Arc<dyn CodeReader>) -> Self {
        self.reader = Some(reader);
        self
    }

    /// A `ringfence` program, which bwrap and containers execute inside. Only they need it.
    #[must_use]
    pub fn helper_program(mut self, program: impl Into<PathBuf>) -> Self {
        self.stage = Some(program.into());
        self
    }

    /// Hidden wherever it would be shown or recorded, besides the values of variables that are named like secrets.
    #[must_use]
    pub fn secret(mut self, secret: impl Into<String>) -> Self {
        self.secrets.push(secret.into());
        self
    }

    /// Hears what a person should know, such as that nothing is fenced in.
    #[must_use]
    pub fn on_warning(mut self, warn: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.warn = Arc::new(warn);
        self
    }

    /// Nothing is recorded.
    #[must_use]
    pub fn without_ledger(mut self) -> Self {
        self.keeps_ledger = false;
        self
    }

    /// Loads the configuration. Nothing starts.
    pub fn build(self) -> Result<Ringfence> {
        if let Some(error) = self.wrong {
            return Err(error);
        }
        let settings: ConfigFile = serde_json::from_value(Value::Object(self.settings))
            .map_err(|error| Error::new(ErrorKind::InvalidConfig, format!("a setting is wrong: {error}")))?;
        let setup = Setup::load(&self.project, self.environment, settings, self.agent.as_deref())?;
        let setup = Arc::new(setup.in_the_project());
        for warning in &setup.loaded.warnings {
            (self.warn)(&warning.to_string());
        }
        let warn = Arc::clone(&self.warn);
        let ledger = self.keeps_ledger.then(|| {
            open_ledger(&setup.ledger_path(), &setup.env, Keeping::Thread, move |problem| {
                warn(&problem.chain());
            })
        });
        let key = format!("library-{}", uuid::Uuid::now_v7().simple());
        let core = Core::new(
            &setup,
            CoreOptions {
                service: self.service.clone(),
                ledger: ledger.clone(),
                secrets: self.secrets.clone(),
                session_key: Some(key.clone()),
                code_reader: self.reader.clone(),
                ..CoreOptions::default()
            },
        )?;
        let warn = Arc::clone(&self.warn);
        let options = ManagerOptions {
            approval: core.questions().live(),
            stage: self.stage.clone(),
            is_ephemeral: true,
            ..ManagerOptions::new(&setup, move |warning| warn(warning))
        };
        let manager = Arc::new(Manager::of(Arc::clone(&setup), built_in()?, options));
        Ok(Ringfence(Arc::new(Inner {
            workplace: Managed::new(manager, key),
            policy: OnceLock::new(),
            parts: Parts {
                service: self.service,
                ledger,
                secrets: self.secrets,
                reader: self.reader,
                stage: self.stage,
                warn: self.warn,
            },
            core,
        })))
    }

    fn limit(mut self, key: &str, value: u64) -> Self {
        let limits = self.settings.entry("limits").or_insert_with(|| json!({}));
        limits[key] = value.into();
        self
    }

    /// A path as text in which no character means anything else.
    fn path(mut self, key: &str, path: &Path, set: impl FnOnce(&mut Map<String, Value>, Value)) -> Self {
        match path.to_str() {
            Some(text) if !text.is_empty() => {
                let mut written = PathPattern::literal(path).to_syntax().replace('$', "\\$");
                if written.starts_with('~') {
                    written.insert(0, '\\');
                }
                set(&mut self.settings, written.into());
            }
            _ => {
                let message = format!("{key}: {} is empty, or not UTF-8", path.display());
                self.wrong.get_or_insert(Error::new(ErrorKind::InvalidConfig, message));
            }
        }
        self
    }
}

fn push(settings: &mut Map<String, Value>, key: &str, value: Value) {
    if let Value::Array(list) = settings.entry(key).or_insert_with(|| json!([])) {
        list.push(value);
    }
}

/// Parts that the tools of an agent are made from as well.
struct Parts {
    service: Option<Arc<dyn ApprovalService>>,
    ledger: Option<Arc<Writer>>,
    secrets: Vec<String>,
    reader: Option<Arc<dyn CodeReader>>,
    stage: Option<PathBuf>,
    warn: Warn,
}

struct Inner {
    core: Core,
    workplace: Managed,
    policy: OnceLock<Policy>,
    parts: Parts,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.workplace.dispose();
        self.core.recorder().flush();
    }
}

/// One project: runs what an agent wants to run inside a fence, and says what was stopped. Clones share everything; the
/// sandboxes end with the last of them.
#[derive(Clone)]
pub struct Ringfence(Arc<Inner>);

impl std::fmt::Debug for Ringfence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ringfence").field("project", &self.0.core.setup().project).finish_non_exhaustive()
    }
}

impl Ringfence {
    /// For the project in this directory.
    #[must_use]
    pub fn builder(project: impl Into<PathBuf>) -> Builder {
        Builder {
            project: project.into(),
            environment: EnvMap::new(),
            settings: Map::new(),
            wrong: None,
            agent: None,
            service: None,
            reader: None,
            stage: None,
            secrets: vec![],
            warn: Arc::new(|_| ()),
            keeps_ledger: true,
        }
    }

    /// Runs one command in a fresh sandbox, and waits for it. A command that was refused is a result that says so:
    /// `blocked`, with exit code 126.
    pub fn run(&self, command: &str) -> Result<ExecResult> {
        self.run_request(ExecRequest::shell(command))
    }

    /// As [`run`](Self::run), for a program and its arguments, input, a directory or variables.
    pub fn run_request(&self, request: ExecRequest) -> Result<ExecResult> {
        let Inner { core, parts, .. } = &*self.0;
        let setup = core.setup();
        let mut call = Call::new("run");
        let cwd = core.gatekeeper().start().to_owned();
        let proposal = Proposal { cwd: Some(&cwd), ..Proposal::new(request.command.clone()) };
        let (ticket, events) = (Ticket::new(), |_| ());
        let outcome = if setup.is_switched_off() || setup.loaded.config.provider == "none" {
            (parts.warn)(unsandboxed::WARNING);
            let runner = OneCommand::unfenced(setup, unsandboxed::Output::Capture);
            core.run(&mut call, proposal, &runner, &ticket, request, &events)
        } else if setup.loaded.config.provider == LOCAL {
            setup.make_home()?;
            let options = CreateOptions {
                environment: setup.env.clone(),
                provider_options: setup.local_options(&[], parts.stage.as_deref())?,
                ..CreateOptions::new(setup.start(), setup.policy())
            };
            let warn = |text: &str| (parts.warn)(text);
            let runner = OneCommand::fenced(options, Streams::Capture, core.questions(), &warn);
            core.run(&mut call, proposal, &runner, &ticket, request, &events)
        } else {
            let fresh = self.0.workplace.isolated_copy()?;
            let outcome = core.run(&mut call, proposal, &*fresh, &ticket, request, &events);
            fresh.dispose();
            outcome
        };
        self.result(outcome)
    }

    /// As [`run`](Self::run), for a caller that must not block.
    pub async fn run_async(&self, command: &str) -> Result<ExecResult> {
        let (its, command) = (self.clone(), command.to_owned());
        offload(move || its.run(&command)).await?
    }

    /// The shell of that name: directory, variables, functions and jobs stay from one command to the next. All shells share
    /// one sandbox, which starts with the first command.
    pub fn session(&self, name: &str) -> Result<Session> {
        let place: Arc<dyn Workplace> = match name {
            "" | "main" => Arc::new(self.0.workplace.clone()),
            name => self.0.workplace.shell(name)?,
        };
        Ok(Session { ringfence: self.clone(), shell: Arc::new(Shell::new(&self.0.core, place)) })
    }

    /// The tools that an agent calls (commands, code, files), with a sandbox of their own.
    pub fn tools(&self) -> Result<Tools> {
        let Inner { core, parts, .. } = &*self.0;
        let options = OpenTools {
            service: parts.service.clone(),
            ledger: parts.ledger.clone(),
            session_key: core.recorder().session().map(str::to_owned),
            secrets: parts.secrets.clone(),
            code_reader: parts.reader.clone(),
            stage: parts.stage.clone(),
            warn: Arc::clone(&parts.warn),
            ..OpenTools::default()
        };
        options.open(core.setup())
    }

    /// The events from now on, in order; they end with the last clone of this.
    #[must_use]
    pub fn events(&self) -> Receiver<SessionEvent> {
        let (tell, told) = channel();
        // A listener that is gone misses nothing.
        self.0.core.recorder().listen(Arc::new(move |event| drop(tell.send(event.clone()))));
        told
    }

    /// The gate's verdict on a command. Nothing runs, and nobody is asked.
    #[must_use]
    pub fn judge(&self, command: &str) -> Verdict {
        let gatekeeper = self.0.core.gatekeeper();
        gatekeeper.judge(Language::Shell, command, Some(gatekeeper.start()))
    }

    /// Whether a path may be read inside, by the same decision that the fence is built from.
    #[must_use]
    pub fn may_read(&self, path: impl AsRef<Path>) -> bool {
        self.may(path.as_ref(), Access::Read)
    }

    /// Whether a path may be written inside.
    #[must_use]
    pub fn may_write(&self, path: impl AsRef<Path>) -> bool {
        self.may(path.as_ref(), Access::Write)
    }

    /// Whether a host may be reached inside.
    #[must_use]
    pub fn may_connect(&self, host: &str, port: u16) -> bool {
        policy::check_network(&self.policy().network, host, port).is_ok()
    }

    /// Everything that a sandbox of this project may touch.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        self.0.policy.get_or_init(|| self.0.core.setup().policy())
    }

    fn may(&self, path: &Path, access: Access) -> bool {
        let path = self.0.core.setup().project.join(path);
        // A link is judged by where it leads, as the kernel does.
        let real = path.canonicalize().unwrap_or(path);
        self.policy().filesystem.decide(&real, access).allowed()
    }

    fn result(&self, outcome: std::result::Result<Result<Ran>, Box<Refusal>>) -> Result<ExecResult> {
        match outcome {
            Ok(outcome) => outcome.map(|ran| ran.result),
            Err(refusal) => Ok(self.0.core.refused(&refusal)),
        }
    }
}

/// A shell that remembers.
#[derive(Debug, Clone)]
pub struct Session {
    ringfence: Ringfence,
    shell: Arc<Shell>,
}

impl Session {
    /// Runs a command in this shell, and waits for it. Commands from several threads wait for each other.
    pub fn run(&self, command: &str) -> Result<ExecResult> {
        self.run_request(ExecRequest::shell(command))
    }

    /// As [`run`](Self::run), with input or a time limit.
    pub fn run_request(&self, request: ExecRequest) -> Result<ExecResult> {
        let outcome = self.shell.run(&mut Call::new("session"), &Ticket::new(), request, &|_| ());
        self.ringfence.result(outcome)
    }

    /// As [`run`](Self::run), for a caller that must not block.
    pub async fn run_async(&self, command: &str) -> Result<ExecResult> {
        let (its, command) = (self.clone(), command.to_owned());
        offload(move || its.run(&command)).await?
    }
}
