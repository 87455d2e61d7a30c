//! The manager.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use ringfence_fence::{
    Approval, Background, CreateOptions, EventSink, Hooks, Progress, Provider, Registry, Sandbox,
};
use ringfence_model::config::Prune;
use ringfence_model::{
    Decision, Error, ErrorKind, ExecRequest, ExecResult, Grant, GrantScope, Policy, Result,
};

use super::place::{Place, scope_key};
use super::slots::{Held, Slot, Slots};
use super::unfenced;
use super::who::{RuntimeStatus, SessionRules};
use crate::config::PolicyInputs;
use crate::containers;
use crate::housekeeping::{Housekeeper, Registered, Throttle, ends_with_process};
use crate::setup::Setup;
use crate::unsandboxed;

/// Told what a person should know.
pub type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// Options of a manager besides the configuration.
#[derive(Clone)]
pub struct ManagerOptions {
    pub sessions: SessionRules,
    /// Hears that something runs without a fence.
    pub warn: Warn,
    /// The person who is asked about refusals while a command waits. None: nobody.
    pub approval: Option<Approval>,
    /// Hears what is done while a sandbox takes long to be made.
    pub progress: Option<Progress>,
    /// Layers that must hold, by name.
    pub require: Vec<String>,
    /// The program that bwrap executes inside; see `ringfence_local::run_stage`.
    pub stage: Option<PathBuf>,
    /// Keeps the register of sandboxes. None: nothing is registered and nothing pruned.
    pub housekeeper: Option<Arc<Housekeeper>>,
    /// Hears what jobs of a command write after its end, where the command's ticket does not say who does.
    pub background: Option<Background>,
    /// Sandboxes go with this process, also when it is killed, and no other finds them again.
    pub is_ephemeral: bool,
}

impl ManagerOptions {
    /// Every session is sandboxed unless `setup` says otherwise, and nobody is asked.
    pub fn new(setup: &Setup, warn: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let mut sessions = SessionRules::default();
        if let Some(mode) = setup.loaded.config.sessions {
            sessions.mode = mode;
        }
        Self {
            sessions,
            warn: Arc::new(warn),
            approval: None,
            progress: None,
            require: vec![],
            stage: None,
            housekeeper: None,
            background: None,
            is_ephemeral: false,
        }
    }
}

impl std::fmt::Debug for ManagerOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ManagerOptions")
            .field("sessions", &self.sessions)
            .field("approval", &self.approval)
            .field("require", &self.require)
            .finish_non_exhaustive()
    }
}

/// Puts each session in its sandbox. Cheap to share behind an [`Arc`]; works in any runtime.
#[derive(Debug)]
pub struct Manager {
    setup: Arc<Setup>,
    agents: BTreeMap<String, Arc<Setup>>,
    registry: Registry,
    options: ManagerOptions,
    providers: Mutex<BTreeMap<String, Arc<dyn Provider>>>,
    slots: Slots,
}

impl Manager {
    /// Nothing is made yet, and no provider is looked up.
    #[must_use]
    pub fn new(setup: Setup, registry: Registry, options: ManagerOptions) -> Self {
        Self::of(Arc::new(setup), registry, options)
    }

    /// As [`new`](Self::new), of a set-up that others use too.
    #[must_use]
    pub fn of(setup: Arc<Setup>, registry: Registry, options: ManagerOptions) -> Self {
        Self::sharing(setup, BTreeMap::new(), registry, options)
    }

    fn sharing(
        setup: Arc<Setup>,
        agents: BTreeMap<String, Arc<Setup>>,
        registry: Registry,
        options: ManagerOptions,
    ) -> Self {
        Self { setup, agents, registry, options, providers: Mutex::default(), slots: Slots::default() }
    }

    /// From now on this is who is asked about refusals while a command waits; none: nobody.
    pub fn ask(&mut self, approval: Option<Approval>) {
        self.options.approval = approval;
    }

    /// An agent with a project or configuration of its own.
    #[must_use]
    pub fn with_agent(mut self, id: &str, setup: Setup) -> Self {
        self.agents.insert(id.to_lowercase(), Arc::new(setup));
        self
    }

    /// The same configuration, but sandboxes, grants and an end of its own: for a sub-agent.
    #[must_use]
    pub fn isolated_copy(&self) -> Self {
        let (setup, agents) = (Arc::clone(&self.setup), self.agents.clone());
        Self::sharing(setup, agents, self.registry.clone(), self.options.clone())
    }

    /// Whether a session works in a sandbox.
    #[must_use]
    pub fn status(&self, session: &str) -> RuntimeStatus {
        let mut status = self.options.sessions.status(session);
        status.sandboxed &= !self.setup_of(&status).is_switched_off();
        status
    }

    /// The key of the sandbox that a session works in; none when it works in no sandbox.
    #[must_use]
    pub fn scope_key(&self, session: &str) -> Option<String> {
        let status = self.status(session);
        status.sandboxed.then(|| self.key_of(&status))
    }

    /// The session's sandbox, made at the first call. A session that is not to be sandboxed gets the provider `none`, and
    /// a warning.
    pub async fn sandbox(&self, session: &str) -> Result<Arc<dyn Sandbox>> {
        Ok(self.held(&self.status(session)).await?.sandbox)
    }

    /// The session's sandbox and the directory it works in; none when it is not sandboxed.
    pub async fn context(&self, session: &str) -> Result<Option<(Arc<dyn Sandbox>, Arc<Place>)>> {
        let status = self.status(session);
        if !status.sandboxed {
            return Ok(None);
        }
        let held = self.held(&status).await?;
        Ok(Some((held.sandbox, held.place)))
    }

    /// Runs a command in the session's sandbox. When that turns out to be gone before anything ran, it is made again, once;
    /// a command that may have run never runs a second time.
    pub async fn execute(
        &self,
        session: &str,
        request: ExecRequest,
        events: EventSink<'_>,
    ) -> Result<ExecResult> {
        let status = self.status(session);
        let sandbox = self.held(&status).await?.sandbox;
        let outcome = sandbox.execute(request.clone(), events).await;
        match outcome {
            Err(error) if error.kind == ErrorKind::SandboxNotAvailable && status.sandboxed => {
                self.slots.discard(&self.key_of(&status), &sandbox).await;
                let sandbox = self.held(&status).await?.sandbox;
                let result = sandbox.execute(request, events).await?;
                Ok(ExecResult { restarted: true, ..result })
            }
            outcome => outcome,
        }
    }

    /// Puts a sandbox that turned out to be gone out of the way, so that the session gets another.
    pub(crate) async fn discard(&self, session: &str, sandbox: &Arc<dyn Sandbox>) {
        self.slots.discard(&self.key_of(&self.status(session)), sandbox).await;
    }

    /// Runs one command without a fence, whatever the configuration says, beside the session's sandbox: for a person who
    /// said so.
    pub async fn execute_unsandboxed(
        &self,
        session: &str,
        request: ExecRequest,
        events: EventSink<'_>,
    ) -> Result<ExecResult> {
        let held = self.make_unfenced(&self.status(session)).await?;
        let result = held.sandbox.execute(request, events).await;
        held.sandbox.dispose().await?;
        result
    }

    /// Keeps what a person granted for the session. Its sandbox is rebuilt where it cannot take it in as it runs.
    pub async fn grant(&self, session: &str, grant: Grant) -> Result<()> {
        let status = self.status(session);
        if !status.sandboxed {
            self.slots.slot(&self.key_of(&status)).keep(grant);
            return Ok(());
        }
        self.slots.grant(&self.key_of(&status), grant, |slot| self.make(&status, slot)).await
    }

    /// Runs one command with one more grant, which ends with it: in a sandbox of its own, unless there is no fence.
    pub async fn execute_granted(
        &self,
        session: &str,
        grant: Grant,
        request: ExecRequest,
        events: EventSink<'_>,
    ) -> Result<ExecResult> {
        let status = self.status(session);
        if !status.sandboxed {
            return self.execute(session, request, events).await;
        }
        let slot = Arc::new(Slot::default());
        for kept in self.grants(session) {
            slot.keep(kept);
        }
        slot.keep(grant);
        let held = self.make_as(&status, slot, None).await?;
        let result = held.sandbox.execute(request, events).await;
        held.destroy().await?;
        result
    }

    /// Whether anybody is asked about refusals while a command waits.
    #[must_use]
    pub fn asks(&self) -> bool {
        self.options.approval.is_some()
    }

    /// Whether a fence holds what a session runs.
    #[must_use]
    pub fn is_fenced(&self, session: &str) -> bool {
        let status = self.status(session);
        status.sandboxed && self.setup_of(&status).loaded.config.provider != unfenced::KIND
    }

    /// Whether a session's files are read and written through its sandbox, since that has a file system of its own.
    pub fn has_own_files(&self, session: &str) -> Result<bool> {
        let status = self.status(session);
        if !status.sandboxed {
            return Ok(false);
        }
        Ok(self.provider(&self.setup_of(&status).loaded.config.provider)?.has_own_files())
    }

    /// The place of a session, and the rules that hold there.
    pub fn place(&self, session: &str) -> Result<(Place, Policy)> {
        let status = self.status(session);
        let setup = self.setup_of(&status);
        if !status.sandboxed {
            return Ok((Place::of_the_project(setup), setup.policy()));
        }
        let place = Place::find(setup, &self.key_of(&status))?;
        let policy = policy(setup, &place, &self.grants(session));
        Ok((place, policy))
    }

    /// Grants of the session.
    #[must_use]
    pub fn grants(&self, session: &str) -> Vec<Grant> {
        self.slots.grants(&self.key_of(&self.status(session)))
    }

    /// Puts a new sandbox in the place of the session's, with everything that was granted. Without one, nothing happens.
    pub async fn rebuild(&self, session: &str) -> Result<()> {
        let status = self.status(session);
        self.slots.rebuild(&self.key_of(&status), |slot| self.make(&status, slot)).await
    }

    /// Destroys the session's sandbox and forgets what was granted.
    pub async fn remove(&self, session: &str) -> Result<()> {
        self.slots.remove(&self.key_of(&self.status(session))).await
    }

    /// The scopes that were ever asked for and not removed.
    #[must_use]
    pub fn scopes(&self) -> Vec<String> {
        self.slots.keys()
    }

    /// Destroys everything. A session that comes later gets a new sandbox.
    pub async fn shutdown(&self) -> Result<()> {
        self.slots.clear().await
    }

    pub(super) fn setup_of(&self, status: &RuntimeStatus) -> &Arc<Setup> {
        self.agents.get(&status.agent_id).unwrap_or(&self.setup)
    }

    pub(super) fn key_of(&self, status: &RuntimeStatus) -> String {
        scope_key(self.setup_of(status).loaded.config.scope, status)
    }

    async fn held(&self, status: &RuntimeStatus) -> Result<Held> {
        let key = self.key_of(status);
        if status.sandboxed {
            return self.slots.get(&key, |slot| self.make(status, slot)).await;
        }
        // A key of its own: agents and sessions without a fence share their scope with those that have one.
        self.slots.get(&format!("{}:{key}", unfenced::KIND), |_| self.make_unfenced(status)).await
    }

    fn provider(&self, kind: &str) -> Result<Arc<dyn Provider>> {
        let mut providers = self.providers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(provider) = providers.get(kind) {
            return Ok(Arc::clone(provider));
        }
        let provider = self.registry.get(kind)?;
        providers.insert(kind.to_owned(), Arc::clone(&provider));
        Ok(provider)
    }

    async fn make(&self, status: &RuntimeStatus, slot: Arc<Slot>) -> Result<Held> {
        let name = (!self.options.is_ephemeral).then(|| self.key_of(status));
        self.make_as(status, slot, name).await
    }

    /// `name` is what the provider may call it by; none for one beside the session's own.
    async fn make_as(&self, status: &RuntimeStatus, slot: Arc<Slot>, name: Option<String>) -> Result<Held> {
        let setup = self.setup_of(status);
        let config = &setup.loaded.config;
        let provider = self.provider(&config.provider)?;
        self.sweep(config.prune).await;
        let place = Arc::new(Place::find(setup, &self.key_of(status))?);
        for warning in &place.warnings {
            (self.options.warn)(warning);
        }
        setup.make_home()?;
        let policy = policy(setup, &place, &slot.grants());
        let provider_options = if config.provider == "local" {
            setup.local_options(&self.options.require, self.options.stage.as_deref())?
        } else if config.provider == containers::KIND {
            containers::options(setup, place.access, self.options.stage.as_deref()).into()
        } else {
            serde_json::Value::Object(config.provider_options.clone()).into()
        };
        let register = name.clone().filter(|_| ends_with_process(&config.provider));
        let cwd = match &config.working_dir {
            Some(_) if config.provider != "local" => {
                let message = format!("workingDir is not for the provider {}", config.provider);
                return Err(Error::new(ErrorKind::InvalidConfig, message)
                    .hint("containers start in docker.workdir; remove workingDir"));
            }
            Some(_) => setup.start(),
            None => place.cwd.clone(),
        };
        let options = CreateOptions {
            cwd,
            policy,
            environment: setup.env.clone(),
            provider_options,
            hooks: Hooks {
                scope_key: name,
                approval: self.options.approval.clone().map(|approval| remembering(approval, slot)),
                background: self.options.background.clone(),
                progress: self.options.progress.clone(),
            },
        };
        let sandbox = provider.create(options).await?;
        let registered = register.and_then(|key| self.register(&config.provider, sandbox.id(), &key));
        Ok(Held { sandbox, provider, place, _registered: registered })
    }

    /// Removes old sandboxes whenever a new one is made. A failure stops nothing.
    async fn sweep(&self, prune: Prune) {
        let Some(housekeeper) = &self.options.housekeeper else { return };
        match housekeeper.sweep(prune, Throttle::On).await {
            Ok(swept) => {
                for (sandbox, error) in swept.failed {
                    (self.options.warn)(&format!(
                        "cannot remove the old sandbox {}: {}",
                        sandbox.name,
                        error.chain()
                    ));
                }
            }
            Err(error) => (self.options.warn)(&format!("cannot look for old sandboxes: {}", error.chain())),
        }
    }

    /// Others see it in `ringfence list` as long as it is held.
    fn register(&self, provider: &str, id: &str, scope_key: &str) -> Option<Arc<Registered>> {
        let housekeeper = self.options.housekeeper.as_ref()?;
        match housekeeper.register(provider, id, scope_key) {
            Ok(registered) => Some(Arc::new(registered)),
            Err(error) => {
                (self.options.warn)(&format!("cannot register the sandbox {id}: {}", error.chain()));
                None
            }
        }
    }

    async fn make_unfenced(&self, status: &RuntimeStatus) -> Result<Held> {
        (self.options.warn)(unsandboxed::WARNING);
        let setup = self.setup_of(status);
        let provider: Arc<dyn Provider> = Arc::new(unfenced::Unfenced);
        let mut options = CreateOptions::new(setup.start(), setup.policy());
        options.environment = setup.env.clone();
        let sandbox = provider.create(options).await?;
        Ok(Held { sandbox, provider, place: Arc::new(Place::of_the_project(setup)), _registered: None })
    }
}

fn policy(setup: &Setup, place: &Place, grants: &[Grant]) -> Policy {
    let mut inputs = PolicyInputs::new(&place.cwd, &setup.home, &setup.ringfence_home, &setup.env);
    inputs.grants = grants;
    let mut policy = setup.loaded.policy(&inputs);
    place.open_in(&mut policy);
    policy
}

/// A grant that a person gives while a command waits holds after a rebuild too.
fn remembering(approval: Approval, slot: Arc<Slot>) -> Approval {
    let told = Arc::clone(&approval.on_settled);
    Approval {
        on_settled: Arc::new(move |settled| {
            let lasting = matches!(settled.decision, Decision::AllowSession | Decision::AllowPermanent);
            if lasting && settled.problem.is_none() {
                slot.keep(Grant { scope: GrantScope::Session, ..settled.question.grant.clone() });
            }
            told(settled);
        }),
        ..approval
    }
}
