//! Sandboxes whose first process is older than their plan.
//!
//! | module | |
//! |---|---|
//! | [`one`] | for a program that makes one sandbox: pid 1 is cloned first thing |
//! | [`server`] | for a program that makes many: a small process clones each pid 1 |
//! | `child` | such a pid 1, which waits for its plan |
//! | `wire` | the plan as bytes |

pub(crate) mod child;
pub mod one;
pub mod server;
pub(crate) mod wire;
