//! One directory of the cgroup file system.
//!
//! [`kill_all`], [`remove`] and what they use run in the janitor too: they allocate nothing, and make their
//! calls through rustix, which does not touch the C library's `errno`.

use super::find::{Base, Controller};
use super::{Limits, Version};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

pub(super) const MODE: Mode = Mode::from_raw_mode(0o755);

/// How long to wait for killed processes to leave.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Group {
    pub(super) base: Base,
    pub(super) dir: OwnedFd,
    /// Whoever writes `0` here is inside. None when it was given away.
    pub(super) door: Option<OwnedFd>,
}

impl Group {
    pub(super) fn create(base: Base, name: &CStr) -> Result<Self, (Base, Errno)> {
        match Self::open_new(&base, name) {
            Ok((dir, door)) => Ok(Self { base, dir, door: Some(door) }),
            Err(errno) => Err((base, errno)),
        }
    }

    fn open_new(base: &Base, name: &CStr) -> Result<(OwnedFd, OwnedFd), Errno> {
        rustix::fs::mkdirat(&base.dir, name, MODE)?;
        let dir = rustix::fs::openat(&base.dir, name, DIRECTORY, Mode::empty())?;
        // A thread that moves itself needs no lock; a whole process does, and waits for it until every processor
        // has passed through the scheduler: six to eighteen milliseconds on an idle machine.
        let door = match base.version {
            Version::V1 => c"tasks",
            Version::V2 => PROCS,
        };
        let door = rustix::fs::openat(&dir, door, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok((dir, door))
    }

    /// Sets those limits that belong here. The error names the limit.
    pub(super) fn limit(&self, limits: &Limits) -> Result<(), (&'static str, Errno)> {
        let dir = self.dir.as_fd();
        if let Some(bytes) = limits.memory.filter(|_| self.base.has(Controller::Memory)) {
            let text = bytes.to_string();
            let (limit, swap, swap_text) = match self.base.version {
                Version::V1 => (c"memory.limit_in_bytes", c"memory.memsw.limit_in_bytes", text.as_str()),
                Version::V2 => (c"memory.max", c"memory.swap.max", "0"),
            };
            set(dir, limit, text.as_bytes()).map_err(|errno| ("memory limit", errno))?;
            // Kernels that do not count swap have no such file, and say so in several ways.
            match set(dir, swap, swap_text.as_bytes()) {
                Ok(()) | Err(Errno::NOENT | Errno::OPNOTSUPP | Errno::ACCESS | Errno::PERM) => {}
                Err(errno) => return Err(("swap limit", errno)),
            }
        }
        if let Some(pids) = limits.pids.filter(|_| self.base.has(Controller::Pids)) {
            let text = pids.to_string();
            set(dir, PIDS_MAX, text.as_bytes()).map_err(|errno| ("process limit", errno))?;
        }
        Ok(())
    }
}

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);
const PROCS: &CStr = c"cgroup.procs";
const PIDS_MAX: &CStr = c"pids.max";

pub(super) fn write(file: BorrowedFd<'_>, bytes: &[u8]) -> Result<(), Errno> {
    match rustix::io::write(file, bytes)? {
        len if len == bytes.len() => Ok(()),
        _ => Err(Errno::IO),
    }
}

pub(super) fn set(dir: BorrowedFd<'_>, file: &CStr, bytes: &[u8]) -> Result<(), Errno> {
    let file = rustix::fs::openat(dir, file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    write(file.as_fd(), bytes)
}

/// The text of a small file.
pub(super) fn read(dir: BorrowedFd<'_>, file: &CStr) -> Result<String, Errno> {
    let file = rustix::fs::openat(dir, file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut buffer = [0; 4096];
    let len = rustix::io::read(&file, &mut buffer)?;
    Ok(String::from_utf8_lossy(&buffer[..len]).into_owned())
}

/// A whole file of the kernel's, which has no size: in large steps, because each one makes the kernel
/// write the text anew.
pub(super) fn read_all(dir: BorrowedFd<'_>, file: &CStr) -> Result<Vec<u8>, Errno> {
    let file = rustix::fs::openat(dir, file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut bytes = Vec::with_capacity(16 * 1024);
    loop {
        bytes.reserve(4096);
        if rustix::io::read(&file, rustix::buffer::spare_capacity(&mut bytes))? == 0 {
            return Ok(bytes);
        }
    }
}

/// Removes the group of that name, killing what is inside, and waits that long for it to leave. That there
/// is no such group is fine.
pub(super) fn remove(base: BorrowedFd<'_>, name: &CStr, patience: Duration) -> Result<(), Errno> {
    let mut pause = Duration::from_micros(50);
    let mut waited = Duration::ZERO;
    loop {
        match rustix::fs::unlinkat(base, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::BUSY) if waited < patience => {}
            Err(errno) => return Err(errno),
        }
        if let Ok(dir) = rustix::fs::openat(base, name, DIRECTORY, Mode::empty()) {
            kill_all(dir.as_fd());
        }
        sleep(pause);
        waited += pause;
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

fn sleep(time: Duration) {
    #[expect(clippy::cast_lossless, reason = "the type differs between machines")]
    let request = rustix::thread::Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos() as _ };
    // Waking up early is no harm.
    let _ = rustix::thread::nanosleep(&request);
}

/// Kills everything in the group: at one stroke where the kernel can (version 2 since Linux 5.14), else one
/// after the other until no more are found, while no new ones can be made.
pub(super) fn kill_all(dir: BorrowedFd<'_>) {
    if set(dir, c"cgroup.kill", b"1").is_ok() {
        return;
    }
    let _ = set(dir, PIDS_MAX, b"0");
    for _ in 0..8 {
        let mut found = false;
        each_member(dir, |member| {
            if let Member::Visible(pid) = member {
                found |= rustix::process::kill_process(pid, Signal::KILL).is_ok();
            }
        });
        if !found {
            return;
        }
    }
}

/// A process in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Member {
    Visible(Pid),
    /// It lives in a pid namespace that is not below ours, and the kernel shows it as 0: a number that kill(2)
    /// takes for ourselves.
    Foreign,
}

/// Calls `f` for every process in the group.
pub(super) fn each_member(dir: BorrowedFd<'_>, mut f: impl FnMut(Member)) {
    let Ok(file) = rustix::fs::openat(dir, PROCS, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else {
        return;
    };
    let mut number: Option<i32> = None;
    let mut buffer = [0; 1024];
    while let Ok(len @ 1..) = rustix::io::read(&file, &mut buffer) {
        for byte in &buffer[..len] {
            match byte {
                b'0'..=b'9' => {
                    let digit = i32::from(byte - b'0');
                    number = Some(number.unwrap_or(0).saturating_mul(10).saturating_add(digit));
                }
                _ => {
                    if let Some(raw) = number.take() {
                        f(Pid::from_raw(raw).map_or(Member::Foreign, Member::Visible));
                    }
                }
            }
        }
    }
}
