//! With which strategy a rebase goes on: a file that names a program, and that git writes in place.
//!
//! Its writer gets a file in memory instead. What that holds is judged and put in place, as a copy, before anything else is
//! made: git makes more files at once, and nobody who still holds the one in memory can change what was judged.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use ringfence_git::names::Judged;
use ringfence_git::place;
use ringfence_model::Operation;
use rustix::fs::MemfdFlags;
use rustix::io::Errno;

use super::git::{What, put};
use super::{Answer, Supervisor, describe};
use crate::prefork::wire;

const STRATEGY: &str = "strategy";
const LONGEST_STRATEGY: usize = 64;

/// What is being written and will be judged: in which directory, and the file in memory.
#[derive(Debug, Default)]
pub(super) struct Unjudged(RefCell<Vec<(PathBuf, OwnedFd)>>);

impl Unjudged {
    /// More than git ever has at a time.
    const MOST: usize = 8;

    /// A file to write to in the place of the one in `directory`.
    fn begin(&self, directory: &Path) -> Result<OwnedFd, Errno> {
        let file = rustix::fs::memfd_create("ringfence-unjudged", MemfdFlags::CLOEXEC)?;
        let mut begun = self.0.borrow_mut();
        if begun.len() == Self::MOST {
            begun.remove(0);
        }
        begun.push((directory.to_owned(), rustix::io::fcntl_dupfd_cloexec(&file, 0)?));
        Ok(file)
    }

    /// Those to which something was written.
    fn written(&self) -> Vec<(PathBuf, Option<String>)> {
        let mut begun = self.0.borrow_mut();
        let mut written = Vec::new();
        begun.retain(|(directory, file)| {
            let text = wire::contents(file.as_fd(), LONGEST_STRATEGY).ok();
            let is_empty = text.as_ref().is_some_and(Vec::is_empty);
            if !is_empty {
                written.push((directory.clone(), text.and_then(|text| String::from_utf8(text).ok())));
            }
            is_empty
        });
        written
    }
}

impl Supervisor<'_> {
    /// A file in memory for what is written to the strategy of a rebase.
    pub(super) fn begin_strategy(&self, path: &Path, flags: i32) -> Option<Answer> {
        const NEW: i32 = libc::O_CREAT | libc::O_TRUNC;
        let is_written_anew = flags & (NEW | libc::O_EXCL | libc::O_APPEND) == NEW;
        if path.file_name()? != STRATEGY
            || !is_written_anew
            || !self.is_only_gits(path)
            || self.ends_with_the_sandbox(path)
        {
            return None;
        }
        let directory = path.parent()?;
        let held = self.open_directory(directory).ok()?;
        let what = self.judged(held.as_fd(), directory, OsStr::new(STRATEGY))?;
        if !matches!(what, What::File(Judged::Strategy, _)) {
            return None;
        }
        Some(match self.unjudged.begin(directory) {
            Ok(file) => Answer::Give(file, flags & libc::O_CLOEXEC != 0),
            Err(errno) => Answer::Done(Err(errno)),
        })
    }

    /// Puts in place what was written in memory, if it is harmless; tells what is not.
    pub(super) fn place_written(&self) {
        for (directory, text) in self.unjudged.written() {
            let path = directory.join(STRATEGY);
            let judged =
                |text: &String| place::judge_content(Judged::Strategy, &directory, None, text).is_ok();
            let Some(text) = text.filter(judged) else {
                if let Answer::Deny(denial) = self.deny_git(Operation::Create, &path) {
                    self.reporter.tell(describe::violation(self.tid, denial));
                }
                continue;
            };
            // Who removed the directory meanwhile needs it no more.
            if let Ok(held) = self.open_directory(&directory) {
                let _ = put(held.as_fd(), OsStr::new(STRATEGY), &text);
            }
        }
    }
}
