//! What a mediated system call asks for, in the supervisor's words.

use super::notif::Notification;
use crate::seccomp;
use ringfence_model::Operation;

/// A path argument: where it lies in the caller's memory and what it is relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PathArg {
    pub(crate) dirfd: i32,
    pub(crate) address: u64,
}

/// How the last component is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Last {
    /// A link is followed to what it names.
    Follow,
    /// The name itself is meant.
    Name,
}

/// Whether what was at the second name ends up at the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exchange {
    Yes,
    No,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Open {
        path: PathArg,
        flags: i32,
        mode: u32,
        last: Last,
    },
    /// Flags lie behind a pointer.
    OpenHow {
        path: PathArg,
        how: u64,
        size: u64,
    },
    Execute {
        path: PathArg,
    },
    /// Enters a directory ([`Operation::List`]), or asks whether something may be read ([`Operation::Stat`]).
    Look {
        operation: Operation,
        path: PathArg,
    },
    /// Makes a name that must not exist yet.
    Create {
        operation: Operation,
        path: PathArg,
    },
    /// Changes something that exists.
    Change {
        operation: Operation,
        path: PathArg,
        last: Last,
    },
    /// Changes an attribute of what the caller has open.
    Attribute {
        operation: Operation,
        descriptor: i32,
    },
    /// Has another way, which every program takes where the kernel is an older one.
    Newer,
    /// Two names.
    Move {
        operation: Operation,
        from: PathArg,
        to: PathArg,
        /// Of the first.
        last: Last,
        exchange: Exchange,
    },
    Connect {
        socket: i32,
        address: u64,
        length: u64,
    },
    Bind {
        socket: i32,
        address: u64,
        length: u64,
    },
    SendTo {
        socket: i32,
        flags: u64,
        address: u64,
        length: u64,
    },
    /// The address is in each header.
    SendMessages {
        socket: i32,
        flags: u64,
        headers: u64,
        count: u64,
    },
    /// Makes a socket of a kind that nobody may have.
    Socket,
    /// About a socket, where the network is the host's.
    HostsNetwork,
    /// Wants a handle of a process, or changes how it runs.
    Handle {
        pid: i32,
    },
    /// Nothing the supervisor has a say in.
    Other,
}

const CWD: i32 = libc::AT_FDCWD;
/// The process of the host that is never inside.
const HOSTS_FIRST: i32 = 1;

// The same on every machine, and not in every C library's headers yet.
const SYS_SETXATTRAT: i64 = 463;
const SYS_REMOVEXATTRAT: i64 = 466;
const SYS_FILE_SETATTR: i64 = 469;

impl Call {
    /// Whether it changes what is known of a file besides its content.
    pub(crate) fn changes_attribute(self) -> bool {
        use Operation::{Chmod, Chown, Utime, Xattr};
        matches!(self, Self::Attribute { .. } | Self::Change { operation: Chmod | Chown | Utime | Xattr, .. })
    }

    /// Whether it can make a name that was not there.
    pub(crate) fn creates(self) -> bool {
        match self {
            Self::Create { .. } | Self::Move { .. } => true,
            Self::Open { flags, .. } => flags & libc::O_CREAT != 0,
            _ => false,
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the kernel itself takes the low 32 bits of int arguments"
    )]
    pub(crate) fn decode(notification: &Notification) -> Self {
        let args = notification.args;
        let int = |index: usize| args[index] as i32;
        let at = |dirfd: usize| PathArg { dirfd: int(dirfd), address: args[dirfd + 1] };
        let cwd = |index: usize| PathArg { dirfd: CWD, address: args[index] };
        let follow_unless = |flags: usize, nofollow: i32| {
            if int(flags) & nofollow != 0 { Last::Name } else { Last::Follow }
        };
        let open = |path, flags: i32, mode: usize| Self::Open {
            path,
            flags,
            mode: args[mode] as u32,
            last: if flags & (libc::O_NOFOLLOW | libc::O_EXCL) != 0 { Last::Name } else { Last::Follow },
        };
        match notification.nr {
            libc::SYS_openat => open(at(0), int(2), 3),
            libc::SYS_openat2 => Self::OpenHow { path: at(0), how: args[2], size: args[3] },
            libc::SYS_execve => Self::Execute { path: cwd(0) },
            libc::SYS_execveat => Self::Execute { path: at(0) },
            libc::SYS_chdir => Self::Look { operation: Operation::List, path: cwd(0) },
            libc::SYS_faccessat | libc::SYS_faccessat2 => {
                Self::Look { operation: Operation::Stat, path: at(0) }
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_access => Self::Look { operation: Operation::Stat, path: cwd(0) },
            libc::SYS_truncate => change(Operation::Truncate, cwd(0), Last::Follow),
            libc::SYS_mkdirat => create(Operation::Mkdir, at(0)),
            libc::SYS_mknodat => create(Operation::Create, at(0)),
            libc::SYS_symlinkat => create(Operation::Symlink, at(1)),
            libc::SYS_linkat => {
                let last = if int(4) & libc::AT_SYMLINK_FOLLOW != 0 { Last::Follow } else { Last::Name };
                let (from, to) = (at(0), at(2));
                Self::Move { operation: Operation::Link, from, to, last, exchange: Exchange::No }
            }
            libc::SYS_renameat => moved(Operation::Rename, at(0), at(2)),
            libc::SYS_renameat2 => {
                let swaps = args[4] & u64::from(libc::RENAME_EXCHANGE) != 0;
                let exchange = if swaps { Exchange::Yes } else { Exchange::No };
                let (from, to) = (at(0), at(2));
                Self::Move { operation: Operation::Rename, from, to, last: Last::Name, exchange }
            }
            libc::SYS_unlinkat => change(Operation::Remove, at(0), Last::Name),
            libc::SYS_fchmodat => change(Operation::Chmod, at(0), Last::Follow),
            libc::SYS_fchmod => of_open(Operation::Chmod, int(0)),
            libc::SYS_fchmodat2 => {
                change(Operation::Chmod, at(0), follow_unless(3, libc::AT_SYMLINK_NOFOLLOW))
            }
            libc::SYS_fchownat => {
                change(Operation::Chown, at(0), follow_unless(4, libc::AT_SYMLINK_NOFOLLOW))
            }
            libc::SYS_fchown => of_open(Operation::Chown, int(0)),
            // Without a path it is about the descriptor.
            libc::SYS_utimensat if args[1] == 0 && int(0) != CWD => of_open(Operation::Utime, int(0)),
            libc::SYS_utimensat => {
                change(Operation::Utime, at(0), follow_unless(3, libc::AT_SYMLINK_NOFOLLOW))
            }
            libc::SYS_setxattr | libc::SYS_removexattr => change(Operation::Xattr, cwd(0), Last::Follow),
            libc::SYS_lsetxattr | libc::SYS_lremovexattr => change(Operation::Xattr, cwd(0), Last::Name),
            libc::SYS_fsetxattr | libc::SYS_fremovexattr => of_open(Operation::Xattr, int(0)),
            SYS_SETXATTRAT | SYS_REMOVEXATTRAT | SYS_FILE_SETATTR => Self::Newer,
            libc::SYS_socket => Self::Socket,
            libc::SYS_listen
            | libc::SYS_getpeername
            | libc::SYS_getsockname
            | libc::SYS_getsockopt
            | libc::SYS_recvfrom
            | libc::SYS_recvmsg => Self::HostsNetwork,
            libc::SYS_pidfd_open
            | libc::SYS_sched_setaffinity
            | libc::SYS_sched_setscheduler
            | libc::SYS_sched_setparam
            | libc::SYS_sched_setattr => Self::Handle { pid: int(0) },
            libc::SYS_prlimit64 if args[2] == 0 => Self::Handle { pid: int(0) },
            // All processes of a user are those of the host too.
            libc::SYS_setpriority if int(0) == libc::PRIO_USER as i32 => Self::Handle { pid: HOSTS_FIRST },
            libc::SYS_ioprio_set if args[0] as u32 == seccomp::IOPRIO_WHO_USER => {
                Self::Handle { pid: HOSTS_FIRST }
            }
            libc::SYS_setpriority | libc::SYS_ioprio_set => Self::Handle { pid: int(1) },
            libc::SYS_connect => Self::Connect { socket: int(0), address: args[1], length: args[2] },
            libc::SYS_bind => Self::Bind { socket: int(0), address: args[1], length: args[2] },
            libc::SYS_sendto => {
                Self::SendTo { socket: int(0), flags: args[3], address: args[4], length: args[5] }
            }
            libc::SYS_sendmsg => {
                Self::SendMessages { socket: int(0), flags: args[2], headers: args[1], count: 1 }
            }
            libc::SYS_sendmmsg => {
                Self::SendMessages { socket: int(0), flags: args[3], headers: args[1], count: args[2] }
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => open(cwd(0), int(1), 2),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_creat => open(cwd(0), libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, 1),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mkdir => create(Operation::Mkdir, cwd(0)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mknod => create(Operation::Create, cwd(0)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_symlink => create(Operation::Symlink, cwd(1)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_link => moved(Operation::Link, cwd(0), cwd(1)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename => moved(Operation::Rename, cwd(0), cwd(1)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_unlink | libc::SYS_rmdir => change(Operation::Remove, cwd(0), Last::Name),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chmod => change(Operation::Chmod, cwd(0), Last::Follow),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chown => change(Operation::Chown, cwd(0), Last::Follow),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_lchown => change(Operation::Chown, cwd(0), Last::Name),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_utime | libc::SYS_utimes => change(Operation::Utime, cwd(0), Last::Follow),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_futimesat if args[1] == 0 && int(0) != CWD => of_open(Operation::Utime, int(0)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_futimesat => change(Operation::Utime, at(0), Last::Follow),
            _ => Self::Other,
        }
    }
}

fn create(operation: Operation, path: PathArg) -> Call {
    Call::Create { operation, path }
}

fn of_open(operation: Operation, descriptor: i32) -> Call {
    Call::Attribute { operation, descriptor }
}

fn moved(operation: Operation, from: PathArg, to: PathArg) -> Call {
    Call::Move { operation, from, to, last: Last::Name, exchange: Exchange::No }
}

fn change(operation: Operation, path: PathArg, last: Last) -> Call {
    Call::Change { operation, path, last }
}

/// Whether an open wants to change something.
pub(crate) fn writes(flags: i32) -> bool {
    flags & libc::O_PATH == 0
        && (flags & libc::O_ACCMODE != libc::O_RDONLY || flags & (libc::O_CREAT | libc::O_TRUNC) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notification(nr: i64, args: [u64; 6]) -> Notification {
        Notification { id: 1, tid: 1, nr, args }
    }

    #[test]
    fn arguments_end_up_where_they_belong() {
        let cwd = u64::from(libc::AT_FDCWD.cast_unsigned());
        let path = PathArg { dirfd: libc::AT_FDCWD, address: 0x10 };
        assert_eq!(
            Call::decode(&notification(libc::SYS_openat, [cwd, 0x10, libc::O_NOFOLLOW as u64, 0, 0, 0])),
            Call::Open { path, flags: libc::O_NOFOLLOW, mode: 0, last: Last::Name }
        );
        assert_eq!(
            Call::decode(&notification(libc::SYS_renameat2, [7, 0x10, 8, 0x20, 2, 0])),
            Call::Move {
                operation: Operation::Rename,
                from: PathArg { dirfd: 7, address: 0x10 },
                to: PathArg { dirfd: 8, address: 0x20 },
                last: Last::Name,
                exchange: Exchange::Yes,
            }
        );
        assert_eq!(
            Call::decode(&notification(libc::SYS_symlinkat, [0x99, cwd, 0x10, 0, 0, 0])),
            Call::Create { operation: Operation::Symlink, path }
        );
        assert_eq!(Call::decode(&notification(libc::SYS_getpid, [0; 6])), Call::Other);
    }

    #[test]
    fn only_opens_that_can_change_something_write() {
        assert!(!writes(libc::O_RDONLY | libc::O_CLOEXEC));
        assert!(!writes(libc::O_PATH | libc::O_RDWR));
        assert!(writes(libc::O_WRONLY));
        assert!(writes(libc::O_RDONLY | libc::O_CREAT));
        assert!(writes(libc::O_RDONLY | libc::O_TRUNC));
    }
}
