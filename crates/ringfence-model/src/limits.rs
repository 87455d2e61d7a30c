//! Resource limits. `None` means no limit of that kind.

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// What one sandbox may use. A value equal to the limit is within it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Limits {
    /// Memory of the whole process tree.
    #[serde(alias = "max_memory_bytes")]
    pub max_memory_bytes: Option<u64>,
    /// CPU time of each process.
    #[serde(alias = "max_cpu_seconds")]
    pub max_cpu_seconds: Option<u64>,
    /// Bytes kept of each output stream; the head and the tail stay, the middle is dropped.
    #[serde(alias = "max_output_bytes")]
    pub max_output_bytes: Option<u64>,
    /// Size of any one file written.
    #[serde(alias = "max_file_size_bytes")]
    pub max_file_size_bytes: Option<u64>,
    /// Processes and threads alive at once.
    #[serde(alias = "max_processes")]
    pub max_processes: Option<u64>,
    /// Open files of each process.
    #[serde(alias = "max_open_files")]
    pub max_open_files: Option<u64>,
    #[serde(alias = "max_stack_bytes")]
    pub max_stack_bytes: Option<u64>,
    /// Files opened for writing. Nobody counts them: nothing starts with it.
    #[serde(alias = "max_file_writes")]
    pub max_file_writes: Option<u64>,
    /// Bytes written to all files together. Nobody counts them: nothing starts with it.
    #[serde(alias = "max_total_write_bytes")]
    pub max_total_write_bytes: Option<u64>,
    /// Wall-clock time of one command.
    #[serde(alias = "timeout_ms")]
    pub timeout_ms: Option<u64>,
}

/// See [`Limits::kept_output`].
const USUALLY_KEPT: u64 = 10 << 20;

impl Limits {
    /// Bytes that a result keeps of each output stream, also where there is no limit: a command that writes without end
    /// must not fill the memory of whoever runs it. All of it is streamed.
    #[must_use]
    pub fn kept_output(&self) -> u64 {
        self.max_output_bytes.unwrap_or(USUALLY_KEPT)
    }

    /// For everyday development: wide enough for builds, narrow enough that a runaway command
    /// cannot take the machine down.
    #[must_use]
    pub fn development() -> Self {
        Self {
            max_processes: Some(4096),
            max_memory_bytes: Self::memory_for_development(),
            ..Self::default()
        }
    }

    /// Three quarters of the machine's memory, where that is known: no build that works on this machine needs more, and
    /// the rest is enough to go on.
    #[must_use]
    pub fn memory_for_development() -> Option<u64> {
        static MEMORY: OnceLock<Option<u64>> = OnceLock::new();
        *MEMORY.get_or_init(|| {
            let text = std::fs::read_to_string("/proc/meminfo").ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
            let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
            // In round numbers, as people would set it.
            Some((kib * 1024 / 4 * 3 / (256 * MIB)).max(1) * 256 * MIB)
        })
    }

    /// Small tasks: 512 MiB, 60 s of CPU, 10 processes.
    #[must_use]
    pub fn standard() -> Self {
        Self::sized(512 * MIB, 60, 10 * MIB, 50 * MIB, 10, 100, 8 * MIB)
    }

    #[must_use]
    pub fn permissive() -> Self {
        Self::sized(4 * GIB, 300, 100 * MIB, GIB, 100, 1000, 64 * MIB)
    }

    #[must_use]
    pub fn strict() -> Self {
        Self::sized(128 * MIB, 10, MIB, 10 * MIB, 1, 20, 2 * MIB)
    }

    #[must_use]
    pub fn unlimited() -> Self {
        Self::default()
    }

    fn sized(memory: u64, cpu: u64, output: u64, file: u64, processes: u64, files: u64, stack: u64) -> Self {
        Self {
            max_memory_bytes: Some(memory),
            max_cpu_seconds: Some(cpu),
            max_output_bytes: Some(output),
            max_file_size_bytes: Some(file),
            max_processes: Some(processes),
            max_open_files: Some(files),
            max_stack_bytes: Some(stack),
            ..Self::default()
        }
    }

    /// The preset of that name, if there is one.
    #[must_use]
    pub fn preset(name: &str) -> Option<Self> {
        match name {
            "development" => Some(Self::development()),
            "default" | "standard" => Some(Self::standard()),
            "permissive" => Some(Self::permissive()),
            "strict" => Some(Self::strict()),
            "unlimited" => Some(Self::unlimited()),
            _ => None,
        }
    }

    /// The stricter of the two, limit by limit.
    #[must_use]
    pub fn tightened_by(&self, other: &Self) -> Self {
        fn min(a: Option<u64>, b: Option<u64>) -> Option<u64> {
            match (a, b) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            }
        }
        Self {
            max_memory_bytes: min(self.max_memory_bytes, other.max_memory_bytes),
            max_cpu_seconds: min(self.max_cpu_seconds, other.max_cpu_seconds),
            max_output_bytes: min(self.max_output_bytes, other.max_output_bytes),
            max_file_size_bytes: min(self.max_file_size_bytes, other.max_file_size_bytes),
            max_processes: min(self.max_processes, other.max_processes),
            max_open_files: min(self.max_open_files, other.max_open_files),
            max_stack_bytes: min(self.max_stack_bytes, other.max_stack_bytes),
            max_file_writes: min(self.max_file_writes, other.max_file_writes),
            max_total_write_bytes: min(self.max_total_write_bytes, other.max_total_write_bytes),
            timeout_ms: min(self.timeout_ms, other.timeout_ms),
        }
    }
}
