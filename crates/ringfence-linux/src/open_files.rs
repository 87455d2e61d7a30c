//! How many descriptors a program that keeps many sandboxes may have open.
//!
//! Each takes some twenty. The usual limit is 1,024, for the sake of programs that cannot count further, and may be
//! raised by those that can: this program, but not the commands it starts, which get what the caller had.

use std::sync::OnceLock;

use crate::sys;

/// More than anybody needs; some systems allow a thousand times as many.
const ENOUGH: u64 = 1 << 20;

static CALLERS: OnceLock<u64> = OnceLock::new();

/// Raises the limit as far as this process may.
pub fn raise() {
    let Ok((soft, hard)) = sys::get_rlimit(libc::RLIMIT_NOFILE) else { return };
    let most = hard.min(ENOUGH);
    if soft < most && sys::set_rlimit(libc::RLIMIT_NOFILE, most, hard).is_ok() {
        let _ = CALLERS.set(soft);
    }
}

/// What it was before, if it was raised.
#[must_use]
pub fn before() -> Option<u64> {
    CALLERS.get().copied()
}
