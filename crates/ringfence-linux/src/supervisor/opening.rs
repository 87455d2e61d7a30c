//! What becomes of an open: which file it means, and what policy says of that.

use ringfence_model::{Access, Operation};
use rustix::io::Errno;

use super::call::{self, Last, PathArg};
use super::target::{Ending, Resolved, Unread};
use super::{Answer, Supervisor};

/// Who only points at something gets nothing of it. Sandboxes do so, to build what they hide.
pub(super) fn pointing(flags: i32, answer: Answer) -> Answer {
    match answer {
        Answer::Deny(denial) if flags & libc::O_PATH != 0 => Answer::Notice(denial),
        answer => answer,
    }
}

impl Supervisor<'_> {
    pub(super) fn open(&mut self, tid: i32, path: PathArg, flags: i32, last: Last) -> Answer {
        let answer = self.judge_open(tid, path, flags, last);
        pointing(flags, answer)
    }

    fn judge_open(&mut self, tid: i32, path: PathArg, flags: i32, last: Last) -> Answer {
        let access = if call::writes(flags) { Access::Write } else { Access::Read };
        let read = self.read(tid, path);
        if read.is_ok()
            && let Some(answer) = self.own_terminal(tid, flags)
        {
            return answer;
        }
        if access == Access::Read && read.is_ok() {
            if let Some(answer) = self.replacement(flags) {
                return answer;
            }
            if let Some(answer) = self.open_at_once(flags) {
                return answer;
            }
        }
        self.powers.raise();
        if let Err(unread) = read {
            // Whoever only wants to list a directory that deep may: that is how such trees are removed.
            let lists = access == Access::Read && flags & libc::O_DIRECTORY != 0;
            return match unread {
                Unread::TooLong if lists => Answer::Deep,
                unread => unread.into(),
            };
        }
        let mut is_plain = false;
        if access == Access::Read {
            is_plain = self.is_plainly_allowed();
            if is_plain && !self.opens_itself() {
                return Answer::Continue;
            }
        }
        let operation = if flags & libc::O_CREAT != 0 { Operation::Create } else { Operation::Open };
        // Behind a slash every link is followed.
        let is_behind = access == Access::Read && self.path.ending() != Ending::Name;
        match self.resolve(if is_behind { Last::Follow } else { last }) {
            _ if is_plain => Answer::Continue,
            // The kernel says EEXIST.
            Resolved::Exists if flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0 => Answer::Continue,
            Resolved::Exists if self.is_of_another_process() => Answer::Done(Err(Errno::NOENT)),
            Resolved::Exists if self.is_kernels_own() => Answer::Done(Err(Errno::ACCESS)),
            Resolved::Exists if access == Access::Read && self.watched.shared.is_some() => {
                self.shared_read(flags)
            }
            Resolved::Exists => self.verdict(Operation::Open, access),
            Resolved::Missing if flags & libc::O_CREAT != 0 => {
                self.excuse(self.verdict(operation, Access::Write), flags)
            }
            Resolved::Unreachable if flags & libc::O_CREAT != 0 => self.hidden_place(operation),
            Resolved::Missing | Resolved::Unreachable => self.hidden(Operation::Open, access),
            Resolved::Nowhere => Answer::Continue,
        }
    }
}
