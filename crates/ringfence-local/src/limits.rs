//! Resource limits: by a control group where one can be made, else by rlimits; and what is said when one
//! was reached.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ringfence_linux::cgroup::{self, Cgroup, Created, Reached, Support};
use ringfence_linux::open_files;
use ringfence_linux::plan::{OWN_PROCESSES, Rlimit};
use ringfence_model::{Degradation, DegradationCode, Limits, Violation};

use crate::limit_violations::{self, End, size, violation};
use crate::memory_watch::Tally;

/// Tells which limits were reached while a sandbox lives.
#[derive(Debug)]
pub(crate) struct Gauge {
    pub(crate) group: Option<cgroup::Gauge>,
    pub(crate) tally: Arc<Tally>,
}

impl Gauge {
    pub(crate) fn read(&self) -> Reached {
        let mut reached = self.group.as_ref().map(cgroup::Gauge::read).unwrap_or_default();
        reached.oom_kills += self.tally.ended.load(Ordering::Relaxed);
        reached
    }
}

/// What was seen of the memory of a sandbox without a control group.
#[derive(Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) tally: &'a Tally,
    /// The most that one process used, in bytes.
    pub(crate) largest: u64,
}

/// How the limits of a policy are kept on this machine.
#[derive(Debug)]
pub(crate) struct LimitPlan {
    limits: Limits,
    home: PathBuf,
    cgroup: cgroup::Limits,
    pub(crate) rlimits: Vec<Rlimit>,
    /// Memory of all processes together that nobody keeps but [`Tally::watch`](crate::memory_watch::Tally::watch).
    pub(crate) watched_memory: Option<u64>,
    /// Kept by the kernel for the user, who is not told when it is reached.
    pub(crate) uncounted_processes: Option<u64>,
    pub(crate) degraded: Vec<Degradation>,
}

impl LimitPlan {
    /// `home` is the one of the sandbox.
    pub(crate) fn new(limits: &Limits, home: &Path) -> Self {
        let mut plan = Self {
            limits: limits.clone(),
            home: home.to_owned(),
            cgroup: cgroup::Limits::default(),
            rlimits: vec![Rlimit { resource: libc::RLIMIT_CORE, soft: 0, hard: 0 }],
            watched_memory: None,
            uncounted_processes: None,
            degraded: vec![],
        };
        plan.rlimit(libc::RLIMIT_CPU, limits.max_cpu_seconds);
        plan.rlimit(libc::RLIMIT_FSIZE, limits.max_file_size_bytes);
        plan.rlimit(libc::RLIMIT_NOFILE, limits.max_open_files);
        plan.callers_open_files();
        plan.rlimit(libc::RLIMIT_STACK, limits.max_stack_bytes);
        if limits.max_memory_bytes.is_some() || limits.max_processes.is_some() {
            plan.tree_limits(limits);
        }
        plan
    }

    /// What this program raised for itself is not for its commands.
    fn callers_open_files(&mut self) {
        let resource = libc::RLIMIT_NOFILE;
        if self.limits.max_open_files.is_none()
            && let Some(soft) = open_files::before()
            && let Ok((_, hard)) = ringfence_linux::sys::get_rlimit(resource)
        {
            self.rlimits.push(Rlimit { resource, soft, hard });
        }
    }

    fn rlimit(&mut self, resource: libc::__rlimit_resource_t, limit: Option<u64>) {
        if let Some(limit) = limit {
            // At the soft limit of CPU time comes a signal that nothing else sends, and a second later the end
            // for whoever ignores it; with one limit there would be only the end, which tells nothing.
            let hard = if resource == libc::RLIMIT_CPU { limit.saturating_add(1) } else { limit };
            // A hard limit above what the user may have cannot be set; his own is the tighter one then.
            let hard = ringfence_linux::sys::get_rlimit(resource).map_or(hard, |(_, own)| own.min(hard));
            self.rlimits.push(Rlimit { resource, soft: limit.min(hard), hard });
        }
    }

    /// The limits that are about all processes together.
    fn tree_limits(&mut self, limits: &Limits) {
        // Making one to see costs as much as making the one that is needed; if that fails, nothing starts.
        let probe = Cgroup::outlook();
        if let Some(memory) = limits.max_memory_bytes {
            match probe.memory {
                Support::Yes { .. } => self.cgroup.memory = Some(memory),
                Support::No { reason } => {
                    self.watched_memory = Some(memory);
                    // What a process reserves is more than it uses; one that gets to twice the limit was not seen.
                    if memory < Limits::memory_for_development().unwrap_or(0) {
                        self.rlimit(libc::RLIMIT_DATA, Some(memory.saturating_mul(2)));
                    }
                    self.degraded.push(Degradation::new(
                        DegradationCode::MemoryLimit,
                        format!(
                            "the memory of all processes together is added up several times a second, and the largest \
                             is ended when it is too much; the kernel itself keeps no limit for them: {reason}"
                        ),
                    ));
                }
            }
        }
        if let Some(enforced) = limits.max_processes.map(|most| most.saturating_add(OWN_PROCESSES)) {
            match probe.pids {
                Support::Yes { .. } => self.cgroup.pids = Some(enforced),
                // The kernel does not count the processes of root.
                Support::No { reason } if rustix::process::geteuid().is_root() => {
                    self.degraded.push(Degradation::new(
                        DegradationCode::ProcessLimit,
                        format!("the number of processes is not limited: {reason}"),
                    ));
                }
                Support::No { .. } => {
                    self.rlimit(libc::RLIMIT_NPROC, Some(enforced));
                    self.uncounted_processes = Some(enforced);
                }
            }
        }
    }

    /// How large the sandbox's own file system at `place` may be: all of them together not more than its memory.
    pub(crate) fn room(&self, place: &Path) -> Option<u64> {
        let sixteenths = match place.to_str() {
            Some("/tmp") => 6,
            Some("/var/tmp" | "/dev/shm" | "/run") => 1,
            _ if place == self.home => 6,
            _ => 1,
        };
        self.limits.max_memory_bytes.map(|memory| memory / 16 * sixteenths)
    }

    pub(crate) fn needs_cgroup(&self) -> bool {
        self.cgroup != cgroup::Limits::default()
    }

    /// Makes the group that keeps the limits for all processes together.
    pub(crate) fn group(&self) -> std::io::Result<Cgroup> {
        let group = match Cgroup::create(&self.cgroup) {
            Ok(Created::Ready(group)) => group,
            Ok(Created::Unavailable { reason }) => return Err(std::io::Error::other(reason)),
            Err(error) => return Err(std::io::Error::other(error)),
        };
        if let Some(missing) = group.missing().first() {
            return Err(std::io::Error::other(missing.clone()));
        }
        Ok(group)
    }

    /// What was reached, in words. `usage` is the group's, where there was one.
    pub(crate) fn reached(
        &self,
        end: &End,
        usage: Option<&cgroup::Usage>,
        seen: &Seen<'_>,
        cut: &[Option<u64>],
    ) -> Vec<Violation> {
        let mut reached = limit_violations::by_one_process(&self.limits, end, cut);
        let counted = Reached {
            oom_kills: usage.and_then(|usage| usage.memory).map_or(0, |memory| memory.oom_kills)
                + seen.tally.ended.load(Ordering::Relaxed),
            refused: usage.and_then(|usage| usage.pids).map_or(0, |pids| pids.refused),
        };
        let in_group = usage.and_then(|usage| usage.memory?.peak);
        let peak =
            in_group.or_else(|| Some(seen.tally.peak.load(Ordering::Relaxed)).filter(|peak| *peak > 0));
        reached.extend(self.together(counted, peak));
        // Nobody was ended: the kernel refused one process what it wanted, or it left before it was looked at.
        let was_missed = |limit: &u64| counted.oom_kills == 0 && end.exit_code != 0 && seen.largest >= *limit;
        if let Some(limit) = self.watched_memory.filter(was_missed) {
            let used = size(seen.largest);
            let message = format!("the memory limit of {} was reached; one process used {used}", size(limit));
            reached.push(violation("memory", false, message));
        }
        reached
    }

    /// What was reached of the limits that hold for all processes together. `peak` is the most memory that was in use,
    /// where it is known.
    pub(crate) fn together(&self, counted: Reached, peak: Option<u64>) -> Vec<Violation> {
        let mut reached = vec![];
        if let Some(limit) = self.cgroup.memory.or(self.watched_memory)
            && counted.oom_kills > 0
        {
            let peak = peak.map_or_else(String::new, |peak| format!("; {} were in use", size(peak)));
            let message = format!(
                "the memory limit of {} was reached{peak}; {} killed",
                size(limit),
                count(counted.oom_kills, "process", "processes")
            );
            reached.push(violation("memory", true, message));
        }
        if let Some(limit) = self.limits.max_processes
            && counted.refused > 0
        {
            let message = format!(
                "the limit of {} at once was reached; {} refused",
                count(limit, "process", "processes"),
                count(counted.refused, "new one", "new ones")
            );
            reached.push(violation("processes", true, message));
        }
        reached
    }
}

fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_processes_are_told_with_limit_and_amount() {
        let mut plan =
            LimitPlan::new(&Limits { max_processes: Some(40), ..Limits::default() }, Path::new("/h"));
        plan.cgroup = cgroup::Limits { memory: Some(128 << 20), pids: Some(48) };
        let told = plan.together(Reached { oom_kills: 1, refused: 3 }, Some(127 << 20));
        let told: Vec<&str> = told.iter().map(|told| told.message.as_str()).collect();
        assert_eq!(
            told,
            [
                "the memory limit of 128 MiB was reached; 127 MiB were in use; 1 process killed",
                "the limit of 40 processes at once was reached; 3 new ones refused",
            ]
        );
    }

    #[test]
    fn a_timeout_names_its_limit() {
        let plan = LimitPlan::new(&Limits { timeout_ms: Some(300), ..Limits::default() }, Path::new("/h"));
        let lasted = std::time::Duration::from_millis(305);
        let end = End { timed_out: true, signal: None, exit_code: 124, cpu_us: Some(0), lasted };
        let reached = plan.reached(&end, None, &Seen { tally: &Tally::default(), largest: 0 }, &[]);
        assert_eq!(reached.len(), 1);
        assert_eq!(reached[0].message, "ended at the time limit of 300 ms; it had run for 305 ms");
    }
}
