//! Which calls wait for the supervisor.
//!
//! The program only selects; the kernel's own rules (mounts, Landlock, the static program) decide whatever
//! the supervisor lets continue. Calls of the stat family are never selected: that would double the time
//! of every tool that walks a tree. Nor are those that make processes: a signal can interrupt a call until the supervisor
//! has received it, and no program expects that of a fork.

use super::bpf::Program;
use super::deny::{self, Told};
use super::rule::{Arch, Call, Test, Verdict, call};
use libc::sock_filter;
use ringfence_model::config::Precision;

/// Which calls that send to an address are notified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sends {
    None,
    /// `sendto` with an address. That of `sendmsg` lies behind a pointer, which no seccomp program can
    /// follow.
    ///
    /// No local socket is reached that way, because the static program refuses to make datagram ones; an
    /// internet datagram sent by `sendmsg` ends in the empty network namespace, unreported.
    Sendto,
    /// Every `sendmsg` and `sendmmsg` as well, also those on connected streams: some microseconds for each
    /// message of a program that talks over local sockets. Where datagrams leave, so that those of `sendmsg` do too.
    All,
}

/// The calls sent to the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotifySet {
    /// Every open, also those that only read.
    pub reads: bool,
    /// Opens for writing, creation, removal, renaming, linking, attributes.
    ///
    /// Of the calls that take a directory descriptor only those relative to the working directory (which
    /// includes absolute paths, as nearly all programs pass them). Renames and links count always: they can carry a
    /// protected name out of sight.
    pub changes: bool,
    /// Names that come or go, and opening for writing, count whatever the directory descriptor is: a protected name
    /// that did not exist at the start has no mount. Means nothing without `changes`.
    pub all_names: bool,
    /// Attributes count whatever they are changed by, also a descriptor: no mount and no Landlock rule holds those of
    /// a protected file that came later. Means nothing without `changes`.
    pub all_attributes: bool,
    /// `connect` and `bind`.
    pub connects: bool,
    pub sends: Sends,
    /// `execve` and `execveat`.
    pub execs: bool,
    /// Calls about other processes by their number (`pidfd_open`, priorities, limits): without a pid namespace, any
    /// process of the host has one.
    pub handles: bool,
    /// Calls about sockets that a network of its own would answer: without one the supervisor listens for the caller, and
    /// says who is at the other end.
    pub hosts_network: bool,
    /// Calls that receive and want to know from whom, where the supervisor makes what is taken for sockets for datagrams.
    pub datagrams: bool,
    /// What the static program refuses and somebody will miss: the supervisor refuses it, and tells.
    pub refusals: bool,
}

impl NotifySet {
    #[must_use]
    pub const fn new(precision: Precision) -> Self {
        match precision {
            Precision::Full => Self::full(),
            Precision::Writes => Self::writes(),
            Precision::Off => Self::off(),
        }
    }

    #[must_use]
    pub const fn full() -> Self {
        Self { reads: true, all_attributes: true, ..Self::writes() }
    }

    #[must_use]
    pub const fn writes() -> Self {
        Self {
            reads: false,
            changes: true,
            all_names: true,
            all_attributes: false,
            connects: true,
            sends: Sends::Sendto,
            execs: false,
            handles: false,
            hosts_network: false,
            datagrams: false,
            refusals: true,
        }
    }

    #[must_use]
    pub const fn off() -> Self {
        Self {
            reads: false,
            changes: false,
            all_names: false,
            all_attributes: false,
            connects: false,
            sends: Sends::None,
            execs: false,
            handles: false,
            hosts_network: false,
            datagrams: false,
            refusals: false,
        }
    }

    /// For a supervisor that only connects.
    #[must_use]
    pub const fn connections() -> Self {
        Self { connects: true, sends: Sends::Sendto, ..Self::off() }
    }

    /// For a sandbox that no mounts hold: whatever the supervisor must refuse, it sees.
    #[must_use]
    pub const fn everything() -> Self {
        Self { execs: true, handles: true, hosts_network: true, ..Self::full() }
    }

    /// Whether no call is selected at all, so that a listener would never hear anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !TABLE.iter().any(|entry| self.selects(entry.group))
    }

    pub(super) fn told(&self) -> Told {
        if self.refusals { Told::Yes } else { Told::No }
    }

    pub(super) fn add_to(&self, program: &mut Program, arch: Arch) {
        for entry in TABLE.iter().filter(|entry| self.selects(entry.group)) {
            if let Some(nr) = entry.call.number(arch) {
                program.add(nr, entry.when, Verdict::Notify);
            }
        }
    }

    /// Whether entries of this group are in force.
    #[must_use]
    pub const fn selects(&self, group: Group) -> bool {
        match group {
            Group::Read => self.reads,
            Group::Change => self.changes,
            Group::Name => self.changes && self.all_names,
            Group::Attribute => self.changes && self.all_attributes,
            Group::Handle => self.handles,
            Group::Connect => self.connects,
            Group::SendTo => matches!(self.sends, Sends::Sendto | Sends::All),
            Group::SendMessage => matches!(self.sends, Sends::All),
            Group::Exec => self.execs,
            Group::HostsNetwork => self.hosts_network,
            Group::Datagrams => self.datagrams,
        }
    }
}

/// The field of [`NotifySet`] that puts an entry in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    Read,
    Change,
    Name,
    Attribute,
    Connect,
    SendTo,
    SendMessage,
    Exec,
    Handle,
    HostsNetwork,
    Datagrams,
}

/// A call, the tests that must all hold, and the group it belongs to.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    pub call: Call,
    pub when: &'static [Test],
    pub group: Group,
}

/// The notify program for this machine.
#[must_use]
pub fn notify_program(set: &NotifySet) -> Vec<sock_filter> {
    notify_program_for(Arch::HOST, set)
}

/// The notify program for any machine.
#[must_use]
pub fn notify_program_for(arch: Arch, set: &NotifySet) -> Vec<sock_filter> {
    let mut program = Program::for_arch(arch);
    set.add_to(&mut program, arch);
    program.assemble()
}

/// The static program and the notify program in one: what the first refuses is refused (by the supervisor, where
/// it is told of it), what else the second selects is notified.
///
/// A fifth cheaper to install than the two one after the other.
#[must_use]
pub fn combined_program(set: &NotifySet) -> Vec<sock_filter> {
    combined_program_for(Arch::HOST, set)
}

/// As [`combined_program`], for any machine.
#[must_use]
pub fn combined_program_for(arch: Arch, set: &NotifySet) -> Vec<sock_filter> {
    let first: &[&[deny::Entry]] = if set.changes { &[] } else { &[deny::UNSEEN_OPENS] };
    let mut program = deny::program_after(arch, first, set.told());
    set.add_to(&mut program, arch);
    program.assemble()
}

/// Every call that can be notified.
#[must_use]
pub const fn notify_table() -> &'static [Entry] {
    TABLE
}

const fn entry(group: Group, call: Call, when: &'static [Test]) -> Entry {
    Entry { call, when, group }
}

/// `AT_FDCWD` as the kernel sees it: an `int`.
const CWD: u32 = libc::AT_FDCWD.cast_unsigned();

/// `O_WRONLY`, `O_RDWR`, `O_CREAT`, `O_TRUNC`: the same bits on both machines. The unused access mode 3 has
/// two of them.
const WRITING: u64 = 0o1 | 0o2 | 0o100 | 0o1000;

/// `R_OK`.
const MAY_READ: u64 = 4;

const ALWAYS: &[Test] = &[];
/// What became of a connection.
const SOCKET: u32 = libc::SOL_SOCKET.cast_unsigned();
const ERROR: u32 = libc::SO_ERROR.cast_unsigned();
/// The number of a process, first argument; 0 is the caller's own.
const ANOTHER: &[Test] = &[Test::int_is_not(0, 0)];
/// As libraries do not name it.
pub(crate) const IOPRIO_WHO_USER: u32 = 3;
/// The directory descriptor, first argument of nearly all `*at` calls.
const DIR_IS_CWD: &[Test] = &[Test::int_is(0, CWD)];
/// `symlinkat` takes it second.
const SECOND_IS_CWD: &[Test] = &[Test::int_is(1, CWD)];

use Group::{
    Attribute, Change, Connect, Datagrams, Exec, Handle, HostsNetwork, Name, Read, SendMessage, SendTo,
};

const TABLE: &[Entry] = &[
    // Opens. The flags of openat2 lie behind a pointer, so all of it is sent; few programs use it.
    entry(Change, call!(x86 open), &[Test::any_of(1, WRITING)]),
    entry(Read, call!(x86 open), ALWAYS),
    entry(Change, call!(openat), &[Test::int_is(0, CWD), Test::any_of(2, WRITING)]),
    entry(Name, call!(openat), &[Test::any_of(2, WRITING)]),
    entry(Read, call!(openat), ALWAYS),
    entry(Change, call!(openat2), ALWAYS),
    entry(Read, call!(openat2), ALWAYS),
    entry(Change, call!(x86 creat), ALWAYS),
    entry(Change, call!(truncate), ALWAYS),
    // Entering a directory, and asking first whether a file may be read, as some tools do: rare beside opens.
    entry(Read, call!(chdir), ALWAYS),
    entry(Read, call!(x86 access), &[Test::any_of(1, MAY_READ)]),
    entry(Read, call!(faccessat), &[Test::any_of(2, MAY_READ)]),
    entry(Read, call!(faccessat2), &[Test::any_of(2, MAY_READ)]),
    // New names.
    entry(Change, call!(x86 mkdir), ALWAYS),
    entry(Change, call!(mkdirat), DIR_IS_CWD),
    entry(Name, call!(mkdirat), ALWAYS),
    entry(Change, call!(x86 mknod), ALWAYS),
    entry(Change, call!(mknodat), DIR_IS_CWD),
    entry(Name, call!(mknodat), ALWAYS),
    entry(Change, call!(x86 symlink), ALWAYS),
    entry(Change, call!(symlinkat), SECOND_IS_CWD),
    entry(Name, call!(symlinkat), ALWAYS),
    entry(Change, call!(x86 link), ALWAYS),
    entry(Change, call!(linkat), ALWAYS),
    entry(Change, call!(x86 rename), ALWAYS),
    // aarch64 has no plain rename; renameat is there on both.
    entry(Change, call!(renameat), ALWAYS),
    entry(Change, call!(renameat2), ALWAYS),
    // Names that go.
    entry(Change, call!(x86 unlink), ALWAYS),
    entry(Change, call!(x86 rmdir), ALWAYS),
    entry(Change, call!(unlinkat), DIR_IS_CWD),
    entry(Name, call!(unlinkat), ALWAYS),
    // Attributes.
    entry(Change, call!(x86 chmod), ALWAYS),
    entry(Change, call!(fchmodat), DIR_IS_CWD),
    entry(Attribute, call!(fchmodat), ALWAYS),
    entry(Change, call!(fchmodat2), DIR_IS_CWD),
    entry(Attribute, call!(fchmodat2), ALWAYS),
    entry(Attribute, call!(fchmod), ALWAYS),
    entry(Change, call!(x86 chown), ALWAYS),
    entry(Change, call!(x86 lchown), ALWAYS),
    entry(Change, call!(fchownat), DIR_IS_CWD),
    entry(Attribute, call!(fchownat), ALWAYS),
    entry(Attribute, call!(fchown), ALWAYS),
    entry(Change, call!(x86 utime), ALWAYS),
    entry(Change, call!(x86 utimes), ALWAYS),
    entry(Change, call!(x86 futimesat), DIR_IS_CWD),
    entry(Attribute, call!(x86 futimesat), ALWAYS),
    entry(Change, call!(utimensat), DIR_IS_CWD),
    entry(Attribute, call!(utimensat), ALWAYS),
    entry(Change, call!(setxattr), ALWAYS),
    entry(Change, call!(lsetxattr), ALWAYS),
    entry(Attribute, call!(fsetxattr), ALWAYS),
    entry(Change, call!(setxattrat), DIR_IS_CWD),
    entry(Attribute, call!(setxattrat), ALWAYS),
    entry(Change, call!(removexattr), ALWAYS),
    entry(Change, call!(lremovexattr), ALWAYS),
    entry(Attribute, call!(fremovexattr), ALWAYS),
    entry(Change, call!(removexattrat), DIR_IS_CWD),
    entry(Attribute, call!(removexattrat), ALWAYS),
    entry(Change, call!(file_setattr), DIR_IS_CWD),
    entry(Attribute, call!(file_setattr), ALWAYS),
    // Sockets.
    entry(Connect, call!(connect), ALWAYS),
    entry(Connect, call!(bind), ALWAYS),
    entry(SendTo, call!(sendto), &[Test::not_null(4)]),
    entry(SendMessage, call!(sendmsg), ALWAYS),
    entry(SendMessage, call!(sendmmsg), ALWAYS),
    entry(HostsNetwork, call!(listen), ALWAYS),
    entry(HostsNetwork, call!(getpeername), ALWAYS),
    entry(HostsNetwork, call!(getsockname), ALWAYS),
    entry(HostsNetwork, call!(getsockopt), &[Test::int_is(1, SOCKET), Test::int_is(2, ERROR)]),
    entry(Datagrams, call!(recvfrom), &[Test::not_null(4)]),
    entry(Datagrams, call!(recvmsg), ALWAYS),
    // Programs.
    entry(Exec, call!(execve), ALWAYS),
    entry(Exec, call!(execveat), ALWAYS),
    // Processes.
    entry(Handle, call!(pidfd_open), ALWAYS),
    entry(Handle, call!(setpriority), &[Test::int_is_not(1, 0)]),
    entry(Handle, call!(setpriority), &[Test::int_is(0, libc::PRIO_USER)]),
    entry(Handle, call!(ioprio_set), &[Test::int_is_not(1, 0)]),
    entry(Handle, call!(ioprio_set), &[Test::int_is(0, IOPRIO_WHO_USER)]),
    entry(Handle, call!(sched_setaffinity), ANOTHER),
    entry(Handle, call!(sched_setscheduler), ANOTHER),
    entry(Handle, call!(sched_setparam), ANOTHER),
    entry(Handle, call!(sched_setattr), ANOTHER),
    entry(Handle, call!(prlimit64), ANOTHER),
];
