//! Files of a sandbox that has a file system of its own.
//!
//! Each call goes three steps: where does the path lead inside, do the rules allow what is there, and then exactly that is
//! touched or nothing. Rules are about paths of the host, so what a sandbox shows of the host is judged under its name there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ringfence_fence::SandboxFiles;
use ringfence_fence::files::{LastLink, Located};
use ringfence_model::{Access, Error, ErrorKind, Result};
use ringfence_workspace::patch::Outcome;
use ringfence_workspace::{
    Entry, FileKind, FileStat, Guard as _, ListOptions, Listing, MountMode, Occurrence, Patch, PatchSource,
    SearchOptions, SearchReport, Searcher, clean_input, is_text, replaced,
};

use super::args;
use super::files::{FileCall, STAY, invalid};
use super::guard::PolicyGuard;
use super::shown;
use crate::session::ToolResult;
use ringfence_fence::block_on as block;

/// One call.
pub(super) struct Inside<'a> {
    pub(super) files: &'a dyn SandboxFiles,
    pub(super) guard: &'a PolicyGuard,
    pub(super) home: &'a Path,
}

impl Inside<'_> {
    pub(super) fn call(&self, call: &FileCall) -> Result<ToolResult> {
        match call {
            FileCall::Read(args) => self.read(args),
            FileCall::Write(args) => self.write(args),
            FileCall::Edit(args) => self.edit(args),
            FileCall::ApplyPatch(args) => self.apply_patch(args),
            FileCall::List(args) => self.list(args),
            FileCall::Search(args) => self.search(args),
        }
    }

    /// A file as it is.
    pub(super) fn bytes(&self, path: &str) -> Result<Vec<u8>> {
        self.content(&self.locate(path, LastLink::Follow)?)
    }

    fn locate(&self, typed: &str, last: LastLink) -> Result<Located> {
        block(self.files.locate(&clean_input(typed, Some(self.home)), last))
            .map_err(|error| if error.kind == ErrorKind::PathTraversal { error.hint(STAY) } else { error })
    }

    fn content(&self, at: &Located) -> Result<Vec<u8>> {
        self.guard.may(&at.host, Access::Read)?;
        block(self.files.read(at))
    }

    /// Whether it may be written, and what would be made on the way.
    fn may_write(&self, at: &Located) -> Result<()> {
        if at.mode == MountMode::ReadOnly {
            let message = format!("cannot change {}: it is mounted read-only", at.shown.display());
            return Err(Error::new(ErrorKind::Permission, message));
        }
        for directory in at.missing.iter().chain([&at.host]) {
            self.guard.may(directory, Access::Write)?;
        }
        Ok(())
    }

    fn put(&self, at: &Located, content: &[u8]) -> Result<()> {
        self.may_write(at)?;
        self.guard.may_hold(content.len())?;
        block(self.files.write(at, content))
    }

    fn read(&self, args: &args::Read) -> Result<ToolResult> {
        let at = self.locate(&args.path, LastLink::Follow)?;
        let shown = at.shown.display().to_string();
        if kind(&at) == Some(FileKind::Directory) {
            return Err(invalid(format!("{shown} is a directory")).hint("use `list`"));
        }
        let content = self.content(&at)?;
        let text = String::from_utf8(content).map_err(|_| invalid(format!("{shown} is not UTF-8 text")))?;
        Ok(shown::lines(&shown, &text, args))
    }

    fn write(&self, args: &args::Write) -> Result<ToolResult> {
        let at = self.locate(&args.path, LastLink::Follow)?;
        self.put(&at, args.content.as_bytes())?;
        Ok(shown::written(&at.shown.display().to_string(), at.stat.is_some(), args.content.len()))
    }

    fn edit(&self, args: &args::Edit) -> Result<ToolResult> {
        let at = self.locate(&args.path, LastLink::Follow)?;
        self.may_write(&at)?;
        let which = if args.all { Occurrence::All } else { Occurrence::First };
        let (changed, count) = replaced(&at.shown, &self.content(&at)?, &args.old, &args.new, which)?;
        self.guard.may_hold(changed.len())?;
        block(self.files.write(&at, &changed))?;
        Ok(shown::edited(&at.shown.display().to_string(), count))
    }

    /// Everything is read and judged before anything is written; when a write fails, those before it are taken back.
    fn apply_patch(&self, args: &args::ApplyPatch) -> Result<ToolResult> {
        let outcome = Patch::parse(&args.patch)?.outcome(self)?;
        if outcome.after.is_empty() {
            return Err(invalid("the patch changes nothing".to_owned()));
        }
        let mut places = BTreeMap::new();
        let changed =
            outcome.after.iter().filter(|(path, content)| outcome.before.get(*path) != Some(content));
        for (path, content) in changed {
            // Deleting a link deletes the link, not its target.
            let last = if content.is_some() { LastLink::Follow } else { LastLink::Keep };
            let at = block(self.files.locate(path, last))?;
            self.may_write(&at)?;
            self.guard.may_hold(content.as_ref().map_or(0, Vec::len))?;
            places.insert(path.clone(), (at, content));
        }
        // New files come before old ones go, so that nothing is lost in between.
        let (new, gone): (Vec<_>, Vec<_>) = places.iter().partition(|(_, (_, content))| content.is_some());
        let mut done: Vec<(&PathBuf, &Located)> = vec![];
        for (path, (at, content)) in new.into_iter().chain(gone) {
            let put = match content {
                Some(content) => block(self.files.write(at, content)),
                None => block(self.files.remove(at)),
            };
            if let Err(error) = put {
                self.put_back(&outcome, &done);
                return Err(error);
            }
            done.push((path, at));
        }
        Ok(shown::patched(&outcome.report))
    }

    fn put_back(&self, outcome: &Outcome, done: &[(&PathBuf, &Located)]) {
        for (path, at) in done {
            // The error that led here is the one to report; a second one adds nothing.
            let _ = match outcome.before.get(*path) {
                Some(Some(content)) => block(self.files.write(at, content)),
                _ => block(self.files.remove(at)),
            };
        }
        let mut made: Vec<&PathBuf> = done.iter().flat_map(|(_, at)| &at.missing).collect();
        // Deepest first; one that somebody else uses by now stays.
        made.sort_by_key(|directory| std::cmp::Reverse(directory.components().count()));
        for directory in made {
            let _ = block(self.files.locate(directory, LastLink::Keep))
                .and_then(|at| block(self.files.remove(&at)));
        }
    }

    fn list(&self, args: &args::List) -> Result<ToolResult> {
        let options = if args.recursive { ListOptions::recursive() } else { ListOptions::flat() };
        let mut listing = Listing::default();
        listing.unreadable = self.visit(&args.path, options.depth, &mut |at, stat| {
            if listing.entries.len() >= options.max_entries {
                listing.truncated = true;
                return Next::Stop;
            }
            let FileStat { kind, size, modified_ms } = stat;
            listing.entries.push(Entry { path: at.shown.clone(), kind, size, modified_ms });
            Next::Enter
        })?;
        listing.entries.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(shown::listed(&listing))
    }

    fn search(&self, args: &args::Search) -> Result<ToolResult> {
        let options = SearchOptions { ignore_case: args.ignore_case, ..SearchOptions::default() };
        let searcher = Searcher::new(&args.text, &options)?;
        let mut report = SearchReport::default();
        let mut candidates = vec![];
        self.visit(&args.path, usize::MAX, &mut |at, stat| {
            let name = at.path.file_name().unwrap_or_default();
            match stat.kind {
                FileKind::Directory if options.skip.iter().any(|skip| name == skip.as_str()) => {
                    return Next::Skip;
                }
                FileKind::File if stat.size > options.max_file_bytes => report.files_passed_over += 1,
                FileKind::File if self.guard.may(&at.host, Access::Read).is_err() => {
                    report.files_passed_over += 1;
                }
                FileKind::File => candidates.push(at.clone()),
                FileKind::Directory | FileKind::Symlink | FileKind::Other => {}
            }
            if candidates.len() >= options.max_files {
                report.truncated = true;
                return Next::Stop;
            }
            Next::Enter
        })?;
        candidates.sort_by(|one, other| one.shown.cmp(&other.shown));
        'all: for some in candidates.chunks(FILES_AT_ONCE) {
            for (at, content) in some.iter().zip(block(self.files.read_many(some))?) {
                let Some(content) = content.filter(|content| is_text(content)) else {
                    report.files_passed_over += 1;
                    continue;
                };
                if searcher.look(&at.shown, &content, &mut report).is_break() {
                    break 'all;
                }
            }
        }
        Ok(shown::found(&report))
    }

    /// Shows everything below a directory to `visitor`, level by level, so that each level is one question to the sandbox.
    /// Gives the number of directories that could not be read.
    fn visit(
        &self,
        top: &str,
        depth: usize,
        visitor: &mut dyn FnMut(&Located, FileStat) -> Next,
    ) -> Result<usize> {
        let top = self.locate(top, LastLink::Follow)?;
        match kind(&top) {
            Some(FileKind::Directory) => {}
            Some(_) => return Err(invalid(format!("{} is no directory", top.shown.display()))),
            None => {
                let message = format!("cannot list {}: there is no such directory", top.shown.display());
                return Err(Error::new(ErrorKind::NotFound, message));
            }
        }
        self.guard.may(&top.host, Access::Read)?;
        let mut unreadable = 0;
        let mut level = vec![top];
        for _ in 0..depth {
            if level.is_empty() {
                break;
            }
            let mut below = vec![];
            for entries in block(self.files.list(&level))? {
                let Some(entries) = entries else {
                    unreadable += 1;
                    continue;
                };
                for at in entries {
                    let Some(stat) = at.stat else { continue };
                    match visitor(&at, stat) {
                        Next::Stop => return Ok(unreadable),
                        Next::Enter if stat.kind == FileKind::Directory => below.push(at),
                        Next::Enter | Next::Skip => {}
                    }
                }
            }
            level = below;
        }
        Ok(unreadable)
    }
}

/// Of which the contents are held at once.
const FILES_AT_ONCE: usize = 100;

/// The next wish of a visitor.
enum Next {
    Enter,
    Skip,
    Stop,
}

fn kind(at: &Located) -> Option<FileKind> {
    at.stat.map(|stat| stat.kind)
}

impl PatchSource for Inside<'_> {
    /// As it is shown: one name for each file, whatever was typed.
    fn tidy(&self, path: &Path) -> Result<PathBuf> {
        Ok(self.locate(&path.to_string_lossy(), LastLink::Keep)?.shown)
    }

    fn content(&self, path: &Path) -> Result<Option<Vec<u8>>> {
        let at = block(self.files.locate(path, LastLink::Follow))?;
        self.may_write(&at)?;
        if at.stat.is_none() { Ok(None) } else { self.content(&at).map(Some) }
    }
}
