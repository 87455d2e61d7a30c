//! The tools of one session of a project, in one call.

use std::path::PathBuf;
use std::sync::Arc;

use ringfence_fence::Registry;
use ringfence_gate::reading::CodeReader;
use ringfence_ledger::Writer;
use ringfence_model::config::WorkspaceAccess;
use ringfence_model::{Error, Result};
use ringfence_workspace::{Mode, Workspace, WorkspaceOptions};

use super::executors::Executors;
use super::languages::Languages;
use super::policy::{PolicyLayer, ToolPolicy};
use super::router::Extensions;
use super::toolbox::{Budget, Tools, ToolsOptions};
use crate::housekeeping::Housekeeper;
use crate::manager::{Manager, ManagerOptions, Warn, built_in};
use crate::permission::ApprovalService;
use crate::session::{Core, CoreOptions, Managed};
use crate::setup::Setup;

/// The session of tools that were given no key.
const SESSION: &str = "tools";

/// Choices of a program; the rest follows from the configuration.
pub struct OpenTools {
    /// The service that answers questions. None: what needs a person is refused, and ends the run.
    pub service: Option<Arc<dyn ApprovalService>>,
    /// The ledger in which everything is recorded. None: nothing is.
    pub ledger: Option<Arc<Writer>>,
    /// The session, in the ledger and for the manager.
    pub session_key: Option<String>,
    /// Hidden wherever they would be shown, besides the values of variables that are named like secrets.
    pub secrets: Vec<String>,
    /// The places where `run_code` runs code, by how risky it is; none: as `safety.codeSandbox` says.
    pub executors: Option<Executors>,
    /// More directories of the project: files in them are named by absolute paths. The policy decides about them as
    /// about all others; this allows nothing.
    pub more: Vec<PathBuf>,
    /// The reader of Python and JavaScript for the gate: a [`Worker`](crate::gate::Worker), or
    /// [`InProcess`](crate::gate::InProcess) where that is acceptable. None: such code is asked about.
    pub code_reader: Option<Arc<dyn CodeReader>>,
    /// The languages of `run_code`.
    pub languages: Languages,
    /// The extensions that serve lines with a prefix, such as `mcp:`.
    pub extensions: Extensions,
    /// Layers of the tool policy besides that of the sandbox.
    pub layers: Vec<PolicyLayer>,
    /// How much one run may do; none: what the configuration says.
    pub budget: Option<Budget>,
    /// Layers of the fence that must hold.
    pub require: Vec<String>,
    /// The program that bwrap executes inside, where bwrap makes the fence.
    pub stage: Option<PathBuf>,
    /// The providers that there are; none: the built-in ones.
    pub registry: Option<Registry>,
    /// Hears what a person should know.
    pub warn: Warn,
}

impl std::fmt::Debug for OpenTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenTools").field("session_key", &self.session_key).finish_non_exhaustive()
    }
}

impl Default for OpenTools {
    fn default() -> Self {
        Self {
            service: None,
            ledger: None,
            session_key: None,
            secrets: vec![],
            executors: None,
            more: vec![],
            code_reader: None,
            languages: Languages::default(),
            extensions: Extensions::default(),
            layers: vec![],
            budget: None,
            require: vec![],
            stage: None,
            registry: None,
            warn: Arc::new(|_| ()),
        }
    }
}

impl OpenTools {
    /// The tools of a session in the sandbox that a manager gives it: by the mode, scope, workspace access and provider of
    /// the configuration. Nothing starts before the first call. Disposing of the tools ends all of it.
    pub fn open(self, setup: &Arc<Setup>) -> Result<Tools> {
        let session = self.session_key.clone().unwrap_or_else(|| SESSION.to_owned());
        let registry = self.registry.clone().map_or_else(built_in, Ok)?;
        let warn = Arc::clone(&self.warn);
        let options = ManagerOptions {
            housekeeper: self.housekeeper(setup),
            require: self.require.clone(),
            stage: self.stage.clone(),
            ..ManagerOptions::new(setup, move |warning| warn(warning))
        };
        let mut manager = Manager::of(Arc::clone(setup), registry.clone(), options.clone());
        let (place, policy) = manager.place(&session)?;
        let core = Core::new(
            setup,
            CoreOptions {
                service: self.service,
                ledger: self.ledger,
                secrets: self.secrets,
                session_key: self.session_key,
                code_reader: self.code_reader,
                directories: std::iter::once(place.cwd.clone()).chain(self.more.iter().cloned()).collect(),
                is_agents: true,
            },
        )?;
        let approval = core.questions().live();
        manager.ask(approval.clone());
        let executors = self.executors.or_else(|| {
            let options = ManagerOptions { approval, ..options };
            Executors::configured(setup, &place, &session, &self.languages, (registry, options))
        });
        let mode = if place.access == WorkspaceAccess::Ro { Mode::ReadOnly } else { Mode::ReadWrite };
        let usual = WorkspaceOptions::default();
        let max_file_bytes = policy.limits.max_file_size_bytes.unwrap_or(usual.max_file_bytes);
        let open = |directory: &PathBuf, quota_bytes| {
            Workspace::open(directory, WorkspaceOptions { mode, max_file_bytes, quota_bytes, ..usual })
        };
        let mut layers = self.layers;
        let tools = &setup.loaded.config.tools;
        layers.push(PolicyLayer::sandbox(tools));
        Ok(Tools::new(ToolsOptions {
            core,
            workplace: Arc::new(Managed::new(Arc::new(manager), session)),
            executors,
            workspace: open(&place.cwd, place.quota_bytes())?,
            more: self.more.iter().map(|directory| open(directory, None)).collect::<Result<_>>()?,
            filesystem: policy.filesystem,
            limits: policy.limits,
            policy: ToolPolicy::new(layers),
            languages: self.languages,
            extensions: self.extensions,
            budget: self.budget.unwrap_or_else(|| Budget::configured(tools)),
        }))
    }

    /// Tools with a ledger register their sandboxes in it; a register that cannot be opened stops nothing.
    fn housekeeper(&self, setup: &Setup) -> Option<Arc<Housekeeper>> {
        self.ledger.as_ref()?;
        let failed = |error: Error| (self.warn)(&format!("sandboxes are not registered: {}", error.chain()));
        Housekeeper::of(setup).map_err(failed).ok().map(Arc::new)
    }
}
