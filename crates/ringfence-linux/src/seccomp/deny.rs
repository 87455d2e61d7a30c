//! What no program in the sandbox may ask of the kernel, and why.
//!
//! The table is a list of exceptions: whatever it does not name is allowed. It names three things: calls
//! that could undo the sandbox, calls that reach other processes, and parts of the kernel with a long
//! record of holes that developers' programs do not need. Calls made through a foreign interface (i386,
//! x32, arm) and calls newer than the table are answered with `ENOSYS`, as an older kernel would, and
//! programs fall back.
//!
//! The first entry of a call whose conditions all hold decides it. The errors are chosen so that programs
//! take the path they have for kernels without the call, or for users without the right.

use super::bpf::Program;
use super::rule::{Arch, Call, Test, Verdict, call};
use libc::sock_filter;

/// One line of the table.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    pub call: Call,
    /// All must hold.
    pub when: &'static [Test],
    pub verdict: Verdict,
    pub reason: &'static str,
}

/// The static program for this machine.
#[must_use]
pub fn static_program() -> Vec<sock_filter> {
    static_program_for(Arch::HOST)
}

/// The static program for any machine.
#[must_use]
pub fn static_program_for(arch: Arch) -> Vec<sock_filter> {
    program(arch).assemble()
}

pub(super) fn program(arch: Arch) -> Program {
    program_after(arch, &[UNSEEN_OPENS], Told::No)
}

/// The static program where neither a pid namespace nor Landlock keeps a tracer from the host's processes.
#[must_use]
pub fn program_among_host_processes() -> Vec<sock_filter> {
    program_after(Arch::HOST, &[UNSEEN_OPENS, OTHERS_TRACED], Told::No).assemble()
}

/// What a file with rights of its own is refused by, where no number of a call says that it is one.
pub static SET_ID_FILE: Entry = deny(call!(openat2), RUNS_AS_OWNER);
pub static FILE_CAPABILITIES: Entry = deny(call!(setxattr), RUNS_AS_OWNER);

/// Where nobody sees an open, its mode must lie in a register.
pub(super) const UNSEEN_OPENS: &[Entry] = &[answer(
    ENOSYS,
    call!(openat2),
    &[],
    "the mode of a new file lies behind a pointer and cannot be judged; libraries fall back to openat",
)];

const OTHERS_TRACED: &[Entry] = &[
    deny_if(call!(ptrace), &[Test::int_is(0, libc::PTRACE_ATTACH)], PROCESS),
    deny_if(call!(ptrace), &[Test::int_is(0, libc::PTRACE_SEIZE)], PROCESS),
    deny(call!(process_vm_readv), PROCESS),
    deny(call!(process_vm_writev), PROCESS),
];

/// Whether the supervisor hears of what is refused; it is the one that refuses it then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    Yes,
    No,
}

/// As [`program`], with other tables that are asked first.
pub(super) fn program_after(arch: Arch, first: &[&[Entry]], told: Told) -> Program {
    let mut program = Program::for_arch(arch).unknown(ENOSYS);
    let add = |program: &mut Program, entry: &Entry, verdict| {
        if let Some(nr) = entry.call.number(arch) {
            program.add(nr, entry.when, verdict);
        }
    };
    for entry in first.iter().copied().flatten() {
        add(&mut program, entry, entry.verdict);
    }
    for entry in TABLE {
        let notified = told == Told::Yes && entry.is_worth_telling();
        add(&mut program, entry, if notified { Verdict::Notify } else { entry.verdict });
    }
    program
}

impl Entry {
    /// Whether somebody will miss the call. Some are only tried, by programs that have another way; and of
    /// sockets the supervisor hears when they are used.
    #[must_use]
    pub fn is_worth_telling(&self) -> bool {
        const TRIED: [&str; 9] = [
            "clone",
            "io_uring_setup",
            "io_uring_enter",
            "io_uring_register",
            "name_to_handle_at",
            "kcmp",
            "process_madvise",
            "modify_ldt",
            "socket",
        ];
        self.verdict == EPERM && !TRIED.contains(&self.call.name)
    }
}

/// Why this call is refused to everybody, if it is.
#[must_use]
pub fn refusal(nr: i64, args: &[u64; 6]) -> Option<&'static Entry> {
    let holds = |entry: &&Entry| entry.when.iter().all(|test| test.holds(args));
    let of_call = |entry: &&Entry| entry.call.number(Arch::HOST).is_some_and(|known| i64::from(known) == nr);
    TABLE.iter().filter(of_call).find(holds).filter(|entry| matches!(entry.verdict, Verdict::Errno(_)))
}

/// The table, for documentation and tests.
#[must_use]
pub const fn deny_table() -> &'static [Entry] {
    TABLE
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "error numbers are small")]
pub(super) const fn errno(number: i32) -> Verdict {
    Verdict::Errno(number as u16)
}

const EPERM: Verdict = errno(libc::EPERM);
const ENOSYS: Verdict = errno(libc::ENOSYS);
const NO_FAMILY: Verdict = errno(libc::EAFNOSUPPORT);
const NO_TYPE: Verdict = errno(libc::ESOCKTNOSUPPORT);
const NO_PROTOCOL: Verdict = errno(libc::EPROTONOSUPPORT);

const fn deny(call: Call, reason: &'static str) -> Entry {
    Entry { call, when: &[], verdict: EPERM, reason }
}

const fn deny_if(call: Call, when: &'static [Test], reason: &'static str) -> Entry {
    Entry { call, when, verdict: EPERM, reason }
}

const fn allow_if(call: Call, when: &'static [Test], reason: &'static str) -> Entry {
    Entry { call, when, verdict: Verdict::Allow, reason }
}

pub(super) const fn answer(
    verdict: Verdict,
    call: Call,
    when: &'static [Test],
    reason: &'static str,
) -> Entry {
    Entry { call, when, verdict, reason }
}

const fn bits(flag: libc::c_int) -> u64 {
    flag.cast_unsigned() as u64
}

/// Every flag of clone(2) that makes a namespace. `CLONE_NEWTIME` shares its bit with the exit signal there,
/// but no signal has it.
const NEW_NAMESPACE: u64 = bits(
    libc::CLONE_NEWNS
        | libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET
        | CLONE_NEWTIME,
);
const CLONE_NEWTIME: libc::c_int = 0x80;

/// What unshare(2) can separate without making a namespace.
const UNSHARE_HARMLESS: u64 = bits(
    libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SYSVSEM
        | libc::CLONE_VM
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD,
);

/// Covers `S_IFCHR` and `S_IFBLK` and no other kind of file.
const DEVICE_MASK: u32 = 0xb000;
const DEVICE: u32 = 0x2000;

const PERSONALITY_QUERY: u32 = 0xffff_ffff;
/// `PER_LINUX32` and `UNAME26` for `setarch`.
const PERSONALITY_HARMLESS: u64 = 0x0000_0008 | 0x0002_0000;

/// `S_ISUID` and `S_ISGID`.
const SET_ID: u64 = 0o6000;
/// `O_CREAT` and the bit that is `O_TMPFILE`'s own: without them an open has no mode.
const MAKES_FILE: u64 = 0o100 | 0o20_000_000;

const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541c;
const TIOCSETD: u32 = 0x5423;

const PR_SET_MM: u32 = 35;

// Sockets: family, type and protocol are arguments 0, 1 and 2.
pub(super) const fn family(value: libc::c_int) -> Test {
    Test::int_is(0, value.cast_unsigned())
}
/// The type without `SOCK_NONBLOCK` and `SOCK_CLOEXEC`.
pub(super) const fn kind(value: libc::c_int) -> Test {
    Test::int_bits(1, 0xf, value.cast_unsigned())
}
const fn protocol(value: libc::c_int) -> Test {
    Test::int_is(2, value.cast_unsigned())
}
/// `AF_INET` and `AF_INET6`: the two differ in this bit.
pub(super) const INTERNET: Test = Test::int_bits(0, !0x8, libc::AF_INET.cast_unsigned());

const NAMESPACE: &str = "a new user namespace gives back capabilities, with which mounts could be undone";
const OTHER_NAMESPACE: &str = "joining another namespace leaves the one the sandbox is built from";
const MOUNT: &str = "mounts are what hides and protects files";
const PROCESS: &str = "reads or changes another process";
const IO_URING: &str = "does opens and connects that no seccomp program sees; long record of kernel holes";
const KEYS: &str = "kernel keyrings are shared with the user's session and are not namespaced";
const HANDLE: &str = "opens files by handle, past every mount and mask";
const MODULE: &str = "loads or removes kernel code";
const KEXEC: &str = "replaces the running kernel";
const CLOCK: &str = "sets the clock of the machine";
const MACHINE: &str = "belongs to the machine's administrator; the kernel refuses it too";
const OBSOLETE: &str = "gone from today's kernels; refused on older ones";
const RUNS_AS_OWNER: &str = "a program with a set-id bit or capabilities of its own runs with rights that whoever starts it \
                             does not have, also on the host";
const NUMA: &str = "moves pages of other processes and tells where they are; own memory policy stays allowed";
const TERMINAL: &str = "types into, or reprograms, the terminal the sandbox was started from";

/// Kept in groups of one reason. The order matters only among entries of one call.
const TABLE: &[Entry] = &[
    // Namespaces.
    deny_if(call!(clone), &[Test::any_of(0, NEW_NAMESPACE)], NAMESPACE),
    answer(
        ENOSYS,
        call!(clone3),
        &[],
        "its flags lie behind a pointer and cannot be judged; libraries fall back to clone",
    ),
    deny_if(call!(unshare), &[Test::any_of(0, !UNSHARE_HARMLESS)], NAMESPACE),
    deny(call!(setns), OTHER_NAMESPACE),
    // Mounts.
    deny(call!(mount), MOUNT),
    deny(call!(umount2), MOUNT),
    deny(call!(pivot_root), MOUNT),
    deny(call!(chroot), "moves the root that paths are resolved from"),
    deny(call!(open_tree), MOUNT),
    deny(call!(open_tree_attr), MOUNT),
    deny(call!(move_mount), MOUNT),
    deny(call!(fsopen), MOUNT),
    deny(call!(fsconfig), MOUNT),
    deny(call!(fsmount), MOUNT),
    deny(call!(fspick), MOUNT),
    deny(call!(mount_setattr), MOUNT),
    // Other processes. Debuggers and sanitizers trace those of their own sandbox: the pid namespace and Landlock keep
    // them from all others, and the first process is not dumpable.
    deny(call!(pidfd_getfd), "takes descriptors out of another process"),
    deny(call!(kcmp), "compares kernel objects of other processes, which tells kernel addresses apart"),
    deny(call!(process_madvise), PROCESS),
    deny_if(
        call!(prlimit64),
        &[Test::int_is_not(0, 0), Test::not_null(2)],
        "sets limits of another process, such as the one that supervises; own limits use pid 0",
    ),
    deny(call!(move_pages), NUMA),
    deny(call!(migrate_pages), NUMA),
    // Ways round the checks.
    deny(call!(io_uring_setup), IO_URING),
    deny(call!(io_uring_enter), IO_URING),
    deny(call!(io_uring_register), IO_URING),
    deny(call!(open_by_handle_at), HANDLE),
    deny(call!(name_to_handle_at), HANDLE),
    deny(call!(fanotify_init), "watches files of other processes and hands out descriptors to them"),
    deny_if(
        call!(x86 mknod),
        &[Test::int_bits(1, DEVICE_MASK, DEVICE)],
        "a device node gives access to hardware whatever its place; fifos, sockets and files stay allowed",
    ),
    deny_if(
        call!(mknodat),
        &[Test::int_bits(2, DEVICE_MASK, DEVICE)],
        "a device node gives access to hardware whatever its place; fifos, sockets and files stay allowed",
    ),
    // Programs that would run with the rights of their owner. Of directories the bit for the group means something else:
    // where there is a supervisor, it lets that be set.
    deny_if(call!(x86 chmod), &[Test::any_of(1, SET_ID)], RUNS_AS_OWNER),
    deny_if(call!(fchmod), &[Test::any_of(1, SET_ID)], RUNS_AS_OWNER),
    deny_if(call!(fchmodat), &[Test::any_of(2, SET_ID)], RUNS_AS_OWNER),
    deny_if(call!(fchmodat2), &[Test::any_of(2, SET_ID)], RUNS_AS_OWNER),
    deny_if(call!(x86 open), &[Test::any_of(1, MAKES_FILE), Test::any_of(2, SET_ID)], RUNS_AS_OWNER),
    deny_if(call!(x86 creat), &[Test::any_of(1, SET_ID)], RUNS_AS_OWNER),
    deny_if(call!(openat), &[Test::any_of(2, MAKES_FILE), Test::any_of(3, SET_ID)], RUNS_AS_OWNER),
    deny_if(call!(x86 mknod), &[Test::any_of(1, SET_ID)], RUNS_AS_OWNER),
    deny_if(call!(mknodat), &[Test::any_of(2, SET_ID)], RUNS_AS_OWNER),
    // Terminals. The kernel takes the request as 32 bits.
    deny_if(call!(ioctl), &[Test::int_is(1, TIOCSTI)], TERMINAL),
    deny_if(call!(ioctl), &[Test::int_is(1, TIOCLINUX)], TERMINAL),
    deny_if(
        call!(ioctl),
        &[Test::int_is(1, TIOCSETD)],
        "line disciplines: rarely used kernel code with a record of holes, loaded on demand",
    ),
    // Kernel surface that developers' programs do not need.
    deny(call!(bpf), "programs inside the kernel; long record of holes"),
    deny(call!(userfaultfd), "stops the kernel in the middle of a copy, which turns small races into holes"),
    deny(call!(perf_event_open), "watches other processes and the kernel; long record of holes"),
    deny(call!(add_key), KEYS),
    deny(call!(request_key), KEYS),
    deny(call!(keyctl), KEYS),
    deny(call!(x86 modify_ldt), "16-bit segments, wanted only by emulators of old systems; record of holes"),
    allow_if(
        call!(personality),
        &[Test::int_is(0, PERSONALITY_QUERY)],
        "asks for the personality without changing it",
    ),
    deny_if(
        call!(personality),
        &[Test::any_of(0, !PERSONALITY_HARMLESS & 0xffff_ffff)],
        "switches off protections of memory, such as the randomisation of addresses; debuggers go on without, and \
         setarch works but for that",
    ),
    deny_if(
        call!(prctl),
        &[Test::int_is(0, PR_SET_MM)],
        "lets a process lie about its program and arguments in /proc, from which reports are made",
    ),
    // The machine.
    deny(call!(init_module), MODULE),
    deny(call!(finit_module), MODULE),
    deny(call!(delete_module), MODULE),
    deny(call!(kexec_load), KEXEC),
    deny(call!(kexec_file_load), KEXEC),
    deny(call!(reboot), MACHINE),
    deny(call!(swapon), MACHINE),
    deny(call!(swapoff), MACHINE),
    deny(call!(acct), MACHINE),
    deny(call!(quotactl), MACHINE),
    deny(call!(quotactl_fd), MACHINE),
    deny(call!(sethostname), MACHINE),
    deny(call!(setdomainname), MACHINE),
    deny(call!(vhangup), MACHINE),
    deny(call!(syslog), "the kernel's log tells addresses and other users' doings"),
    deny(call!(settimeofday), CLOCK),
    deny(call!(clock_settime), CLOCK),
    deny(call!(adjtimex), CLOCK),
    deny(call!(clock_adjtime), CLOCK),
    deny(call!(x86 iopl), "gives direct access to hardware ports"),
    deny(call!(x86 ioperm), "gives direct access to hardware ports"),
    deny(call!(x86 create_module), OBSOLETE),
    deny(call!(x86 get_kernel_syms), OBSOLETE),
    deny(call!(x86 query_module), OBSOLETE),
    deny(call!(x86 _sysctl), OBSOLETE),
    deny(call!(nfsservctl), OBSOLETE),
    deny(call!(lookup_dcookie), OBSOLETE),
    // Sockets.
    allow_if(call!(socket), &[family(libc::AF_UNIX), kind(libc::SOCK_STREAM)], LOCAL),
    allow_if(call!(socket), &[family(libc::AF_UNIX), kind(libc::SOCK_SEQPACKET)], LOCAL),
    answer(NO_TYPE, call!(socket), &[family(libc::AF_UNIX)], DATAGRAM),
    allow_if(
        call!(socket),
        &[family(libc::AF_NETLINK), protocol(libc::NETLINK_ROUTE)],
        "lists network interfaces (getifaddrs), of which the sandbox has its own",
    ),
    answer(
        NO_PROTOCOL,
        call!(socket),
        &[family(libc::AF_NETLINK)],
        "netlink beyond interfaces: firewall, audit, crypto and others; libraries take this error for a \
         kernel without the feature",
    ),
    deny_if(
        call!(socket),
        &[INTERNET, kind(libc::SOCK_RAW)],
        "makes packets at will; the error is the one ping and its like know",
    ),
    allow_if(call!(socket), &[INTERNET, kind(libc::SOCK_STREAM), protocol(0)], ORDINARY),
    allow_if(call!(socket), &[INTERNET, kind(libc::SOCK_STREAM), protocol(libc::IPPROTO_TCP)], ORDINARY),
    allow_if(call!(socket), &[INTERNET, kind(libc::SOCK_DGRAM), protocol(0)], ORDINARY),
    allow_if(call!(socket), &[INTERNET, kind(libc::SOCK_DGRAM), protocol(libc::IPPROTO_UDP)], ORDINARY),
    allow_if(call!(socket), &[INTERNET, kind(libc::SOCK_DGRAM), protocol(libc::IPPROTO_UDPLITE)], ORDINARY),
    allow_if(call!(socket), &[INTERNET, kind(libc::SOCK_DGRAM), protocol(libc::IPPROTO_ICMP)], ORDINARY),
    allow_if(call!(socket), &[INTERNET, kind(libc::SOCK_DGRAM), protocol(libc::IPPROTO_ICMPV6)], ORDINARY),
    answer(
        NO_PROTOCOL,
        call!(socket),
        &[INTERNET],
        "SCTP, DCCP, L2TP, SMC, multipath TCP, and packet sockets by their old name: kernel code with a \
         record of holes; programs fall back to TCP",
    ),
    answer(
        NO_FAMILY,
        call!(socket),
        &[],
        "all other families (kernel crypto, hypervisor, packet, Bluetooth, CAN, …): kernel code with a record \
         of holes, or ways to the host past the network namespace",
    ),
    allow_if(call!(socketpair), &[family(libc::AF_UNIX), kind(libc::SOCK_STREAM)], LOCAL),
    allow_if(call!(socketpair), &[family(libc::AF_UNIX), kind(libc::SOCK_SEQPACKET)], LOCAL),
    answer(NO_TYPE, call!(socketpair), &[family(libc::AF_UNIX)], DATAGRAM),
    answer(NO_FAMILY, call!(socketpair), &[], "pairs exist for local sockets only; others as for socket"),
];

const LOCAL: &str = "reaches another process only by connect, which the supervisor sees";
const DATAGRAM: &str = "one datagram socket, even half of a pair, can send to any local socket whose path is \
     visible (a daemon's, in the project or a granted directory), by an address that no filter can read; raw \
     ones are the same by another name. Costs syslog(3), sd_notify(3) and musl's if_nametoindex(3)";
const ORDINARY: &str = "TCP, UDP and unprivileged ping; the network namespace decides where they get";
