//! Locks whose data stays usable when somebody panicked while holding them.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locking without a question about panics of others: what a lock guards here is whole after each statement.
pub trait LockExt<T: ?Sized> {
    fn locked(&self) -> MutexGuard<'_, T>;
}

impl<T: ?Sized> LockExt<T> for Mutex<T> {
    fn locked(&self) -> MutexGuard<'_, T> {
        self.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_another_holder_stops_nobody() {
        let mutex = Mutex::new(1);
        let panicked = std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    *mutex.locked() = 2;
                    let _held = mutex.locked();
                    panic!("while it is held");
                })
                .join()
        });
        assert!(panicked.is_err() && mutex.is_poisoned());
        assert_eq!(*mutex.locked(), 2);
    }
}
