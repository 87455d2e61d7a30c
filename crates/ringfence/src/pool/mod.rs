//! Sandboxes that are made before they are needed.
//!
//! A [`Pool`] keeps some of a provider's sandboxes warm, gives each session one, and never has more than it may. It works
//! for any provider; all its sandboxes are made from the same options.
//!
//! | module | what it holds |
//! |---|---|
//! | [`book`] | the accounting: who has what, what comes next; no I/O, no clock |
//! | [`pool`] | [`Pool`]: the book and real sandboxes |
//! | `keeper` | the thread that keeps it warm and sweeps |
//!
//! **Invariant:** whatever exists is in the book, from before it is made until after it is destroyed, and the book is never
//! longer than `max`.
//! **Invariant:** a sandbox that a session has used is never given to another session.

pub mod book;
mod keeper;
#[allow(clippy::module_inception, reason = "the pool of the module pool")]
pub mod pool;
#[cfg(test)]
mod tests;

pub use book::{PoolConfig, State, Statistics};
pub use pool::Pool;
