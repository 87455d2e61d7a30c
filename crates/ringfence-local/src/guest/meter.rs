//! Limits of the place around a guest: how often they were reached.
//!
//! A container shows its own control group below `/sys/fs/cgroup`, read-only. What was refused or killed there was so by limits
//! that the guest neither made nor can report otherwise.

use std::path::Path;

use ringfence_model::Violation;

use crate::limit_violations;

/// Version 1 has a directory for each controller, version 2 one for all.
const MEMORY: [&str; 2] = ["memory/memory.oom_control", "memory.events"];
const PROCESSES: [&str; 2] = ["pids/pids.events", "pids.events"];

/// Counts since the container was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Meter {
    oom_kills: u64,
    refused: u64,
}

impl Meter {
    pub(super) fn read() -> Self {
        Self::read_below(Path::new("/sys/fs/cgroup"))
    }

    fn read_below(root: &Path) -> Self {
        let count = |files: &[&str], key: &str| {
            let text = files.iter().find_map(|file| std::fs::read_to_string(root.join(file)).ok())?;
            let line = text.lines().filter_map(|line| line.split_once(' ')).find(|(name, _)| *name == key)?;
            line.1.trim().parse().ok()
        };
        Self {
            oom_kills: count(&MEMORY, "oom_kill").unwrap_or(0),
            refused: count(&PROCESSES, "max").unwrap_or(0),
        }
    }

    /// What was reached since `before`.
    pub(super) fn since(self, before: Self) -> Vec<Violation> {
        limit_violations::of_the_container(
            self.oom_kills.saturating_sub(before.oom_kills),
            self.refused.saturating_sub(before.refused),
        )
    }
}

/// Makes everything that runs below this process the first to be killed when memory is short: the guest itself must outlive what
/// it reports on. What is started later inherits it.
pub(super) fn sacrifice_children() {
    const SCORE: &str = "500";
    let own = std::process::id();
    let numbers = || {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
    };
    let parent = |pid: u32| -> Option<u32> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in between may have blanks and parentheses.
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    let below = |pid: u32| {
        let mut at = pid;
        // A process that ends meanwhile breaks the chain; then it needs no score.
        while let Some(above) = parent(at) {
            if above == own {
                return true;
            }
            at = above;
        }
        false
    };
    for pid in numbers().filter(|pid| *pid != own && below(*pid)) {
        // Where it is not allowed the kernel chooses as always.
        let _ = std::fs::write(format!("/proc/{pid}/oom_score_adj"), SCORE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_read_and_only_what_came_is_told() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Meter::read_below(root.path()), Meter::default());
        std::fs::write(root.path().join("memory.events"), "max 9\noom 1\noom_kill 2\n").unwrap();
        std::fs::write(root.path().join("pids.events"), "max 7\n").unwrap();
        let second = Meter::read_below(root.path());
        assert_eq!(second, Meter { oom_kills: 2, refused: 7 });
        for (file, text) in
            [("memory/memory.oom_control", "under_oom 0\noom_kill 3\n"), ("pids/pids.events", "max 8\n")]
        {
            let file = root.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let first = Meter::read_below(root.path());
        assert_eq!(first, Meter { oom_kills: 3, refused: 8 });
        let told: Vec<String> = first.since(second).into_iter().map(|violation| violation.resource).collect();
        assert_eq!(told, ["memory", "processes"]);
        assert!(first.since(first).is_empty());
    }
}
