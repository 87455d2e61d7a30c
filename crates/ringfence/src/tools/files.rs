//! Files of the workspace, read and written under the fence's rules: on the host, or inside of a sandbox that has its own.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ringfence_fence::SandboxFiles;
use ringfence_model::{Error, ErrorKind, Filesystem, Grant, Limits, Policy, Result, Violation};
use ringfence_workspace::{FileKind, ListOptions, Occurrence, Patch, SearchOptions, Workspace, clean_input};

use super::args;
use super::guard::{PolicyGuard, Refused};
use super::inside::Inside;
use super::shown;
use crate::session::ToolResult;

/// The treatment of a path that leads elsewhere.
pub(super) const STAY: &str =
    "file tools stay in the workspace; a command can read other places after a person agreed";

/// The workspace behind its guard. One call at a time, so that a grant for once is for one call.
#[derive(Debug)]
pub(crate) struct Files {
    workspace: Workspace,
    /// More directories of the project; what is in them is named by absolute paths.
    more: Vec<Workspace>,
    guard: Arc<PolicyGuard>,
    permanent: Vec<Grant>,
    home: PathBuf,
    turn: Mutex<()>,
    /// The rules are those that the fence enforces, with what it found by itself.
    is_enforced: OnceLock<()>,
}

/// Something in the workspace, or in another directory of the project.
#[derive(Debug)]
struct Place<'a> {
    workspace: &'a Workspace,
    /// In that directory.
    path: PathBuf,
    is_first: bool,
}

impl Place<'_> {
    /// A path of its directory as the caller would name it.
    fn named(&self, path: &Path) -> PathBuf {
        if self.is_first { path.to_owned() } else { self.workspace.host_path().join(path) }
    }

    fn shown(&self) -> String {
        self.named(&self.path).display().to_string()
    }
}

/// The work of a file tool.
#[derive(Debug, Clone)]
pub(crate) enum FileCall {
    Read(args::Read),
    Write(args::Write),
    Edit(args::Edit),
    ApplyPatch(args::ApplyPatch),
    List(args::List),
    Search(args::Search),
}

impl Files {
    pub(crate) fn new(
        workspace: Workspace,
        more: Vec<Workspace>,
        filesystem: Filesystem,
        limits: Limits,
        home: PathBuf,
    ) -> Self {
        let permanent = filesystem.grants.clone();
        let guard = Arc::new(PolicyGuard::new(filesystem, limits));
        let guarded = |workspace: Workspace| workspace.guarded(Arc::clone(&guard) as _);
        let (workspace, more) = (guarded(workspace), more.into_iter().map(guarded).collect());
        Self { workspace, more, guard, permanent, home, turn: Mutex::default(), is_enforced: OnceLock::new() }
    }

    /// Takes over the rules that the fence enforces, when files are first touched: it finds more than was written down.
    pub(crate) fn enforce(&self, policy: impl FnOnce() -> Result<Option<Policy>>) -> Result<()> {
        if self.is_enforced.get().is_none() {
            if let Some(policy) = policy()? {
                self.guard.replace(policy.filesystem);
            }
            self.is_enforced.get_or_init(|| ());
        }
        Ok(())
    }

    /// The limit that the last call did not keep, if there was one.
    pub(crate) fn take_too_large(&self) -> Option<Violation> {
        self.guard.take_too_large()
    }

    /// The directory of relative paths, in which code runs.
    pub(crate) fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// Does it, with what was granted: inside, when the sandbox has files of its own. A refusal of the rules comes with the
    /// error.
    pub(crate) fn call(
        &self,
        call: &FileCall,
        own: Option<&dyn SandboxFiles>,
        session: &[Grant],
        once: &[Grant],
    ) -> std::result::Result<ToolResult, (Error, Option<Box<Refused>>)> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.guard.hold(&self.permanent, session, once);
        self.guard.take_refused();
        let outcome = match (own, call) {
            (Some(own), call) => self.inside_of(own).call(call),
            (None, FileCall::Read(args)) => self.read(args),
            (None, FileCall::Write(args)) => self.write(args),
            (None, FileCall::Edit(args)) => self.edit(args),
            (None, FileCall::ApplyPatch(args)) => self.apply_patch(args),
            (None, FileCall::List(args)) => self.list(args),
            (None, FileCall::Search(args)) => self.search(args),
        };
        self.guard.hold(&self.permanent, session, &[]);
        outcome.map_err(|error| (error, self.guard.take_refused().map(Box::new)))
    }

    /// A file as it is, with what was granted for the session.
    pub(crate) fn bytes(
        &self,
        path: &str,
        own: Option<&dyn SandboxFiles>,
        session: &[Grant],
    ) -> Result<Vec<u8>> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.guard.hold(&self.permanent, session, &[]);
        if let Some(own) = own {
            return self.inside_of(own).bytes(path);
        }
        let place = self.inside(path)?;
        place.workspace.read(&place.path)
    }

    fn inside_of<'a>(&'a self, own: &'a dyn SandboxFiles) -> Inside<'a> {
        Inside { files: own, guard: &self.guard, home: &self.home }
    }

    /// The path as it was typed.
    fn inside(&self, typed: &str) -> Result<Place<'_>> {
        self.place(&clean_input(typed, Some(&self.home))).map_err(|error| error.hint(STAY))
    }

    /// Absolute paths are in the innermost directory that they begin with, all others in the workspace.
    fn place(&self, path: &Path) -> Result<Place<'_>> {
        let all = std::iter::once(&self.workspace).chain(&self.more);
        let holding = all.filter(|workspace| path.starts_with(workspace.host_path()));
        let innermost = holding.max_by_key(|workspace| workspace.host_path().components().count());
        let workspace = innermost.unwrap_or(&self.workspace);
        let path = workspace.relative(path)?;
        Ok(Place { workspace, path, is_first: std::ptr::eq(workspace, &self.workspace) })
    }

    fn read(&self, args: &args::Read) -> Result<ToolResult> {
        let place = self.inside(&args.path)?;
        if place.workspace.stat(&place.path)?.is_some_and(|stat| stat.kind == FileKind::Directory) {
            return Err(invalid(format!("{} is a directory", place.shown())).hint("use `list`"));
        }
        Ok(shown::lines(&place.shown(), &place.workspace.read_text(&place.path)?, args))
    }

    fn write(&self, args: &args::Write) -> Result<ToolResult> {
        let place = self.inside(&args.path)?;
        let existed = place.workspace.exists(&place.path);
        place.workspace.write(&place.path, args.content.as_bytes())?;
        Ok(shown::written(&place.shown(), existed, args.content.len()))
    }

    fn edit(&self, args: &args::Edit) -> Result<ToolResult> {
        let place = self.inside(&args.path)?;
        let which = if args.all { Occurrence::All } else { Occurrence::First };
        let count = place.workspace.edit(&place.path, &args.old, &args.new, which)?;
        Ok(shown::edited(&place.shown(), count))
    }

    /// A patch is applied whole or not at all, and so in one directory.
    fn apply_patch(&self, args: &args::ApplyPatch) -> Result<ToolResult> {
        let mut patch = Patch::parse(&args.patch)?;
        let mut first: Option<Place<'_>> = None;
        for path in patch.paths_mut() {
            let place = self.inside(&path.to_string_lossy())?;
            *path = place.path.clone();
            match &first {
                Some(first) if !std::ptr::eq(first.workspace, place.workspace) => {
                    let (one, other) = (first.workspace.host_path(), place.workspace.host_path());
                    let message =
                        format!("the patch changes files in {} and in {}", one.display(), other.display());
                    return Err(invalid(message).hint("make a patch for each directory"));
                }
                Some(_) => {}
                None => first = Some(place),
            }
        }
        let Some(place) = first else { return Err(invalid("the patch changes nothing".to_owned())) };
        let mut report = place.workspace.apply(&patch)?;
        for path in report.paths_mut() {
            *path = place.named(path);
        }
        Ok(shown::patched(&report))
    }

    fn list(&self, args: &args::List) -> Result<ToolResult> {
        let place = self.inside(&args.path)?;
        let options = if args.recursive { ListOptions::recursive() } else { ListOptions::flat() };
        let mut listing = place.workspace.list(&place.path, options)?;
        for entry in &mut listing.entries {
            entry.path = place.named(&entry.path);
        }
        Ok(shown::listed(&listing))
    }

    fn search(&self, args: &args::Search) -> Result<ToolResult> {
        let place = self.inside(&args.path)?;
        let options = SearchOptions { ignore_case: args.ignore_case, ..SearchOptions::default() };
        let mut report = place.workspace.search(&place.path, &args.text, &options)?;
        for found in &mut report.matches {
            found.path = place.named(&found.path);
        }
        Ok(shown::found(&report))
    }
}

impl FileCall {
    /// As a person would say it, for questions.
    pub(crate) fn sentence(&self) -> String {
        match self {
            Self::Read(args) => format!("read {}", args.path),
            Self::Write(args) => format!("write {}", args.path),
            Self::Edit(args) => format!("edit {}", args.path),
            Self::ApplyPatch(_) => "apply_patch".to_owned(),
            Self::List(args) => format!("list {}", args.path),
            Self::Search(args) => format!("search {}", args.path),
        }
    }

    /// As they were typed.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        match self {
            Self::Read(args) => vec![PathBuf::from(&args.path)],
            Self::Write(args) => vec![PathBuf::from(&args.path)],
            Self::Edit(args) => vec![PathBuf::from(&args.path)],
            Self::ApplyPatch(args) => {
                let patch = Patch::parse(&args.patch);
                patch
                    .map_or_else(|_| vec![], |mut patch| patch.paths_mut().map(|path| path.clone()).collect())
            }
            Self::List(args) => vec![PathBuf::from(&args.path)],
            Self::Search(args) => vec![PathBuf::from(&args.path)],
        }
    }

    pub(crate) fn writes(&self) -> bool {
        match self {
            Self::Write(_) | Self::Edit(_) | Self::ApplyPatch(_) => true,
            Self::Read(_) | Self::List(_) | Self::Search(_) => false,
        }
    }

    /// Whether it says that it needs more than it has.
    pub(crate) fn is_escalated(&self) -> bool {
        match self {
            Self::Write(args) => args.escalated,
            Self::Edit(args) => args.escalated,
            Self::ApplyPatch(args) => args.escalated,
            Self::Read(_) | Self::List(_) | Self::Search(_) => false,
        }
    }
}

pub(super) fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Validation, message)
}
