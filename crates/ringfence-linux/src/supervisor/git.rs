//! Git's own files, judged by what git believes ([`ringfence_git`]).
//!
//! Every change in a tree that may be written is looked at from each directory above it: in one that git takes for its
//! own only data may be made, and nothing becomes one while it holds anything else. All names there come and go by this
//! one thread, so a judged directory does not change between the look and the deed.
//!
//! A `config` is rewritten in everyday work (`git init`, `git remote add`, `git checkout -b`), always by renaming
//! `config.lock` over it. The supervisor makes that rename itself: it copies the bytes it has judged, so that nobody who
//! still holds the lock open can change them.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use ringfence_git::names::Judged;
use ringfence_git::place::{self, Made, Standing, Verdict};
use ringfence_git::{config, names};
use ringfence_model::{
    Access, DenyReason, Operation, PathOutcome, PathRule, RuleLayer, RuleSource, Severity, Violation,
    ViolationKind,
};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;

use super::call::{Call, Exchange};
use super::describe::{self, Denial, Resource};
use super::on_behalf::Place;
use super::target::Resolved;
use super::{Answer, Supervisor};

/// Whether the path is that of a repository's config.
pub(super) fn is_config(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "config" || name == "config.worktree")
        && path.ancestors().any(|above| above.file_name().is_some_and(|name| name == ".git"))
}

/// Whether git tries out there whether links work.
pub(super) fn is_probe(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    name.is_some_and(names::is_probe) && path.iter().any(|part| part == ".git")
}

impl Supervisor<'_> {
    /// Why the call that would be made here must not be: it gives git something to run or to believe.
    pub(super) fn feeds_git(&self, call: Call) -> Option<Answer> {
        self.place_written();
        let to = self.real.as_path();
        let (operation, exchanges, made) = match call {
            Call::Open { flags, .. } if flags & libc::O_TMPFILE == libc::O_TMPFILE => return None,
            Call::OpenHow { .. } if self.how.0 & libc::O_TMPFILE == libc::O_TMPFILE => return None,
            Call::Open { .. } | Call::OpenHow { .. } => (Operation::Create, false, Made::File),
            Call::Change { operation: Operation::Remove, .. } => return None,
            Call::Change { operation, .. } => (operation, false, Made::File),
            Call::Create { operation, .. } => {
                let made = match operation {
                    Operation::Mkdir => Made::Directory,
                    Operation::Symlink => Made::Symlink,
                    _ => Made::Other,
                };
                (operation, false, made)
            }
            Call::Bind { .. } => (Operation::Bind, false, Made::Other),
            Call::Move { operation, exchange, .. } => {
                let made = match self.source.as_deref().filter(|_| self.unnamed.is_none()) {
                    Some(source) => self.kind_of(source)?,
                    None => Made::File,
                };
                (operation, exchange == Exchange::Yes, made)
            }
            _ => return None,
        };
        let from = self.source.as_deref().filter(|_| self.unnamed.is_none());
        if operation == Operation::Rename
            && !exchanges
            && let Some(answer) = from.and_then(|from| self.replace_judged(from, to))
        {
            return Some(answer);
        }
        if let Call::Open { flags, .. } = call
            && let Some(answer) = self.begin_in_place(to, flags)
        {
            return Some(answer);
        }
        let refused = |path: &Path| Some(self.deny_git(operation, path));
        let source = from.filter(|_| made == Made::Directory);
        if !self.may_be_made(to, made, source) {
            return refused(to);
        }
        let from = from?;
        // A second name would be a way to change what counts by its content.
        if operation == Operation::Link && !self.is_data(from) {
            return refused(from);
        }
        if exchanges {
            let other = self.kind_of(to)?;
            let moved = (other == Made::Directory).then_some(to);
            if !self.may_be_made(from, other, moved) {
                return refused(from);
            }
        }
        None
    }

    /// Whether git may find something new at `path`; a directory comes from `source` with all that is in it.
    fn may_be_made(&self, path: &Path, made: Made, source: Option<&Path>) -> bool {
        // What ends with the sandbox is nobody's to run.
        if self.ends_with_the_sandbox(path) {
            return true;
        }
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return false };
        for above in self.directories_above(path) {
            let Ok(held) = self.open_directory(above) else { continue };
            let added = (above == directory).then_some(name);
            let before = place::standing(held.as_fd(), None);
            let after = place::standing(held.as_fd(), added);
            if after == Standing::Plain {
                continue;
            }
            let Ok(below) = path.strip_prefix(above) else { return false };
            if place::judge(after, above, below, made) != Verdict::Fine {
                return false;
            }
            if let Some(source) = source {
                let Ok(moved) = self.open_directory(source) else { return false };
                if place::examine_moved(after, above, below, moved.as_fd()).is_err() {
                    return false;
                }
            }
            if after > before {
                if !self.becomes(held.as_fd(), above, after) {
                    return false;
                }
                self.became.set(true);
            }
        }
        true
    }

    /// Whether a directory holds nothing that keeps it from becoming one of git's. What counts by its content is
    /// put there anew, because somebody may still hold the old file open for writing.
    fn becomes(&self, directory: BorrowedFd<'_>, path: &Path, standing: Standing) -> bool {
        let Ok(anew) = place::examine(directory, path, standing) else { return false };
        anew.into_iter().all(|(name, text)| {
            let (name, remembered) = (OsStr::new(name), CString::new(name));
            let placed = put(directory, name, &text);
            placed.is_ok()
                && remembered.is_ok_and(|name| {
                    self.own.remember(directory, &name);
                    true
                })
        })
    }

    /// Takes a deed back when somebody outside of this sandbox, another one or a tool, did something at the same time so that
    /// git would believe what is there now. Both look once more, so whoever comes second sees the other.
    pub(super) fn take_back(&self, call: Call, answer: Answer) -> Answer {
        let is_made = matches!(answer, Answer::Give(..) | Answer::Done(Ok(_)));
        let path = self.real.as_path();
        let exchanged = match call {
            Call::Move { exchange: Exchange::Yes, .. } => self.source.as_deref(),
            _ => None,
        };
        let is_change = matches!(call, Call::Change { .. });
        if !is_made
            || is_change
            || (self.may_stay(path) && exchanged.is_none_or(|other| self.may_stay(other)))
        {
            return answer;
        }
        let Ok(there) = self.place(path) else { return answer };
        let source = self.source.as_deref().map(|source| self.place(source));
        let _ = match (call, source) {
            (Call::Move { operation: Operation::Rename, exchange, .. }, Some(Ok(source))) => {
                let flags = match exchange {
                    Exchange::Yes => RenameFlags::EXCHANGE,
                    Exchange::No => RenameFlags::empty(),
                };
                let (from, to) = (&there, &source);
                rustix::fs::renameat_with(&from.directory, &from.name, &to.directory, &to.name, flags)
            }
            (Call::Create { operation: Operation::Mkdir, .. }, _) => {
                rustix::fs::unlinkat(&there.directory, &there.name, AtFlags::REMOVEDIR)
            }
            // It was there before, and is not handed over.
            (Call::Open { .. } | Call::OpenHow { .. }, _) if self.resolved == Resolved::Exists => Ok(()),
            _ => rustix::fs::unlinkat(&there.directory, &there.name, AtFlags::empty()),
        };
        self.deny_git(Operation::Create, path)
    }

    /// The second look, after the deed.
    fn may_stay(&self, path: &Path) -> bool {
        if self.became.get()
            && let Some(directory) = path.parent()
            && let Ok(held) = self.open_directory(directory)
        {
            return self.becomes(held.as_fd(), directory, place::standing(held.as_fd(), None));
        }
        match self.kind_of(path).filter(|_| place::may_be_believed(path)) {
            Some(made) => self.may_be_made(path, made, (made == Made::Directory).then_some(path)),
            None => true,
        }
    }

    /// Whether nothing about the file at `path` counts by its content.
    fn is_data(&self, path: &Path) -> bool {
        self.ends_with_the_sandbox(path)
            || self.directories_above(path).all(|above| {
                let Ok(held) = self.open_directory(above) else { return true };
                let standing = place::standing(held.as_fd(), None);
                let below = path.strip_prefix(above).unwrap_or(path);
                place::judge(standing, above, below, Made::File) == Verdict::Fine
            })
    }

    /// Makes a rename over a file that counts by its content, with the bytes that were judged. None: it is no such file, or
    /// somebody else protects it.
    pub(super) fn replace_judged(&self, from: &Path, to: &Path) -> Option<Answer> {
        if !self.is_only_gits(to) || self.ends_with_the_sandbox(to) {
            return None;
        }
        let (directory, name) = (to.parent()?, to.file_name()?);
        let source = from.file_name().filter(|_| from.parent() == Some(directory))?;
        let held = self.open_directory(directory).ok()?;
        let is_lock = source.as_encoded_bytes() == [name.as_encoded_bytes(), b".lock"].concat();
        let what = self.judged(held.as_fd(), directory, name)?;
        // An editor may leave the steps of a rebase under any name; a config is git's own to replace.
        if !is_lock && !matches!(what, What::File(Judged::Todo, _)) {
            return None;
        }
        let old = match place::read(held.as_fd(), Path::new(name)) {
            None if self.kind_of(to).is_some() => return Some(self.deny_git(Operation::Rename, to)),
            old => old,
        };
        let Some(new) = place::read(held.as_fd(), Path::new(source)) else {
            return Some(self.deny_git(Operation::Rename, to));
        };
        let told = match what.judge(old.as_deref(), &new) {
            Ok(told) => told,
            Err(why) => return Some(self.deny_config(to, &why)),
        };
        let is_news = old.is_some() && !self.is_own(to);
        let done = self.place_judged(&held, name, source, &new);
        if done.is_ok() && is_news {
            told.iter().for_each(|change| self.tell_of_remote(directory, change));
        }
        Some(Answer::Done(done.map(|()| 0)))
    }

    /// Whether a name counts by its content, and in which git directory.
    pub(super) fn judged(&self, held: BorrowedFd<'_>, directory: &Path, name: &OsStr) -> Option<What> {
        if name == ".gitmodules" {
            return Some(What::Modules);
        }
        let of = |above: &Path, standing: Standing, below: &Path| match place::judge(
            standing,
            above,
            below,
            Made::File,
        ) {
            Verdict::Judged(judged) => Some(What::File(judged, above.to_owned())),
            Verdict::Fine | Verdict::Refused => None,
        };
        // One that is called so is becoming one of git's.
        let is_gits = directory.iter().any(|part| part == ".git");
        let standing = place::standing(held, None);
        let own = if is_gits { Standing::Whole } else { standing };
        if let Some(what) = of(directory, own, Path::new(name)) {
            return Some(what);
        }
        let above = directory.parent()?;
        let outer = self.open_directory(above).ok()?;
        of(above, place::standing(outer.as_fd(), None), &Path::new(directory.file_name()?).join(name))
    }

    /// Puts the judged bytes in place: a new file, or one that exists (and is sealed in the sandbox's view), which is
    /// reached by the host's path and rewritten as the same file, so that the seal stays on it.
    fn place_judged(&self, held: &OwnedFd, name: &OsStr, source: &OsStr, text: &str) -> Result<(), Errno> {
        let existing = rustix::fs::statat(held, name, AtFlags::SYMLINK_NOFOLLOW);
        match existing {
            Err(Errno::NOENT) => {
                put(held.as_fd(), name, text)?;
                let name = std::ffi::CString::new(name.as_encoded_bytes()).map_err(|_| Errno::INVAL)?;
                self.own.remember(held.as_fd(), &name);
            }
            Err(errno) => return Err(errno),
            Ok(existing) => {
                let path = host_path(held.as_fd())?.join(name);
                let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let resolve = ResolveFlags::NO_SYMLINKS;
                let file = rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), resolve)?;
                let opened = rustix::fs::fstat(&file)?;
                // Another name of it would show the same.
                if (opened.st_dev, opened.st_ino) != (existing.st_dev, existing.st_ino)
                    || opened.st_nlink != 1
                {
                    return Err(Errno::ACCESS);
                }
                rustix::fs::ftruncate(&file, 0)?;
                write_all(&file, text.as_bytes())?;
            }
        }
        rustix::fs::unlinkat(held, source, AtFlags::empty())
    }

    /// Whether a directory of hooks may be made, with nothing in it: some tools make one and leave it so.
    pub(super) fn is_empty_hooks(&self, operation: Operation, path: &Path) -> bool {
        operation == Operation::Mkdir
            && path.file_name().is_some_and(|name| name == "hooks")
            && path.parent().is_some_and(|above| above.iter().any(|part| part == ".git"))
            && self.is_only_gits(path)
    }

    /// Excuses the refusal of a new file that is known to be harmless.
    pub(super) fn excuse(&self, refusal: Answer, flags: i32) -> Answer {
        let path = self.real.as_path();
        match &refusal {
            Answer::Deny(denial) if self.is_kept(path) => {
                let is_excused = match denial.reason {
                    DenyReason::Protected => self.is_sample(path),
                    DenyReason::Denied => self.is_new_secret(path, flags),
                    DenyReason::ReadOnly | DenyReason::Unlisted => false,
                };
                self.excused.set(is_excused);
                if is_excused { Answer::Continue } else { refusal }
            }
            _ => refusal,
        }
    }

    /// Whether an example of a hook may be made: every new repository has them, and git runs none.
    fn is_sample(&self, path: &Path) -> bool {
        path.file_name().and_then(OsStr::to_str).is_some_and(names::is_sample)
            && path.parent().and_then(Path::file_name).is_some_and(|above| above == "hooks")
            && path.iter().any(|part| part == ".git")
            && self.is_only_gits(path)
    }

    /// Whether nobody but the program itself protects `path`, for git's sake.
    pub(super) fn is_only_gits(&self, path: &Path) -> bool {
        let is_gits = |rule: &PathRule| match rule.source.layer {
            RuleLayer::BuiltIn => rule.is_about_names(),
            RuleLayer::Detected => rule.source.key.as_deref() == Some("git directory"),
            _ => false,
        };
        self.policy.protect.iter().filter(|rule| rule.path.covers(path)).all(is_gits)
    }

    pub(super) fn ends_with_the_sandbox(&self, path: &Path) -> bool {
        self.is_in_own_directory(path)
            || self.policy.decide(path, Access::Write).outcome == PathOutcome::Private
    }

    /// Whether it is the sandbox's own where it has no mounts.
    pub(super) fn is_in_own_directory(&self, path: &Path) -> bool {
        let own = self.watched.shared.as_ref().and_then(|shared| shared.own_home.parent());
        own.is_some_and(|own| path.starts_with(own))
    }

    /// The directories above `path` in the tree that may be written, the nearest first.
    fn directories_above<'p>(&self, path: &'p Path) -> impl Iterator<Item = &'p Path> + use<'p> {
        let outermost =
            self.watched.kept.iter().filter(|kept| path.starts_with(kept)).map(|kept| kept.iter().count());
        let least = outermost.min().unwrap_or(usize::MAX);
        path.ancestors().skip(1).take_while(move |above| above.iter().count() >= least)
    }

    pub(super) fn open_directory(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let root = self.root.as_ref().ok_or(Errno::ACCESS)?;
        let relative = path.strip_prefix("/").unwrap_or(path);
        let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat2(root, relative, flags, Mode::empty(), resolve)
    }

    /// What lies at `path`, if anything does.
    fn kind_of(&self, path: &Path) -> Option<Made> {
        let Place { directory, name } = self.place(path).ok()?;
        let stat = rustix::fs::statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Made::File,
            FileType::Directory => Made::Directory,
            FileType::Symlink => Made::Symlink,
            _ => Made::Other,
        })
    }

    pub(super) fn is_directory(&self, path: &Path) -> bool {
        self.kind_of(path) == Some(Made::Directory)
    }

    /// All names below `path`, as the sandbox sees it; none when they cannot be listed.
    pub(super) fn names_below(&self, path: &Path) -> Option<Vec<PathBuf>> {
        place::names_below(self.open_directory(path).ok()?.as_fd())
    }

    pub(super) fn deny_git(&self, operation: Operation, path: &Path) -> Answer {
        let why = "what git runs or believes".to_owned();
        Answer::Deny(Denial {
            operation,
            resource: Resource::Path(path.to_owned()),
            access: Access::Write,
            reason: DenyReason::Protected,
            rule: Some((why, RuleSource::layer(RuleLayer::BuiltIn).with_key("git"))),
            missing: false,
        })
    }

    fn deny_config(&self, path: &Path, why: &config::Refused) -> Answer {
        Answer::Deny(Denial {
            operation: Operation::Rename,
            resource: Resource::Path(path.to_owned()),
            access: Access::Write,
            reason: DenyReason::Protected,
            missing: false,
            rule: Some((
                format!("what git believes, {why}"),
                RuleSource::layer(RuleLayer::BuiltIn).with_key("git"),
            )),
        })
    }

    fn tell_of_remote(&self, directory: &Path, change: &str) {
        let resource = directory.join("config");
        let violation = Violation {
            kind: ViolationKind::RemoteChanged,
            severity: Severity::Low,
            blocked: false,
            message: format!("the repository {} has another remote now: {change}", directory.display()),
            ..describe::violation(
                self.tid,
                Denial {
                    operation: Operation::Rename,
                    resource: Resource::Path(resource),
                    access: Access::Write,
                    reason: DenyReason::Protected,
                    rule: None,
                    missing: false,
                },
            )
        };
        self.reporter.tell(Violation { resource: format!("{}: {change}", directory.display()), ..violation });
    }
}

/// A file that counts by its content.
pub(super) enum What {
    /// In the git directory of that path.
    File(Judged, PathBuf),
    /// The project's list of submodules.
    Modules,
}

impl What {
    /// What is to be told of the new content.
    fn judge(&self, old: Option<&str>, new: &str) -> Result<Vec<String>, config::Refused> {
        match self {
            Self::File(judged, above) => place::judge_content(*judged, above, old, new),
            Self::Modules => config::judge(config::Place::Modules, old, new).map(|_| vec![]),
        }
    }
}

/// Puts a new file of this text in the place of whatever has the name.
pub(super) fn put(directory: BorrowedFd<'_>, name: &OsStr, text: &str) -> Result<(), Errno> {
    const NEW: &str = ".ringfence-judged";
    let create = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let new = rustix::fs::openat(directory, NEW, create, Mode::from_raw_mode(0o644))?;
    let placed =
        write_all(&new, text.as_bytes()).and_then(|()| rustix::fs::renameat(directory, NEW, directory, name));
    if placed.is_err() {
        // Nobody else made it.
        let _ = rustix::fs::unlinkat(directory, NEW, AtFlags::empty());
    }
    placed
}

fn host_path(directory: BorrowedFd<'_>) -> Result<PathBuf, Errno> {
    std::fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd())).map_err(|_| Errno::NOENT)
}

fn write_all(file: impl AsFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let written = rustix::io::write(&file, bytes)?;
        bytes = &bytes[written..];
    }
    Ok(())
}
