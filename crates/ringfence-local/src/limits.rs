//! Resource limits: by a control group where one can be made, else by rlimits; and what is said when one
//! was reached.

use ringfence_linux::cgroup::{self, Cgroup, Created, Reached, Support};
use ringfence_linux::open_files;
use ringfence_linux::plan::{OWN_PROCESSES, Rlimit};
use ringfence_model::{Degradation, DegradationCode, Limits, Violation};

use crate::limit_violations::{self, End, size, violation};

/// How the limits of a policy are kept on this machine.
#[derive(Debug)]
pub(crate) struct LimitPlan {
    limits: Limits,
    cgroup: cgroup::Limits,
    pub(crate) rlimits: Vec<Rlimit>,
    /// Kept by the kernel for the user, who is not told when it is reached.
    pub(crate) uncounted_processes: Option<u64>,
    pub(crate) degraded: Vec<Degradation>,
}

impl LimitPlan {
    pub(crate) fn new(limits: &Limits) -> Self {
        let mut plan = Self {
            limits: limits.clone(),
            cgroup: cgroup::Limits::default(),
            rlimits: vec![Rlimit { resource: libc::RLIMIT_CORE, soft: 0, hard: 0 }],
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
                    self.rlimit(libc::RLIMIT_DATA, Some(memory));
                    self.degraded.push(Degradation::new(
                        DegradationCode::MemoryLimit,
                        format!("memory is limited for each process, not for all together: {reason}"),
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
        cut: &[Option<u64>],
    ) -> Vec<Violation> {
        let mut reached = limit_violations::by_one_process(&self.limits, end, cut);
        let of_the_group = usage.map_or_else(Reached::default, |usage| Reached {
            oom_kills: usage.memory.map_or(0, |memory| memory.oom_kills),
            refused: usage.pids.map_or(0, |pids| pids.refused),
        });
        reached.extend(self.together(of_the_group, usage));
        reached
    }

    /// What was reached of the limits that hold for all processes together. `usage` is the group's, where it is over.
    pub(crate) fn together(&self, counted: Reached, usage: Option<&cgroup::Usage>) -> Vec<Violation> {
        let mut reached = vec![];
        if let Some(limit) = self.cgroup.memory
            && counted.oom_kills > 0
        {
            let peak = usage.and_then(|usage| usage.memory?.peak);
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
        let mut plan = LimitPlan::new(&Limits { max_processes: Some(40), ..Limits::default() });
        plan.cgroup = cgroup::Limits { memory: Some(128 << 20), pids: Some(48) };
        let memory = cgroup::MemoryUsage { limit: 128 << 20, peak: Some(127 << 20), oom_kills: 1 };
        let usage = cgroup::Usage { memory: Some(memory), pids: None };
        let told = plan.together(Reached { oom_kills: 1, refused: 3 }, Some(&usage));
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
        let plan = LimitPlan::new(&Limits { timeout_ms: Some(300), ..Limits::default() });
        let lasted = std::time::Duration::from_millis(305);
        let end = End { timed_out: true, signal: None, exit_code: 124, cpu_us: Some(0), lasted };
        let reached = plan.reached(&end, None, &[]);
        assert_eq!(reached.len(), 1);
        assert_eq!(reached[0].message, "ended at the time limit of 300 ms; it had run for 305 ms");
    }
}
