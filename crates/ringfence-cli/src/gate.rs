//! The gate: who reads code for it, and how its refusals are told.

use std::sync::Arc;

use ringfence::gate::{CodeReader, Worker};
use ringfence::model::visible;
use ringfence::session::Refusal;

use crate::report;

/// Has Python and JavaScript read by this program, in a process that is locked in. None is started before such
/// code comes.
pub(crate) fn reader() -> Arc<dyn CodeReader> {
    // This name holds when the file was replaced meanwhile, too.
    #[cfg(target_os = "linux")]
    let program = std::path::PathBuf::from("/proc/self/exe");
    #[cfg(not(target_os = "linux"))]
    let program = std::env::current_exe().unwrap_or_default();
    Arc::new(Worker::new(program))
}

/// Says what was refused, why, and what to do.
pub(crate) fn explain(refusal: &Refusal) {
    report::say(&format!("refused: {}", visible(&refusal.message())));
    for hint in refusal.hints() {
        report::say(&format!("  hint: {}", visible(&hint)));
    }
    report::say(
        "  hint: `ringfence check` shows the whole verdict; `ringfence run --no-gate` runs it all the same, inside the fence",
    );
}
