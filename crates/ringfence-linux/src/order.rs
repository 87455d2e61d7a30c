//! The order of a launch: what pid 1 and the command's process do, one act after the other.
//!
//! [`init`](crate::init) and [`payload`](crate::payload) walk these tables, so a test of the tables is one of the launch.

/// An act of pid 1 that no plan decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    DieWithParent,
    IdMaps,
    PrivateMounts,
    Loopback,
    /// An empty file system becomes the root, with the host's below it.
    NewRoot,
}

/// The beginning of every sandbox.
pub(crate) const BEGIN: [Begin; 5] =
    [Begin::DieWithParent, Begin::IdMaps, Begin::PrivateMounts, Begin::Loopback, Begin::NewRoot];

/// An act of pid 1 that makes the root what the plan says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Root {
    /// The file system of the traps is made.
    Traps,
    Mounts,
    /// The traps are mounted on the masks.
    TrapMounts,
    /// The host's root goes.
    DetachHost,
    Seal,
}

/// The traps are made first because the host gets ready to serve them meanwhile, and mounted last because they lie on
/// other mounts.
pub(crate) const ROOT: [Root; 5] =
    [Root::Traps, Root::Mounts, Root::TrapMounts, Root::DetachHost, Root::Seal];

/// An act of pid 1 from the plan to the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Init {
    /// All of [`ROOT`].
    Root,
    Hostname,
    /// The host places this process under limits, if there are any.
    WaitForGo,
    Capabilities,
    /// Starts the command's process and reaps until it ends.
    Command,
}

/// Nothing after [`Init::Capabilities`] needs one, neither in this process nor in the command's.
pub(crate) const INIT: [Init; 5] =
    [Init::Root, Init::Hostname, Init::WaitForGo, Init::Capabilities, Init::Command];

/// An act of the command's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    DieWithParent,
    Session,
    Chdir,
    Signals,
    NoNewPrivs,
    LandlockRules,
    /// The supervised filter, and its listener.
    Listen,
    Landlock,
    /// The listener goes to the host. Without a supervisor the filter is installed here.
    Filter,
    /// The descriptor table is not pid 1's any more.
    OwnTable,
    Stdio,
    Rlimits,
    Exec,
}

/// Landlock's rules and the directory name paths, about which the supervisor must not be asked: they come before its
/// filter. Whether it listens decides what Landlock leaves to it: the restriction comes after. Limits come last, because
/// until exec this process has open whatever its host had.
pub(crate) const COMMAND: [Command; 13] = [
    Command::DieWithParent,
    Command::Session,
    Command::Chdir,
    Command::Signals,
    Command::NoNewPrivs,
    Command::LandlockRules,
    Command::Listen,
    Command::Landlock,
    Command::Filter,
    Command::OwnTable,
    Command::Stdio,
    Command::Rlimits,
    Command::Exec,
];

/// What it is called where it is timed.
pub(crate) trait Named {
    fn name(self) -> &'static str;
}

impl Named for Begin {
    fn name(self) -> &'static str {
        match self {
            Self::DieWithParent => "tie to the host",
            Self::IdMaps => "id maps",
            Self::PrivateMounts => "mounts made private",
            Self::Loopback => "loopback up",
            Self::NewRoot => "root: tmpfs, pivot, masks' sources",
        }
    }
}

impl Named for Root {
    fn name(self) -> &'static str {
        match self {
            Self::Traps => "traps: file system",
            Self::Mounts => "mounts",
            Self::TrapMounts => "traps: mounts",
            Self::DetachHost => "host detached",
            Self::Seal => "root sealed",
        }
    }
}

impl Named for Init {
    fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Hostname => "host name",
            Self::WaitForGo => "limits",
            Self::Capabilities => "capabilities",
            Self::Command => "command",
        }
    }
}

impl Named for Command {
    fn name(self) -> &'static str {
        match self {
            Self::DieWithParent => "command: tie to pid 1",
            Self::Session => "session",
            Self::Chdir => "directory",
            Self::Signals => "signals",
            Self::NoNewPrivs => "no new privileges",
            Self::LandlockRules => "Landlock: rules",
            Self::Listen => "seccomp: supervised filter and listener",
            Self::Landlock => "Landlock: restriction",
            Self::Filter => "listener sent, or unsupervised filter",
            Self::OwnTable => "own descriptor table",
            Self::Stdio => "descriptors",
            Self::Rlimits => "rlimits",
            Self::Exec => "exec",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every act is in its table once, and those of each pair in this order.
    fn check<A: Named + Copy + PartialEq + std::fmt::Debug>(order: &[A], pairs: &[(A, A)]) {
        let place = |act: A| order.iter().position(|other| *other == act).unwrap();
        for (index, act) in order.iter().enumerate() {
            assert_eq!(place(*act), index, "{act:?} is there twice");
        }
        for (first, second) in pairs {
            assert!(place(*first) < place(*second), "{first:?} before {second:?}");
        }
    }

    #[test]
    fn pid_1_is_tied_and_private_before_it_changes_anything() {
        check(
            &BEGIN,
            &[
                (Begin::DieWithParent, Begin::IdMaps),
                // Mounting needs to be somebody in the user namespace.
                (Begin::IdMaps, Begin::PrivateMounts),
                (Begin::IdMaps, Begin::Loopback),
                // What is mounted must not reach the host.
                (Begin::PrivateMounts, Begin::NewRoot),
            ],
        );
    }

    #[test]
    fn everything_is_mounted_before_the_host_is_out_of_reach_and_the_root_sealed() {
        check(
            &ROOT,
            &[
                (Root::Traps, Root::TrapMounts),
                (Root::Mounts, Root::TrapMounts),
                (Root::TrapMounts, Root::DetachHost),
                (Root::DetachHost, Root::Seal),
            ],
        );
    }

    #[test]
    fn a_command_starts_in_a_whole_root_under_limits_and_without_capabilities() {
        check(
            &INIT,
            &[
                (Init::Root, Init::Capabilities),
                (Init::Hostname, Init::Capabilities),
                (Init::WaitForGo, Init::Command),
                (Init::Capabilities, Init::Command),
            ],
        );
        assert_eq!(INIT.last(), Some(&Init::Command));
    }

    #[test]
    fn nothing_is_executed_outside_of_the_fence() {
        check(
            &COMMAND,
            &[
                (Command::DieWithParent, Command::Session),
                // The kernel installs no filter, and restricts by no Landlock, without it.
                (Command::NoNewPrivs, Command::Listen),
                (Command::NoNewPrivs, Command::Landlock),
                (Command::NoNewPrivs, Command::Filter),
                // Nothing that names a path comes after the supervised filter.
                (Command::Chdir, Command::Listen),
                (Command::LandlockRules, Command::Listen),
                (Command::Listen, Command::Landlock),
                // The filter of a command without a supervisor is the last layer, and could refuse Landlock's calls.
                (Command::Landlock, Command::Filter),
                // Pid 1 takes the listener from the common table.
                (Command::Filter, Command::OwnTable),
                // The command's descriptors must not be put in pid 1's table.
                (Command::OwnTable, Command::Stdio),
                (Command::Stdio, Command::Rlimits),
            ],
        );
        assert_eq!(COMMAND.last(), Some(&Command::Exec));
    }
}
