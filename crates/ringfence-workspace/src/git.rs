//! Git's own files, judged as the fence judges them ([`ringfence_git`]).

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use ringfence_git::place::{self, Made, Standing, Verdict};
use ringfence_model::Result;
use rustix::fs::Mode;
use rustix::io::Errno;

use crate::beneath::{ENTRIES, PLACE, Place, facts_of};
use crate::guard::real_path;
use crate::workspace::Workspace;

impl Workspace {
    /// The guard's word on a name that is about to be made: where it is now, and what git would take it for there. A
    /// directory comes with all that is in it.
    pub(crate) fn guard_new(&self, place: &Place, made: Made, moved: Option<BorrowedFd<'_>>) -> Result<()> {
        self.guard_place(place)?;
        let Some(guard) = &self.guard else { return Ok(()) };
        let path = real_path(&place.directory)?;
        match self.may_be_made(place, &path, made, moved) {
            Ok(true) => Ok(()),
            // What cannot be looked at is not understood.
            Ok(false) | Err(_) => guard.feeds_git(&path.join(&place.name)),
        }
    }

    /// Looks from every directory above, as they are now: each is reached from the one that is held.
    fn may_be_made(
        &self,
        place: &Place,
        path: &Path,
        made: Made,
        moved: Option<BorrowedFd<'_>>,
    ) -> std::result::Result<bool, Errno> {
        let top = facts_of(self.root().fd())?;
        let mut here = rustix::io::fcntl_dupfd_cloexec(&place.directory, 0)?;
        let mut above = path.to_owned();
        let mut below = PathBuf::from(&place.name);
        let mut added: Option<&OsStr> = Some(&place.name);
        loop {
            let before = place::standing(here.as_fd(), None);
            // Looked at again after the deed, it has its mark already.
            let is_mark = added.is_some_and(place::is_mark);
            let after = place::standing(here.as_fd(), added.take());
            if after != Standing::Plain {
                let is_fine = place::judge(after, &above, &below, made) == Verdict::Fine
                    && moved.is_none_or(|moved| place::examine_moved(after, &above, &below, moved).is_ok())
                    // A config that is there already may still be held open by somebody inside.
                    && (after == before && !is_mark || place::examine(here.as_fd(), &above, after) == Ok(vec![]));
                if !is_fine {
                    return Ok(false);
                }
            }
            let facts = facts_of(&here)?;
            let Some(name) = above.file_name().map(OsStr::to_owned) else { return Ok(true) };
            if (facts.device, facts.inode) == (top.device, top.inode) {
                return Ok(true);
            }
            below = Path::new(&name).join(below);
            above.pop();
            here = rustix::fs::openat(&here, "..", PLACE, Mode::empty())?;
        }
    }

    /// What is to be moved, when it is a directory.
    pub(crate) fn directory_at(&self, place: &Place) -> Option<OwnedFd> {
        rustix::fs::openat(&place.directory, &place.name, ENTRIES, Mode::empty()).ok()
    }
}
