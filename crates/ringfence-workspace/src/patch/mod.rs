//! Patches in the format that agents write, applied as a whole or not at all.
//!
//! ```text
//! *** Begin Patch
//! *** Add File: src/new.rs
//! +fn new() {}
//! *** Update File: src/lib.rs
//! *** Move to: src/main.rs
//! @@ fn greet
//!  context
//! -old line
//! +new line
//! *** End of File
//! *** Delete File: src/old.rs
//! *** End Patch
//! ```
//!
//! Everything is read and computed first; then all new contents are staged beside their destinations; only
//! then are they put into place, and put back if one of them cannot be. Whoever kills the program in that
//! last moment may find some files new and some old, each of them whole.

mod hunk;
mod parse;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ringfence_model::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::atomic::IfThere;
use crate::path::Inner;
use crate::workspace::{RemoveDepth, Workspace};

use parse::Change;

/// What a patch did, paths in the order of the patch.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PatchReport {
    pub added: Vec<PathBuf>,
    pub updated: Vec<PathBuf>,
    pub deleted: Vec<PathBuf>,
    /// From and to.
    pub moved: Vec<(PathBuf, PathBuf)>,
}

impl PatchReport {
    /// All paths.
    pub fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let moved = self.moved.iter_mut().flat_map(|(from, to)| [from, to]);
        self.added.iter_mut().chain(&mut self.updated).chain(&mut self.deleted).chain(moved)
    }
}

/// A patch that was read, and not applied yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch(Vec<Change>);

impl Patch {
    pub fn parse(text: &str) -> Result<Self> {
        parse::parse(text).map(Self)
    }

    /// The paths it names, which a caller may know by other names than the workspace.
    pub fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.0
            .iter_mut()
            .flat_map(|change| match change {
                Change::Add { path, .. } | Change::Delete { path } => [Some(path), None],
                Change::Update { path, move_to, .. } => [Some(path), move_to.as_mut()],
            })
            .flatten()
    }
}

/// The state of the files a patch touches. None: not there.
pub type Contents = BTreeMap<PathBuf, Option<Vec<u8>>>;

/// Where a patch finds the files that it changes.
pub trait PatchSource {
    /// The one way to write a path that may be changed.
    fn tidy(&self, path: &Path) -> Result<PathBuf>;

    /// The content of the file at a tidy path; none when there is no such file.
    fn content(&self, path: &Path) -> Result<Option<Vec<u8>>>;
}

/// What a patch would do. All paths are tidy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    pub report: PatchReport,
    pub before: Contents,
    pub after: Contents,
}

impl Patch {
    /// Computes what comes of it; nothing is changed.
    pub fn outcome(&self, source: &dyn PatchSource) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        for change in &self.0 {
            outcome.add(change, source)?;
        }
        Ok(outcome)
    }
}

impl Outcome {
    fn add(&mut self, change: &Change, source: &dyn PatchSource) -> Result<()> {
        match change {
            Change::Add { path, content } => {
                let path = self.known(path, source)?;
                if self.is_there(&path) {
                    return Err(
                        wrong(format!("cannot add {}: it exists", path.display())).hint("update it instead")
                    );
                }
                self.after.insert(path.clone(), Some(content.clone().into_bytes()));
                self.report.added.push(path);
            }
            Change::Delete { path } => {
                let path = self.known(path, source)?;
                if self.after.insert(path.clone(), None).flatten().is_none() {
                    return Err(missing("delete", &path));
                }
                self.report.deleted.push(path);
            }
            Change::Update { path, move_to, hunks } => {
                let path = self.known(path, source)?;
                let Some(Some(old)) = self.after.get(&path) else { return Err(missing("update", &path)) };
                let new = hunk::apply(&path, old, hunks)?;
                match move_to {
                    None => {
                        self.after.insert(path.clone(), Some(new));
                        self.report.updated.push(path);
                    }
                    Some(target) => {
                        let target = self.known(target, source)?;
                        if target != path && self.is_there(&target) {
                            return Err(wrong(format!("cannot move to {}: it exists", target.display())));
                        }
                        self.after.insert(path.clone(), None);
                        self.after.insert(target.clone(), Some(new));
                        self.report.moved.push((path, target));
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads a file the first time it is named, and gives its tidy path.
    fn known(&mut self, path: &Path, source: &dyn PatchSource) -> Result<PathBuf> {
        let path = source.tidy(path)?;
        if !self.before.contains_key(&path) {
            let content = source.content(&path)?;
            self.before.insert(path.clone(), content.clone());
            self.after.insert(path.clone(), content);
        }
        Ok(path)
    }

    fn is_there(&self, path: &Path) -> bool {
        self.after.get(path).is_some_and(Option::is_some)
    }
}

impl PatchSource for Workspace {
    fn tidy(&self, path: &Path) -> Result<PathBuf> {
        self.must_be_writable(path)?;
        Ok(Inner::of_entry(path)?.as_path().to_owned())
    }

    fn content(&self, path: &Path) -> Result<Option<Vec<u8>>> {
        match self.read(path) {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
            content => content.map(Some),
        }
    }
}

impl Workspace {
    /// Applies a patch: all of it, or nothing.
    pub fn apply_patch(&self, text: &str) -> Result<PatchReport> {
        self.apply(&Patch::parse(text)?)
    }

    /// The same, of a patch that was read before.
    pub fn apply(&self, patch: &Patch) -> Result<PatchReport> {
        let Outcome { report, before, after } = patch.outcome(self)?;
        self.put(&before, after, &report.moved)?;
        Ok(report)
    }

    fn put(&self, before: &Contents, after: Contents, moved: &[(PathBuf, PathBuf)]) -> Result<()> {
        let mut staged = Vec::new();
        let mut to_remove = Vec::new();
        let mut made = Vec::new();
        let mut done: Vec<PathBuf> = Vec::new();
        let go = || -> Result<()> {
            for (path, content) in after {
                match content {
                    unchanged if before.get(&path) == Some(&unchanged) => {}
                    Some(content) => {
                        made.extend(self.missing_parents(&path));
                        let source = moved.iter().find(|(_, to)| *to == path).map(|(from, _)| from.as_path());
                        staged.push((self.stage(&path, &content, source)?, path));
                    }
                    None => to_remove.push(path),
                }
            }
            for (file, path) in staged.drain(..) {
                self.commit(file, IfThere::Replace, &path)?;
                done.push(path);
            }
            for path in &to_remove {
                self.remove(path, RemoveDepth::Single)?;
                done.push(path.clone());
            }
            Ok(())
        };
        let outcome = go();
        if outcome.is_err() {
            drop(staged);
            self.put_back(before, &done);
            // Deepest first; one that somebody else uses by now stays.
            for directory in made.iter().rev() {
                let _ = self.remove(directory, RemoveDepth::Single);
            }
        }
        outcome
    }

    /// Directories that writing `path` will make, outermost first.
    fn missing_parents(&self, path: &Path) -> Vec<PathBuf> {
        let parents = path.ancestors().skip(1).take_while(|parent| !parent.as_os_str().is_empty());
        let mut missing: Vec<PathBuf> =
            parents.take_while(|parent| !self.exists(parent)).map(Path::to_owned).collect();
        missing.reverse();
        missing
    }

    fn put_back(&self, before: &Contents, done: &[PathBuf]) {
        for path in done {
            // The error that led here is the one to report; a second one adds nothing.
            let _ = match before.get(path) {
                Some(Some(content)) => self.write(path, content),
                _ => self.remove(path, RemoveDepth::Single).map(drop),
            };
        }
    }
}

fn wrong(message: String) -> Error {
    Error::new(ErrorKind::Validation, message)
}

fn missing(doing: &str, path: &Path) -> Error {
    Error::new(ErrorKind::NotFound, format!("cannot {doing} {}: there is no such file", path.display()))
}
