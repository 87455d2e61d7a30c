//! Resource limits: by a control group where one can be made, else by rlimits; and what is said when one
//! was reached.

use ringfence_linux::cgroup::{self, Cgroup, Created, Support};
use ringfence_linux::plan::Rlimit;
use ringfence_linux::warden::Outcome;
use ringfence_model::{Limits, Operation, Violation, ViolationKind};

use crate::capture::Capture;

/// How the limits of a policy are kept on this machine.
#[derive(Debug)]
pub(crate) struct LimitPlan {
    limits: Limits,
    cgroup: cgroup::Limits,
    pub(crate) rlimits: Vec<Rlimit>,
    pub(crate) degraded: Vec<String>,
}

impl LimitPlan {
    pub(crate) fn new(limits: &Limits) -> Self {
        let mut plan = Self {
            limits: limits.clone(),
            cgroup: cgroup::Limits::default(),
            rlimits: vec![Rlimit { resource: libc::RLIMIT_CORE, soft: 0, hard: 0 }],
            degraded: vec![],
        };
        plan.rlimit(libc::RLIMIT_CPU, limits.max_cpu_seconds);
        plan.rlimit(libc::RLIMIT_FSIZE, limits.max_file_size_bytes);
        plan.rlimit(libc::RLIMIT_NOFILE, limits.max_open_files);
        plan.rlimit(libc::RLIMIT_STACK, limits.max_stack_bytes);
        if limits.max_memory_bytes.is_some() || limits.max_processes.is_some() {
            plan.tree_limits(limits);
        }
        plan
    }

    fn rlimit(&mut self, resource: libc::__rlimit_resource_t, limit: Option<u64>) {
        if let Some(limit) = limit {
            // A hard limit above what the user may have cannot be set; his own is the tighter one then.
            let hard = ringfence_linux::sys::get_rlimit(resource).map_or(limit, |(_, hard)| hard.min(limit));
            self.rlimits.push(Rlimit { resource, soft: hard, hard });
        }
    }

    /// The limits that are about all processes together.
    fn tree_limits(&mut self, limits: &Limits) {
        let probe = Cgroup::probe();
        if let Some(memory) = limits.max_memory_bytes {
            match probe.memory {
                Support::Yes { .. } => self.cgroup.memory = Some(memory),
                Support::No { reason } => {
                    self.rlimit(libc::RLIMIT_DATA, Some(memory));
                    self.degraded
                        .push(format!("memory is limited for each process, not for all together: {reason}"));
                }
            }
        }
        if let Some(processes) = limits.max_processes {
            match probe.pids {
                Support::Yes { .. } => self.cgroup.pids = Some(processes),
                // The kernel does not count the processes of root.
                Support::No { reason } if rustix::process::geteuid().is_root() => {
                    self.degraded.push(format!("the number of processes is not limited: {reason}"));
                }
                Support::No { .. } => self.rlimit(libc::RLIMIT_NPROC, Some(processes)),
            }
        }
    }

    pub(crate) fn needs_cgroup(&self) -> bool {
        self.cgroup != cgroup::Limits::default()
    }

    /// Puts a process, and all it will start, under the group's limits.
    pub(crate) fn place(&self, pid: i32) -> std::io::Result<Cgroup> {
        let group = match Cgroup::create(&self.cgroup) {
            Ok(Created::Ready(group)) => group,
            Ok(Created::Unavailable { reason }) => return Err(std::io::Error::other(reason)),
            Err(error) => return Err(std::io::Error::other(error)),
        };
        if let Some(missing) = group.missing().first() {
            return Err(std::io::Error::other(missing.clone()));
        }
        let pid = rustix::process::Pid::from_raw(pid).ok_or(rustix::io::Errno::SRCH)?;
        group.attach(pid).map_err(std::io::Error::other)?;
        Ok(group)
    }

    /// What was reached, in words. `usage` is the group's, where there was one.
    pub(crate) fn reached(
        &self,
        outcome: &Outcome,
        signal: Option<i32>,
        exit_code: i32,
        usage: Option<&cgroup::Usage>,
        outputs: &[&Capture],
    ) -> Vec<Violation> {
        let mut reached = Vec::new();
        if outcome.timed_out
            && let Some(limit) = self.limits.timeout_ms
        {
            reached.push(violation("time", true, format!("ended after the time limit of {limit} ms")));
        } else if outcome.timed_out {
            reached.push(violation("time", true, "ended after its time limit".to_owned()));
        }
        if let Some(memory) = usage.and_then(|usage| usage.memory.as_ref())
            && memory.oom_kills > 0
        {
            let message = format!(
                "the memory limit of {} was reached; {} killed",
                size(memory.limit),
                count(memory.oom_kills, "process", "processes")
            );
            reached.push(violation("memory", true, message));
        }
        if let Some(pids) = usage.and_then(|usage| usage.pids.as_ref())
            && pids.refused > 0
        {
            let message = format!(
                "the limit of {} at once was reached; {} refused",
                count(pids.limit, "process", "processes"),
                count(pids.refused, "new one", "new ones")
            );
            reached.push(violation("processes", true, message));
        }
        // A signal that nothing but the limit sends; through a shell it shows as its exit code.
        let ended_by = |number: i32| signal == Some(number) || exit_code == 128 + number;
        if let Some(limit) = self.limits.max_file_size_bytes
            && ended_by(libc::SIGXFSZ)
        {
            let message = format!("a file grew beyond the limit of {}", size(limit));
            reached.push(violation("fileSize", signal.is_some(), message));
        }
        if let Some(limit) = self.limits.max_cpu_seconds
            && (ended_by(libc::SIGXCPU) || (ended_by(libc::SIGKILL) && outcome.cpu_us / 1_000_000 >= limit))
        {
            let message = format!("the limit of {limit} s of CPU time was reached");
            reached.push(violation("cpu", signal.is_some(), message));
        }
        if let Some(limit) = self.limits.max_output_bytes {
            for output in outputs.iter().filter(|output| output.truncated()) {
                let message =
                    format!("{} of output, of which {} are kept", size(output.total()), size(limit));
                reached.push(violation("output", true, message));
            }
        }
        reached
    }
}

fn violation(resource: &str, certain: bool, message: String) -> Violation {
    let kind = ViolationKind::ResourceLimit;
    Violation {
        kind,
        severity: kind.default_severity(),
        operation: Operation::Limit,
        resource: resource.to_owned(),
        access: None,
        reason: None,
        rule: Some(format!("limits.{resource}")),
        rule_source: None,
        pid: None,
        program: None,
        argv: vec![],
        time_ms: ringfence_linux::supervisor::now_ms(),
        certain,
        blocked: true,
        message,
    }
}

fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// `512 MiB`, `1.5 GiB`, `100 bytes`.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["bytes", "KiB", "MiB", "GiB"];
    let mut unit = 0;
    #[expect(clippy::cast_precision_loss, reason = "for people to read")]
    let mut value = bytes as f64;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(value.fract() != 0.0);
    format!("{value:.digits$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_for_people() {
        assert_eq!(size(100), "100 bytes");
        assert_eq!(size(512 << 20), "512 MiB");
        assert_eq!(size(1536 << 20), "1.5 GiB");
    }

    #[test]
    fn a_timeout_names_its_limit() {
        let plan = LimitPlan::new(&Limits { timeout_ms: Some(300), ..Limits::default() });
        let outcome = Outcome {
            status: None,
            cpu_us: 0,
            max_rss_kib: 0,
            timed_out: true,
            cancelled: false,
            exec_errno: None,
        };
        let reached = plan.reached(&outcome, None, 124, None, &[]);
        assert_eq!(reached.len(), 1);
        assert_eq!(reached[0].message, "ended after the time limit of 300 ms");
    }
}
