//! Groups whose owner, and its janitor, are gone.

use super::find::{self, Base, Controller};
use super::group::{self, Member};
use super::name::Name;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::AsFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A group younger than this is left alone: its owner may be in a pid namespace that we cannot see into.
const AGE: Duration = Duration::from_secs(10);

/// Removes groups left behind where ours would be made, with what runs in them, and gives their names.
///
/// Needed only after a janitor was killed as well, or the machine's power was cut under a saved state.
pub fn sweep_stale() -> Vec<String> {
    sweep_older_than(AGE)
}

pub(super) fn sweep_older_than(age: Duration) -> Vec<String> {
    let mut swept = Vec::new();
    for base in find::find(&[Controller::Memory, Controller::Pids]).bases {
        let Ok(entries) = rustix::fs::Dir::read_from(&base.dir) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if is_stale(&base, name, age) && group::remove(base.dir.as_fd(), name, group::PATIENCE).is_ok() {
                swept.push(name.to_string_lossy().into_owned());
            }
        }
    }
    swept
}

fn is_stale(base: &Base, name: &CStr, age: Duration) -> bool {
    let Some(owner) = Name::owner(name.to_bytes()) else { return false };
    if rustix::process::test_kill_process(owner) != Err(Errno::SRCH) {
        return false;
    }
    let Ok(stat) = rustix::fs::statat(&base.dir, name, AtFlags::SYMLINK_NOFOLLOW) else { return false };
    let made = UNIX_EPOCH + Duration::from_secs(stat.st_mtime.try_into().unwrap_or(u64::MAX / 4));
    if SystemTime::now().duration_since(made).unwrap_or_default() < age {
        return false;
    }
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let Ok(dir) = rustix::fs::openat(&base.dir, name, flags, Mode::empty()) else { return false };
    let mut foreign = false;
    group::each_member(dir.as_fd(), |member| foreign |= member == Member::Foreign);
    !foreign
}
