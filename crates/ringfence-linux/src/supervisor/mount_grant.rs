//! Changing the view of a running sandbox: showing what a person granted, and covering again what lost its
//! mask.
//!
//! A helper process does it, because only a single-threaded one may enter another user namespace. It enters
//! the sandbox's user namespace, takes a private copy of the host's mounts there (which makes the host's
//! files mountable without any privilege on the host), clones what is to be shown, goes on into the
//! sandbox's mount namespace, and attaches it. The helper allocates nothing: this program may have threads.
//!
//! Nearly all of its time goes into what comes before the attaching. So where a person is asked, it begins with the
//! question, and waits for the answer in the sandbox's mount namespace with what is to be shown in its hand
//! ([`Prepared`]). Nothing of it can be seen there before the answer: what it holds is attached nowhere, and the
//! sandbox's processes do not see the helper. What it is attached to is looked up after the answer.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ringfence_model::Access;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};

use super::pin_cpu::Pinned;
use super::socket_table::{self, Bound};
use crate::mounts;
use crate::plan::BindAccess;
use crate::report::Message;
use crate::sys::{self, Cloned, Sys};

/// The namespaces of a sandbox, as descriptors.
#[derive(Debug)]
pub(super) struct Namespaces {
    user: OwnedFd,
    mount: OwnedFd,
    network: OwnedFd,
}

impl Namespaces {
    /// Of the sandbox that the thread `tid` is in. None where it has no namespaces of its own.
    pub(super) fn of(tid: i32) -> Option<Self> {
        let open = |name: &str, pid: &str| {
            let path = format!("/proc/{pid}/ns/{name}");
            rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
        };
        let tid = tid.to_string();
        let (mount, network) = (open("mnt", &tid)?, open("net", &tid)?);
        // Not that of the process: bwrap makes a second one inside, which has no power over the first one's.
        let user = sys::owner_of_namespace(network.as_fd()).ok()?;
        let inode = |fd: &OwnedFd| rustix::fs::fstat(fd).ok().map(|stat| stat.st_ino);
        let own = open("user", "self")?;
        (inode(&user) != inode(&own)).then_some(Self { user, mount, network })
    }

    /// Shows the host's `path` at the same place inside.
    pub(super) fn show(&self, path: &Path, access: Access) -> Result<(), Errno> {
        let path = c_string(path)?;
        let access = if access == Access::Write { BindAccess::ReadWrite } else { BindAccess::ReadOnly };
        self.helped(&|namespaces| namespaces.show_inside(&path, access))
    }

    /// Makes everything ready for showing the host's `path` at the same place inside.
    pub(super) fn prepare(&self, path: &Path, access: Access) -> Result<Prepared, Errno> {
        let path = c_string(path)?;
        let access = if access == Access::Write { BindAccess::ReadWrite } else { BindAccess::ReadOnly };
        let (asked, go) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let (done, tell) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        // SAFETY: the child allocates nothing, and ends in its arm.
        match unsafe { sys::clone(0) }? {
            Cloned::Child => {
                let report = |outcome: Sys<()>| {
                    let code = outcome.err().map_or(0, Errno::raw_os_error);
                    // Who does not hear it sees that this process is gone.
                    let _ = rustix::io::write(&tell, &code.to_ne_bytes());
                };
                let taken = self.take_up(&path, access).and_then(|taken| {
                    // Leaving the copy of the host's mounts takes longer than all that is left to do.
                    sys::enter_namespace(self.mount.as_fd())?;
                    Ok(taken)
                });
                let (tree, is_dir) = match taken {
                    Ok(taken) => taken,
                    Err(errno) => {
                        report(Err(errno));
                        sys::exit_now(0)
                    }
                };
                report(Ok(()));
                // Ending is work too, so it waits here to be ended: who asked shall not have to wait for that.
                while rustix::io::read(&asked, &mut [0_u8; 1]) == Ok(1) {
                    report(put_down(&tree, &path, is_dir));
                }
                sys::exit_now(0)
            }
            Cloned::Parent { pid, pidfd } => {
                let prepared = Prepared { helper: pidfd, pid: Pid::from_raw(pid), go, done, together: None };
                prepared.hear().map(|()| prepared)
            }
        }
    }

    /// Takes away what was shown at `path`; an error when nothing was.
    pub(super) fn hide(&self, path: &Path) -> Result<(), Errno> {
        let path = c_string(path)?;
        self.helped(&|namespaces| namespaces.hide_inside(&path))
    }

    /// Covers `path` inside with something empty.
    pub(super) fn cover(&self, path: &Path) -> Result<(), Errno> {
        let path = c_string(path)?;
        self.helped(&|namespaces| namespaces.cover_inside(&path))
    }

    /// Whether a socket of the sandbox's network namespace is bound to the file; `ESRCH` when none is.
    pub(super) fn has_socket(&self, file: Bound) -> Result<(), Errno> {
        self.inside(&|| socket_table::look_up(file).map(drop))
    }

    /// Runs `work` in the sandbox's network namespace. It must not allocate.
    pub(super) fn inside(&self, work: &dyn Fn() -> Sys<()>) -> Result<(), Errno> {
        self.helped(&|namespaces| {
            sys::enter_namespace(namespaces.user.as_fd())?;
            sys::enter_namespace(namespaces.network.as_fd())?;
            work()
        })
    }

    /// What `make` makes in the sandbox's network namespace, so often. It must not allocate.
    pub(super) fn bring(&self, count: usize, make: &dyn Fn() -> Sys<OwnedFd>) -> Result<Vec<OwnedFd>, Errno> {
        let flags = rustix::net::SocketFlags::CLOEXEC;
        let (ours, theirs) = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::SEQPACKET,
            flags,
            None,
        )?;
        self.inside(&|| {
            (0..count).try_for_each(|_| Message::Ready.send(theirs.as_fd(), Some(make()?.as_fd())))
        })?;
        (0..count).map(|_| Message::receive_with_descriptor(ours.as_fd())?.1.ok_or(Errno::IO)).collect()
    }

    /// Runs `work` in a helper process and waits for it.
    fn helped(&self, work: &dyn Fn(&Self) -> Sys<()>) -> Result<(), Errno> {
        // SAFETY: the child allocates nothing, and ends in its arm.
        match unsafe { sys::clone(0) }? {
            Cloned::Child => {
                let code = match work(self) {
                    Ok(()) => 0,
                    Err(errno) => errno.raw_os_error(),
                };
                sys::exit_now(code)
            }
            Cloned::Parent { pidfd, .. } => loop {
                match waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED) {
                    Err(Errno::INTR) => {}
                    Err(errno) => return Err(errno),
                    Ok(status) => {
                        return match status.and_then(|status| status.exit_status()) {
                            Some(0) => Ok(()),
                            Some(code) => Err(Errno::from_raw_os_error(code)),
                            None => Err(Errno::IO),
                        };
                    }
                }
            },
        }
    }

    fn show_inside(&self, path: &CStr, access: BindAccess) -> Sys<()> {
        let (tree, is_dir) = self.take_up(path, access)?;
        sys::enter_namespace(self.mount.as_fd())?;
        put_down(&tree, path, is_dir)
    }

    /// What is to be shown, and whether it is a directory.
    fn take_up(&self, path: &CStr, access: BindAccess) -> Sys<(OwnedFd, bool)> {
        sys::enter_namespace(self.user.as_fd())?;
        // Entering forgets it. Nobody waits for a helper whose asker is gone.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        sys::unshare_mounts()?;
        let source = open_without_links(path)?;
        let is_dir = FileType::from_raw_mode(rustix::fs::fstat(&source)?.st_mode) == FileType::Directory;
        Ok((mounts::bindable(source.as_fd(), access)?, is_dir))
    }

    fn hide_inside(&self, path: &CStr) -> Sys<()> {
        sys::enter_namespace(self.user.as_fd())?;
        sys::enter_namespace(self.mount.as_fd())?;
        rustix::mount::unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
    }

    fn cover_inside(&self, path: &CStr) -> Sys<()> {
        sys::enter_namespace(self.user.as_fd())?;
        sys::enter_namespace(self.mount.as_fd())?;
        let target = open_without_links(path)?;
        let is_dir = FileType::from_raw_mode(rustix::fs::fstat(&target)?.st_mode) == FileType::Directory;
        if is_dir {
            return mounts::attach(mounts::tmpfs(0, None)?.as_fd(), target.as_fd());
        }
        let nothing = open_without_links(c"/dev/null")?;
        mounts::attach(mounts::bindable(nothing.as_fd(), BindAccess::Device)?.as_fd(), target.as_fd())
    }
}

/// A helper that holds what is to be shown, and waits for the word. Ended when dropped.
#[derive(Debug)]
pub(super) struct Prepared {
    helper: OwnedFd,
    pid: Option<Pid>,
    go: OwnedFd,
    done: OwnedFd,
    together: Option<Together>,
}

impl Prepared {
    /// Shows it. To be called by the thread that prepared it, which runs on one processor then until this is dropped.
    pub(super) fn show(&mut self) -> Result<(), Errno> {
        self.together = self.pid.and_then(Together::here);
        rustix::io::write(&self.go, &[1])?;
        self.hear()
    }

    /// What the helper says of its last step.
    fn hear(&self) -> Result<(), Errno> {
        let mut fds = [PollFd::new(&self.done, PollFlags::IN), PollFd::new(&self.helper, PollFlags::IN)];
        rustix::io::retry_on_intr(|| poll(&mut fds, None))?;
        if fds[0].revents().contains(PollFlags::IN) {
            let mut code = [0_u8; 4];
            rustix::io::read(&self.done, &mut code)?;
            return match i32::from_ne_bytes(code) {
                0 => Ok(()),
                code => Err(Errno::from_raw_os_error(code)),
            };
        }
        Err(Errno::IO)
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // Not to end in the way of who goes on here.
        self.together = None;
        let _ = rustix::process::pidfd_send_signal(&self.helper, Signal::KILL);
        let _ =
            rustix::io::retry_on_intr(|| waitid(WaitId::PidFd(self.helper.as_fd()), WaitIdOptions::EXITED));
    }
}

/// This thread and a helper of its, which run on one processor only until this is dropped.
#[derive(Debug)]
struct Together {
    _helper: Pinned,
    _own: Pinned,
}

impl Together {
    /// None where they cannot be kept here; then it takes longer.
    fn here(helper: Pid) -> Option<Self> {
        // First the one that says where.
        let own = Pinned::here(None)?;
        Some(Self { _helper: Pinned::here(Some(helper))?, _own: own })
    }
}

/// Attaches what is to be shown, in the mount namespace that this process is in.
fn put_down(tree: &OwnedFd, path: &CStr, is_dir: bool) -> Sys<()> {
    let target = match open_without_links(path) {
        Ok(target) => target,
        Err(Errno::NOENT) => {
            make_place(path, is_dir)?;
            open_without_links(path)?
        }
        Err(errno) => return Err(errno),
    };
    mounts::attach(tree.as_fd(), target.as_fd())
}

/// Whether what is at `path` inside is covered: nothing of the host shows through.
pub(super) fn is_covered(root: BorrowedFd<'_>, path: &Path) -> bool {
    let relative = path.strip_prefix("/").unwrap_or(path);
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat2(
        root,
        relative,
        flags,
        Mode::empty(),
        ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS,
    );
    let (Ok(inside), Ok(host)) = (opened.and_then(rustix::fs::fstat), rustix::fs::lstat(path)) else {
        // What cannot be reached inside needs no cover.
        return true;
    };
    (inside.st_dev, inside.st_ino) != (host.st_dev, host.st_ino)
}

fn c_string(path: &Path) -> Result<CString, Errno> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)
}

fn open_without_links(path: &CStr) -> Sys<OwnedFd> {
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(rustix::fs::CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)
}

/// Makes an empty file or directory to mount on, and the directories above it that are missing. Only works in a
/// private directory of the sandbox; anywhere else the kernel refuses, as it should.
fn make_place(path: &CStr, is_dir: bool) -> Sys<()> {
    match make_empty(path, is_dir) {
        Err(Errno::NOENT) => {
            make_parents(path)?;
            make_empty(path, is_dir)
        }
        other => other,
    }
}

fn make_empty(path: &CStr, is_dir: bool) -> Sys<()> {
    if is_dir {
        return make_directory(path);
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::from_raw_mode(0o644)).map(drop)
}

fn make_parents(path: &CStr) -> Sys<()> {
    let mut buffer = [0_u8; 4097];
    let bytes = path.to_bytes();
    if bytes.len() >= buffer.len() {
        return Err(Errno::NAMETOOLONG);
    }
    for (index, &byte) in bytes.iter().enumerate() {
        if byte == b'/' && index > 0 {
            buffer[index] = 0;
            make_directory(CStr::from_bytes_with_nul(&buffer[..=index]).map_err(|_| Errno::INVAL)?)?;
        }
        buffer[index] = byte;
    }
    Ok(())
}

fn make_directory(path: &CStr) -> Sys<()> {
    match rustix::fs::mkdir(path, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        // A read-only directory that exists says so before it says that it exists.
        Err(Errno::ROFS) if rustix::fs::stat(path).is_ok() => Ok(()),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use rustix::thread::sched_getaffinity;

    use super::*;

    #[test]
    fn who_was_kept_together_may_go_everywhere_again() {
        // SAFETY: the child does nothing but to yield.
        let cloned = unsafe { sys::clone(0) };
        let Ok(Cloned::Parent { pid, pidfd }) = cloned.map(|cloned| match cloned {
            Cloned::Child => loop {
                rustix::thread::sched_yield();
            },
            parent @ Cloned::Parent { .. } => parent,
        }) else {
            panic!("no helper");
        };
        let helper = Pid::from_raw(pid).unwrap();
        let both = || [None, Some(helper)].map(|thread| sched_getaffinity(thread).unwrap());
        let before = both();
        let together = Together::here(helper);
        let [here, there] = both();
        drop(together);
        let after = both();
        rustix::process::pidfd_send_signal(&pidfd, Signal::KILL).unwrap();
        waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED).unwrap();
        assert_eq!((here.count(), &here), (1, &there), "on one processor");
        assert_eq!(before, after);
    }
}
