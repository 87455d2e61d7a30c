//! The system calls that rustix does not offer, each as a small function. Whatever could break the safety of memory
//! or descriptors elsewhere is `unsafe`.
//!
//! Everything here is async-signal-safe and allocates nothing, because most of it runs in a process
//! that was just cloned from a possibly multi-threaded one.

use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

mod descriptors;
pub(crate) mod packets;

pub(crate) use descriptors::{
    adopt, borrow, cloexec_from, close_all_but, close_all_but_sorted, duplicate_above, install_stdio,
};

pub(crate) type Sys<T> = Result<T, Errno>;

/// Which side of a clone the caller is.
#[derive(Debug)]
pub(crate) enum Cloned {
    Child,
    Parent { pid: i32, pidfd: OwnedFd },
}

fn check(ret: c_long) -> Sys<c_long> {
    if ret < 0 { Err(last_errno()) } else { Ok(ret) }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// `clone3` with the semantics of fork (memory is copied), plus `flags`: new namespaces, or
/// `CLONE_FILES` to share the descriptor table. Unlike the C library's fork it runs no at-fork
/// handlers, which may take locks that a vanished thread holds.
///
/// # Safety
///
/// Where the caller may have other threads, the child must not allocate, lock or unwind: a thread that it does not
/// have may have left the allocator or a lock half way. The child must not return into code that the parent goes on
/// with. `flags` must leave memory, signal handlers and thread-local storage alone (`CLONE_VM`, `CLONE_SIGHAND`,
/// `CLONE_SETTLS`); with `CLONE_FILES` a descriptor that one side closes is closed for both.
pub(crate) unsafe fn clone(flags: c_int) -> Sys<Cloned> {
    let mut pidfd: c_int = -1;
    // SAFETY: all-zero is the documented default of every field.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    #[expect(clippy::cast_sign_loss, reason = "flag bits")]
    {
        args.flags = (flags as u32 | libc::CLONE_PIDFD as u32).into();
        // A child of the caller's parent ends as the caller does.
        args.exit_signal = if flags & libc::CLONE_PARENT == 0 { libc::SIGCHLD as u64 } else { 0 };
    }
    args.pidfd = (&raw mut pidfd) as u64;
    // SAFETY: `args` is valid for its size; without CLONE_VM the child has its own copy of memory and
    // continues here on a copy of this stack.
    let pid =
        check(unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<libc::clone_args>()) });
    let pid = match pid {
        // A sandbox around us answers so, because no filter can see the flags of the newer call.
        Err(Errno::NOSYS) => old_clone(flags, &mut pidfd)?,
        other => other?,
    };
    if pid == 0 {
        return Ok(Cloned::Child);
    }
    // SAFETY: the kernel stored a new descriptor that nobody else owns.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Cloned::Parent { pid: i32::try_from(pid).unwrap_or(i32::MAX), pidfd })
}

/// The same by the older call, whose order of arguments differs between machines.
fn old_clone(flags: c_int, pidfd: &mut c_int) -> Sys<c_long> {
    let flags = flags | libc::CLONE_PIDFD | libc::SIGCHLD;
    let pidfd = std::ptr::from_mut(pidfd);
    // With these flags neither the child's thread id nor its thread-local storage is touched, so the last
    // two arguments mean nothing whatever their order.
    // SAFETY: a null stack keeps the caller's, copied; the kernel stores the descriptor behind `pidfd`.
    check(unsafe { libc::syscall(libc::SYS_clone, c_long::from(flags), 0_usize, pidfd, 0_usize, 0_usize) })
}

/// Makes this process's descriptor table its own again after [`fork`] with `share_files`.
pub(crate) fn unshare_files() -> Sys<()> {
    // SAFETY: only the descriptor table is copied.
    check(unsafe { libc::syscall(libc::SYS_unshare, libc::CLONE_FILES) }).map(drop)
}

/// Makes these namespaces, and moves into them. None need nothing.
pub(crate) fn unshare_namespaces(flags: c_int) -> Sys<()> {
    if flags == 0 {
        return Ok(());
    }
    // SAFETY: only namespaces change, which no memory depends on.
    check(unsafe { libc::syscall(libc::SYS_unshare, flags) }).map(drop)
}

/// Gives the calling thread a umask and directories of its own.
pub(crate) fn unshare_fs() -> Sys<()> {
    // SAFETY: only this thread's file system context is copied.
    check(unsafe { libc::syscall(libc::SYS_unshare, libc::CLONE_FS) }).map(drop)
}

/// Takes a private copy of the mounts; needs the capability in this user namespace.
pub(crate) fn unshare_mounts() -> Sys<()> {
    // SAFETY: only this process's mount namespace changes.
    check(unsafe { libc::syscall(libc::SYS_unshare, libc::CLONE_NEWNS) }).map(drop)
}

/// Enters the namespace behind a `/proc/PID/ns` descriptor. A user namespace only lets a single-threaded
/// process in.
pub(crate) fn enter_namespace(namespace: BorrowedFd<'_>) -> Sys<()> {
    // SAFETY: only this process's own namespaces change.
    check(unsafe { libc::syscall(libc::SYS_setns, namespace.as_raw_fd(), 0) }).map(drop)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MountAttr {
    pub set: u64,
    pub clear: u64,
}

/// `mount_setattr` on the mount that `path` (relative to `dir`) is the root of, or that `dir` itself is
/// when `path` is empty.
pub(crate) fn mount_setattr(dir: BorrowedFd<'_>, path: &CStr, recursive: bool, attr: MountAttr) -> Sys<()> {
    let attributes =
        libc::mount_attr { attr_set: attr.set, attr_clr: attr.clear, propagation: 0, userns_fd: 0 };
    let flags =
        libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: path and attributes are valid for the duration of the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            dir.as_raw_fd(),
            path.as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    })
    .map(drop)
}

/// Sets attributes of a detached tree and of all mounts below it, translates the owners of its files by that
/// user namespace, and lets no mount of the host's reach it any more.
pub(crate) fn translate_owners(tree: BorrowedFd<'_>, set: u64, by: BorrowedFd<'_>) -> Sys<()> {
    let attributes = libc::mount_attr {
        attr_set: set | libc::MOUNT_ATTR_IDMAP,
        attr_clr: 0,
        propagation: libc::MS_PRIVATE,
        userns_fd: u64::try_from(by.as_raw_fd()).map_err(|_| Errno::BADF)?,
    };
    // SAFETY: path and attributes are valid for the duration of the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    })
    .map(drop)
}

/// Null-terminated pointers to C strings, as `execve` wants them.
#[derive(Debug)]
pub struct CStringArray {
    strings: Vec<std::ffi::CString>,
    pointers: Vec<*const c_char>,
}

// SAFETY: the pointers point into `strings`, which is never changed after construction.
unsafe impl Send for CStringArray {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for CStringArray {}

impl CStringArray {
    #[must_use]
    pub fn new(strings: Vec<std::ffi::CString>) -> Self {
        let mut pointers: Vec<*const c_char> = strings.iter().map(|s| s.as_ptr()).collect();
        pointers.push(std::ptr::null());
        Self { strings, pointers }
    }

    #[must_use]
    pub fn strings(&self) -> &[std::ffi::CString] {
        &self.strings
    }
}

/// Replaces this process; returns only to say why it could not.
pub(crate) fn execve(path: &CStr, argv: &CStringArray, env: &CStringArray) -> Errno {
    // SAFETY: both arrays are null-terminated and their strings live as long as they do.
    unsafe { libc::execve(path.as_ptr(), argv.pointers.as_ptr(), env.pointers.as_ptr()) };
    last_errno()
}

/// Gives up every capability, for good: bounding, ambient, permitted, effective and inheritable sets.
pub(crate) fn drop_all_capabilities() -> Sys<()> {
    for capability in 0..=63 {
        // SAFETY: only this thread's bounding set changes.
        let dropped = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
        if dropped < 0 {
            match last_errno() {
                // Past the last capability this kernel knows.
                Errno::INVAL => break,
                errno => return Err(errno),
            }
        }
    }
    // SAFETY: only this thread's ambient set changes.
    let cleared = unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) };
    check(cleared.into())?;
    clear_capability_sets()
}

/// As [`drop_all_capabilities`] for a process that may have none to begin with: the bounding set is then out
/// of its reach, and of no use to a process that sets `no_new_privs`. Checks that nothing is left.
pub(crate) fn give_up_capabilities() -> Sys<()> {
    match drop_all_capabilities() {
        Err(Errno::PERM) => clear_capability_sets()?,
        other => other?,
    }
    let header: [u32; 2] = [CAPABILITY_VERSION, 0];
    let mut held: [u32; 6] = [0; 6];
    // SAFETY: version 3 writes two data structs of three words each.
    check(unsafe { libc::syscall(libc::SYS_capget, header.as_ptr(), held.as_mut_ptr()) })?;
    if held == [0; 6] { Ok(()) } else { Err(Errno::PERM) }
}

const CAPABILITY_VERSION: u32 = 0x2008_0522;

fn clear_capability_sets() -> Sys<()> {
    // The kernel's `__user_cap_header_struct` (version 3) and two zeroed data structs.
    let header: [u32; 2] = [CAPABILITY_VERSION, 0];
    let none: [u32; 6] = [0; 6];
    // SAFETY: version 3 reads one header and two data structs of three words each.
    check(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) }).map(drop)
}

/// Gives the child default signal handling: what the host process ignores would stay ignored across
/// exec (handlers do not survive it), and so would its blocked signals.
pub(crate) fn reset_signals() {
    const OFTEN_IGNORED: [c_int; 10] = [
        libc::SIGPIPE,
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTERM,
        libc::SIGCHLD,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
        libc::SIGUSR1,
    ];
    for signal in OFTEN_IGNORED {
        // SAFETY: setting the default action is always sound.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: an all-zero sigset is the empty set on Linux; the pointers are valid.
    let mut empty: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `empty` is valid for writing.
    unsafe { libc::sigemptyset(&raw mut empty) };
    // SAFETY: `empty` is an initialised set.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const empty, std::ptr::null_mut()) };
}

/// Blocks every signal that can be blocked. [`reset_signals`] takes it back.
pub(crate) fn block_signals() {
    // SAFETY: an all-zero sigset is valid memory for sigfillset to fill.
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `all` is valid for writing.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: `all` is initialised; the old mask is not wanted.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut()) };
}

/// How a child ended, and what it and its own children used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reaped {
    pub pid: i32,
    pub status: c_int,
    pub user_us: u64,
    pub system_us: u64,
    pub max_rss_kib: u64,
}

/// Reaps one child that has ended; none when all that are left still run.
pub(crate) fn reap() -> Sys<Option<Reaped>> {
    let mut status: c_int = 0;
    // SAFETY: all-zero is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both out-pointers are valid.
    let waited = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut usage) };
    let pid = check(waited.into())?;
    if pid == 0 {
        return Ok(None);
    }
    let micros = |time: libc::timeval| {
        u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000 + u64::try_from(time.tv_usec).unwrap_or(0)
    };
    Ok(Some(Reaped {
        pid: i32::try_from(pid).unwrap_or(0),
        status,
        user_us: micros(usage.ru_utime),
        system_us: micros(usage.ru_stime),
        max_rss_kib: u64::try_from(usage.ru_maxrss).unwrap_or(0),
    }))
}

/// Blocks SIGCHLD and gives a descriptor that becomes readable when a child ends.
pub(crate) fn child_signal_fd() -> Sys<OwnedFd> {
    signal_fd(libc::SIGCHLD)
}

/// Blocks `signal` in this thread (and those it starts later) and gives a descriptor that becomes readable
/// when it comes.
pub fn signal_fd(signal: c_int) -> Sys<OwnedFd> {
    // SAFETY: an all-zero sigset is valid memory for sigemptyset to fill.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is valid for writing.
    unsafe { libc::sigemptyset(&raw mut set) };
    // SAFETY: `set` is initialised.
    unsafe { libc::sigaddset(&raw mut set, signal) };
    // SAFETY: `set` is initialised; the old mask is not wanted.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
    // SAFETY: `set` is initialised; -1 asks for a new descriptor.
    let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    check(fd.into())?;
    // SAFETY: the kernel just made it for us.
    Ok(unsafe { adopt(fd) })
}

/// Sends `signal` to every process of this pid namespace but the caller, which must be its pid 1:
/// anywhere else "everyone" would be the host's processes, and nothing happens.
pub(crate) fn kill_everyone(signal: c_int) {
    if !rustix::process::getpid().is_init() {
        return;
    }
    // SAFETY: kill has no memory effects; inside its own pid namespace, -1 reaches only that.
    unsafe { libc::kill(-1, signal) };
}

/// Kills every other process of this pid namespace and waits until all are gone. False, and nothing happens,
/// where the caller is not its pid 1.
#[must_use]
pub(crate) fn end_everyone() -> bool {
    if !rustix::process::getpid().is_init() {
        return false;
    }
    kill_everyone(libc::SIGKILL);
    loop {
        // SAFETY: neither status nor usage is asked for.
        let waited = unsafe { libc::wait4(-1, std::ptr::null_mut(), 0, std::ptr::null_mut()) };
        if waited < 0 && last_errno() != Errno::INTR {
            return last_errno() == Errno::CHILD;
        }
    }
}

/// Brings the loopback interface of this network namespace up.
pub(crate) fn loopback_up() -> Sys<()> {
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)?;
    // SAFETY: all-zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l'.cast_signed();
    request.ifr_name[1] = b'o'.cast_signed();
    #[expect(clippy::cast_possible_truncation, reason = "interface flags are 16 bits wide")]
    {
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
    }
    // SAFETY: the request is a valid ifreq that names an interface and carries flags.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) }.into())
        .map(drop)
}

pub(crate) fn sethostname(name: &CStr) -> Sys<()> {
    // SAFETY: the pointer is valid for the given length.
    check(unsafe { libc::sethostname(name.as_ptr(), name.to_bytes().len()) }.into()).map(drop)
}

/// Overwrites the environment that this process was started with.
///
/// # Safety
///
/// The process must have one thread only, and nobody may hold a reference into the environment.
pub(crate) unsafe fn wipe_environment() {
    // SAFETY: nobody changes the list meanwhile: the caller is the only thread.
    let mut entry = unsafe { libc::environ };
    loop {
        // SAFETY: the list ends with a null pointer, which is not passed.
        let Some(text) = (unsafe { entry.as_ref() }).filter(|text| !text.is_null()) else { return };
        // SAFETY: an entry is a string with an end.
        let length = unsafe { libc::strlen(*text) };
        // SAFETY: the kernel, or whoever set it, made it of memory that can be written.
        unsafe { text.write_bytes(0, length) };
        // SAFETY: as above.
        entry = unsafe { entry.add(1) };
    }
}

/// Overwrites this process's arguments, which everybody who sees it can read.
///
/// # Safety
/// Nobody in this process may read them any more.
pub(crate) unsafe fn wipe_arguments() {
    const SHOWN: &[u8] = b"ringfence";
    // Behind the name, which may hold anything, the first is the third.
    const FIRST: usize = 48 - 3;
    let mut text = [0_u8; 1024];
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
    let read = rustix::fs::open(c"/proc/self/stat", flags, rustix::fs::Mode::empty())
        .and_then(|file| rustix::io::read(&file, &mut text));
    let Ok(length) = read else { return };
    let Some(after) = text[..length].iter().rposition(|&byte| byte == b')') else { return };
    let mut fields = text[after + 1..length].split(|&byte| byte == b' ').filter(|field| !field.is_empty());
    let mut number =
        |skipped: usize| -> Option<usize> { std::str::from_utf8(fields.nth(skipped)?).ok()?.parse().ok() };
    let (Some(start), Some(end)) = (number(FIRST), number(0)) else { return };
    if start == 0 || end <= start {
        return;
    }
    let start = start as *mut u8;
    let room = end - start as usize;
    // SAFETY: the kernel put the arguments there, in memory of this process that can be written; the caller says that
    // nobody reads them.
    unsafe { start.write_bytes(0, room) };
    // SAFETY: as above; not longer than that.
    unsafe { start.copy_from_nonoverlapping(SHOWN.as_ptr(), SHOWN.len().min(room - 1)) };
}

/// Ends the process at once, without running anything at exit.
pub(crate) fn exit_now(code: c_int) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(code) }
}

pub(crate) fn set_rlimit(resource: u32, soft: u64, hard: u64) -> Sys<()> {
    let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    // SAFETY: the limit is valid; the resource number comes from libc.
    check(unsafe { libc::setrlimit(resource as _, &raw const limit) }.into()).map(drop)
}

pub fn get_rlimit(resource: u32) -> Sys<(u64, u64)> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the out-pointer is valid.
    check(unsafe { libc::getrlimit(resource as _, &raw mut limit) }.into())?;
    Ok((limit.rlim_cur, limit.rlim_max))
}

/// Reads `buffer.len()` bytes of another process's memory, or fewer where it ends.
pub(crate) fn read_memory(pid: i32, address: u64, buffer: &mut [u8]) -> Sys<usize> {
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let remote = libc::iovec { iov_base: address as *mut c_void, iov_len: buffer.len() };
    // SAFETY: `local` covers exactly `buffer`; the remote side is only an address to the kernel.
    let read = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(read).map_err(|_| last_errno())
}

/// Writes to another process's memory, where that process itself could.
pub(crate) fn write_memory(pid: i32, address: u64, bytes: &[u8]) -> Sys<()> {
    let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: address as *mut c_void, iov_len: bytes.len() };
    // SAFETY: `local` covers exactly `bytes`, which is only read; the remote side is only an address to the kernel.
    let written = unsafe { libc::process_vm_writev(pid, &raw const local, 1, &raw const remote, 1, 0) };
    match usize::try_from(written) {
        Ok(written) if written == bytes.len() => Ok(()),
        Ok(_) => Err(Errno::FAULT),
        Err(_) => Err(last_errno()),
    }
}

/// Connects a socket to an address in the kernel's own form, whatever its family.
pub(crate) fn connect(socket: BorrowedFd<'_>, address: &[u8]) -> Sys<()> {
    let length = libc::socklen_t::try_from(address.len()).map_err(|_| Errno::INVAL)?;
    // SAFETY: the kernel reads exactly `length` bytes of `address`.
    check(unsafe { libc::connect(socket.as_raw_fd(), address.as_ptr().cast(), length) }.into()).map(drop)
}

/// The user namespace that a namespace belongs to.
pub(crate) fn owner_of_namespace(namespace: BorrowedFd<'_>) -> Sys<OwnedFd> {
    /// Takes no argument.
    const NS_GET_USERNS: u64 = 0xb701;
    // SAFETY: this request reads and writes nothing behind its argument.
    let fd = unsafe { ioctl_struct(namespace, NS_GET_USERNS, &mut 0_u64) }?;
    // SAFETY: the request returns a new descriptor.
    Ok(unsafe { adopt(fd) })
}

/// An `ioctl` with a pointer to a plain struct that the kernel reads and may write.
///
/// # Safety
///
/// `T` must be the struct that the kernel defines for `request`, or the request must have no argument.
pub(crate) unsafe fn ioctl_struct<T>(fd: BorrowedFd<'_>, request: u64, argument: &mut T) -> Sys<i32> {
    // SAFETY: `argument` is valid for reads and writes of the request's struct, as the caller says.
    let ret = unsafe { libc::ioctl(fd.as_raw_fd(), request as _, std::ptr::from_mut(argument)) };
    check(ret.into())?;
    Ok(ret)
}
