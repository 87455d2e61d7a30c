//! Makes, lists and destroys sandboxes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use ringfence_fence::{BoxFuture, CreateOptions, Provider, Sandbox, SandboxInfo, SandboxStatus};
use ringfence_local::guest::wire::{Ask, Start, VERSION};
use ringfence_model::{Error, ErrorKind, Result};
use serde_json::json;

use crate::engine::containers::Extras;
use crate::engine::{Endpoint, Engine};
use crate::filter;
use crate::guest::link::Listeners;
use crate::guest::{self, GuestProgram, Link, inside};
use crate::images::{Images, LABEL_BUILD};
use crate::lifecycle::{Forgetful, LABEL_WORKSPACE, Outcome, SharedRecords, Wanted};
use crate::options::identity::{LABEL_REGISTRY, registry_mark};
use crate::options::{ContainerSpec, Mount};
use crate::plan::{GuestMode, Life, ProviderOptions, specify};
use crate::register::Register;
use crate::sandbox::{Afterwards, DockerSandbox, Parts};
use crate::simple::SimpleSandbox;

/// The name it is registered under.
pub const KIND: &str = "docker";

/// Makes sandboxes that are containers.
#[derive(Debug)]
pub struct DockerProvider {
    maker: Arc<Maker>,
    live: Mutex<BTreeMap<String, Weak<dyn Sandbox>>>,
}

/// What sandboxes are made with.
#[derive(Debug)]
pub(crate) struct Maker {
    /// Used by sandboxes that name no ledger.
    records: SharedRecords,
    registers: Mutex<BTreeMap<PathBuf, Arc<Register>>>,
    engines: tokio::sync::Mutex<BTreeMap<Endpoint, Engine>>,
    /// One container is made by one at a time.
    making: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Default for DockerProvider {
    fn default() -> Self {
        Self::new(Arc::new(Forgetful))
    }
}

impl DockerProvider {
    #[must_use]
    pub fn new(records: SharedRecords) -> Self {
        let maker = Maker {
            records,
            registers: Mutex::default(),
            engines: tokio::sync::Mutex::default(),
            making: Mutex::default(),
        };
        Self { maker: Arc::new(maker), live: Mutex::default() }
    }

    /// A connection to the engine at `endpoint`: the one there is, while it answers.
    pub async fn engine(&self, endpoint: &Endpoint) -> Result<Engine> {
        self.maker.engine(endpoint).await
    }

    fn live(&self) -> MutexGuard<'_, BTreeMap<String, Weak<dyn Sandbox>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Maker {
    async fn engine(&self, endpoint: &Endpoint) -> Result<Engine> {
        let mut engines = self.engines.lock().await;
        if let Some(engine) = engines.get(endpoint)
            && endpoint.check().is_ok()
        {
            return Ok(engine.clone());
        }
        let engine = Engine::connect(endpoint.clone()).await?;
        engines.insert(endpoint.clone(), engine.clone());
        Ok(engine)
    }

    pub(crate) async fn make(&self, options: CreateOptions) -> Result<Arc<DockerSandbox>> {
        let own = ProviderOptions::read(&options.provider_options)?;
        let endpoint = own.endpoint(&options.environment)?;
        let id = new_id();
        let scope_key = options.hooks.scope_key.clone();
        let key = scope_key.clone().unwrap_or_else(|| id.clone());
        let now_ms = now_ms();
        let spec = specify(&options, &own, &endpoint, &key, now_ms)?;
        let program = guest_program(&own)?;
        let images = Images::new(own.pull, own.build.clone())?;
        let engine = self.engine(&endpoint).await?;
        let mut extras = Extras { tied: scope_key.is_none(), ..extras(&program) };
        extras.labels.insert(LABEL_WORKSPACE.to_owned(), options.cwd.to_string_lossy().into_owned());
        if let Some(mark) = images.mark() {
            extras.labels.insert(LABEL_BUILD.to_owned(), mark.to_owned());
        }
        let progress = options.hooks.progress.clone();
        let register = own.ledger.as_deref().map(|ledger| self.register(ledger)).transpose()?;
        // One that goes with its sandbox is nothing to look after.
        if let Some(ledger) = own.ledger.as_ref().filter(|_| scope_key.is_some()) {
            extras.labels.insert(LABEL_REGISTRY.to_owned(), registry_mark(ledger));
        }
        let records: SharedRecords = match &register {
            Some(register) => Arc::clone(register) as _,
            None => Arc::clone(&self.records),
        };
        let wanted = Wanted {
            spec: &spec,
            extras: &extras,
            images: &images,
            scope_key: &key,
            records: &*records,
            progress: progress.as_ref(),
            now_ms,
        };
        let mut notes: Vec<String> = spec.notes.iter().map(ToString::to_string).collect();
        let afterwards = if scope_key.is_some() {
            let _turn = self.turn(&spec.name).await;
            if let Outcome::Outdated { hint } = wanted.ensure(&engine).await? {
                if let Some(progress) = &progress {
                    progress(&hint);
                }
                notes.push(hint);
            }
            Afterwards::Keep
        } else {
            Afterwards::Remove { _tie: Mutex::new(wanted.make_tied(&engine).await?) }
        };
        let linked = link(&engine, &spec, &own, &options).await;
        let link = match linked {
            Ok(link) => link,
            Err(error) => {
                if matches!(afterwards, Afterwards::Remove { .. }) {
                    let _ = engine.remove(&spec.name).await;
                }
                return Err(error);
            }
        };
        let held = match (&register, &afterwards) {
            (Some(register), Afterwards::Keep) => register.hold(&spec.name)?,
            _ => None,
        };
        let map = spec.path_map();
        let parts = Parts { id, engine, container: spec.name, link, map, notes, afterwards, held };
        Ok(Arc::new(DockerSandbox::new(parts)))
    }

    fn register(&self, ledger: &Path) -> Result<Arc<Register>> {
        let mut registers = self.registers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(register) = registers.get(ledger) {
            return Ok(Arc::clone(register));
        }
        let register = Arc::new(Register::open(ledger)?);
        registers.insert(ledger.to_owned(), Arc::clone(&register));
        Ok(register)
    }

    async fn turn(&self, container: &str) -> tokio::sync::OwnedMutexGuard<()> {
        let its = {
            let mut making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
            making.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(making.entry(container.to_owned()).or_default())
        };
        its.lock_owned().await
    }
}

impl Provider for DockerProvider {
    fn kind(&self) -> &str {
        KIND
    }

    fn create(&self, options: CreateOptions) -> BoxFuture<'_, Result<Arc<dyn Sandbox>>> {
        Box::pin(async move {
            let own = ProviderOptions::read(&options.provider_options)?;
            let sandbox: Arc<dyn Sandbox> = match own.life {
                Life::Kept => self.maker.make(options).await?,
                Life::Simple => {
                    Arc::new(SimpleSandbox::start(new_id(), Arc::clone(&self.maker), options).await?)
                }
            };
            let mut live = self.live();
            live.retain(|_, sandbox| sandbox.strong_count() > 0);
            live.insert(sandbox.id().to_owned(), Arc::downgrade(&sandbox));
            Ok(sandbox)
        })
    }

    /// Ends what runs in it. Its container stays for the next sandbox of the scope; `prune` and `recreate` remove it.
    fn destroy<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let found = self.live().remove(id).and_then(|sandbox| sandbox.upgrade());
            match found {
                Some(sandbox) => sandbox.dispose().await,
                None => Ok(()),
            }
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<SandboxInfo>>> {
        let alive = |(id, sandbox): (&String, &Weak<dyn Sandbox>)| {
            let status =
                if sandbox.upgrade()?.is_alive() { SandboxStatus::Running } else { SandboxStatus::Stopped };
            Some(SandboxInfo { id: id.clone(), status })
        };
        let infos = self.live().iter().filter_map(alive).collect();
        Box::pin(std::future::ready(Ok(infos)))
    }

    fn has_own_files(&self) -> bool {
        true
    }
}

fn guest_program(own: &ProviderOptions) -> Result<Option<GuestProgram>> {
    if own.guest == GuestMode::Off {
        let message = "guest is off, and nothing else runs commands in a container yet";
        return Err(Error::new(ErrorKind::Unsupported, message).hint("set guest to auto"));
    }
    match &own.guest_program {
        Some(path) => GuestProgram::open(path).map(Some),
        None => Err(Error::new(
            ErrorKind::SandboxDenied,
            "there is no guest for the container: who makes sandboxes has to name one in guestProgram",
        )),
    }
}

fn extras(program: &Option<GuestProgram>) -> Extras {
    let Some(program) = program else { return Extras::default() };
    Extras {
        mounts: vec![Mount { source: program.path.clone(), target: guest::TARGET.into(), read_only: true }],
        labels: BTreeMap::from([(guest::LABEL.to_owned(), program.tag.clone())]),
        seccomp: Some(filter::profile()),
        ..Extras::default()
    }
}

async fn link(
    engine: &Engine,
    spec: &ContainerSpec,
    own: &ProviderOptions,
    options: &CreateOptions,
) -> Result<Link> {
    let approval = options.hooks.approval.clone();
    let mut launch = json!({ "launcher": "landlock" });
    if let Some(precision) = &own.precision {
        launch["precision"] = json!(precision);
    }
    let start = Start {
        version: VERSION,
        cwd: spec.workdir.clone(),
        policy: inside::policy(&options.policy, spec),
        environment: inside::environment(&options.policy, &options.environment, spec),
        options: launch,
        ask: approval.as_ref().map(Ask::of),
    };
    let listeners = Listeners { approval, background: options.hooks.background.clone() };
    Link::open(engine, &spec.name, start, spec.path_map(), listeners).await
}

pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// `docker-<milliseconds>-<eight hex digits>`.
fn new_id() -> String {
    // The last digits of such a number are random.
    let number = uuid::Uuid::now_v7().simple().to_string();
    format!("{KIND}-{}-{}", now_ms(), &number[number.len() - 8..])
}
