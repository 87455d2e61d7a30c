//! Reading and writing for a guard. The rules are asked about the file that was really opened, so nothing that
//! is moved or linked meanwhile leads around them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfence_gate::policy::{self, PathRules, Refusal};
use ringfence_model::config::Entry;
use ringfence_model::{Access, Error, ErrorKind, Filesystem, PathRule, Result};
use ringfence_workspace::{Guard, Workspace, WorkspaceOptions};

use super::GuardError;
use crate::setup::Setup;

/// The system's own. A rule about everything, or about what is around them, does not mean them: in the fence they
/// are not the host's either.
const SYSTEM: [&str; 6] = ["/etc/sudoers", "/root", "/var/log", "/proc", "/sys", "/dev"];

/// The rules about single paths.
#[derive(Debug)]
pub(super) struct Rules {
    filesystem: Filesystem,
    sensitive: Vec<String>,
    temporary: Vec<String>,
    strict: bool,
    project: PathBuf,
}

impl Rules {
    pub(super) fn new(setup: &Setup, mut filesystem: Filesystem) -> Self {
        let named = |rule: &PathRule, place: &Path| Path::new(&rule.path.to_string()).starts_with(place);
        for place in SYSTEM.map(Path::new) {
            let mut rules = filesystem.allow_read.iter().chain(&filesystem.allow_write);
            // The home of root has rules of its own where it is this user's.
            if !setup.home.starts_with(place) && !rules.any(|rule| named(rule, place)) {
                filesystem.deny.push(PathRule::built_in(place));
            }
        }
        let config = &setup.loaded.config;
        let texts = |list: &[Entry]| list.iter().map(|entry| entry.text.clone()).collect::<Vec<_>>();
        Self {
            filesystem,
            sensitive: texts(&config.additional_sensitive_files),
            temporary: texts(&config.allowed_tmp_paths),
            strict: config.strict_sensitive_files,
            project: setup.project.clone(),
        }
    }

    /// `path`: absolute, links resolved.
    pub(super) fn check(&self, path: &Path, access: Access) -> Result<(), Refusal> {
        let rules = PathRules {
            sensitive: &self.sensitive,
            strict: self.strict,
            // A project below a temporary directory is a project.
            temporary: (!path.starts_with(&self.project)).then_some(self.temporary.as_slice()),
        };
        policy::check_path(&self.filesystem, &rules, path, access)
    }
}

impl Guard for Rules {
    fn may(&self, host_path: &Path, access: Access) -> Result<()> {
        self.check(host_path, access)
            .map_err(|refusal| Error::new(ErrorKind::PathAccessDenied, refusal.reason))
    }
}

/// Every file of the machine, behind the rules.
#[derive(Debug)]
pub(super) struct Files {
    all: Workspace,
    most: Option<u64>,
}

impl Files {
    /// `most`: the largest file that is read or written.
    pub(super) fn new(rules: Arc<Rules>, most: Option<u64>) -> Result<Self> {
        let all = Workspace::open(Path::new("/"), WorkspaceOptions::default())?.guarded(rules);
        Ok(Self { all, most })
    }

    /// `path` as it was asked for, `resolved` where that leads.
    pub(super) fn read(&self, path: &Path, resolved: &Path) -> Result<Vec<u8>, GuardError> {
        let inner = self.all.relative(resolved)?;
        let most = self.most.unwrap_or(WorkspaceOptions::default().max_file_bytes);
        let (content, more) =
            self.all.read_up_to(&inner, most).map_err(|error| failed("read", path, &error))?;
        if more {
            let size = self.all.stat(&inner).ok().flatten().map_or(most + 1, |stat| stat.size);
            return Err(too_large(size, most));
        }
        Ok(content)
    }

    pub(super) fn write(&self, path: &Path, resolved: &Path, content: &[u8]) -> Result<(), GuardError> {
        let size = content.len() as u64;
        match self.most {
            Some(most) if size > most => Err(too_large(size, most)),
            _ => {
                let inner = self.all.relative(resolved)?;
                self.all.write(&inner, content).map_err(|error| failed("write", path, &error))
            }
        }
    }
}

fn too_large(current: u64, limit: u64) -> GuardError {
    GuardError::ResourceLimitExceeded { resource: "bytes of a file".to_owned(), current, limit }
}

fn failed(what: &str, path: &Path, error: &Error) -> GuardError {
    match error.kind {
        ErrorKind::PathAccessDenied | ErrorKind::PathTraversal => {
            GuardError::PathAccessDenied { path: path.to_owned(), reason: error.chain() }
        }
        _ => GuardError::Internal(format!("cannot {what} {}: {}", path.display(), error.chain())),
    }
}
