//! The tools for a project on this machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ringfence_fence::{CreateOptions, Registry};
use ringfence_gate::reading::CodeReader;
use ringfence_gate::risk::Risk;
use ringfence_gate::{Gate, Options};
use ringfence_ledger::{Redact, Secrets, Writer};
use ringfence_local::approval::AskAbout;
use ringfence_local::fence::LocalFence;
use ringfence_model::config::{Ask, WorkspaceAccess};
use ringfence_model::environment::holds_secret;
use ringfence_model::{Error, ErrorKind, Filesystem, Result};
use ringfence_workspace::{Mode, Workspace, WorkspaceOptions};

use super::executors::Executors;
use super::journal::Journal;
use super::languages::Languages;
use super::local_room::LocalRoom;
use super::manager_room::ManagerRoom;
use super::policy::{PolicyLayer, ToolPolicy};
use super::room::Room;
use super::router::Extensions;
use super::toolbox::{Budget, Tools, ToolsOptions};
use crate::containers;
use crate::housekeeping::Housekeeper;
use crate::manager::{Manager, ManagerOptions};
use crate::permission::{ApprovalService, ConfigFileKeeper, Desk, DeskOptions, Keeper};
use crate::setup::Setup;

/// What a program chooses; the rest follows from the configuration.
#[derive(Debug)]
pub struct LocalTools {
    /// Who answers questions. None: what needs a person is refused, and ends the run.
    pub service: Option<Arc<dyn ApprovalService>>,
    pub ledger: Option<Arc<Writer>>,
    pub session_key: Option<String>,
    /// Hidden wherever they would be shown, besides the values of variables that are named like secrets.
    pub secrets: Vec<String>,
    /// None: as configured.
    pub access: Option<WorkspaceAccess>,
    pub confirm_from: Option<Risk>,
    /// Where `run_code` runs code, by how risky it is; none: all of it in the session's own sandbox.
    pub executors: Option<Executors>,
    /// More directories of the project: files in them are named by absolute paths. The policy decides about them as
    /// about all others; this allows nothing.
    pub more: Vec<PathBuf>,
    /// Who reads Python and JavaScript for the gate: a [`Worker`](crate::gate::Worker), or
    /// [`InProcess`](crate::gate::InProcess) where that is acceptable. None: such code is asked about.
    pub code_reader: Option<Arc<dyn CodeReader>>,
    pub languages: Languages,
    pub extensions: Extensions,
    /// Layers of the tool policy besides that of the sandbox.
    pub layers: Vec<PolicyLayer>,
    pub budget: Budget,
    /// Layers of the fence that must hold.
    pub require: Vec<String>,
    /// The program that bwrap executes inside, where bwrap makes the fence.
    pub stage: Option<PathBuf>,
}

impl Default for LocalTools {
    fn default() -> Self {
        Self {
            service: None,
            ledger: None,
            session_key: None,
            secrets: vec![],
            access: None,
            confirm_from: None,
            executors: None,
            more: vec![],
            code_reader: None,
            languages: Languages::default(),
            extensions: Extensions::default(),
            layers: vec![],
            budget: Budget::UNLIMITED,
            require: vec![],
            stage: None,
        }
    }
}

impl LocalTools {
    /// Prepares the fence and the tools. Nothing starts before the first call.
    pub fn open(self, setup: &Setup) -> Result<Tools> {
        if setup.is_switched_off() {
            return Err(Error::new(
                ErrorKind::InvalidConfig,
                "the sandbox is switched off in the configuration",
            )
            .hint("the tools of an agent are always fenced in: remove \"enabled\": false"));
        }
        let config = &setup.loaded.config;
        if config.provider != "local" {
            let message = format!(
                "the tools would be fenced in by local, and the configuration says {}",
                config.provider
            );
            return Err(Error::new(ErrorKind::InvalidConfig, message).hint("open them with a manager"));
        }
        let access = self.access.or(config.workspace_access).unwrap_or(WorkspaceAccess::Rw);
        let mode = match access {
            WorkspaceAccess::Rw => Mode::ReadWrite,
            WorkspaceAccess::Ro => Mode::ReadOnly,
            WorkspaceAccess::None => {
                let message = "without access to the project, the tools need a workspace of their own";
                return Err(Error::new(ErrorKind::InvalidConfig, message).hint(
                    "load the set-up for the directory of a session workspace (`workspace::Sessions`)",
                ));
            }
        };
        setup.make_home();
        let mut policy = setup.policy();
        if mode == Mode::ReadOnly {
            let is_ours = |path: &Path| path == setup.project || self.more.iter().any(|more| more == path);
            let (writable, others) = policy
                .filesystem
                .allow_write
                .into_iter()
                .partition(|rule| rule.path.as_literal().is_some_and(is_ours));
            policy.filesystem.allow_write = others;
            policy.filesystem.allow_read.extend::<Vec<_>>(writable);
        }
        let native = LocalFence::prepare(CreateOptions {
            environment: setup.env.clone(),
            provider_options: setup.local_options(&self.require, self.stage.as_deref())?,
            ..CreateOptions::new(setup.project.clone(), policy)
        })?;
        let desk = self.desk(setup);
        let filesystem = native.policy().filesystem.clone();
        let room = Arc::new(LocalRoom::new(Arc::new(native), Arc::clone(&desk)));
        let open = |directory: &PathBuf| {
            Workspace::open(directory, WorkspaceOptions { mode, ..WorkspaceOptions::default() })
        };
        let workspace = open(&setup.project)?;
        let more = self.more.iter().map(open).collect::<Result<_>>()?;
        self.assembled(setup, desk, room, (workspace, more), filesystem)
    }

    /// The tools of one session in the sandbox that a manager gives it: by the mode, scope, workspace access and
    /// provider of the configuration. Disposing of the tools shuts the manager down.
    pub fn open_managed(
        self,
        setup: &Arc<Setup>,
        registry: Registry,
        session: &str,
        warn: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Tools> {
        let desk = self.desk(setup);
        let options = ManagerOptions {
            approval: desk.live(),
            housekeeper: self.housekeeper(setup, &warn),
            require: self.require.clone(),
            stage: self.stage.clone(),
            ..ManagerOptions::new(setup, warn)
        };
        let manager = Manager::of(Arc::clone(setup), registry, options);
        let (place, policy) = manager.place(session)?;
        let mode = if place.access == WorkspaceAccess::Ro { Mode::ReadOnly } else { Mode::ReadWrite };
        let workspace =
            Workspace::open(&place.cwd, WorkspaceOptions { mode, ..WorkspaceOptions::default() })?;
        let room = Arc::new(ManagerRoom::new(Arc::new(manager), session));
        self.assembled(setup, desk, room, (workspace, vec![]), policy.filesystem)
    }

    /// What records what is done also registers where; a register that cannot be opened stops nothing.
    fn housekeeper(&self, setup: &Setup, warn: impl Fn(&str)) -> Option<Arc<Housekeeper>> {
        self.ledger.as_ref()?;
        match Housekeeper::open(&setup.ledger_path()) {
            Ok(housekeeper) => {
                let ledger = setup.ledger_path();
                let options = &setup.loaded.config.provider_options;
                Some(Arc::new(containers::looked_after(housekeeper, &ledger, &setup.env, options)))
            }
            Err(error) => {
                warn(&format!("sandboxes are not registered: {}", error.chain()));
                None
            }
        }
    }

    fn desk(&self, setup: &Setup) -> Arc<Desk> {
        let config = &setup.loaded.config;
        let named = setup.env.iter().filter(|(name, _)| name.to_str().is_some_and(holds_secret));
        let values = named.filter_map(|(_, value)| value.to_str().map(str::to_owned));
        let secrets: Arc<dyn Redact> = Arc::new(Secrets::new(values.chain(self.secrets.iter().cloned())));
        let journal = Arc::new(Journal::new(self.ledger.clone(), secrets, self.session_key.clone()));
        Arc::new(Desk::new(
            DeskOptions {
                service: self.service.clone(),
                timeout: Duration::from_millis(config.safety.approval_timeout_ms),
                about: match config.ask {
                    Ask::Never => None,
                    Ask::DenyOnly => Some(AskAbout::DenyList),
                    Ask::On => Some(AskAbout::All),
                },
                keeper: Some(Arc::new(ConfigFileKeeper(config_file(setup))) as Arc<dyn Keeper>),
            },
            journal,
        ))
    }

    fn assembled(
        self,
        setup: &Setup,
        desk: Arc<Desk>,
        room: Arc<dyn Room>,
        (workspace, more): (Workspace, Vec<Workspace>),
        filesystem: Filesystem,
    ) -> Result<Tools> {
        let config = &setup.loaded.config;
        let options = Options::from_config(&config.safety, config.validation_strictness)
            .map_err(|error| Error::new(ErrorKind::InvalidConfig, error.to_string()))?;
        let gate = Gate::new(options);
        let gate = match self.code_reader {
            Some(reader) => gate.reading_code_by(reader),
            None => gate,
        };
        let mut layers = self.layers;
        layers.push(PolicyLayer::sandbox(&config.tools));
        Ok(Tools::new(ToolsOptions {
            room,
            executors: self.executors,
            workspace,
            more,
            filesystem,
            gate,
            safety: config.safety.clone(),
            confirm_from: self.confirm_from,
            desk,
            policy: ToolPolicy::new(layers),
            languages: self.languages,
            extensions: self.extensions,
            home: setup.home.clone(),
            budget: self.budget,
        }))
    }
}

fn config_file(setup: &Setup) -> PathBuf {
    setup.ringfence_home.join("sandbox.json")
}
