//! Groups whose owner, and its janitor, were killed.
//!
//! Runs in the janitor: allocates nothing, and makes its calls through rustix.

use super::name::Name;
use rustix::fs::{AtFlags, Mode, OFlags, RawDir};
use rustix::io::Errno;
use rustix::time::ClockId;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Younger groups are left alone: one that was just made is empty as well.
pub(super) const AGE: Duration = Duration::from_secs(10);

/// Removes the empty groups in `base` that are older than `age` and whose owner is gone.
///
/// Processes are not killed. An owner in a pid namespace below ours looks gone from here, and its sandbox may run. A
/// sandbox whose owner is really gone ends by itself.
pub(super) fn sweep(base: BorrowedFd<'_>, age: Duration) {
    // The position of `base` is shared with our parent.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(dir) = rustix::fs::openat(base, c".", flags, Mode::empty()) else { return };
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut entries = RawDir::new(&dir, &mut buffer);
    while let Some(Ok(entry)) = entries.next() {
        if is_stale(base, entry.file_name(), age) {
            // The kernel refuses to remove one that is not empty.
            let _ = rustix::fs::unlinkat(base, entry.file_name(), AtFlags::REMOVEDIR);
        }
    }
}

fn is_stale(base: BorrowedFd<'_>, name: &CStr, age: Duration) -> bool {
    let Some(owner) = Name::owner(name.to_bytes()) else { return false };
    if rustix::process::test_kill_process(owner) != Err(Errno::SRCH) {
        return false;
    }
    let Ok(stat) = rustix::fs::statat(base, name, AtFlags::SYMLINK_NOFOLLOW) else { return false };
    let now = rustix::time::clock_gettime(ClockId::Realtime).tv_sec;
    now.checked_sub(stat.st_mtime).and_then(|passed| u64::try_from(passed).ok()) >= Some(age.as_secs())
}
