//! Files in a container, with nothing but `sh` and the small programs beside it inside.
//!
//! [`Bridge`] reads, writes, lists and moves files by running one script each in the container, as the container's user. So a
//! file is exactly what the container's own programs find under its name, and belongs to whom they belong.
//!
//! Paths are checked twice. Here, before anything runs: no `..`, inside of a mount, and one that may be written when
//! something is to change. And by the script, where links are: it goes down from the mount step by step, and right before it
//! acts it asks the kernel where it stands (`/proc/self/cwd`) and what it opened (`/proc/self/fd/3`).
//!
//! | module | what it holds |
//! |---|---|
//! | `files` | [`Bridge`] and its operations |
//! | `scripts/*.sh` | what runs inside |
//! | [`inside`] | running them in a container |
//! | `located` | the same for those who judge a path first: what was judged is what is touched |
//! | `status` | what their exit statuses mean |
//! | `listing` | reading what `list.sh` says |
//! | [`content`] | what is written: bytes, or text in an encoding |
//!
//! # What remains
//!
//! A shell cannot open a file without following a link at its very end, and cannot rename by descriptor. Between the last
//! look and the deed, a process in the same container can therefore still exchange the name that is written to, removed or
//! moved, though not the directory it is in: that is held. What it wins is that a file somewhere else *in the container* is
//! named differently, and that is something it could do itself: scripts run as the same user, in the same mounts, with the same
//! missing rights. A read is judged by what was opened, so there a race wins nothing at all.
//!
//! None of it reaches the host: no program of the host opens a path of the container, and whatever a link says is resolved by
//! the kernel inside the container, where the host's other files do not exist. Read-only mounts are the kernel's as well.
//!
//! The bridge knows mounts, not the policy: whether an agent may read `.env` is for those to ask who hand out files. They look up where a
//! path leads, judge that, and touch exactly that by scripts that follow no link
//! ([`SandboxFiles`](ringfence_fence::SandboxFiles)).
//!
//! **Invariant:** nothing from outside becomes part of a script; names travel as arguments, contents on stdin.

pub mod content;
mod files;
pub mod inside;
mod listing;
mod located;
mod status;
#[cfg(test)]
mod tests;

pub use content::Encoding;
pub use files::{Bridge, BridgeOptions, Missing, Parents};
pub use inside::ContainerExec;
pub use listing::BridgeEntry;
