//! Which sandbox a session works in: made when it is first needed, one for each scope, rebuilt with what a person
//! granted meanwhile, gone at the shutdown.
//!
//! | module | what it holds |
//! |---|---|
//! | [`who`] | whether a session is sandboxed at all |
//! | [`place`] | who shares a sandbox, and in which directory it works |
//! | [`context`] | everything that is decided about a session, and by which key |
//! | `slots` | the accounting: one sandbox for each scope key, never two |
//! | [`core`] | [`Manager`]: everything together |
//! | [`providers`] | the providers that are there from the start |
//! | [`unfenced`] | provider `none` |
//!
//! **Invariant:** a sandbox that cannot be made is an error for whoever asked. Nothing is run in a weaker one instead.
//! **Invariant:** the lock of one scope never waits for another scope's.
#![doc = include_str!("../../../../docs/manager.md")]

pub mod context;
pub mod core;
pub mod place;
pub mod providers;
mod slots;
#[cfg(test)]
pub(crate) mod tests;
pub mod unfenced;
pub mod who;

pub use context::SandboxContext;
pub use core::{Manager, ManagerOptions, Warn};
pub use place::{Place, root as workspace_root};
pub use providers::built_in;
pub use unfenced::Unfenced;
pub use who::{RuntimeStatus, SessionRules};
