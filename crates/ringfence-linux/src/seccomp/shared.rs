//! What is refused besides, where the sandbox has no network, IPC or mount namespace of its own.
//!
//! Landlock refuses TCP there. What it does not know — datagrams, the send that connects by itself, System V
//! IPC, sockets with a path — is refused here, or left to the supervisor where it can hold it.

use libc::sock_filter;

use super::deny::{self, Entry, INTERNET, answer, family, kind};
use super::notify::NotifySet;
use super::rule::{Arch, Test, Verdict, call};

/// Which kinds of sockets nobody but this program can refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shared {
    /// Landlock does not refuse TCP here (before ABI 4).
    pub no_internet: bool,
    /// Nobody judges who a local socket is connected to: there is no supervisor, or abstract names are not
    /// scoped by Landlock (before ABI 6).
    pub no_local: bool,
    /// Hosts have names inside, and the supervisor makes what programs take for sockets for datagrams.
    pub by_name: bool,
}

/// The static program with these additions, and the calls of `set` for the supervisor.
#[must_use]
pub fn shared_program(shared: Shared, set: &NotifySet) -> Vec<sock_filter> {
    let datagrams = match set.refusals {
        true if shared.by_name => DATAGRAMS_MADE,
        true => DATAGRAMS_TOLD,
        false => DATAGRAMS,
    };
    let mut tables: Vec<&[Entry]> = vec![datagrams, ALWAYS];
    if !set.changes {
        tables.push(deny::UNSEEN_OPENS);
    }
    if !set.hosts_network {
        tables.push(NO_LISTENERS);
    }
    if shared.no_internet {
        tables.push(NO_INTERNET);
    }
    if shared.no_local {
        tables.push(NO_LOCAL);
    }
    let mut program = deny::program_after(Arch::HOST, &tables, set.told());
    set.add_to(&mut program, Arch::HOST);
    program.assemble()
}

const EACCES: Verdict = deny::errno(libc::EACCES);
const EPERM: Verdict = deny::errno(libc::EPERM);
/// As libraries do not name them.
const IP_UNICAST_IF: libc::c_int = 50;
const IPV6_UNICAST_IF: libc::c_int = 76;
const NOT_SUPPORTED: Verdict = deny::errno(libc::EOPNOTSUPP);
pub(crate) const MSG_FASTOPEN: u64 = 0x2000_0000;

const NO_NETWORK: &str = "no network namespace holds it, and Landlock knows only TCP";
const FAST_OPEN: &str = "connects without the call that Landlock and the supervisor see";
const IPC: &str = "no IPC namespace: objects of the host's processes could be reached by number";

/// The call returns zero, and nothing is done.
const PRETENDED: Verdict = deny::errno(0);
const READABLE: &str = "without a user namespace the supervisor could not read which files it wants to open; nobody inside can \
                        read its memory anyway";

const fn refuse(call: super::Call, reason: &'static str) -> Entry {
    answer(EACCES, call, &[], reason)
}

const DATAGRAMS: &[Entry] = &[answer(EACCES, call!(socket), &[INTERNET, kind(libc::SOCK_DGRAM)], NO_NETWORK)];

/// The supervisor refuses them, and tells; but not those that the C library makes to sort addresses by, whatever
/// becomes of them.
const DATAGRAMS_TOLD: &[Entry] = &[
    answer(
        EACCES,
        call!(socket),
        &[
            INTERNET,
            Test::int_is(1, (libc::SOCK_DGRAM | libc::SOCK_CLOEXEC).cast_unsigned()),
            Test::int_is(2, 0),
        ],
        NO_NETWORK,
    ),
    answer(Verdict::Notify, call!(socket), &[INTERNET, kind(libc::SOCK_DGRAM)], NO_NETWORK),
];

/// The supervisor makes what is taken for them.
const DATAGRAMS_MADE: &[Entry] =
    &[answer(Verdict::Notify, call!(socket), &[INTERNET, kind(libc::SOCK_DGRAM)], NO_NETWORK)];

/// A socket that was never bound listens on all interfaces of the host, which Landlock does not see.
const NO_LISTENERS: &[Entry] = &[refuse(call!(listen), NO_NETWORK)];

const IP: Test = option_level(libc::SOL_IP);
const IPV6: Test = option_level(libc::SOL_IPV6);

const fn option_level(level: libc::c_int) -> Test {
    Test::int_is(1, level.cast_unsigned())
}

const fn option(name: libc::c_int) -> Test {
    Test::int_is(2, name.cast_unsigned())
}

/// Options by which a socket that the supervisor connects on loopback would send elsewhere.
const DETOUR: &str = "leads what is sent to loopback out of another interface, or by another host";
const ANSWERED: &str = "programs that look names up want it of a socket for datagrams, which here is none";

const ALWAYS: &[Entry] = &[
    answer(
        EPERM,
        call!(setsockopt),
        &[option_level(libc::SOL_SOCKET), option(libc::SO_BINDTODEVICE)],
        DETOUR,
    ),
    answer(
        EPERM,
        call!(setsockopt),
        &[option_level(libc::SOL_SOCKET), option(libc::SO_BINDTOIFINDEX)],
        DETOUR,
    ),
    answer(EPERM, call!(setsockopt), &[IP, option(libc::IP_OPTIONS)], DETOUR),
    answer(EPERM, call!(setsockopt), &[IP, option(IP_UNICAST_IF)], DETOUR),
    answer(EPERM, call!(setsockopt), &[IPV6, option(libc::IPV6_2292PKTOPTIONS)], DETOUR),
    answer(EPERM, call!(setsockopt), &[IPV6, option(libc::IPV6_RTHDR)], DETOUR),
    answer(EPERM, call!(setsockopt), &[IPV6, option(libc::IPV6_PKTINFO)], DETOUR),
    answer(EPERM, call!(setsockopt), &[IPV6, option(IPV6_UNICAST_IF)], DETOUR),
    answer(
        NOT_SUPPORTED,
        call!(setsockopt),
        &[option_level(libc::IPPROTO_TCP), option(libc::TCP_FASTOPEN_CONNECT)],
        FAST_OPEN,
    ),
    answer(PRETENDED, call!(setsockopt), &[IP, option(libc::IP_RECVERR)], ANSWERED),
    answer(PRETENDED, call!(setsockopt), &[IPV6, option(libc::IPV6_RECVERR)], ANSWERED),
    answer(NOT_SUPPORTED, call!(sendto), &[Test::any_of(3, MSG_FASTOPEN)], FAST_OPEN),
    answer(NOT_SUPPORTED, call!(sendmsg), &[Test::any_of(2, MSG_FASTOPEN)], FAST_OPEN),
    answer(NOT_SUPPORTED, call!(sendmmsg), &[Test::any_of(3, MSG_FASTOPEN)], FAST_OPEN),
    answer(PRETENDED, call!(prctl), &[Test::int_is(0, libc::PR_SET_DUMPABLE.cast_unsigned())], READABLE),
    refuse(call!(shmget), IPC),
    refuse(call!(shmat), IPC),
    refuse(call!(shmctl), IPC),
    refuse(call!(semget), IPC),
    refuse(call!(semop), IPC),
    refuse(call!(semtimedop), IPC),
    refuse(call!(semctl), IPC),
    refuse(call!(msgget), IPC),
    refuse(call!(msgsnd), IPC),
    refuse(call!(msgrcv), IPC),
    refuse(call!(msgctl), IPC),
    refuse(call!(mq_open), IPC),
    refuse(call!(mq_unlink), IPC),
];

const NO_INTERNET: &[Entry] = &[answer(EACCES, call!(socket), &[INTERNET], NO_NETWORK)];

const NO_LOCAL: &[Entry] = &[answer(
    EACCES,
    call!(socket),
    &[family(libc::AF_UNIX)],
    "a daemon of the host could be asked to do what the sandbox may not; pairs stay allowed",
)];
