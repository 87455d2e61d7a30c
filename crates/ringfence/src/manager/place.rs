//! Scopes: who shares a sandbox, and in which directory it works.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use ringfence_model::config::{SandboxConfig, Scope, WorkspaceAccess};
use ringfence_model::{
    Access, Error, ErrorKind, Grant, GrantScope, PathPattern, PathRule, Policy, Result, RuleLayer, RuleSource,
};
use ringfence_workspace::{
    BOOTSTRAP_FILES, Mode, SessionOptions, Sessions, Workspace, WorkspaceOptions, session_slug,
};

use super::who::RuntimeStatus;
use crate::setup::Setup;

/// The directory of an agent's workspace that describes what it can do.
const SKILLS: &str = "skills";
/// The key of the sandbox that everybody shares.
const SHARED: &str = "shared";

/// The key of the sandbox that a session works in.
#[must_use]
pub fn scope_key(scope: Scope, status: &RuntimeStatus) -> String {
    match scope {
        Scope::Shared => SHARED.to_owned(),
        Scope::Agent => format!("agent:{}", status.agent_id),
        Scope::Session => status.session_key.clone(),
    }
}

/// The place of a sandbox.
#[derive(Debug)]
pub struct Place {
    /// The directory in which commands start.
    pub cwd: PathBuf,
    pub access: WorkspaceAccess,
    /// Things that could not be brought along, and why; they stop nothing.
    pub warnings: Vec<String>,
    /// Held against clean-up while the sandbox lives.
    own: Option<Workspace>,
}

impl Place {
    /// Finds the directory for a scope; one of its own is made when it is missing, with the agent's bootstrap files and
    /// skills.
    pub fn find(setup: &Setup, scope_key: &str) -> Result<Self> {
        let config = &setup.loaded.config;
        let access = access(config);
        if access != WorkspaceAccess::None {
            return Ok(Self { cwd: setup.project.clone(), access, warnings: vec![], own: None });
        }
        let root = root(config, &setup.home, &setup.ringfence_home)?;
        let agents = Workspace::open(&setup.project, WorkspaceOptions::default())?;
        let own = if scope_key == SHARED {
            let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&root);
            made.map_err(|error| cannot_make(&root, error))?;
            Workspace::open(&root, WorkspaceOptions::default())?
        } else {
            Sessions::open(&root, SessionOptions::default())?.session(scope_key, Mode::ReadWrite)?
        };
        own.seed(&agents, &BOOTSTRAP_FILES)?;
        // A sandbox that sees the agent's workspace sees its skills there.
        let skills = Path::new(SKILLS);
        let warnings = match own.sync_directory(&agents, skills, skills) {
            Ok(_) => vec![],
            Err(error) => vec![format!("the agent's {SKILLS} are not in the sandbox: {}", error.chain())],
        };
        let cwd = own.host_path().canonicalize().map_err(|error| cannot_make(own.host_path(), error))?;
        Ok(Self { cwd, access, warnings, own: Some(own) })
    }

    /// The place where a scope would work, and what it sees there of the agent's workspace. Nothing is made.
    pub fn expected(setup: &Setup, scope_key: &str) -> Result<(PathBuf, WorkspaceAccess)> {
        let config = &setup.loaded.config;
        let own = || root(config, &setup.home, &setup.ringfence_home);
        let access = access(config);
        let directory = match access {
            WorkspaceAccess::Rw | WorkspaceAccess::Ro => setup.project.clone(),
            WorkspaceAccess::None if scope_key == SHARED => own()?,
            WorkspaceAccess::None => own()?.join(session_slug(scope_key)),
        };
        Ok((directory, access))
    }

    /// The place of sessions without a fence.
    pub(super) fn of_the_project(setup: &Setup) -> Self {
        Self { cwd: setup.project.clone(), access: WorkspaceAccess::Rw, warnings: vec![], own: None }
    }

    /// Whether it has a directory of its own.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// How many bytes its directory may hold; none where that is the project, which is not ours to limit.
    #[must_use]
    pub fn quota_bytes(&self) -> Option<u64> {
        self.is_own().then_some(SessionOptions::default().quota_bytes)
    }

    /// Opens its own directory to `policy`, which was made without.
    pub(super) fn open_in(&self, policy: &mut Policy) {
        if self.own.is_none() {
            return;
        }
        let source = RuleSource::layer(RuleLayer::BuiltIn).with_key("workspaceAccess");
        let files = &mut policy.filesystem;
        files.allow_write.insert(0, PathRule::new(PathPattern::literal(&self.cwd), source));
        if !files.decide(&self.cwd, Access::Write).allowed() {
            // It lies in ringfence's own home, which is denied as a whole.
            files.grants.push(Grant {
                path: self.cwd.clone(),
                access: Access::Write,
                scope: GrantScope::Session,
                recursive: true,
            });
        }
    }
}

/// `local` works in the project itself; elsewhere nothing of it is shown unless that is configured.
fn access(config: &SandboxConfig) -> WorkspaceAccess {
    let usual = if config.provider == "local" { WorkspaceAccess::Rw } else { WorkspaceAccess::None };
    config.workspace_access.unwrap_or(usual)
}

/// Where sessions have directories of their own: `workspaceRoot`, or below ringfence's home.
pub fn root(config: &SandboxConfig, home: &Path, ringfence_home: &Path) -> Result<PathBuf> {
    let Some(root) = &config.workspace_root else {
        return Ok(ringfence_home.join("sandboxes"));
    };
    let root = match root.strip_prefix("~/") {
        Some(below) => home.join(below),
        None => PathBuf::from(root),
    };
    if root.is_absolute() {
        return Ok(root);
    }
    let message = format!("workspaceRoot must be absolute or begin with ~/, not {}", root.display());
    Err(Error::new(ErrorKind::InvalidConfig, message))
}

fn cannot_make(path: &Path, error: std::io::Error) -> Error {
    let message = format!("cannot make the workspace {}", path.display());
    Error::new(ErrorKind::InitializationFailed, message).caused_by(error)
}
