//! Opening for reading on behalf of the caller.
//!
//! What is denied and came after the start, or lost its mask when somebody outside replaced it, is kept from being
//! read by the supervisor's verdict alone; where there are no mounts, everything that is denied is. Who looks at an
//! open and lets it go on leaves the kernel to read the path a second time, from memory that another thread may have
//! changed meanwhile: from any allowed name, also one of the system's, to a denied one. So no such open goes on,
//! whatever it names. The supervisor opens what it judged and hands it over, or says itself why it cannot be opened.
//!
//! Left to the kernel is what gives no content whatever the path has become, by flags that are in a register:
//! pointing (`O_PATH`), and writing, which Landlock or a read-only mount refuses wherever something denied can be.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringfence_model::{Access, LockExt as _, PathOutcome};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Pid;

use super::call::{self, Call, Last};
use super::notif::{self, Notification};
use super::on_behalf::{self, Open};
use super::target::{self, Ending, Resolved};
use super::{Answer, Supervisor, handover, walk};

impl Supervisor<'_> {
    /// Whether there can be something that nothing but the supervisor keeps from being read.
    pub(super) fn opens_itself(&self) -> bool {
        self.watched.shared.is_some() || !self.policy.deny.is_empty()
    }

    /// Opens `self.path` in one go, where there is no link on the way: then the text says what it is. None when there is
    /// more to find out.
    pub(super) fn open_at_once(&mut self, flags: i32) -> Option<Answer> {
        let reads =
            flags & (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | libc::O_PATH) == libc::O_RDONLY;
        if !reads || self.watched.shared.is_some() || !self.opens_itself() {
            return None;
        }
        let path = self.path.as_path();
        let is_name = self.path.ending() == Ending::Name || flags & libc::O_DIRECTORY != 0;
        if self.path.is_dotted() || !is_name || depends_on_who_looks(path) {
            return None;
        }
        let decision = self.policy.decide(path, Access::Read);
        let outcome = decision.outcome;
        if !decision.allowed() {
            return None;
        }
        if !self.powers.stay_low() {
            return None;
        }
        match on_behalf::open_exactly(self.root.as_ref()?.as_fd(), self.path.as_c_str(), flags) {
            Ok((file, FileType::Fifo)) if flags & libc::O_NONBLOCK == 0 => {
                // Who waits for a writer counts as a reader already.
                self.reader = Some(file);
                None
            }
            Ok((file, _)) => Some(Answer::Give(file, flags & libc::O_CLOEXEC != 0)),
            Err(Errno::LOOP) if flags & libc::O_NOFOLLOW == 0 && self.is_systems_own(&decision) => {
                self.open_along_links(flags)
            }
            // It may be a link to one.
            Err(Errno::NOTDIR) if flags & libc::O_DIRECTORY != 0 => None,
            // What the host has in the place of something private is another question.
            Err(errno @ (Errno::NOENT | Errno::NOTDIR | Errno::ACCESS))
                if outcome == PathOutcome::Allowed =>
            {
                Some(Answer::Done(Err(errno)))
            }
            Err(_) => None,
        }
    }

    /// Opens `self.path` along links of the system's own, such as those of its libraries, and judges what it got. None when
    /// that is not the system's as well.
    fn open_along_links(&mut self, flags: i32) -> Option<Answer> {
        let opened = on_behalf::open_along_links(self.root.as_ref()?.as_fd(), self.path.as_c_str(), flags);
        let (file, kind) = opened.ok()?;
        target::real_path(&file, &mut self.real)?;
        let decision = self.policy.decide(self.real.as_path(), Access::Read);
        let is_plain = matches!(kind, FileType::RegularFile | FileType::Directory)
            && !depends_on_who_looks(self.real.as_path());
        (is_plain && self.is_systems_own(&decision)).then(|| Answer::Give(file, flags & libc::O_CLOEXEC != 0))
    }

    /// Makes the open that would go on.
    pub(super) fn settle(
        &mut self,
        listener: BorrowedFd<'_>,
        notification: &Notification,
        call: Call,
    ) -> Answer {
        let (flags, mode, in_register) = match call {
            Call::Open { flags, mode, .. } => (flags, mode, true),
            Call::OpenHow { .. } => (self.how.0, self.how.1, false),
            _ => return Answer::Continue,
        };
        let is_for_reading = flags & libc::O_ACCMODE == libc::O_RDONLY;
        if in_register && (flags & libc::O_PATH != 0 || !is_for_reading) {
            return Answer::Continue;
        }
        if flags & libc::O_PATH != 0 {
            // A descriptor that only points cannot be handed over. Programs then go on with openat.
            return Answer::Done(Err(Errno::NOSYS));
        }
        if let Some(errno) = self.unread {
            return Answer::Done(Err(errno));
        }
        let Some(_lowered) = self.powers.lower() else { return Answer::Done(Err(Errno::ACCESS)) };
        match self.resolved {
            Resolved::Exists => self.open_judged(listener, notification, flags),
            Resolved::Missing if flags & libc::O_CREAT != 0 => {
                match self.make_open(listener, notification, flags, mode) {
                    Answer::Continue => Answer::Done(Err(Errno::ISDIR)),
                    made => made,
                }
            }
            Resolved::Missing => Answer::Done(Err(Errno::NOENT)),
            Resolved::Unreachable => Answer::Done(Err(self.why_unreachable())),
            Resolved::Nowhere => self.open_object(notification.tid, flags),
        }
    }

    fn open_judged(&mut self, listener: BorrowedFd<'_>, notification: &Notification, flags: i32) -> Answer {
        let access = if call::writes(flags) { Access::Write } else { Access::Read };
        // The verdict may have been that the host refuses it anyway.
        let Some(root) = self.root.as_ref().filter(|_| self.decide(self.real.as_path(), access).allowed())
        else {
            return Answer::Done(Err(Errno::ACCESS));
        };
        if flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0 {
            return Answer::Done(Err(Errno::EXIST));
        }
        if self.real.as_path() == "/dev/tty" {
            return self.terminal(notification.tid, flags);
        }
        if let Some(answer) = self.open_of_process(notification.tid, flags) {
            return answer;
        }
        let directory = if self.ending == Ending::Name { 0 } else { libc::O_DIRECTORY };
        let open = Open::new(self.real.as_path(), flags & !libc::O_CREAT | directory, 0);
        let there = match open.point(root.as_fd()) {
            Ok(there) => there,
            // It has no name any more.
            Err(Errno::NOENT) => return self.open_again(notification.tid, flags),
            Err(errno) => return Answer::Done(Err(errno)),
        };
        let kind = on_behalf::kind(&there);
        if !self.landlock_lets_read(kind) {
            return Answer::Done(Err(Errno::ACCESS));
        }
        match kind {
            Some(FileType::Symlink) if flags & libc::O_DIRECTORY != 0 => {
                return Answer::Done(Err(Errno::NOTDIR));
            }
            Some(FileType::Symlink) => return Answer::Done(Err(Errno::LOOP)),
            Some(FileType::Fifo) if flags & libc::O_NONBLOCK == 0 => {
                return self.open_pipe(listener, notification.id, open, there);
            }
            _ => {}
        }
        match open.held(&there) {
            Ok(file) => Answer::Give(file, flags & libc::O_CLOEXEC != 0),
            // A file that somebody must give up first.
            Err(Errno::AGAIN) if flags & libc::O_NONBLOCK == 0 => {
                self.open_later(listener, notification.id, open)
            }
            Err(errno) => Answer::Done(Err(errno)),
        }
    }

    /// Waits for somebody who writes to the pipe, as the caller would. Both ends are opened at the very pipe that is
    /// `there`: its name may be another's by then.
    fn open_pipe(&mut self, listener: BorrowedFd<'_>, id: u64, open: Open, there: OwnedFd) -> Answer {
        const PAUSE: Duration = Duration::from_millis(20);
        let Some(listener) = self.shared_listener(listener) else { return Answer::Done(Err(Errno::NXIO)) };
        let (there, opened) = (Arc::new(there), Arc::new(AtomicBool::new(false)));
        let (pipe, done, waiting) = (Arc::clone(&there), Arc::clone(&opened), Arc::clone(&listener));
        let reader = Arc::new(Mutex::new(self.reader.take()));
        let early = Arc::clone(&reader);
        let uninterrupted = self.uninterrupted;
        let wait = move || {
            let file = open.waiting(&pipe);
            // Before the caller is answered: from then on nobody waits for it, and that is not to be taken for its end.
            done.store(true, Ordering::Release);
            reader.locked().take();
            let answered = match file {
                Ok(file) if uninterrupted => {
                    handover::give_away(waiting.as_fd(), id, file, open.closes_on_exec())
                }
                Ok(file) => handover::give(waiting.as_fd(), id, &file, open.closes_on_exec()),
                Err(errno) => notif::refuse(waiting.as_fd(), id, errno),
            };
            // One that cannot be delivered belongs to a caller that is gone.
            let _ = answered;
        };
        let watch = move || {
            while !opened.load(Ordering::Acquire) {
                std::thread::sleep(PAUSE);
                // A writer that met the early reader alone, and has left, never comes again for the other thread.
                let was_missed = early.locked().as_ref().is_some_and(has_met_a_writer);
                if !opened.load(Ordering::Acquire) && (was_missed || !notif::is_valid(listener.as_fd(), id)) {
                    // Somebody who writes lets the other thread go.
                    let _ = on_behalf::again(&there, libc::O_WRONLY | libc::O_NONBLOCK);
                }
            }
        };
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.to_owned()).spawn(work).is_ok()
        };
        if spawn("open", Box::new(wait)) && spawn("watch", Box::new(watch)) {
            Answer::Later
        } else {
            Answer::Done(Err(Errno::AGAIN))
        }
    }

    /// Something that has no place in the file system, reached by a link of `/proc`.
    fn open_object(&self, tid: i32, flags: i32) -> Answer {
        let object = self
            .root
            .as_ref()
            .and_then(|root| walk::object(root.as_fd(), tid, self.path.as_path(), Last::Follow));
        match object {
            // A file of memory.
            Some(object)
                if call::writes(flags) && on_behalf::kind(&object) == Some(FileType::RegularFile) =>
            {
                self.open_again(tid, flags)
            }
            Some(object) => open_held(&object, flags),
            None => Answer::Done(Err(Errno::NOENT)),
        }
    }

    /// The terminal that `/dev/tty` means to the caller; to us it is another one.
    fn terminal(&self, tid: i32, flags: i32) -> Answer {
        let open = |place: PathBuf| {
            let open = Open::new(&place, flags & libc::O_ACCMODE, 0);
            match (&self.watched.shared, &self.root) {
                (None, Some(root)) => open.at(root.as_fd()),
                _ => open.at(rustix::fs::open(c"/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?.as_fd()),
            }
        };
        match terminal_of(tid).ok_or(Errno::NXIO).and_then(open) {
            Ok(file) => Answer::Give(file, flags & libc::O_CLOEXEC != 0),
            Err(errno) => Answer::Done(Err(errno)),
        }
    }

    /// What the kernel says of a path that leads nowhere.
    pub(super) fn why_unreachable(&self) -> Errno {
        let Some(root) = &self.root else { return Errno::ACCESS };
        match target::reach(root.as_fd(), &self.path).err() {
            // A link that leads to what another process has.
            Some(Errno::LOOP) if self.path.as_path().starts_with("/proc") => Errno::ACCESS,
            errno => errno.unwrap_or(Errno::NOENT),
        }
    }
}

/// Both are the sandbox's own, and to us other things are in them than to the caller.
fn depends_on_who_looks(path: &Path) -> bool {
    path.starts_with("/proc") || path.starts_with("/dev")
}

fn open_held(held: &OwnedFd, flags: i32) -> Answer {
    match on_behalf::again(held, flags) {
        Ok(file) => Answer::Give(file, flags & libc::O_CLOEXEC != 0),
        Err(errno) => Answer::Done(Err(errno)),
    }
}

fn terminal_of(tid: i32) -> Option<PathBuf> {
    const FIRST_OF_TERMINALS: u32 = 136;
    const LAST_OF_TERMINALS: u32 = 143;
    Pid::from_raw(tid)?;
    let stat = std::fs::read_to_string(format!("/proc/{tid}/stat")).ok()?;
    // After the name: state, parent, group, session, terminal.
    let number: u32 = stat.rsplit(')').next()?.split_whitespace().nth(4)?.parse().ok()?;
    let (major, minor) = ((number >> 8) & 0xfff, (number & 0xff) | ((number >> 12) & 0xfff00));
    (FIRST_OF_TERMINALS..=LAST_OF_TERMINALS)
        .contains(&major)
        .then(|| PathBuf::from(format!("/dev/pts/{}", (major - FIRST_OF_TERMINALS) * 256 + minor)))
}

/// Whether somebody opened a pipe for writing and left since this end was opened.
fn has_met_a_writer(reader: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(reader, PollFlags::empty())];
    poll(&mut fds, Some(&Timespec::default())).is_ok() && fds[0].revents().contains(PollFlags::HUP)
}
