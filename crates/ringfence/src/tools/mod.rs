//! What an agent calls.
//!
//! A call goes one way: offered at all ([`policy`], [`restricted`]) → arguments read ([`args`]) → routed
//! ([`router`]) → judged by the gate, and by a person where it asks ([`crate::permission`]) → run in a [`room`], or
//! on files of the workspace under the fence's own rules → one [`ToolResult`]. Each step is an event ([`event`]),
//! and the ledger remembers it.
//!
//! | module | what it holds |
//! |---|---|
//! | [`toolbox`] | [`Tools`]: what is offered, the way of a call, budget, sub-agents |
//! | [`catalogue`], [`args`] | the tools and their JSON schemas |
//! | [`policy`], [`restricted`] | who may use what |
//! | [`router`], [`agent_command`] | lines that are not for the shell |
//! | `run`, [`languages`], `jobs` | commands and code, and those in the background |
//! | `file_tools`, `files`, `inside`, `guard` | files, on the host or in a sandbox that has its own |
//! | [`room`], [`local_room`], [`manager_room`], [`pool_room`] | where commands run |
//! | [`executors`] | which of them runs code, by how risky it is |
//! | [`result`], [`event`], [`journal`] | what comes of it, and who hears of it |
//! | [`steps`] | the same for agents that stop at each question |
//! | [`local`] | all of it for a project on this machine, or for a session of a manager, in one call |

pub mod agent_command;
pub mod args;
pub mod catalogue;
pub mod event;
pub mod executors;
mod file_tools;
mod files;
mod guard;
mod hints;
mod inside;
mod inspect;
mod jobs;
pub mod journal;
pub mod languages;
#[cfg(target_os = "linux")]
pub mod local;
#[cfg(target_os = "linux")]
pub mod local_room;
pub mod manager_room;
pub mod policy;
pub mod pool_room;
pub mod restricted;
pub mod result;
pub mod room;
pub mod router;
mod run;
mod shown;
pub mod steps;
pub mod toolbox;

pub use catalogue::{Effect, ToolSpec};
pub use event::ToolEvent;
pub use executors::Executors;
pub use inspect::Prospect;
pub use journal::Journal;
pub use languages::{Language, Languages};
#[cfg(target_os = "linux")]
pub use local::LocalTools;
pub use manager_room::ManagerRoom;
pub use policy::{PolicyLayer, ToolPolicy};
pub use pool_room::PoolRoom;
pub use restricted::Restriction;
pub use result::ToolResult;
pub use room::{ProviderRoom, Room};
pub use router::{Extension, Extensions};
pub use steps::{Step, Steps};
pub use toolbox::{Budget, Tools, ToolsOptions};

/// Compiles the example of the guide.
#[cfg(all(doctest, target_os = "linux"))]
#[doc = include_str!("../../../../docs/tools.md")]
struct Guide;
