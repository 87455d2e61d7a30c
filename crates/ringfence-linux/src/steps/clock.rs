//! The clock of a launch, in memory that its processes share.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::time::ClockId;

use super::{CLONE, KINDS, RUN, SECOND, Who};
use crate::host_loop::{self, Handlers};
use crate::launch::{LaunchError, Stdio, launch};
use crate::order::{self, Named as _};
use crate::plan::{Exec, Plan};
use crate::supervisor::notif;

/// A step, and how long it took.
pub type Step = (&'static str, Duration);

const TEARDOWN: &str = "teardown: init's end until it is reaped";
const ALL: &str = "all of it";

/// More than there are names.
const MOST: usize = 64;

/// Sums of times by the position of their names, and the moment of each process's last lap.
#[repr(C)]
struct Clock {
    sums: [AtomicU64; MOST],
    last: [AtomicU64; 2],
}

static CLOCK: AtomicPtr<Clock> = AtomicPtr::new(std::ptr::null_mut());

fn clock() -> Option<&'static Clock> {
    // SAFETY: null, or a mapping that is never removed.
    unsafe { CLOCK.load(Ordering::Acquire).as_ref() }
}

/// In the order in which a launch comes to them, but for those that happen beside others.
fn names() -> impl Iterator<Item = &'static str> {
    let begin = order::BEGIN.into_iter().map(|act| act.name());
    let root = order::ROOT.into_iter().map(|act| act.name());
    let init = order::INIT.into_iter().map(|act| act.name());
    let command = order::COMMAND.into_iter().map(|act| act.name());
    let first = [CLONE].into_iter().chain(begin).chain(KINDS).chain(root).chain(init);
    first.chain([SECOND]).chain(command).chain([RUN, TEARDOWN, ALL])
}

fn now() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

impl Clock {
    fn of(&self, name: &str) -> Option<&AtomicU64> {
        self.sums.get(names().position(|known| known == name)?)
    }

    fn last(&self, who: Who) -> &AtomicU64 {
        &self.last[who as usize]
    }
}

/// A launch begins.
pub(crate) fn start() {
    if let Some(clock) = clock() {
        clock.last(Who::Init).store(now(), Ordering::Relaxed);
    }
}

/// The command's process is about to be made.
pub(crate) fn hand_over() {
    if let Some(clock) = clock() {
        clock.last(Who::Command).store(now(), Ordering::Relaxed);
    }
}

/// The time since the last lap belongs to this step.
pub(crate) fn lap(who: Who, name: &'static str) {
    let Some(clock) = clock() else { return };
    let time = now();
    if let Some(sum) = clock.of(name) {
        let passed = time.saturating_sub(clock.last(who).load(Ordering::Relaxed));
        sum.fetch_add(passed, Ordering::Relaxed);
    }
    // The clock was read before the bookkeeping, which must not count for the next step.
    clock.last(who).store(now(), Ordering::Relaxed);
}

/// Lets every call of the command go on.
struct Lenient;

impl Handlers for Lenient {
    fn listener(&mut self, _: &OwnedFd) {}

    fn notified(&mut self, listener: BorrowedFd<'_>) {
        if let Ok(call) = notif::receive(listener) {
            let _ = notif::let_continue(listener, call.id);
        }
    }

    fn answer(&mut self, _: BorrowedFd<'_>) -> bool {
        false
    }

    fn terminal(&mut self, _: OwnedFd) {}
}

/// Launches once and times every step.
pub fn time_launch(plan: &Plan, exec: &Exec) -> Result<Vec<Step>, LaunchError> {
    let failed = |errno: Errno| LaunchError::Control(errno.into());
    let clock = match clock() {
        Some(clock) => clock,
        None => map().map_err(failed)?,
    };
    for sum in &clock.sums {
        sum.store(0, Ordering::Relaxed);
    }
    let null =
        rustix::fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
    let begun = now();
    let sandbox = launch(plan, exec, Stdio::Raw([null.as_fd().as_raw_fd(); 3]), None)?;
    host_loop::run(plan, &sandbox, None, None, &mut Lenient)?;
    sandbox.wait();
    lap(Who::Init, TEARDOWN);
    if let Some(all) = clock.of(ALL) {
        all.store(now() - begun, Ordering::Relaxed);
    }
    let time = |sum: &AtomicU64| Duration::from_nanos(sum.load(Ordering::Relaxed));
    let steps = names().zip(clock.sums.iter().map(time));
    Ok(steps.filter(|(_, time)| !time.is_zero()).collect())
}

fn map() -> Result<&'static Clock, Errno> {
    // SAFETY: a new mapping at a place of the kernel's choice; it is never removed.
    let page = unsafe {
        rustix::mm::mmap_anonymous(
            std::ptr::null_mut(),
            size_of::<Clock>(),
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED | MapFlags::POPULATE,
        )
    }?;
    CLOCK.store(page.cast(), Ordering::Release);
    clock().ok_or(Errno::NOMEM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_a_name_of_its_own() {
        let all: Vec<&str> = names().collect();
        assert!(all.len() <= MOST);
        for (index, name) in all.iter().enumerate() {
            assert_eq!(all.iter().position(|other| other == name), Some(index), "{name}");
        }
    }
}
