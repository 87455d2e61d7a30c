//! Files that appear whole or not at all.
//!
//! Content goes into a file with a momentary name in the directory of its destination and is renamed into
//! place. The destination's own inode is never opened for writing, so whatever other names it has, inside
//! or outside, keep what they had.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Uid};
use rustix::io::Errno;

use crate::beneath::{Place, facts_of, moment_name};
use crate::facts::Facts;

/// New content that is not in its place yet. Dropped, it disappears.
#[derive(Debug)]
pub(crate) struct Staged {
    place: Place,
    moment: std::ffi::OsString,
    done: bool,
}

/// Rounds before giving up on a name that somebody keeps making and removing.
const TRIES: usize = 64;

/// What happens when something is at the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfThere {
    Replace,
    /// The newcomer yields.
    Keep,
}

impl Staged {
    /// Fills a new file beside `place`. It gets the mode and owner of `existing`, which it is to replace;
    /// otherwise 0644 as far as the umask lets it.
    pub(crate) fn new(
        place: Place,
        existing: Option<&Facts>,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<Self> {
        let directory = place.directory.as_fd();
        let moment = moment_name();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(if existing.is_some() { 0o600 } else { 0o644 });
        let mut file = File::from(rustix::fs::openat(directory, &moment, flags, mode)?);
        let staged = Self { moment, done: false, place };
        fill(&mut file)?;
        hand_over(file.as_fd(), staged.place.directory.as_fd(), existing)?;
        if let Some(existing) = existing {
            // Set-id bits do not survive a change of content.
            rustix::fs::fchmod(&file, existing.mode & Mode::from_raw_mode(0o777))?;
        }
        Ok(staged)
    }

    pub(crate) fn with_content(place: Place, existing: Option<&Facts>, content: &[u8]) -> io::Result<Self> {
        Self::new(place, existing, |file| file.write_all(content))
    }

    /// Puts it into place. False when it yielded to something that was there.
    pub(crate) fn commit(mut self, if_there: IfThere) -> Result<bool, Errno> {
        let (directory, name) = (&self.place.directory, &self.place.name);
        match if_there {
            IfThere::Replace => rustix::fs::renameat(directory, &self.moment, directory, name)?,
            IfThere::Keep => match self.rename_into_void() {
                Ok(()) => {}
                Err(Errno::EXIST) => return Ok(false),
                Err(errno) => return Err(errno),
            },
        }
        self.done = true;
        Ok(true)
    }

    /// The same where somebody has a say, before and after: while the content was written the directory may have got
    /// another name, or something beside it. After a no everything is as it was.
    pub(crate) fn commit_judged<E: From<Errno>>(
        mut self,
        if_there: IfThere,
        judge: impl Fn(&Place) -> Result<(), E>,
    ) -> Result<bool, E> {
        judge(&self.place)?;
        let (directory, name) = (&self.place.directory, &self.place.name);
        let exchange =
            || rustix::fs::renameat_with(directory, &self.moment, directory, name, RenameFlags::EXCHANGE);
        for _ in 0..TRIES {
            match self.rename_into_void() {
                Ok(()) => {
                    if let Err(refused) = judge(&self.place) {
                        rustix::fs::unlinkat(directory, name, AtFlags::empty())?;
                        return Err(refused);
                    }
                    self.done = true;
                    return Ok(true);
                }
                Err(Errno::EXIST) if if_there == IfThere::Keep => return Ok(false),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
            match exchange() {
                Ok(()) => {
                    // What was there has the momentary name now, and goes with it.
                    let was = crate::beneath::facts_at(directory.as_fd(), &self.moment)?;
                    let is_directory = was.is_some_and(|facts| facts.kind == FileType::Directory);
                    let judged = if is_directory { Err(Errno::ISDIR.into()) } else { judge(&self.place) };
                    if judged.is_err() {
                        exchange()?;
                    }
                    return judged.map(|()| true);
                }
                // It went meanwhile.
                Err(Errno::NOENT) => {}
                Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                    rustix::fs::renameat(directory, &self.moment, directory, name)?;
                    let judged = judge(&self.place);
                    if judged.is_err() {
                        rustix::fs::unlinkat(directory, name, AtFlags::empty())?;
                    }
                    self.done = true;
                    return judged.map(|()| true);
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(Errno::BUSY.into())
    }

    fn rename_into_void(&self) -> Result<(), Errno> {
        let (directory, name) = (&self.place.directory, &self.place.name);
        match rustix::fs::renameat_with(directory, &self.moment, directory, name, RenameFlags::NOREPLACE) {
            // Some file systems cannot; a second name does the same there, and the drop takes the first.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                rustix::fs::linkat(directory, &self.moment, directory, name, AtFlags::empty())?;
                rustix::fs::unlinkat(directory, &self.moment, AtFlags::empty())
            }
            outcome => outcome,
        }
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.done {
            // Nothing else can be done about it.
            let _ = rustix::fs::unlinkat(&self.place.directory, &self.moment, AtFlags::empty());
        }
    }
}

/// Gives a new file to the owner of what it replaces, or of its directory: a service running as root must
/// not leave a user's workspace full of files the user cannot change.
pub(crate) fn hand_over(
    file: BorrowedFd<'_>,
    directory: BorrowedFd<'_>,
    existing: Option<&Facts>,
) -> Result<(), Errno> {
    let mine = facts_of(file)?;
    let heir = match existing {
        Some(existing) => *existing,
        None if rustix::process::geteuid().is_root() => facts_of(directory)?,
        None => return Ok(()),
    };
    if (mine.owner, mine.group) == (heir.owner, heir.group) {
        return Ok(());
    }
    let outcome = rustix::fs::fchown(file, Some(Uid::from_raw(heir.owner)), Some(Gid::from_raw(heir.group)));
    match outcome {
        // An ordinary user cannot give files away; the content is what matters then.
        Err(Errno::PERM) => Ok(()),
        outcome => outcome,
    }
}
