//! Files of the workspace, read and written on the host under the fence's rules.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ringfence_model::{Error, ErrorKind, Filesystem, Grant, Result};
use ringfence_workspace::{FileKind, ListOptions, Occurrence, SearchOptions, Workspace, clean_input};
use serde_json::{Value, json};

use super::args;
use super::guard::{PolicyGuard, Refused};
use super::result::ToolResult;

/// Lines that one call reads unless it says otherwise.
const LINES: usize = 2000;
/// Characters of one line that are shown.
const LONGEST_LINE: usize = 2000;

/// The workspace behind its guard. One call at a time, so that a grant for once is for one call.
#[derive(Debug)]
pub(crate) struct Files {
    workspace: Workspace,
    guard: Arc<PolicyGuard>,
    permanent: Vec<Grant>,
    home: PathBuf,
    turn: Mutex<()>,
}

/// What a file tool does.
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
    pub(crate) fn new(workspace: Workspace, filesystem: Filesystem, home: PathBuf) -> Self {
        let permanent = filesystem.grants.clone();
        let guard = Arc::new(PolicyGuard::new(filesystem));
        let workspace = workspace.guarded(Arc::clone(&guard) as _);
        Self { workspace, guard, permanent, home, turn: Mutex::default() }
    }

    pub(crate) fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// Does it, with what was granted. A refusal of the rules comes with the error.
    pub(crate) fn call(
        &self,
        call: &FileCall,
        session: &[Grant],
        once: &[Grant],
    ) -> std::result::Result<ToolResult, (Error, Option<Box<Refused>>)> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.guard.hold(&self.permanent, session, once);
        self.guard.take_refused();
        let outcome = match call {
            FileCall::Read(args) => self.read(args),
            FileCall::Write(args) => self.write(args),
            FileCall::Edit(args) => self.edit(args),
            FileCall::ApplyPatch(args) => self.apply_patch(args),
            FileCall::List(args) => self.list(args),
            FileCall::Search(args) => self.search(args),
        };
        self.guard.hold(&self.permanent, session, &[]);
        outcome.map_err(|error| (error, self.guard.take_refused().map(Box::new)))
    }

    /// A file as it is, with what was granted for the session.
    pub(crate) fn bytes(&self, path: &str, session: &[Grant]) -> Result<Vec<u8>> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.guard.hold(&self.permanent, session, &[]);
        self.workspace.read(&self.inside(path)?)
    }

    /// What was typed as a path of the workspace.
    fn inside(&self, typed: &str) -> Result<PathBuf> {
        let path = clean_input(typed, Some(&self.home));
        self.workspace.relative(&path).map_err(|error| {
            error.hint(
                "file tools stay in the workspace; a command can read other places after a person agreed",
            )
        })
    }

    fn read(&self, args: &args::Read) -> Result<ToolResult> {
        let path = self.inside(&args.path)?;
        if self.workspace.stat(&path)?.is_some_and(|stat| stat.kind == FileKind::Directory) {
            return Err(invalid(format!("{} is a directory", path.display())).hint("use `list`"));
        }
        let text = self.workspace.read_text(&path)?;
        let (first, most) = (args.offset.unwrap_or(1).max(1), args.limit.unwrap_or(LINES));
        let all = text.lines().count();
        let mut shown = String::new();
        for (index, line) in text.lines().enumerate().skip(first - 1).take(most) {
            let line: String = line.chars().take(LONGEST_LINE).collect();
            // Writing to a string cannot fail.
            let _ = writeln!(shown, "{:>6}\t{line}", index + 1);
        }
        let more = all.saturating_sub((first - 1).saturating_add(most));
        let mut result = ToolResult::text(shown).with("path", shown_path(&path)).with("lines", all);
        if more > 0 {
            result.truncated = true;
            result = result.with("linesLeft", more);
        }
        Ok(result)
    }

    fn write(&self, args: &args::Write) -> Result<ToolResult> {
        let path = self.inside(&args.path)?;
        let existed = self.workspace.exists(&path);
        self.workspace.write(&path, args.content.as_bytes())?;
        let verb = if existed { "replaced" } else { "created" };
        let text = format!("{verb} {} ({} bytes)\n", path.display(), args.content.len());
        Ok(ToolResult::text(text).with("path", shown_path(&path)).with("created", !existed))
    }

    fn edit(&self, args: &args::Edit) -> Result<ToolResult> {
        let path = self.inside(&args.path)?;
        let which = if args.all { Occurrence::All } else { Occurrence::First };
        let count = self.workspace.edit(&path, &args.old, &args.new, which)?;
        let text = format!("replaced {count} in {}\n", path.display());
        Ok(ToolResult::text(text).with("path", shown_path(&path)).with("replacements", count))
    }

    fn apply_patch(&self, args: &args::ApplyPatch) -> Result<ToolResult> {
        let report = self.workspace.apply_patch(&args.patch)?;
        let mut text = String::new();
        for (mark, paths) in [("A", &report.added), ("M", &report.updated), ("D", &report.deleted)] {
            for path in paths {
                let _ = writeln!(text, "{mark} {}", path.display());
            }
        }
        for (from, to) in &report.moved {
            let _ = writeln!(text, "R {} -> {}", from.display(), to.display());
        }
        Ok(ToolResult::text(text).with("patch", json!(report)))
    }

    fn list(&self, args: &args::List) -> Result<ToolResult> {
        let path = self.inside(&args.path)?;
        let options = if args.recursive { ListOptions::recursive() } else { ListOptions::flat() };
        let listing = self.workspace.list(&path, options)?;
        let mut text = String::new();
        for entry in &listing.entries {
            let mark = match entry.kind {
                FileKind::Directory => "/",
                FileKind::Symlink => "@",
                FileKind::File | FileKind::Other => "",
            };
            let _ = writeln!(text, "{}{mark}", entry.path.display());
        }
        let mut result = ToolResult::text(text).with("entries", json!(listing.entries));
        result.truncated = listing.truncated;
        Ok(result)
    }

    fn search(&self, args: &args::Search) -> Result<ToolResult> {
        let path = self.inside(&args.path)?;
        let options = SearchOptions { ignore_case: args.ignore_case, ..SearchOptions::default() };
        let report = self.workspace.search(&path, &args.text, &options)?;
        let mut text = String::new();
        for found in &report.matches {
            let _ = writeln!(text, "{}:{}:{}", found.path.display(), found.line, found.text);
        }
        let truncated = report.truncated;
        let mut result = ToolResult::text(text).with("search", json!(report));
        result.truncated = truncated;
        Ok(result)
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

    pub(crate) fn writes(&self) -> bool {
        match self {
            Self::Write(_) | Self::Edit(_) | Self::ApplyPatch(_) => true,
            Self::Read(_) | Self::List(_) | Self::Search(_) => false,
        }
    }
}

fn shown_path(path: &Path) -> Value {
    path.display().to_string().into()
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Validation, message)
}
