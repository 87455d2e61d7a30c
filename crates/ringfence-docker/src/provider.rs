//! Makes, lists and destroys sandboxes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ringfence_fence::{BoxFuture, CreateOptions, Provider, Sandbox, SandboxInfo, SandboxStatus};
use ringfence_local::guest::wire::{Ask, Start, VERSION};
use ringfence_model::config::{Launcher, LocalOptions};
use ringfence_model::{Degradation, DegradationCode, Error, ErrorKind, Result, now_ms};

use crate::engine::attached::Attached;
use crate::engine::containers::Extras;
use crate::engine::{Endpoint, Engine};
use crate::filter;
use crate::guest::link::{COMMAND, Listeners};
use crate::guest::{self, GuestProgram, Link, Outside, inside};
use crate::images::{Images, LABEL_BUILD};
use crate::lifecycle::{Forgetful, LABEL_MASKS, LABEL_WORKSPACE, Outcome, SharedRecords, Wanted};
use crate::options::identity::{LABEL_REGISTRY, registry_mark};
use crate::options::{ContainerSpec, Mount};
use crate::plain::Masks;
use crate::plan::{GuestMode, Life, ProviderOptions, specify};
use crate::register::Register;
use crate::sandbox::{Afterwards, DockerSandbox, Elsewhere, Parts};
use crate::simple::SimpleSandbox;
use crate::way::{Plain, Way};

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

    /// Makes a sandbox with a guest where one can run, and else, if that may be, with the image's own shell.
    pub(crate) async fn make(&self, options: CreateOptions) -> Result<Arc<DockerSandbox>> {
        let own = ProviderOptions::read(options.provider_options.custom()?)?;
        let mut runner = Runner::wanted(&own)?;
        loop {
            let failed = match self.make_with(&options, &own, &runner).await {
                Ok(sandbox) => return Ok(Arc::new(sandbox)),
                Err(failed) => failed,
            };
            match (&runner, failed) {
                (Runner::Guest(program), Failed::NoGuest(error)) if own.guest == GuestMode::Auto => {
                    runner = Runner::Plain { why: error.chain(), label: guest::without(&program.tag) };
                }
                (_, Failed::NoGuest(error) | Failed::Otherwise(error)) => return Err(error),
            }
        }
    }

    async fn make_with(
        &self,
        options: &CreateOptions,
        own: &ProviderOptions,
        runner: &Runner,
    ) -> std::result::Result<DockerSandbox, Failed> {
        let endpoint = own.endpoint(&options.environment)?;
        let id = new_id();
        let scope_key = options.hooks.scope_key.clone();
        let key = scope_key.clone().unwrap_or_else(|| id.clone());
        let now_ms = now_ms();
        let spec = specify(options, own, &endpoint, &key, now_ms)?;
        let images = Images::new(own.pull, own.build.clone())?;
        let engine = self.engine(&endpoint).await?;
        // One that is there already may have been made without a guest.
        let masks = match runner {
            Runner::Guest(_) if scope_key.is_none() => Masks::default(),
            Runner::Guest(_) | Runner::Plain { .. } => Masks::of(&options.policy, &spec),
        };
        let digest = masks.digest();
        let mut extras = Extras { tied: scope_key.is_none(), ..runner.extras(&masks) };
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
            needs: runner.needs(),
            masks: &digest,
        };
        let mut notes: Vec<Degradation> =
            spec.notes.iter().map(|note| Degradation::note(note.to_string())).collect();
        let mut fresh = true;
        let mut label = None;
        let mut tie = None;
        let afterwards = if scope_key.is_some() {
            let _turn = self.turn(&spec.name).await;
            let outcome = wanted.ensure(&engine).await?;
            if matches!(outcome, Outcome::Reused | Outcome::Outdated { .. }) {
                fresh = false;
                let found = engine.inspect(&spec.name).await?;
                label = found.and_then(|mut found| found.labels.remove(guest::LABEL));
            }
            if let Outcome::Outdated { hint } = outcome {
                if let Some(progress) = &progress {
                    progress(&hint);
                }
                notes.push(Degradation::new(DegradationCode::ContainerOutdated, hint));
            }
            Afterwards::Keep
        } else {
            tie = Some(wanted.make_tied(&engine).await?);
            Afterwards::Remove { held_by: Mutex::default() }
        };
        let label = label.as_deref().unwrap_or_default();
        if !fresh && matches!(runner, Runner::Plain { .. }) && !label.starts_with(guest::WITHOUT) {
            notes.push(Degradation::new(
                DegradationCode::ContainerOutdated,
                "the container was made for a guest: it hides and protects no files of the workspace",
            ));
        }
        let opened = match runner {
            Runner::Plain { why, .. } => plain(&engine, &spec, options, &masks, why).await,
            // As it was made, so it is used.
            Runner::Guest(_) if label.starts_with(guest::WITHOUT) => {
                let why = "it was made without, because none runs in it";
                plain(&engine, &spec, options, &masks, why).await
            }
            Runner::Guest(_) => {
                let running = tie.take();
                link(&engine, &spec, own, options, running).await.map(|link| Way::Guest(Box::new(link)))
            }
        };
        let way = match opened {
            Ok(way) => way,
            Err(error) => {
                if fresh {
                    let _ = engine.remove(&spec.name).await;
                    let _ = records.removed(&spec.name);
                }
                // One that ran in this container before is in trouble, not unfit.
                return Err(if fresh && is_unfit(&error) {
                    Failed::NoGuest(error)
                } else {
                    Failed::Otherwise(error)
                });
            }
        };
        if options.policy.network.is_by_name() && !way.connects() {
            let text = "the hosts that are allowed cannot be reached: only a guest in a container without a network, on Linux, leads there";
            notes.push(Degradation::new(DegradationCode::NoWayOut, text));
        }
        if let (Afterwards::Remove { held_by }, tie @ Some(_)) = (&afterwards, tie) {
            *held_by.lock().unwrap_or_else(PoisonError::into_inner) = tie;
        }
        let held = match (&register, &afterwards) {
            (Some(register), Afterwards::Keep) => register.hold(&spec.name)?,
            _ => None,
        };
        let map = spec.path_map();
        let elsewhere = if own.workdir_fallback { Elsewhere::TheWorkspace } else { Elsewhere::Nowhere };
        let parts = Parts { id, engine, container: spec.name, way, map, notes, elsewhere, afterwards, held };
        Ok(DockerSandbox::new(parts))
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
            let own = ProviderOptions::read(options.provider_options.custom()?)?;
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

/// What shall run commands.
#[derive(Debug)]
enum Runner {
    Guest(GuestProgram),
    /// The image's own shell; why, and what the container's label says about it.
    Plain {
        why: String,
        label: String,
    },
}

/// Why there is no sandbox.
enum Failed {
    /// A guest cannot run in the image, or with this kernel.
    NoGuest(Error),
    Otherwise(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        if error.kind == ErrorKind::Unsupported { Self::NoGuest(error) } else { Self::Otherwise(error) }
    }
}

/// Whether a guest that does not start says that none ever will. What is wrong with a configuration is wrong without one too.
fn is_unfit(error: &Error) -> bool {
    !matches!(
        error.kind,
        ErrorKind::InvalidConfig | ErrorKind::Validation | ErrorKind::Timeout | ErrorKind::ConcurrentAccess
    )
}

impl Runner {
    fn wanted(own: &ProviderOptions) -> Result<Self> {
        let plain = |why: &str| Self::Plain { why: why.to_owned(), label: guest::WITHOUT.to_owned() };
        if own.guest == GuestMode::Off {
            return Ok(plain("guest is off"));
        }
        let error = match own.guest_program.as_deref().map(GuestProgram::open) {
            Some(Ok(program)) => return Ok(Self::Guest(program)),
            Some(Err(error)) => error,
            None => Error::new(
                ErrorKind::Unsupported,
                "who makes sandboxes has to name a guest for them in guestProgram",
            ),
        };
        if own.guest == GuestMode::Auto && error.kind == ErrorKind::Unsupported {
            return Ok(plain(&error.chain()));
        }
        Err(error)
    }

    fn extras(&self, masks: &Masks) -> Extras {
        let seccomp = Some(filter::profile());
        match self {
            Self::Guest(program) => Extras {
                mounts: vec![Mount {
                    source: program.path.clone(),
                    target: guest::TARGET.into(),
                    read_only: true,
                }],
                labels: BTreeMap::from([(guest::LABEL.to_owned(), program.tag.clone())]),
                seccomp,
                main: Some(COMMAND.map(str::to_owned).to_vec()),
                ..Extras::default()
            },
            Self::Plain { label, .. } => Extras {
                labels: BTreeMap::from([
                    (guest::LABEL.to_owned(), label.clone()),
                    (LABEL_MASKS.to_owned(), masks.digest()),
                ]),
                seccomp,
                keeper: true,
                hidden: masks.hidden.clone(),
                read_only: masks.read_only.clone(),
                ..Extras::default()
            },
        }
    }

    fn needs(&self) -> &'static [&'static str] {
        match self {
            Self::Guest(_) => &guest::BASH,
            Self::Plain { .. } => &[],
        }
    }
}

async fn plain(
    engine: &Engine,
    spec: &ContainerSpec,
    options: &CreateOptions,
    masks: &Masks,
    why: &str,
) -> Result<Way> {
    Plain::open(engine, spec, options, masks, why).await.map(|plain| Way::Plain(Box::new(plain)))
}

async fn link(
    engine: &Engine,
    spec: &ContainerSpec,
    own: &ProviderOptions,
    options: &CreateOptions,
    running: Option<Attached>,
) -> Result<Link> {
    let approval = options.hooks.approval.clone();
    let local = LocalOptions {
        launcher: Launcher::Landlock,
        shell_command: guest::SHELL.to_owned(),
        precision: own.precision,
        ..LocalOptions::default()
    };
    let outside = Outside::of(options, spec);
    let start = Start {
        version: VERSION,
        cwd: spec.workdir.clone(),
        policy: inside::policy(&options.policy, spec),
        environment: inside::environment(&options.policy, &options.environment, spec),
        options: local,
        ask: approval.as_ref().map(Ask::of),
        connects: outside.is_some(),
    };
    let listeners = Listeners { approval, background: options.hooks.background.clone(), outside };
    Link::open(engine, &spec.name, running, start, spec.path_map(), listeners).await
}

/// `docker-<milliseconds>-<eight hex digits>`.
fn new_id() -> String {
    // The last digits of such a number are random.
    let number = uuid::Uuid::now_v7().simple().to_string();
    format!("{KIND}-{}-{}", now_ms(), &number[number.len() - 8..])
}
