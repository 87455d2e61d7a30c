//! One command, from the moment somebody wants it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::shell::session::Background;
use crate::wake::Wake;
use ringfence_model::LockExt as _;

/// Stands for one command of a shell: what may be said about it before and while it runs, and who hears what its
/// jobs say after its end. Clones stand for the same command.
#[derive(Clone, Default)]
pub struct Ticket(Arc<Shared>);

#[derive(Default)]
struct Shared {
    cancelled: AtomicBool,
    /// Who has to be told.
    wake: Mutex<Option<Arc<Wake>>>,
    late: Option<Background>,
}

impl Ticket {
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
        if let Some(wake) = &*self.0.wake.locked() {
            wake.wake();
        }
    }

    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }

    pub(crate) fn wakes(&self, wake: &Arc<Wake>) {
        *self.0.wake.locked() = Some(Arc::clone(wake));
    }

    pub(crate) fn late(&self) -> Option<&Background> {
        self.0.late.as_ref()
    }
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").field("cancelled", &self.is_cancelled()).finish_non_exhaustive()
    }
}
