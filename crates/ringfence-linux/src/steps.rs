//! The time that each step of a launch takes, for the bench. Without the feature `steps` nothing is measured.
//!
//! The launch itself calls [`lap`] after each act. The times are written into memory that all of its processes share,
//! so that taking them costs no system call.

use crate::plan::{BindAccess, MountStep, Plan};

/// Whose time it is: the two processes work beside each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Init,
    Command,
}

pub(crate) const CLONE: &str = "namespaces: clone until the child runs";
pub(crate) const SECOND: &str = "second process: clone until it runs";
pub(crate) const RUN: &str = "exec, run and end of the command";

/// What a mount is counted as.
pub(crate) fn kind(step: &MountStep) -> &'static str {
    match step {
        MountStep::Dir { .. } | MountStep::File { .. } | MountStep::Symlink { .. } => KINDS[0],
        MountStep::Bind { access: BindAccess::Device, .. } => KINDS[1],
        MountStep::Bind { .. } => KINDS[2],
        MountStep::Tmpfs { .. } => KINDS[3],
        MountStep::Proc { .. } => KINDS[4],
        MountStep::Devpts { .. } => KINDS[5],
        MountStep::Mask { .. } => KINDS[6],
        MountStep::Seal { .. } | MountStep::Pin { .. } | MountStep::ReadOnly { .. } => KINDS[7],
        MountStep::Replace { .. } => KINDS[8],
    }
}

const KINDS: [&str; 9] = [
    "directories, files and links of the root",
    "binds of devices",
    "binds of directories",
    "tmpfs",
    "proc",
    "devpts",
    "masks",
    "protected paths: seals and pins",
    "replaced files",
];

/// How many mounts of each kind the plan has, and how many rules.
#[must_use]
pub fn count(plan: &Plan) -> Vec<(&'static str, usize)> {
    let mut counts: Vec<(&str, usize)> = KINDS
        .iter()
        .map(|name| (*name, plan.mounts.iter().filter(|step| kind(step) == *name).count()))
        .collect();
    counts.extend(plan.landlock.iter().map(|(_, rules)| ("Landlock: rules", rules.len())));
    counts.retain(|(_, count)| *count > 0);
    counts
}

#[cfg(not(feature = "steps"))]
mod clock {
    use super::Who;

    pub(crate) fn start() {}
    pub(crate) fn hand_over() {}
    pub(crate) fn lap(_: Who, _: &'static str) {}
}

#[cfg(feature = "steps")]
#[path = "steps/clock.rs"]
mod clock;

#[cfg(feature = "steps")]
pub use clock::{Step, time_launch};
pub(crate) use clock::{hand_over, lap, start};
