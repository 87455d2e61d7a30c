//! The process that clears up when its parent cannot.
//!
//! It shares the memory of the process it guards, but nothing else: no page tables are copied when it is
//! started, none of the parent's pages become copy-on-write, and it costs no memory. The memory stays when
//! the parent is killed. In exchange it must not touch what belongs to the parent: it has a stack of its
//! own, reads one frozen structure, and makes its system calls without the C library, whose `errno`
//! would be the parent's.
//!
//! All its signals are blocked, it is in a session of its own and holds no descriptor but those it needs, so
//! only SIGKILL and the end of the machine stop it. The first janitor of each program clears up after others that were
//! stopped so, when its own work is done: nobody waits for that.

use super::find::Base;
use super::group;
use super::name::Name;
use super::sweep;
use crate::sys;
use ringfence_model::LockExt as _;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};
use rustix::process::{Pid, PidfdFlags, Signal};
use rustix::thread::futex;
use std::ffi::{CStr, c_int, c_void};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// It is in no hurry to give up on a process that is stuck in the kernel.
const PATIENCE: Duration = Duration::from_secs(30);
const TITLE: &CStr = c"ringfence-clean";

/// Waits for this process to die, then kills what is in the groups and removes them.
#[derive(Debug)]
pub struct Janitor {
    pid: Option<Pid>,
    /// A byte written to it, or its closing, is the sign to start.
    pipe: OwnedFd,
    // The janitor uses these until it is gone.
    orders: Box<Orders>,
    _stack: Stack,
}

/// What to do, frozen before the start. The descriptors are the janitor's own copies.
#[derive(Debug)]
struct Orders {
    name: Name,
    bases: Vec<RawFd>,
    pipe: RawFd,
    /// Readable when the parent is gone. A child of the parent that has not got to its exec yet may hold the
    /// pipe open; nothing holds this.
    parent: Option<RawFd>,
    /// All of these, in ascending order.
    keep: Vec<RawFd>,
    /// Whether it looks for groups that others left behind.
    sweeps: bool,
    /// Becomes 1 when it has a descriptor table of its own, if it began with ours.
    apart: AtomicU32,
}

impl Janitor {
    /// Starts one for the groups of that name, which need not exist yet.
    pub(super) fn start(bases: &[Base], name: &Name) -> Result<Self, Errno> {
        let (read, pipe) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let parent = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty()).ok();
        let mut given: Vec<BorrowedFd<'_>> = vec![read.as_fd()];
        given.extend(bases.iter().map(|base| base.dir.as_fd()));
        given.extend(parent.as_ref().map(AsFd::as_fd));
        // The others of this process are many when this one's numbers are high.
        let slots = if read.as_raw_fd() > FEW { Slots::with(&given) } else { None };
        let numbers = match &slots {
            Some(slots) => slots.numbers(given.len()),
            None => given.iter().map(AsRawFd::as_raw_fd).collect(),
        };
        let mut keep = numbers.clone();
        keep.sort_unstable();
        let orders = Box::new(Orders {
            name: name.clone(),
            pipe: numbers[0],
            bases: numbers[1..=bases.len()].to_vec(),
            parent: numbers.get(bases.len() + 1).copied(),
            keep,
            sweeps: !SWEPT.swap(true, Ordering::Relaxed),
            apart: AtomicU32::new(u32::from(slots.is_none())),
        });
        let stack = Stack::new()?;
        let pid = clone(&orders, &stack)?;
        let mut janitor = Self { pid: Some(pid), pipe, orders, _stack: stack };
        janitor.await_apart();
        if janitor.pid.is_none() {
            return Err(Errno::CHILD);
        }
        Ok(janitor)
    }

    /// Waits until it no longer uses this process's descriptors.
    fn await_apart(&mut self) {
        let patience = futex::Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        while self.orders.apart.load(Ordering::Acquire) == 0 && !self.gone(libc::WNOHANG) {
            // Woken, too late to sleep, or somebody may have killed it: it is looked at again.
            let _ = futex::wait(&self.orders.apart, futex::Flags::empty(), 0, Some(&patience));
        }
    }

    /// Its process, for reports and tests.
    #[must_use]
    pub const fn pid(&self) -> Option<Pid> {
        self.pid
    }

    /// Ends it when there is nothing left to do, without waiting for the end: on a busy machine it may be
    /// milliseconds until the kernel gets round to it.
    pub(super) fn dismiss(self) {
        if let Some(pid) = self.pid {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        let mut leaving = LEAVING.locked();
        leaving.push(self);
        leaving.retain_mut(|janitor| !janitor.gone(libc::WNOHANG));
    }

    /// Lets it start, and does not wait for the end; it is reaped later, as those dismissed.
    pub(super) fn leave(self) {
        self.begin();
        let mut leaving = LEAVING.locked();
        leaving.retain_mut(|janitor| !janitor.gone(libc::WNOHANG));
        leaving.push(self);
    }

    /// Lets it start, and does not wait for the end.
    pub(super) fn abandon(self) {
        self.begin();
        // It still uses the memory that dropping would free.
        std::mem::forget(self);
    }

    fn begin(&self) {
        let _ = rustix::io::write(&self.pipe, b"!");
    }

    /// Whether it is gone; with no options, waits until it is.
    fn gone(&mut self, options: c_int) -> bool {
        let Some(pid) = self.pid else { return true };
        loop {
            // SAFETY: no status is asked for.
            let result = unsafe {
                libc::waitpid(pid.as_raw_nonzero().get(), std::ptr::null_mut(), libc::__WALL | options)
            };
            let interrupted = || std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted;
            match result {
                0 => return false,
                -1 if interrupted() => {}
                _ => {
                    self.pid = None;
                    return true;
                }
            }
        }
    }
}

/// One janitor of a program has swept, or will.
static SWEPT: AtomicBool = AtomicBool::new(false);

/// Those dismissed that may not be gone yet.
static LEAVING: Mutex<Vec<Janitor>> = Mutex::new(Vec::new());

/// Waits until the processes of all removed groups are gone. They can do nothing any more; this is for
/// those who count processes.
pub fn settle() {
    let leaving = std::mem::take(&mut *LEAVING.locked());
    for mut janitor in leaving {
        janitor.gone(0);
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        if self.pid.is_some() {
            self.begin();
            self.gone(0);
        }
    }
}

/// Up to this number descriptors are copied and closed faster than put aside.
const FEW: RawFd = 256;

/// Low numbers for the descriptors of a janitor that is being started.
///
/// A process gets a copy of the whole table and closes what it does not need. In a program with thousands of sandboxes
/// that takes longer than everything else about a janitor. With what it keeps at low numbers, the janitor copies
/// only those.
#[derive(Debug)]
struct Slots(MutexGuard<'static, Vec<OwnedFd>>);

impl Slots {
    /// Takes numbers as low as there are, once: the program has fewer descriptors open then than later.
    fn reserve() {
        let mut slots = SLOTS.locked();
        while slots.len() < MOST_KEPT {
            let Ok(slot) = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC) else { return };
            slots.push(slot);
        }
    }

    /// Copies of these in the slots. None where there is no room.
    fn with(given: &[BorrowedFd<'_>]) -> Option<Self> {
        let mut slots = SLOTS.locked();
        if slots.len() < given.len() {
            return None;
        }
        for (fd, slot) in given.iter().zip(slots.iter_mut()) {
            rustix::io::dup3(fd, slot, rustix::io::DupFlags::CLOEXEC).ok()?;
        }
        Some(Self(slots))
    }

    fn numbers(&self, count: usize) -> Vec<RawFd> {
        self.0.iter().take(count).map(AsRawFd::as_raw_fd).collect()
    }
}

/// A pipe, this process, and a directory for each controller.
const MOST_KEPT: usize = 4;

static SLOTS: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());

/// Gets ready for many groups; to be called by a program that keeps sandboxes, before it has many descriptors open.
pub fn expect_many() {
    Slots::reserve();
}

/// Memory for its stack, with a page below that nobody may touch.
#[derive(Debug)]
struct Stack(*mut c_void);

// SAFETY: the mapping belongs to this value alone and is only freed by it.
unsafe impl Send for Stack {}
// SAFETY: nothing reads through a shared reference.
unsafe impl Sync for Stack {}

impl Stack {
    const GUARD: usize = 64 * 1024; // A page, however large.
    const SIZE: usize = Self::GUARD + 64 * 1024;

    fn new() -> Result<Self, Errno> {
        // SAFETY: a new mapping, placed by the kernel.
        let stack = Self(unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                Self::SIZE,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?);
        // SAFETY: the lower part of the mapping just made, which nobody uses.
        unsafe { rustix::mm::mprotect(stack.0, Self::GUARD, MprotectFlags::empty()) }?;
        Ok(stack)
    }

    fn top(&self) -> *mut c_void {
        self.0.wrapping_byte_add(Self::SIZE)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: our own mapping; whoever ran on it has been waited for.
        let _ = unsafe { rustix::mm::munmap(self.0, Self::SIZE) };
    }
}

/// Starts [`run`] in a process that shares our memory, with all signals blocked.
///
/// Its end sends no signal, so that it is invisible to whoever waits for any child.
fn clone(orders: &Orders, stack: &Stack) -> Result<Pid, Errno> {
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: fills the set.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: the first set was filled, the second is filled here.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
    let argument = std::ptr::from_ref(orders).cast_mut().cast();
    let shares_files = orders.apart.load(Ordering::Relaxed) == 0;
    let flags = libc::CLONE_VM | if shares_files { libc::CLONE_FILES } else { 0 };
    // SAFETY: the stack is free, grows down from its top and outlives the process, as the orders do; `run`
    // keeps to what the module's head demands of it.
    let pid = unsafe { libc::clone(run, stack.top(), flags, argument) };
    let error = std::io::Error::last_os_error();
    // SAFETY: restores the set that was saved above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    Pid::from_raw(pid.max(0)).ok_or_else(|| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))
}

/// The janitor's whole life. Must not allocate, panic, or call the C library.
extern "C" fn run(orders: *mut c_void) -> c_int {
    // SAFETY: `clone` passed a structure that outlives this process and is not written any more, but for an atomic.
    let orders = unsafe { &*orders.cast::<Orders>() };
    // None of these is needed for the work; without them it is only easier to disturb.
    let _ = rustix::thread::set_name(TITLE);
    let _ = rustix::process::setsid();
    let _ = rustix::process::chdir(c"/");
    if orders.apart.load(Ordering::Acquire) == 0 {
        if !have_own_table(&orders.keep) {
            // What it would close are its parent's.
            return 1;
        }
        orders.apart.store(1, Ordering::Release);
        let _ = futex::wake(&orders.apart, futex::Flags::empty(), 1);
    }
    // SAFETY: the descriptor table is our own, and nobody in this process uses the others.
    let _ = unsafe { sys::close_all_but_sorted(&orders.keep) };
    await_sign(orders);
    for &base in &orders.bases {
        // SAFETY: one of the descriptors kept open.
        let base = unsafe { BorrowedFd::borrow_raw(base) };
        let _ = group::remove(base, orders.name.as_c_str(), PATIENCE);
        if orders.sweeps {
            sweep::sweep(base, sweep::AGE);
        }
    }
    0
}

/// Makes the shared table this process's own, without copying what lies above the last of these.
fn have_own_table(keep: &[RawFd]) -> bool {
    let Some(last) = keep.last() else { return false };
    let above = (last.cast_unsigned() + 1) as usize;
    let flags = libc::CLOSE_RANGE_UNSHARE as usize;
    // SAFETY: the table becomes a copy of its own first; nobody in this process uses what is not in it.
    unsafe { syscalls::raw::syscall3(CLOSE_RANGE, above, u32::MAX as usize, flags) == 0 }
}

const CLOSE_RANGE: usize = syscalls::Sysno::close_range as usize;

fn await_sign(orders: &Orders) {
    // SAFETY: one of the descriptors kept open.
    let pipe = unsafe { BorrowedFd::borrow_raw(orders.pipe) };
    // SAFETY: as above. Without a descriptor for the parent, the pipe is watched twice.
    let parent = unsafe { BorrowedFd::borrow_raw(orders.parent.unwrap_or(orders.pipe)) };
    loop {
        let mut watched =
            [PollFd::from_borrowed_fd(pipe, PollFlags::IN), PollFd::from_borrowed_fd(parent, PollFlags::IN)];
        match rustix::event::poll(&mut watched, None) {
            Ok(1..) => return,
            Ok(0) | Err(Errno::INTR) => {}
            // It cannot wait, so it must not start either: the group may be in use.
            Err(_) => sleep_a_little(),
        }
    }
}

fn sleep_a_little() {
    let _ = rustix::thread::nanosleep(&rustix::thread::Timespec { tv_sec: 0, tv_nsec: 100_000_000 });
}
