//! The verdict on a change: the place that it means, and the policy about that place.

use ringfence_model::{Access, DenyReason, Operation};
use rustix::io::Errno;

use super::call::{Exchange, Last, PathArg};
use super::target::{Ending, Resolved, Unread};
use super::{Answer, Supervisor, git};

impl Supervisor<'_> {
    pub(super) fn create(&mut self, tid: i32, operation: Operation, path: PathArg) -> Answer {
        if let Err(unread) = self.read(tid, path) {
            return unread.into();
        }
        match self.resolve(Last::Name) {
            // The kernel says EEXIST.
            Resolved::Exists | Resolved::Nowhere => Answer::Continue,
            // A link in the place of a directory whose content is protected would lead the host's tools
            // to a content that is not.
            Resolved::Missing
                if operation == Operation::Symlink
                    && !git::is_probe(self.real.as_path())
                    && !self.ends_with_the_sandbox(self.real.as_path())
                    && self.holds_protected(self.real.as_path()) =>
            {
                self.deny_protected(operation)
            }
            Resolved::Missing => match self.verdict(operation, Access::Write) {
                Answer::Deny(_) if self.is_empty_hooks(operation, self.real.as_path()) => {
                    self.excused.set(true);
                    Answer::Continue
                }
                verdict => verdict,
            },
            Resolved::Unreachable => self.hidden_place(operation),
        }
    }

    pub(super) fn change(&mut self, tid: i32, operation: Operation, path: PathArg, last: Last) -> Answer {
        match self.read(tid, path) {
            Err(Unread::TooLong) if operation == Operation::Remove => return Answer::Deep,
            Err(unread) => return unread.into(),
            Ok(()) => {}
        }
        // Behind a slash every link is followed.
        let is_behind = operation != Operation::Remove && self.path.ending() != Ending::Name;
        match self.resolve(if is_behind { Last::Follow } else { last }) {
            // git tries the file mode out on a config it has just written. A sealed one stays sealed.
            Resolved::Exists if self.may_dress(operation, self.real.as_path()) => Answer::Continue,
            Resolved::Exists if self.is_device() => Answer::Done(Err(Errno::PERM)),
            Resolved::Exists => match self.verdict(operation, Access::Write) {
                Answer::Deny(_) if operation == Operation::Remove && self.is_own(self.real.as_path()) => {
                    Answer::Continue
                }
                verdict => verdict,
            },
            Resolved::Missing | Resolved::Unreachable => self.missing(operation, Access::Write),
            Resolved::Nowhere => Answer::Continue,
        }
    }

    pub(super) fn move_name(
        &mut self,
        tid: i32,
        operation: Operation,
        (from, last): (PathArg, Last),
        to: PathArg,
        exchange: Exchange,
        linked: Option<i32>,
    ) -> Answer {
        let renames = operation == Operation::Rename;
        match self.read_source(tid, from, last, linked) {
            Ok(()) if self.unnamed.is_some() => self.real.clear(),
            Ok(()) => {
                match self.resolve(last) {
                    Resolved::Exists => {
                        if let Some(denied) = self.judge_source(operation) {
                            return denied;
                        }
                    }
                    Resolved::Missing | Resolved::Unreachable => {
                        let access = if renames { Access::Write } else { Access::Read };
                        return self.missing(operation, access);
                    }
                    // A file without a name that gets one; what it holds is the kernel's to judge.
                    Resolved::Nowhere => {}
                }
            }
            Err(unread) => return unread.into(),
        }
        let source = self.real.as_path().to_owned();
        if renames && self.is_fixed(&source) {
            return self.deny_protected(operation);
        }
        if renames && self.holds_granted(&source) {
            return Answer::Done(Err(Errno::BUSY));
        }
        if let Err(unread) = self.read(tid, to) {
            return unread.into();
        }
        if self.resolve(Last::Name) == Resolved::Unreachable {
            return self.hidden_place(operation);
        }
        self.source = Some(source.clone());
        let target = self.real.as_path();
        if exchange == Exchange::Yes
            && (self.is_fixed(target)
                || self.holds_granted(target)
                || self.brings_protected(target, &source)
                || self.takes_protected(target, &source))
        {
            return self.deny_protected(operation);
        }
        if renames && self.takes_protected(&source, target) {
            return self.deny_protected(operation);
        }
        if renames {
            let back = (exchange == Exchange::Yes).then(|| self.uncovers(target, &source)).flatten();
            if let Some(denial) = self.uncovers(&source, target).or(back) {
                return Answer::Deny(denial);
            }
        }
        let verdict = self.verdict(operation, Access::Write);
        match &verdict {
            Answer::Deny(denial) if denial.reason == DenyReason::Protected && renames => {
                let replaced = match exchange {
                    Exchange::Yes => None,
                    Exchange::No => self.replace_judged(&source, self.real.as_path()),
                };
                replaced.unwrap_or(verdict)
            }
            // A second name for a link is as good as another link.
            Answer::Continue
                if self.unnamed.is_none() && self.brings_protected(&source, self.real.as_path()) =>
            {
                self.deny_protected(operation)
            }
            _ => verdict,
        }
    }
}
