//! The register of sandboxes and what keeps it tidy: listing, removing, pruning, and finding what nobody remembers.
//!
//! The register is the ledger's table of sandboxes (see `ringfence_ledger::registry`). Providers whose sandboxes outlive their
//! process write their own rows; for the others [`Manager`](crate::manager::Manager) does, and the rows go with the process.
//!
//! | module | what it holds |
//! |---|---|
//! | `keeper` | [`Housekeeper`]: list, remove |
//! | `sweep` | old ones go, forgotten ones are found |
//! | `register` | rows of sandboxes that end with their process |
//! | [`selection`] | which ones a person means |
//!
//! **Invariant:** a row goes only after its sandbox is gone. A sandbox that cannot be removed now stays, with the reason, for the next sweep.
//! **Invariant:** what somebody holds a lease on is removed by nobody but a person.

mod keeper;
mod register;
pub mod selection;
mod sweep;
#[cfg(test)]
pub(crate) mod tests;

pub use keeper::{Housekeeper, Kept, Removal};
pub use register::{Registered, ends_with_process};
pub use selection::Selection;
pub use sweep::{Swept, Throttle};
