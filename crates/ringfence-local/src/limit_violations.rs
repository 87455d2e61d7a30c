//! The words for a limit that was reached.

use std::time::Duration;

use ringfence_model::{Limits, Operation, Violation, ViolationKind, now_ms};
use rustix::process::Signal;

/// How a command ended, as far as limits are concerned.
#[derive(Debug, Clone, Copy)]
pub struct End {
    pub timed_out: bool,
    pub signal: Option<i32>,
    pub exit_code: i32,
    /// None where it is not measured.
    pub cpu_us: Option<u64>,
    pub lasted: Duration,
}

/// The limits that hold for each process, for the clock and for the output: what of them was reached. `cut` is how much
/// came of each output of which not all is kept.
#[must_use]
pub fn by_one_process(limits: &Limits, end: &End, cut: &[Option<u64>]) -> Vec<Violation> {
    let mut reached = Vec::new();
    if end.timed_out {
        let lasted = end.lasted.as_millis();
        let message = match limits.timeout_ms {
            Some(limit) => format!("ended at the time limit of {limit} ms; it had run for {lasted} ms"),
            None => format!("ended at its time limit; it had run for {lasted} ms"),
        };
        reached.push(violation("time", true, message));
    }
    // A signal that nothing but the limit sends; through a shell it shows as its exit code.
    let ended_by =
        |signal: Signal| end.signal == Some(signal.as_raw()) || end.exit_code == 128 + signal.as_raw();
    if let Some(limit) = limits.max_file_size_bytes
        && ended_by(Signal::XFSZ)
    {
        let limit = size(limit);
        let message = format!("a file of {limit} was to grow beyond the limit of {limit}; it did not");
        reached.push(violation("fileSize", end.signal.is_some(), message));
    }
    if let Some(limit) = limits.max_cpu_seconds
        && (ended_by(Signal::XCPU)
            || (ended_by(Signal::KILL) && end.cpu_us.is_some_and(|used| used / 1_000_000 >= limit)))
    {
        // Less is what others of its processes used, or what the kernel counts by its ticks.
        let used = end.cpu_us.filter(|used| used / 1_000_000 >= limit).map_or_else(String::new, |used| {
            format!("; {}.{} s were used", used / 1_000_000, used / 100_000 % 10)
        });
        let message = format!("the limit of {limit} s of CPU time was reached{used}");
        reached.push(violation("cpu", end.signal.is_some(), message));
    }
    if let Some(limit) = limits.max_output_bytes {
        for total in cut.iter().flatten() {
            let message = format!("{} of output, of which {} are kept", size(*total), size(limit));
            reached.push(violation("output", true, message));
        }
    }
    reached
}

/// A file system of the sandbox's own is full: of so many bytes, or so many files.
#[must_use]
pub fn no_room(place: &std::path::Path, holds: Held) -> Violation {
    let holds = match holds {
        Held::Bytes(bytes) => size(bytes),
        Held::Files(files) => format!("{files} files"),
    };
    let message = format!(
        "the sandbox's own {} is full: it holds {holds}, its share of the memory limit; write into the project, or \
         raise the limit (--memory)",
        place.display(),
    );
    violation("files", false, message)
}

/// What fills a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    Bytes(u64),
    Files(u64),
}

/// The limits of a container: how many processes were killed for its memory, and how many were not started.
#[must_use]
pub fn of_the_container(killed: u64, refused: u64) -> Vec<Violation> {
    let mut found = Vec::new();
    if killed > 0 {
        let processes = if killed == 1 { "process was" } else { "processes were" };
        let message = format!("the container's memory limit was reached: {killed} {processes} killed");
        found.push(violation("memory", true, message));
    }
    if refused > 0 {
        let message = format!("the container's limit of processes was reached: {refused} were not started");
        found.push(violation("processes", true, message));
    }
    found
}

pub(crate) fn violation(resource: &str, certain: bool, message: String) -> Violation {
    Violation {
        rule: Some(format!("limits.{resource}")),
        time_ms: now_ms(),
        certain,
        message,
        ..Violation::new(ViolationKind::ResourceLimit, Operation::Limit, resource)
    }
}

/// `512 MiB`, `1.5 GiB`, `100 bytes`.
pub(crate) fn size(bytes: u64) -> String {
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
    fn limit_and_amount_are_told() {
        let limits =
            Limits { max_cpu_seconds: Some(1), max_file_size_bytes: Some(1 << 20), ..Limits::default() };
        let told = |signal: Signal, cpu_us| {
            let signal = Some(signal.as_raw());
            let end = End { timed_out: false, signal, exit_code: 1, cpu_us, lasted: Duration::ZERO };
            by_one_process(&limits, &end, &[]).into_iter().map(|told| told.message).collect::<Vec<_>>()
        };
        let cpu = "the limit of 1 s of CPU time was reached";
        assert_eq!(told(Signal::XCPU, Some(1_090_000)), [format!("{cpu}; 1.0 s were used")]);
        assert_eq!(told(Signal::XCPU, None), [cpu]);
        assert_eq!(told(Signal::XCPU, Some(800_000)), [cpu]);
        let size = "a file of 1 MiB was to grow beyond the limit of 1 MiB; it did not";
        assert_eq!(told(Signal::XFSZ, None), [size]);
    }

    #[test]
    fn sizes_are_for_people() {
        assert_eq!(size(100), "100 bytes");
        assert_eq!(size(512 << 20), "512 MiB");
        assert_eq!(size(1536 << 20), "1.5 GiB");
    }
}
