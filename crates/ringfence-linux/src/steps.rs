//! The steps of a launch, each timed, for the bench. Built with the feature `steps` only.
//!
//! The order is that of [`stage`](crate::stage), and every step calls the very function that a launch calls.
//! The times are written into memory that parent and children share, so that taking them costs no system call.

use std::ffi::c_void;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::mount::{MountPropagationFlags, UnmountFlags};
use rustix::time::ClockId;

use crate::landlock::Ruleset;
use crate::launch::{Maps, NAMESPACES, control_pair};
use crate::mounts;
use crate::plan::{Exec, MountStep, Plan};
use crate::seccomp;
use crate::stage::{Stage, write_id_maps};
use crate::sys::{self, Cloned, Sys};

/// A step, and how long it took.
pub type Step = (&'static str, Duration);

/// Number and name of what is timed; several spans may add up to one step.
const STEPS: [&str; 28] = [
    "namespaces: clone until the child runs",
    "id maps",
    "mounts made private",
    "root: tmpfs, pivot, masks' sources",
    "directories, files and links of the root",
    "binds of directories",
    "binds of devices",
    "tmpfs",
    "proc",
    "devpts",
    "masks",
    "protected paths: seals and pins",
    "replaced files",
    "host detached, root sealed",
    "loopback up",
    "host name",
    "capabilities",
    "second process: clone until it runs",
    "session, signals, rlimits",
    "Landlock: rules",
    "Landlock: restriction",
    "seccomp: static filter",
    "own descriptor table",
    "exec, run and end of the command",
    "reaping by init",
    "teardown: init's end until it is reaped",
    "seccomp: supervised filter and listener",
    "all of it",
];

const CLONE: usize = 0;
const ID_MAPS: usize = 1;
const PRIVATE: usize = 2;
const ROOT: usize = 3;
const DETACH: usize = 13;
const LOOPBACK: usize = 14;
const HOSTNAME: usize = 15;
const CAPABILITIES: usize = 16;
const SECOND: usize = 17;
const SESSION: usize = 18;
const LANDLOCK: usize = 19;
const RESTRICT: usize = 20;
const SECCOMP: usize = 21;
const FILES: usize = 22;
const EXEC: usize = 23;
const REAP: usize = 24;
const TEARDOWN: usize = 25;
const LISTENER: usize = 26;
const ALL: usize = 27;

fn kind(step: &MountStep) -> usize {
    use crate::plan::BindAccess;
    match step {
        MountStep::Dir { .. } | MountStep::File { .. } | MountStep::Symlink { .. } => 4,
        MountStep::Bind { access: BindAccess::Device, .. } => 6,
        MountStep::Bind { .. } => 5,
        MountStep::Tmpfs { .. } => 7,
        MountStep::Proc { .. } => 8,
        MountStep::Devpts { .. } => 9,
        MountStep::Mask { .. } => 10,
        MountStep::Seal { .. } | MountStep::Pin { .. } | MountStep::ReadOnly { .. } => 11,
        MountStep::Replace { .. } => 12,
    }
}

/// How many steps of each kind the plan has, by the names of [`time_launch`].
#[must_use]
pub fn count(plan: &Plan) -> Vec<(&'static str, usize)> {
    let mut counts = [0; STEPS.len()];
    for step in &plan.mounts {
        counts[kind(step)] += 1;
    }
    if let Some((_, rules)) = &plan.landlock {
        counts[LANDLOCK] = rules.len();
    }
    STEPS.into_iter().zip(counts).filter(|(_, count)| *count > 0).collect()
}

/// Sums of times, in memory that all processes share.
#[derive(Clone, Copy)]
struct Clock(*mut u64);

impl Clock {
    /// One more for the moment of the last [`lap`](Self::lap), one for "something failed".
    const WORDS: usize = STEPS.len() + 2;

    fn new() -> Sys<Self> {
        let bytes = Self::WORDS * size_of::<u64>();
        // SAFETY: a new mapping at a place of the kernel's choice; it is never removed while in use.
        let page = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE,
            )
        }?;
        Ok(Self(page.cast()))
    }

    fn word(self, index: usize) -> *mut u64 {
        self.0.wrapping_add(index)
    }

    fn get(self, index: usize) -> u64 {
        // SAFETY: the index is below WORDS; other processes write only while this one waits for them.
        unsafe { self.word(index).read_volatile() }
    }

    fn set(self, index: usize, value: u64) {
        // SAFETY: as in `get`.
        unsafe { self.word(index).write_volatile(value) };
    }

    fn start(self) {
        self.set(STEPS.len(), now());
    }

    /// The time since the last lap belongs to this step.
    fn lap(self, step: usize) {
        let now = now();
        self.set(step, self.get(step) + now.saturating_sub(self.get(STEPS.len())));
        // The clock was read before the bookkeeping, which must not count for the next step.
        self.start();
    }

    fn fail(self, errno: Errno) {
        self.set(STEPS.len() + 1, u64::try_from(errno.raw_os_error()).unwrap_or(1));
    }

    fn finish(self) -> Sys<Vec<Step>> {
        let failed = self.get(STEPS.len() + 1);
        let steps =
            (0..STEPS.len()).map(|step| (STEPS[step], Duration::from_nanos(self.get(step)))).collect();
        // SAFETY: the mapping was made by `new` with this size, and this is its last user.
        unsafe { rustix::mm::munmap(self.0.cast::<c_void>(), Self::WORDS * size_of::<u64>()) }?;
        if failed == 0 {
            Ok(steps)
        } else {
            Err(Errno::from_raw_os_error(i32::try_from(failed).unwrap_or(libc::EIO)))
        }
    }
}

fn now() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// Launches once, without a supervisor, and times every step.
pub fn time_launch(plan: &Plan, exec: &Exec) -> Sys<Vec<Step>> {
    let clock = Clock::new()?;
    let (_host, inside) = control_pair().map_err(|_| Errno::IO)?;
    let maps = Maps::identity();
    let stage = Stage {
        plan,
        exec,
        passed: &exec.passed,
        stdio: [0, 1, 2],
        tty: None,
        control: inside.as_fd(),
        disowned: None,
        wait_for_go: false,
        maps: Some(maps.borrow()),
        landlocked: false,
        tied: false,
        mounted: 0,
    };
    let begin = now();
    clock.start();
    // SAFETY: the child allocates nothing, and ends in its arm.
    match unsafe { sys::clone(NAMESPACES) }? {
        Cloned::Child => {
            clock.lap(CLONE);
            let done = init(clock, &stage);
            if let Err(errno) = done {
                clock.fail(errno);
            }
            clock.start();
            sys::exit_now(0)
        }
        Cloned::Parent { pidfd, .. } => {
            wait_for(&pidfd)?;
            clock.lap(TEARDOWN);
            clock.set(ALL, now() - begin);
        }
    }
    time_listener(clock, plan)?;
    clock.finish()
}

fn init(clock: Clock, stage: &Stage<'_>) -> Sys<()> {
    let plan = stage.plan;
    write_id_maps(stage.maps).map_err(|failure| failure.errno)?;
    clock.lap(ID_MAPS);
    rustix::mount::mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    clock.lap(PRIVATE);
    build_root(clock, plan)?;
    sys::loopback_up()?;
    clock.lap(LOOPBACK);
    sys::sethostname(&plan.hostname)?;
    clock.lap(HOSTNAME);
    sys::drop_all_capabilities()?;
    clock.lap(CAPABILITIES);
    // SAFETY: the child allocates nothing, and ends in its arm; nothing is closed here before it ended.
    match unsafe { sys::clone(libc::CLONE_FILES) }? {
        Cloned::Child => {
            clock.lap(SECOND);
            let errno = command(clock, stage);
            clock.fail(errno.unwrap_or_else(|errno| errno));
            sys::exit_now(1)
        }
        Cloned::Parent { pidfd, .. } => {
            let mut fds = [rustix::event::PollFd::new(&pidfd, rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut fds, None)?;
            clock.lap(EXEC);
            wait_for(&pidfd)?;
            clock.lap(REAP);
            Ok(())
        }
    }
}

fn build_root(clock: Clock, plan: &Plan) -> Sys<()> {
    let host = mounts::new_root().map_err(|(_, errno)| errno)?;
    clock.lap(ROOT);
    for step in &plan.mounts {
        mounts::execute(host.as_fd(), None, step)?;
        clock.lap(kind(step));
    }
    drop(host);
    mounts::close_workshop()?;
    rustix::mount::unmount(mounts::OLD_ROOT, UnmountFlags::DETACH)?;
    rustix::fs::rmdir(mounts::OLD_ROOT)?;
    mounts::make_read_only(c"/")?;
    clock.lap(DETACH);
    Ok(())
}

fn command(clock: Clock, stage: &Stage<'_>) -> Sys<Errno> {
    let plan = stage.plan;
    rustix::process::setsid()?;
    sys::reset_signals();
    for limit in &plan.rlimits {
        sys::set_rlimit(limit.resource, limit.soft, limit.hard)?;
    }
    rustix::thread::set_no_new_privs(true)?;
    clock.lap(SESSION);
    if let Some((abi, rules)) = &plan.landlock {
        let ruleset = Ruleset::new(*abi)?;
        for rule in rules {
            ruleset.allow(&rule.path, rule.rights)?;
        }
        clock.lap(LANDLOCK);
        ruleset.restrict_self()?;
        clock.lap(RESTRICT);
    }
    seccomp::install(&seccomp_filter(plan)).map_err(|_| Errno::INVAL)?;
    clock.lap(SECCOMP);
    sys::unshare_files()?;
    clock.lap(FILES);
    rustix::process::chdir(stage.exec.cwd.as_c_str())?;
    sys::cloexec_from(3)?;
    let null = rustix::fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    for target in 0..3 {
        // SAFETY: the process becomes the command.
        unsafe { sys::install_stdio(std::os::fd::AsRawFd::as_raw_fd(&null), target) }?;
    }
    clock.start();
    let mut errno = Errno::NOENT;
    for candidate in &stage.exec.candidates {
        errno = sys::execve(candidate, &stage.exec.argv, &stage.exec.env);
    }
    Ok(errno)
}

/// The filter for a command that nobody supervises.
fn seccomp_filter(plan: &Plan) -> std::borrow::Cow<'_, [libc::sock_filter]> {
    match &plan.unsupervised_filter {
        Some(filter) => std::borrow::Cow::Borrowed(filter),
        None => std::borrow::Cow::Borrowed(&plan.filter),
    }
}

/// Installing the plan's own filter, in a process that does nothing else.
fn time_listener(clock: Clock, plan: &Plan) -> Sys<()> {
    if !plan.supervised {
        return Ok(());
    }
    // SAFETY: the child allocates nothing, and ends in its arm.
    match unsafe { sys::clone(0) }? {
        Cloned::Child => {
            let installed = rustix::thread::set_no_new_privs(true).and_then(|()| {
                clock.start();
                seccomp::install_listener(&plan.filter).map(std::mem::forget).map_err(|_| Errno::INVAL)
            });
            match installed {
                Ok(()) => clock.lap(LISTENER),
                Err(errno) => clock.fail(errno),
            }
            sys::exit_now(0)
        }
        Cloned::Parent { pidfd, .. } => wait_for(&pidfd),
    }
}

fn wait_for(pidfd: &std::os::fd::OwnedFd) -> Sys<()> {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    loop {
        match waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED) {
            Err(Errno::INTR) => {}
            other => return other.map(drop),
        }
    }
}
