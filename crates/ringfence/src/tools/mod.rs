//! The tools that an agent calls.
//!
//! A call goes one way: offered at all (`policy`, `restricted`) → arguments read (`args`) → routed
//! (`router`) → judged, asked about, run and recorded by the one core ([`crate::session`]), or done on files of the
//! workspace under the fence's own rules → one [`ToolResult`].
//!
//! | module | what it holds |
//! |---|---|
//! | `toolbox` | [`Tools`]: what is offered, the way of a call, budget, sub-agents |
//! | `catalogue`, `args` | the tools and their JSON schemas |
//! | `policy`, `restricted` | who may use what |
//! | `router`, `agent_command` | lines that are not for the shell |
//! | `run`, `languages`, `jobs` | commands and code, and those in the background |
//! | `file_tools`, `files`, `inside`, `guard` | files, on the host or in a sandbox that has its own |
//! | `executors` | which of them runs code, by how risky it is |
//! | `steps` | the same for agents that stop at each question |
//! | `open` | all of it for one session of a project, in one call |

pub(crate) mod agent_command;
pub(crate) mod args;
#[doc(hidden)]
pub mod catalogue;
mod executors;
mod file_tools;
mod files;
mod guard;
mod inside;
mod inspect;
mod jobs;
mod languages;
mod open;
pub(crate) mod policy;
mod restricted;
mod router;
mod run;
mod shown;
#[doc(hidden)]
pub mod steps;
mod toolbox;

pub use crate::session::ToolResult;
pub use catalogue::{Effect, ToolSpec};
pub use executors::Executors;
pub use inspect::Prospect;
pub use languages::{CodeImage, Language, Languages};
pub use open::OpenTools;
pub use policy::{PolicyLayer, ToolPolicy};
pub use restricted::Restriction;
pub use router::{Extension, Extensions};
pub use steps::{Step, Steps};
pub use toolbox::{Budget, Tools};

/// Compiles the example of the guide.
#[cfg(all(doctest, target_os = "linux"))]
#[doc = include_str!("../../../../docs/tools.md")]
struct Guide;
