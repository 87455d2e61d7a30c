//! What runs inside the sandbox.

use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

use crate::Outcome;

/// A moment that all processes of the machine agree on, in nanoseconds.
pub(crate) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// Opens the file for reading, again and again.
pub(crate) fn opens(file: &Path, count: usize) -> Outcome {
    let path = std::ffi::CString::new(file.as_os_str().as_encoded_bytes())?;
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let start = now();
        let opened = rustix::fs::open(path.as_c_str(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        times.push(now() - start);
        drop(opened);
    }
    times.sort_unstable();
    let mean = times.iter().sum::<u64>() / u64::try_from(count.max(1))?;
    Ok(json!({ "mean": mean, "p50": times[count / 2], "p99": times[count * 99 / 100] }))
}

/// Opens each file once, each of which somebody has to allow, and tells when the calls returned.
pub(crate) fn wait(files: &[&str]) -> Outcome {
    let mut returned = Vec::new();
    for file in files {
        // A directory is granted by a mount, a file by a descriptor; both are opened alike.
        rustix::fs::open(*file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        returned.push(now());
    }
    Ok(json!(returned))
}
