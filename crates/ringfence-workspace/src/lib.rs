//! All host-side file access to a workspace.
//!
//! A [`Workspace`] is a directory held by descriptor. Every operation names a path relative to it and is
//! resolved by the kernel beneath that descriptor, so that nothing the directory contains can lead out of
//! it, however it changes meanwhile:
//!
//! - `..` and absolute paths are refused; names such as `a..b` and `..foo` are ordinary names.
//! - Symbolic links that stay inside are followed; those that lead out, and magic links, are refused.
//! - A file with several names (hard links) is not read, because one of them may be outside; see
//!   [`HardLinks`].
//! - A file is never changed in place: it is replaced, so other names of it, wherever, keep their content.
//! - Removing never follows links.
//!
//! | module | what it holds |
//! |---|---|
//! | [`path`] | which names are accepted |
//! | [`workspace`] | the directory, its mode, quota and small operations |
//! | [`tree`], [`search`] | listing, measuring and searching |
//! | [`edit`], [`patch`] | changing text |
//! | [`sessions`] | many workspaces below one directory: names, layout, clean-up |
//! | [`seed`], [`media`], [`remote`] | files brought in from outside |
//! | [`outbound`] | which file an agent means by the name of media |
//! | [`map`] | host paths and the paths inside a container |
//!
//! **Invariant:** after a workspace is opened, no path of the host is ever resolved again for it.
#![forbid(unsafe_code)]

mod atomic;
mod beneath;
mod error;
mod facts;
mod git;
mod guard;
mod read;
mod remove;
mod walk;

pub mod edit;
pub mod map;
pub mod media;
pub mod outbound;
pub mod patch;
pub mod path;
pub mod remote;
pub mod search;
pub mod seed;
pub mod sessions;
pub mod slug;
pub mod tree;
pub mod workspace;

pub use edit::{Occurrence, replaced};
pub use guard::Guard;
pub use map::{Mount, MountMode, PathMap};
pub use media::{MediaPlace, StagedMedia};
pub use outbound::MediaSource;
pub use patch::{Patch, PatchReport, PatchSource};
pub use path::clean_input;
pub use remote::RemoteMedia;
pub use search::{Match, SearchOptions, SearchReport, Searcher, is_text};
pub use seed::BOOTSTRAP_FILES;
pub use sessions::{SessionOptions, Sessions};
pub use slug::{container_name, session_slug};
pub use tree::{Entry, ListOptions, Listing};
pub use workspace::{FileKind, FileStat, HardLinks, Mode, RemoveDepth, Workspace, WorkspaceOptions};
