//! Serves the file system of traps: names of the host can be walked through, and every use is refused.
//!
//! Looking a name up succeeds where the host has it, also below a denied directory: only so is the whole path
//! known when the use comes. The denial is the answer to the use.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use ringfence_model::{Access, Operation};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{AtFlags, CWD, FileType, OFlags};
use rustix::io::Errno;

use super::nodes::{FIRST, Nodes, ROOT};
use super::wire::{self, Body, Make, REQUEST_SIZE, Reply, Request};
use super::{Kind, Trap};

/// In the beginning the parts are laid out, and the start of a sandbox waits for each answer. Being woken takes
/// several times as long as answering, so the server stays awake for a moment where it is in nobody's way.
const EAGER: Duration = Duration::from_micros(300);

fn processors() -> u32 {
    rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count())
}

/// A use of something that is covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt<'a> {
    /// Of the host.
    pub path: &'a Path,
    /// By the request alone. Executing a file begins with a look at it ([`Operation::Stat`]).
    pub operation: Operation,
    pub access: Access,
    /// The calling thread, numbered as in the sandbox.
    pub tid: i32,
    /// Not refused: a look at the covered place itself. Only the first step of executing it is worth telling.
    pub allowed: bool,
}

/// Hears of every use before it is answered, while its caller waits.
pub trait Guard {
    fn attempted(&mut self, attempt: Attempt<'_>);
}

/// The traps of one sandbox.
#[derive(Debug)]
pub struct Server {
    device: OwnedFd,
    nodes: Nodes,
    reply: Reply,
}

impl Server {
    /// On the device that was opened inside.
    pub fn new(device: OwnedFd, traps: &[Trap]) -> Result<Self, Errno> {
        let flags = rustix::fs::fcntl_getfl(&device)?;
        rustix::fs::fcntl_setfl(&device, flags | OFlags::NONBLOCK)?;
        Ok(Self { device, nodes: Nodes::new(traps), reply: Reply::default() })
    }

    /// Serves until the sandbox is gone or `stop` becomes readable.
    pub fn serve(mut self, stop: BorrowedFd<'_>, guard: &mut dyn Guard) {
        let mut buffer = vec![0; REQUEST_SIZE];
        let eager = (processors() > 1).then(|| Instant::now() + EAGER);
        loop {
            match rustix::io::read(&self.device, &mut buffer[..]) {
                Ok(length) => self.answer(&buffer[..length], guard),
                // Interrupted, or the caller is gone again.
                Err(Errno::INTR | Errno::NOENT) => {}
                Err(Errno::AGAIN) if eager.is_some_and(|until| Instant::now() < until) => {
                    std::hint::spin_loop();
                }
                Err(Errno::AGAIN) => {
                    let mut fds = [
                        PollFd::from_borrowed_fd(self.device.as_fd(), PollFlags::IN),
                        PollFd::from_borrowed_fd(stop, PollFlags::IN),
                    ];
                    let _ = poll(&mut fds, None);
                    if fds[1].revents().contains(PollFlags::IN) {
                        return;
                    }
                }
                // Nothing is mounted any more.
                Err(_) => return,
            }
        }
    }

    fn answer(&mut self, bytes: &[u8], guard: &mut dyn Guard) {
        let Some(request) = Request::parse(bytes) else { return };
        if self.respond(request, guard) {
            // A caller that is gone needs no answer.
            let _ = rustix::io::write(&self.device, self.reply.bytes());
        }
    }

    /// Puts the answer into `self.reply`; false when none is wanted.
    fn respond(&mut self, request: Request<'_>, guard: &mut dyn Guard) -> bool {
        let Request { unique, node, tid, body } = request;
        match body {
            Body::Init { minor, flags } => self.reply.init(unique, minor, flags),
            Body::Statfs => self.reply.statfs(unique),
            Body::Done => self.reply.done(unique),
            Body::Lookup { name } => self.look_up(unique, node, name),
            Body::GetAttributes => self.attributes(unique, node, tid, guard),
            Body::Access { mask } if is_about_existence(mask) => self.attributes(unique, node, tid, guard),
            Body::OpenDirectory if node == ROOT => self.reply.opened(unique),
            Body::ReadDirectory { offset, size } if node == ROOT => {
                self.reply.traps(unique, offset, size, self.nodes.kinds(), FIRST);
            }
            Body::Forget { count } => {
                self.nodes.forget(node, count);
                return false;
            }
            Body::ForgetMany { pairs } => {
                wire::pairs(pairs).for_each(|(node, count)| self.nodes.forget(node, count));
                return false;
            }
            Body::Silent => return false,
            // Then the kernel does not ask for it again.
            Body::ReadDirectory { .. } | Body::Unknown => self.reply.error(unique, Errno::NOSYS),
            Body::Open { flags } => {
                let access = if crate::supervisor::writes(flags) { Access::Write } else { Access::Read };
                self.refuse(request, guard, Operation::Open, access, None);
            }
            Body::OpenDirectory => self.refuse(request, guard, Operation::Open, Access::Read, None),
            Body::Access { mask } => self.refuse(request, guard, question(mask), Access::Read, None),
            Body::SetAttributes { valid } => self.refuse(request, guard, changed(valid), Access::Write, None),
            Body::ChangeXattr => self.refuse(request, guard, Operation::Xattr, Access::Write, None),
            Body::Make { how, name } => self.refuse(request, guard, made(how), Access::Write, Some(name)),
            Body::Remove { name } => {
                self.refuse(request, guard, Operation::Remove, Access::Write, Some(name));
            }
            Body::Rename { name } => {
                self.refuse(request, guard, Operation::Rename, Access::Write, Some(name));
            }
        }
        true
    }

    /// Refuses a use of the node, or of `name` in it.
    fn refuse(
        &mut self,
        request: Request<'_>,
        guard: &mut dyn Guard,
        operation: Operation,
        access: Access,
        name: Option<&[u8]>,
    ) {
        let Request { unique, node, tid, .. } = request;
        if let Some((path, _)) = self.nodes.get(node).filter(|_| is_inside(tid)) {
            let below = name.map(|name| path.join(OsStr::from_bytes(name)));
            let path = below.as_deref().unwrap_or(path);
            guard.attempted(Attempt { path, operation, access, tid, allowed: false });
        }
        self.reply.error(unique, Errno::ACCESS);
    }

    /// Asking for attributes: of the place itself everybody may, or `ls` would stumble over every door.
    fn attributes(&mut self, unique: u64, node: u64, tid: i32, guard: &mut dyn Guard) {
        if node == ROOT {
            return self.reply.attributes(unique, node, Kind::Directory);
        }
        let Some((path, kind)) = self.nodes.get(node) else { return self.reply.error(unique, Errno::STALE) };
        let is_trap = self.nodes.is_trap(node);
        if is_inside(tid) {
            let (operation, access) = (Operation::Stat, Access::Read);
            guard.attempted(Attempt { path, operation, access, tid, allowed: is_trap });
            if !is_trap {
                return self.reply.error(unique, Errno::ACCESS);
            }
        }
        self.reply.attributes(unique, node, kind);
    }

    fn look_up(&mut self, unique: u64, node: u64, name: &[u8]) {
        if node == ROOT {
            let index = std::str::from_utf8(name).ok().and_then(|name| name.parse::<u64>().ok());
            let kind = index.and_then(|index| self.nodes.kinds().get(usize::try_from(index).ok()?));
            return match (index, kind) {
                (Some(index), Some(kind)) => self.reply.entry(unique, FIRST + index, *kind),
                _ => self.reply.error(unique, Errno::NOENT),
            };
        }
        let Some((parent, _)) = self.nodes.get(node) else { return self.reply.error(unique, Errno::STALE) };
        let path = parent.join(OsStr::from_bytes(name));
        match kind_on_host(&path) {
            Ok(kind) => match self.nodes.tell(path, kind) {
                Some(number) => self.reply.entry(unique, number, kind),
                None => self.reply.error(unique, Errno::ACCESS),
            },
            Err(errno @ (Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG)) => {
                self.reply.error(unique, errno)
            }
            Err(_) => self.reply.error(unique, Errno::ACCESS),
        }
    }
}

/// Not the host side's own looks into the sandbox.
fn is_inside(tid: i32) -> bool {
    tid != 0
}

/// What the host has there, as far as anybody inside needs to know: a link is taken for what it leads to.
fn kind_on_host(path: &Path) -> Result<Kind, Errno> {
    let of = |mode| match FileType::from_raw_mode(mode) {
        FileType::Directory => Kind::Directory,
        _ => Kind::File,
    };
    let found = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(found.st_mode) == FileType::Symlink {
        return Ok(rustix::fs::statat(CWD, path, AtFlags::empty()).map_or(Kind::File, |led| of(led.st_mode)));
    }
    Ok(of(found.st_mode))
}

/// Whether `access` only wants to know that something is there.
fn is_about_existence(mask: u32) -> bool {
    mask & 7 == 0
}

/// What `access` or `chdir` is about: entering a directory, or asking what may be done.
fn question(mask: u32) -> Operation {
    const EXECUTE: u32 = 1;
    if mask & 7 == EXECUTE { Operation::List } else { Operation::Stat }
}

fn made(how: Make) -> Operation {
    match how {
        Make::File => Operation::Create,
        Make::Directory => Operation::Mkdir,
        Make::Symlink => Operation::Symlink,
        Make::Link => Operation::Link,
    }
}

/// Which of the attributes was to be changed.
fn changed(valid: u32) -> Operation {
    const MODE: u32 = 1;
    const OWNER: u32 = 2 | 4;
    const SIZE: u32 = 8;
    if valid & SIZE != 0 {
        Operation::Truncate
    } else if valid & MODE != 0 {
        Operation::Chmod
    } else if valid & OWNER != 0 {
        Operation::Chown
    } else {
        Operation::Utime
    }
}
