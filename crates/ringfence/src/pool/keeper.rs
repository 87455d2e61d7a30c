//! The thread that keeps a pool warm and sweeps.

use std::sync::{Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

use ringfence_fence::wait_for;

use super::pool::Core;

/// As long as making or destroying one sandbox may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// A message to the thread.
#[derive(Debug, Default)]
pub(super) struct Bell {
    rung: Mutex<Rung>,
    heard: Condvar,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Rung {
    #[default]
    Not,
    LookNow,
    End,
}

impl Bell {
    pub(super) fn look_now(&self) {
        self.ring(Rung::LookNow);
    }

    pub(super) fn end(&self) {
        self.ring(Rung::End);
    }

    fn ring(&self, how: Rung) {
        let mut rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        if *rung != Rung::End {
            *rung = how;
        }
        self.heard.notify_all();
    }

    /// False at the end.
    fn wait(&self, longest: Duration) -> bool {
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.heard.wait_timeout_while(rung, longest, |rung| *rung == Rung::Not);
        let (mut rung, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let ended = *rung == Rung::End;
        if !ended {
            *rung = Rung::Not;
        }
        !ended
    }
}

/// Until the bell says so, or nobody has the pool any more.
pub(super) fn keep(core: &Weak<Core>, bell: &Bell, interval: Duration) {
    while bell.wait(interval) {
        let Some(core) = core.upgrade() else { return };
        // Failures are counted there, and tried again at the next look.
        wait_for(Box::pin(async { core.tend().await }), PATIENCE);
    }
}
