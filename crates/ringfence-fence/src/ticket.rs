//! One command, from the moment somebody wants it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use ringfence_model::LockExt as _;

use crate::Background;

/// Wakes whoever waits for a command.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// Stands for one command: it can be cancelled before and while it runs, and it names who hears what its jobs write
/// after its end. Clones stand for the same command.
#[derive(Clone, Default)]
pub struct Ticket(Arc<Shared>);

#[derive(Default)]
struct Shared {
    cancelled: AtomicBool,
    waker: Mutex<Option<Waker>>,
    late: Option<Background>,
}

impl Ticket {
    /// For a command whose jobs nobody listens to.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Output that jobs of this command write after its end goes to `late`.
    #[must_use]
    pub fn with_late(late: Background) -> Self {
        Self(Arc::new(Shared { late: Some(late), ..Shared::default() }))
    }

    /// Ends the command, or keeps it from starting.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Release);
        if let Some(wake) = &*self.0.waker.locked() {
            wake();
        }
    }

    /// Whether the command shall end.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }

    /// From now on this wakes whoever waits for the command.
    pub fn wakes(&self, waker: Waker) {
        *self.0.waker.locked() = Some(waker);
    }

    /// Who hears what its jobs write after its end.
    #[must_use]
    pub fn late(&self) -> Option<&Background> {
        self.0.late.as_ref()
    }
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").field("cancelled", &self.is_cancelled()).finish_non_exhaustive()
    }
}
