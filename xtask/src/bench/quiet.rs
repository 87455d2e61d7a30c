//! How much of the machine others use while something is measured.
//!
//! A block of samples is worth keeping when nobody else wanted the processors meanwhile. What others used is
//! the time the processors were not idle, less what this process and its reaped children used. The kernel
//! tells both in ticks of 10 ms, so a block must be some hundred milliseconds long.
//!
//! bwrap and Ringfence end without waiting for the first process of their sandbox, so the time of all that ran in it
//! would be nobody's. This process adopts those.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// One tick of the times in `/proc`, on every Linux.
const TICK: Duration = Duration::from_millis(10);

/// Others may use this share of one processor while a block is measured; our own traces in the kernel (network
/// namespaces are cleared up by a worker) are part of it.
pub(crate) const LIMIT: f64 = 0.20;

/// A block is at least this long.
pub(crate) const BLOCK: Duration = Duration::from_millis(400);

/// A moment from which others' use is counted.
#[derive(Debug)]
pub(crate) struct Meter {
    at: Instant,
    reading: Option<Reading>,
}

#[derive(Debug, Clone, Copy)]
struct Reading {
    /// Of all processors together.
    idle: u64,
    /// Of this process and the children it has reaped.
    own: u64,
    processors: u32,
}

/// Whether children that nobody waits for are ours.
static ADOPTING: AtomicBool = AtomicBool::new(false);

/// From here on, what a child leaves behind belongs to this process, which must not wait for children on other threads.
pub(crate) fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    ADOPTING.store(
        rustix::process::set_child_subreaper(Some(rustix::process::getpid())).is_ok(),
        Ordering::Relaxed,
    );
}

/// Takes the time of those that have ended.
fn reap_orphans() {
    if ADOPTING.load(Ordering::Relaxed) {
        while let Ok(Some(_)) = rustix::process::wait(rustix::process::WaitOptions::NOHANG) {}
    }
}

impl Meter {
    pub(crate) fn start() -> Self {
        reap_orphans();
        Self { at: Instant::now(), reading: Reading::now() }
    }

    /// The share of one processor that others used since; none where it cannot be told.
    pub(crate) fn others(&self) -> Option<f64> {
        reap_orphans();
        let (before, after) = (self.reading?, Reading::now()?);
        Some(share(before, after, self.at.elapsed()))
    }
}

fn share(before: Reading, after: Reading, wall: Duration) -> f64 {
    let seconds = |ticks: u64| {
        #[expect(clippy::cast_precision_loss, reason = "ticks of one run are few")]
        let ticks = ticks as f64;
        ticks * TICK.as_secs_f64()
    };
    let idle = seconds(after.idle.saturating_sub(before.idle));
    let own = seconds(after.own.saturating_sub(before.own));
    let others = f64::from(after.processors) * wall.as_secs_f64() - idle - own;
    (others / wall.as_secs_f64()).max(0.0)
}

impl Reading {
    fn now() -> Option<Self> {
        let stat = std::fs::read_to_string("/proc/stat").ok()?;
        let all = stat.lines().next()?;
        let columns: Vec<u64> = all.split_whitespace().skip(1).map_while(|word| word.parse().ok()).collect();
        // user nice system idle iowait …
        let idle = columns.get(3)? + columns.get(4)?;
        let processors = stat.lines().skip(1).take_while(|line| line.starts_with("cpu")).count();
        let (own, children) = used()?;
        Some(Self { idle, own: own + children, processors: u32::try_from(processors).ok()? })
    }
}

/// Processor time of this process, and of the children it has reaped with all of theirs, in ticks.
fn used() -> Option<(u64, u64)> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name in parentheses may contain anything.
    let (_, rest) = stat.rsplit_once(") ")?;
    let field = |number: usize| rest.split(' ').nth(number - 3)?.parse::<u64>().ok();
    Some((field(14)? + field(15)?, field(16)? + field(17)?))
}

/// Processor time of all reaped children. A single difference is good to a tick only; the mean of many is
/// better, because the ticks fall anywhere.
pub(crate) fn children_used() -> Duration {
    reap_orphans();
    let (_, ticks) = used().unwrap_or_default();
    TICK * u32::try_from(ticks).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_neither_idle_nor_ours_is_others() {
        let before = Reading { idle: 1000, own: 50, processors: 2 };
        let after = Reading { idle: 1100, own: 80, processors: 2 };
        let got = share(before, after, Duration::from_secs(1));
        assert!((got - 0.7).abs() < 1e-9, "{got}");
        let idle = Reading { idle: 1300, ..after };
        assert!(share(before, idle, Duration::from_secs(1)).abs() < f64::EPSILON);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_machine_can_be_read() {
        let meter = Meter::start();
        std::thread::sleep(Duration::from_millis(50));
        assert!(meter.others().is_some());
    }
}
