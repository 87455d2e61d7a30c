//! Files that count by their content, and that git writes in place: with which strategy a rebase goes on, which names a
//! program, and where the rest of a linked worktree's repository is.
//!
//! Their writer gets a file in memory instead. What that holds is judged and put in place, as a copy, before anything else
//! is made: git makes more files at once, and nobody who still holds the one in memory can change what was judged. Of a
//! worktree only one thing can be said, so it is there at once, for whoever reads it next.

use std::cell::RefCell;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use ringfence_git::names::{COMMONDIR, Judged};
use ringfence_git::place;
use ringfence_model::Operation;
use rustix::fs::MemfdFlags;
use rustix::io::Errno;

use super::git::{What, put};
use super::{Answer, Supervisor, describe};
use crate::prefork::wire;

const LONGEST: usize = 64;

/// What is being written and will be judged: which file, as what, and the one in memory.
#[derive(Debug, Default)]
pub(super) struct Unjudged(RefCell<Vec<(PathBuf, Judged, OwnedFd)>>);

impl Unjudged {
    /// More than git ever has at a time.
    const MOST: usize = 8;

    /// A file to write to in the place of the one at `path`.
    fn begin(&self, path: &Path, judged: Judged) -> Result<OwnedFd, Errno> {
        let file = rustix::fs::memfd_create("ringfence-unjudged", MemfdFlags::CLOEXEC)?;
        let mut begun = self.0.borrow_mut();
        if begun.len() == Self::MOST {
            begun.remove(0);
        }
        begun.push((path.to_owned(), judged, rustix::io::fcntl_dupfd_cloexec(&file, 0)?));
        Ok(file)
    }

    /// Those to which something was written.
    fn written(&self) -> Vec<(PathBuf, Judged, Option<String>)> {
        let mut begun = self.0.borrow_mut();
        let mut written = Vec::new();
        begun.retain(|(path, judged, file)| {
            let text = wire::contents(file.as_fd(), LONGEST).ok();
            let is_empty = text.as_ref().is_some_and(Vec::is_empty);
            if !is_empty {
                written.push((path.clone(), *judged, text.and_then(|text| String::from_utf8(text).ok())));
            }
            is_empty
        });
        written
    }
}

impl Supervisor<'_> {
    /// A file in memory for what is written in place and judged then.
    pub(super) fn begin_in_place(&self, path: &Path, flags: i32) -> Option<Answer> {
        const NEW: i32 = libc::O_CREAT | libc::O_TRUNC;
        let is_written_anew = flags & (NEW | libc::O_EXCL | libc::O_APPEND) == NEW;
        let name = path.file_name().filter(|name| *name == "strategy" || *name == "commondir")?;
        if !is_written_anew || !self.is_only_gits(path) || self.ends_with_the_sandbox(path) {
            return None;
        }
        let directory = path.parent()?;
        let held = self.open_directory(directory).ok()?;
        let What::File(judged @ (Judged::Strategy | Judged::Commondir), _) =
            self.judged(held.as_fd(), directory, name)?
        else {
            return None;
        };
        let begun = self.unjudged.begin(path, judged).and_then(|file| {
            if judged == Judged::Commondir {
                put(held.as_fd(), name, COMMONDIR)?;
            }
            Ok(file)
        });
        Some(match begun {
            Ok(file) => Answer::Give(file, flags & libc::O_CLOEXEC != 0),
            Err(errno) => Answer::Done(Err(errno)),
        })
    }

    /// Puts in place what was written in memory, if it is harmless; tells what is not.
    pub(super) fn place_written(&self) {
        for (path, judged, text) in self.unjudged.written() {
            let is_harmless = |text: &String| place::judge_content(judged, &path, None, text).is_ok();
            let Some(text) = text.filter(is_harmless) else {
                if let Answer::Deny(denial) = self.deny_git(Operation::Create, &path) {
                    self.reporter.tell(describe::violation(self.tid, denial));
                }
                continue;
            };
            let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { continue };
            // Who removed the directory meanwhile needs it no more.
            if judged != Judged::Commondir
                && let Ok(held) = self.open_directory(directory)
            {
                let _ = put(held.as_fd(), name, &text);
            }
        }
    }
}
