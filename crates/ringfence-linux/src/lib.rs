//! The kernel side of the local fence, and the only home of `unsafe`.
//!
//! A [`plan::Plan`] says what to build, as data. [`launch::launch`] clones a process into new
//! namespaces; [`init`] runs inside it, builds the root from the plan, and starts the command under
//! Landlock and seccomp. Where that is not possible, [`bwrap`] lets another program make the namespaces, and
//! [`subreaper`] does without them; [`prefork`] makes its first process before the plan is known. Init and the host
//! talk in [`report::Message`]s. Synchronous, no runtime, no configuration; what runs after the clone of a program that
//! may have threads allocates nothing.
#![cfg(target_os = "linux")]

pub mod bwrap;
pub mod cgroup;
pub mod confine;
mod descendants;
mod extra_command;
pub mod fuse;
pub mod host_loop;
pub mod idmapped_etc;
mod init;
pub mod landlock;
pub mod launch;
mod mounts;
pub mod open_files;
mod order;
mod payload;
pub mod plan;
pub mod prefork;
pub mod probe;
pub mod report;
pub mod seccomp;
pub mod steps;
pub mod subreaper;
pub mod supervisor;
mod sweeper;
pub mod sys;
