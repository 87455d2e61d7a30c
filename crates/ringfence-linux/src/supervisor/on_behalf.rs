//! Making a call on behalf of its caller.
//!
//! In the trees that may be written, a new name can be one that is protected or denied, and no mount is there
//! to refuse it. A call that was looked at and then let through would be read by the kernel a second time,
//! from memory that another thread may have changed. So Landlock lets nobody inside make or write anything
//! there ([`Rights::SupervisorOnly`](crate::landlock::Rights::SupervisorOnly)), and the supervisor makes the call: on its own copy
//! of the arguments, at the very place that was judged, following no link. What it opens the caller gets.
//!
//! It reaches no further than the caller could. The place is looked up through the sandbox's own mounts, with
//! the same user and groups, the caller's umask, and no capability.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ringfence_model::{Access, Operation};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;

use super::call::{self, Call};
use super::notif::{self, Notification};
use super::target::{self, Ending, PATH_MAX, Resolved};
use super::{Answer, Supervisor, handover, network, removal, walk};

/// A directory, and a name in it.
pub(super) struct Place {
    pub(super) directory: OwnedFd,
    pub(super) name: CString,
}

impl Supervisor<'_> {
    /// Makes the call that was judged and may go on, if it is one that the caller cannot make by itself.
    pub(super) fn make(
        &mut self,
        listener: BorrowedFd<'_>,
        notification: &Notification,
        call: Call,
    ) -> Answer {
        if self.resolved == Resolved::Unreachable && self.makes_in_kept(call) {
            return Answer::Done(Err(self.why_unreachable()));
        }
        if !matches!(self.resolved, Resolved::Exists | Resolved::Missing) || !self.is_kept_from(call) {
            return Answer::Continue;
        }
        // What was read so far was the caller's own only if it still waits.
        if !notif::is_valid(listener, notification.id) {
            return Answer::Continue;
        }
        let Some(_lowered) = self.powers.lower() else { return Answer::Done(Err(Errno::ACCESS)) };
        if let Some(answer) = self.feeds_git(call) {
            return answer;
        }
        let answer = match call {
            Call::Open { flags, mode, .. } => self.make_open(listener, notification, flags, mode),
            Call::OpenHow { .. } => {
                let (flags, mode) = self.how;
                self.make_open(listener, notification, flags, mode)
            }
            Call::Create { operation, .. } => self.make_name(notification, operation),
            Call::Move { operation, .. } => self.make_move(notification, operation),
            Call::Change { operation: Operation::Remove, .. } => self.make_removal(notification),
            Call::Change { .. } => Answer::Done(self.make_truncate(notification)),
            _ => Answer::Continue,
        };
        let answer = self.take_back(call, answer);
        self.tell_of_settings(notification, call, &answer);
        answer
    }

    /// Whether the call makes a name where only the supervisor can. The kernel would look again, and refuse it in a
    /// directory that another thread has made meanwhile.
    fn makes_in_kept(&self, call: Call) -> bool {
        let makes = match call {
            Call::Open { flags, .. } => flags & libc::O_CREAT != 0,
            Call::OpenHow { .. } => self.how.0 & libc::O_CREAT != 0,
            Call::Create { .. } | Call::Move { .. } => true,
            _ => false,
        };
        makes && self.is_kept(self.path.as_path())
    }

    /// Whether the call makes or writes something where only the supervisor can.
    fn is_kept_from(&self, call: Call) -> bool {
        let changes = match call {
            Call::Open { flags, .. } => call::writes(flags),
            Call::OpenHow { .. } => call::writes(self.how.0),
            Call::Create { .. } | Call::Move { .. } => true,
            Call::Change { operation, .. } => {
                matches!(operation, Operation::Truncate | Operation::Remove)
            }
            _ => false,
        };
        changes
            && (self.is_kept(self.real.as_path())
                || self.source.as_ref().is_some_and(|source| self.is_kept(source)))
            // The verdict may have been that the host refuses it anyway. Then it is the kernel that does.
            && self.is_allowed(call)
            && (self.unnamed.is_some() || self.source.as_ref().is_none_or(|source| {
                self.decide(source, Access::Write).allowed()
            }))
    }

    fn is_allowed(&self, call: Call) -> bool {
        match call {
            // Judged at this very place, once: whole trees are removed.
            Call::Change { operation: Operation::Remove, .. } => self.allowed.get() || self.removes_own(),
            _ => self.excused.get() || self.decide(self.real.as_path(), Access::Write).allowed(),
        }
    }

    pub(super) fn is_kept(&self, path: &Path) -> bool {
        !path.starts_with("/dev")
            && !path.starts_with("/proc")
            && self.watched.kept.iter().any(|kept| path.starts_with(kept))
    }

    pub(super) fn make_open(
        &mut self,
        listener: BorrowedFd<'_>,
        notification: &Notification,
        flags: i32,
        mode: u32,
    ) -> Answer {
        let is_unnamed = flags & libc::O_TMPFILE == libc::O_TMPFILE;
        let creates = flags & libc::O_CREAT != 0 || is_unnamed;
        let names_directory = self.ending != Ending::Name && !is_unnamed;
        if flags & libc::O_ACCMODE == libc::O_ACCMODE || names_directory {
            return Answer::Continue;
        }
        let Some(root) = &self.root else { return Answer::Continue };
        let makes_new = self.resolved == Resolved::Missing || is_unnamed;
        // What somebody else has made meanwhile is another's.
        let excused = makes_new && self.excused.get();
        let exactly = if excused { flags | libc::O_EXCL } else { flags };
        let open = Open::new(self.real.as_path(), exactly, if creates { mode } else { 0 });
        let root = root.as_fd();
        let opened = if creates && makes_new {
            self.umask.applied(notification.tid, || open.at(root))
        } else {
            open.at(root)
        };
        match opened {
            Ok(file) => {
                if excused && let Ok(place) = self.place(self.real.as_path()) {
                    self.own.remember(place.directory.as_fd(), &place.name);
                }
                Answer::Give(file, flags & libc::O_CLOEXEC != 0)
            }
            Err(Errno::EXIST) if excused && flags & libc::O_EXCL == 0 => Answer::Done(Err(Errno::ACCESS)),
            // A pipe without a reader, or a file that somebody must give up first.
            Err(Errno::NXIO | Errno::AGAIN) if flags & libc::O_NONBLOCK == 0 && !makes_new => {
                self.open_later(listener, notification.id, open)
            }
            Err(Errno::NOENT) if self.resolved == Resolved::Exists => {
                self.open_again(notification.tid, flags)
            }
            Err(errno) => Answer::Done(Err(errno)),
        }
    }

    /// Opens once more what the caller holds open, if the path was a name for that: it was removed, or never was in the
    /// sandbox's view, as the file that its output goes to. It gets no more than it holds, whatever it has put in the
    /// place of what was looked at meanwhile.
    pub(super) fn open_again(&self, tid: i32, flags: i32) -> Answer {
        let held = self.alias().and_then(|number| network::take_descriptor(tid, number));
        match held.ok_or(Errno::NOENT).and_then(|held| again_within(&held, flags)) {
            Ok(file) => Answer::Give(file, flags & libc::O_CLOEXEC != 0),
            Err(errno) => Answer::Done(Err(errno)),
        }
    }

    /// The caller's descriptor that `self.path` is another name of.
    pub(super) fn alias(&self) -> Option<i32> {
        let text = self.path.as_path().to_str()?;
        match text {
            "/dev/stdin" => return Some(0),
            "/dev/stdout" => return Some(1),
            "/dev/stderr" => return Some(2),
            _ => {}
        }
        let mut aliases = ["/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/"].iter();
        aliases.find_map(|alias| text.strip_prefix(alias)?.parse().ok()).or_else(|| {
            let (process, number) = text.strip_prefix("/proc/")?.split_once("/fd/")?;
            let [own, _] = walk::inner_ids(self.tid)?;
            (process == own).then(|| number.parse().ok()).flatten()
        })
    }

    /// Waits on a thread of its own until the file can be opened, or nobody wants it any more.
    pub(super) fn open_later(&mut self, listener: BorrowedFd<'_>, id: u64, open: Open) -> Answer {
        const PAUSE: Duration = Duration::from_millis(5);
        let (Some(listener), Some(root)) = (self.shared_listener(listener), &self.root) else {
            return Answer::Done(Err(Errno::NXIO));
        };
        let Ok(root) = root.try_clone() else { return Answer::Done(Err(Errno::NXIO)) };
        if open.point(root.as_fd()).is_ok_and(|there| kind(&there) == Some(FileType::Socket)) {
            return Answer::Done(Err(Errno::NXIO));
        }
        let wait = move || {
            while notif::is_valid(listener.as_fd(), id) {
                let answered = match open.at(root.as_fd()) {
                    Ok(file) => handover::give(listener.as_fd(), id, &file, open.closes_on_exec()),
                    Err(Errno::NXIO | Errno::AGAIN) => {
                        std::thread::sleep(PAUSE);
                        continue;
                    }
                    Err(errno) => notif::refuse(listener.as_fd(), id, errno),
                };
                // One that cannot be delivered belongs to a caller that is gone.
                let _ = answered;
                return;
            }
        };
        match std::thread::Builder::new().name("open".to_owned()).spawn(wait) {
            Ok(_) => Answer::Later,
            Err(_) => Answer::Done(Err(Errno::AGAIN)),
        }
    }

    fn make_name(&mut self, notification: &Notification, operation: Operation) -> Answer {
        let ends_well = match self.ending {
            Ending::Name => true,
            Ending::Slash => operation == Operation::Mkdir,
            Ending::Dot => false,
        };
        if !ends_well {
            return Answer::Continue;
        }
        let made = self.place(self.real.as_path()).and_then(|place| match operation {
            Operation::Symlink => make_symlink(notification, &place),
            Operation::Mkdir => {
                let mode = mode_argument(notification);
                self.umask
                    .applied(notification.tid, || rustix::fs::mkdirat(&place.directory, &place.name, mode))
                    .inspect(|()| self.was_made(&place))
            }
            _ => {
                let kind = match FileType::from_raw_mode(raw_mode(notification)) {
                    FileType::Unknown => FileType::RegularFile,
                    kind => kind,
                };
                let mode = mode_argument(notification);
                self.umask.applied(notification.tid, || {
                    rustix::fs::mknodat(&place.directory, &place.name, kind, mode, 0)
                })
            }
        });
        Answer::Done(made.map(|()| 0))
    }

    /// A directory was made, which its maker may remove again.
    fn was_made(&self, place: &Place) {
        self.settings.made(place);
        if self.excused.get() {
            self.own.remember(place.directory.as_fd(), &place.name);
        }
    }

    fn make_move(&mut self, notification: &Notification, operation: Operation) -> Answer {
        let Some(source) = &self.source else { return Answer::Continue };
        let is_link = operation == Operation::Link;
        let to = match self.place(self.real.as_path()) {
            Ok(to) => to,
            Err(errno) => return Answer::Done(Err(errno)),
        };
        if is_link && let Some(file) = &self.unnamed {
            if self.ending != Ending::Name {
                return Answer::Continue;
            }
            let from = format!("/proc/self/fd/{}", file.as_raw_fd());
            let follow = AtFlags::SYMLINK_FOLLOW;
            let made = rustix::fs::linkat(rustix::fs::CWD, from, &to.directory, &to.name, follow);
            return Answer::Done(made.map(|()| 0));
        }
        let from = match self.place(source) {
            Ok(from) => from,
            Err(errno) => return Answer::Done(Err(errno)),
        };
        let is_directory = || {
            rustix::fs::statat(&from.directory, &from.name, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
        };
        let ends_well = match self.ending {
            Ending::Name => true,
            Ending::Slash => !is_link && is_directory(),
            Ending::Dot => false,
        };
        if !ends_well {
            return Answer::Continue;
        }
        let is_mounted = |place| removal::refuse_mounts(place).is_err();
        if !is_link && (is_mounted(&from) || is_mounted(&to)) {
            return Answer::Done(Err(Errno::BUSY));
        }
        let made = if is_link {
            rustix::fs::linkat(&from.directory, &from.name, &to.directory, &to.name, AtFlags::empty())
        } else {
            let flags = if notification.nr == libc::SYS_renameat2 { low(notification.args[4]) } else { 0 };
            let flags = RenameFlags::from_bits_retain(flags);
            rustix::fs::renameat_with(&from.directory, &from.name, &to.directory, &to.name, flags)
        };
        Answer::Done(made.map(|()| 0))
    }

    fn make_truncate(&self, notification: &Notification) -> Result<i64, Errno> {
        let root = self.root.as_ref().ok_or(Errno::ACCESS)?;
        let length = notification.args[1];
        if i64::try_from(length).is_err() {
            return Err(Errno::INVAL);
        }
        let open = Open::new(self.real.as_path(), libc::O_WRONLY, 0);
        let file =
            open.at(root.as_fd()).map_err(|errno| if errno == Errno::NXIO { Errno::INVAL } else { errno })?;
        if length > largest_file(notification.tid) {
            return Err(Errno::FBIG);
        }
        rustix::fs::ftruncate(&file, length).map(|()| 0)
    }

    /// The place that `path` names, link-free as it was judged.
    pub(super) fn place(&self, path: &Path) -> Result<Place, Errno> {
        let root = self.root.as_ref().ok_or(Errno::ACCESS)?;
        let (directory, name) = path.parent().zip(path.file_name()).ok_or(Errno::BUSY)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory =
            rustix::fs::openat2(root, relative(&c_string(directory)), flags, Mode::empty(), EXACTLY)?;
        Ok(Place { directory, name: CString::new(name.as_bytes()).map_err(|_| Errno::INVAL)? })
    }

    /// A copy of the listener for answers that come later. None when so many threads have one that they seem to be
    /// somebody's aim: a pipe that cannot be written keeps its thread until the sandbox ends.
    pub(super) fn shared_listener(&mut self, listener: BorrowedFd<'_>) -> Option<Arc<OwnedFd>> {
        self.listener_for(512, listener)
    }

    /// The same, for so many threads.
    pub(super) fn listener_for(&mut self, most: usize, listener: BorrowedFd<'_>) -> Option<Arc<OwnedFd>> {
        if self.listener.as_ref().is_some_and(|listener| Arc::strong_count(listener) > most) {
            return None;
        }
        if self.listener.is_none() {
            self.listener = listener.try_clone_to_owned().ok().map(Arc::new);
        }
        self.listener.clone()
    }
}

/// No link is followed: what is opened is what the path says.
const EXACTLY: ResolveFlags =
    ResolveFlags::IN_ROOT.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// Opens for reading what is at `path`, if no link is on the way, without waiting for anybody; and says what it is.
pub(super) fn open_exactly(
    root: BorrowedFd<'_>,
    path: &CStr,
    flags: i32,
) -> Result<(OwnedFd, FileType), Errno> {
    open_for_reading(root, path, flags | libc::O_NOFOLLOW, EXACTLY)
}

/// The same along any links but those of `/proc`.
pub(super) fn open_along_links(
    root: BorrowedFd<'_>,
    path: &CStr,
    flags: i32,
) -> Result<(OwnedFd, FileType), Errno> {
    open_for_reading(root, path, flags, ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS)
}

fn open_for_reading(
    root: BorrowedFd<'_>,
    path: &CStr,
    flags: i32,
    resolve: ResolveFlags,
) -> Result<(OwnedFd, FileType), Errno> {
    let known = OFlags::from_bits_retain((flags & KNOWN).cast_unsigned());
    let nofollow = OFlags::from_bits_retain((flags & libc::O_NOFOLLOW).cast_unsigned());
    let open = known | nofollow | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = rustix::fs::openat2(root, path, open, Mode::empty(), resolve)?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
    if flags & libc::O_NONBLOCK == 0 {
        rustix::fs::fcntl_setfl(&file, known)?;
    }
    Ok((file, kind))
}

/// Opens once more what is held open.
pub(super) fn again(held: &OwnedFd, flags: i32) -> Result<OwnedFd, Errno> {
    let kept = flags & KNOWN & !(libc::O_CREAT | libc::O_EXCL);
    let open = OFlags::from_bits_retain(kept.cast_unsigned()) | OFlags::CLOEXEC | OFlags::NOCTTY;
    rustix::fs::open(format!("/proc/self/fd/{}", held.as_raw_fd()), open, Mode::empty())
}

/// Opens once more what the caller holds open, for nothing that it may not do already. Who may only append, as to a log,
/// goes on to append: that is what `> /dev/stderr` means to whoever writes it.
fn again_within(held: &OwnedFd, flags: i32) -> Result<OwnedFd, Errno> {
    let has = rustix::fs::fcntl_getfl(held)?;
    if has.contains(OFlags::PATH) {
        return Err(Errno::NOENT);
    }
    let mode = flags & libc::O_ACCMODE;
    let (reads, writes) = (mode != libc::O_WRONLY, mode != libc::O_RDONLY || flags & libc::O_TRUNC != 0);
    let (may_read, may_write) =
        (!has.contains(OFlags::WRONLY), has.intersects(OFlags::WRONLY | OFlags::RDWR));
    if (reads && !may_read) || (writes && !may_write) {
        return Err(Errno::ACCESS);
    }
    let appends = has.contains(OFlags::APPEND);
    again(held, if appends { (flags | libc::O_APPEND) & !libc::O_TRUNC } else { flags })
}

/// The type of the file that `there` points at.
pub(super) fn kind(there: &OwnedFd) -> Option<FileType> {
    rustix::fs::fstat(there).ok().map(|stat| FileType::from_raw_mode(stat.st_mode))
}

/// An open as its caller wants it.
pub(super) struct Open {
    path: CString,
    flags: i32,
    mode: u32,
}

impl Open {
    pub(super) fn new(path: &Path, flags: i32, mode: u32) -> Self {
        Self { path: c_string(path), flags, mode }
    }

    pub(super) fn closes_on_exec(&self) -> bool {
        self.flags & libc::O_CLOEXEC != 0
    }

    /// Opens what is there, to point at it only.
    pub(super) fn point(&self, root: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat2(root, relative(&self.path), flags, Mode::empty(), EXACTLY)
    }

    /// Opens what is pointed at, without waiting for anybody.
    pub(super) fn held(&self, there: &OwnedFd) -> Result<OwnedFd, Errno> {
        let file = again(there, self.flags | libc::O_NONBLOCK)?;
        if self.flags & libc::O_NONBLOCK == 0 {
            rustix::fs::fcntl_setfl(&file, OFlags::from_bits_retain((self.flags & KNOWN).cast_unsigned()))?;
        }
        Ok(file)
    }

    /// Opens the pipe that is pointed at, when somebody opens its other end.
    pub(super) fn waiting(&self, there: &OwnedFd) -> Result<OwnedFd, Errno> {
        again(there, self.flags)
    }

    /// Opens without waiting for anybody.
    pub(super) fn at(&self, root: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
        let wanted = OFlags::from_bits_retain(self.flags.cast_unsigned());
        let known = wanted & OFlags::from_bits_retain(KNOWN.cast_unsigned());
        let open = known | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(self.mode & 0o7777);
        let file = rustix::fs::openat2(root, relative(&self.path), open, mode, EXACTLY)?;
        if !wanted.contains(OFlags::NONBLOCK) {
            rustix::fs::fcntl_setfl(&file, known)?;
        }
        Ok(file)
    }
}

/// The flags that both `openat` and `openat2` take.
const KNOWN: i32 = libc::O_ACCMODE
    | libc::O_CREAT
    | libc::O_EXCL
    | libc::O_TRUNC
    | libc::O_APPEND
    | libc::O_NONBLOCK
    | libc::O_SYNC
    | libc::O_DSYNC
    | libc::O_DIRECT
    | libc::O_LARGEFILE
    | libc::O_DIRECTORY
    | libc::O_NOATIME
    | libc::O_TMPFILE;

fn make_symlink(notification: &Notification, place: &Place) -> Result<(), Errno> {
    let mut buffer = [0; PATH_MAX];
    let content = target::read_string(notification.tid, notification.args[0], &mut buffer);
    let content = content.ok_or(Errno::NAMETOOLONG)?;
    rustix::fs::symlinkat(content, &place.directory, &place.name)
}

/// The mode of the calls that make a name: after the path.
fn raw_mode(notification: &Notification) -> u32 {
    let at = matches!(notification.nr, libc::SYS_mkdirat | libc::SYS_mknodat);
    low(notification.args[if at { 2 } else { 1 }])
}

fn mode_argument(notification: &Notification) -> Mode {
    Mode::from_raw_mode(raw_mode(notification) & 0o7777)
}

#[expect(clippy::cast_possible_truncation, reason = "the kernel itself takes the low 32 bits")]
pub(super) fn low(argument: u64) -> u32 {
    argument as u32
}

fn c_string(path: &Path) -> CString {
    // Paths come from C strings.
    CString::new(path.as_os_str().as_bytes()).unwrap_or_default()
}

/// The path from the root it is looked up in.
fn relative(path: &CString) -> &CStr {
    if path.as_bytes() == b"/" { c"." } else { path.as_c_str() }
}

/// `RLIMIT_FSIZE` of the caller.
fn largest_file(tid: i32) -> u64 {
    let limits = std::fs::read_to_string(format!("/proc/{tid}/limits")).unwrap_or_default();
    let soft = limits.lines().find_map(|line| line.strip_prefix("Max file size")?.split_whitespace().next());
    soft.and_then(|soft| soft.parse().ok()).unwrap_or(u64::MAX)
}
