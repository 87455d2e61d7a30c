//! Seccomp programs: the static one that refuses, and the one that tells the supervisor.
//!
//! Both are built from tables ([`deny_table`], [`notify_table`]) by an assembler that cannot leave out the
//! check of the machine ([`Program::for_arch`]).

mod bpf;
mod decide;
mod deny;
mod emit;
mod install;
mod notify;
pub(crate) mod rule;
mod shared;

#[cfg(test)]
mod interpret;
#[cfg(test)]
mod tests;

pub use bpf::Program;
pub use deny::{
    Entry as DenyEntry, FILE_CAPABILITIES, SET_ID_FILE, deny_table, program_among_host_processes, refusal,
    static_program, static_program_for,
};
pub use install::{Listener, install, install_listener, notify_supported, set_sync_wake_up};
pub use libc::sock_filter;
pub(crate) use notify::IOPRIO_WHO_USER;
pub use notify::{
    Entry as NotifyEntry, Group, NotifySet, Sends, combined_program, combined_program_for, notify_program,
    notify_program_for, notify_table,
};
pub(crate) use rule::call;
pub use rule::{Arch, Call, Test, Verdict};
pub(crate) use shared::MSG_FASTOPEN;
pub use shared::{Shared, shared_program};
