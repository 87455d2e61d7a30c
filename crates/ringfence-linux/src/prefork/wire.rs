//! The order of a pid 1, as bytes in one sealed descriptor, where it does not have it from its clone: inside bwrap
//! it is a program of its own, and one that was [begun](crate::prefork::one) is older than what it has to do.

use std::ffi::CString;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::termios::Winsize;

use crate::fuse::{Kind, Trap};
use crate::landlock::Rights;
use crate::plan::{BindAccess, Exec, LandlockRule, MountStep, Passed, Plan, Rlimit};
use crate::sys::{CStringArray, Sys};

/// No honest order is larger: the kernel lets arguments and environment be some megabytes.
const LARGEST: usize = 64 << 20;

/// The part of a launch that happens inside.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) plan: Plan,
    pub(crate) exec: Exec,
    pub(crate) tty: Option<Winsize>,
    /// See [`InitArgs::wait_for_go`](crate::init::InitArgs::wait_for_go).
    pub(crate) waits: bool,
}

/// The parts of an order, to be packed.
#[derive(Debug)]
pub(crate) struct Contents<'a> {
    /// But for the mounts and traps.
    pub(crate) plan: &'a Plan,
    pub(crate) exec: &'a Exec,
    /// The descriptors of the command by their numbers inside.
    pub(crate) passed: &'a [Passed],
    pub(crate) tty: Option<Winsize>,
    pub(crate) waits: bool,
    /// Those that pid 1 makes.
    pub(crate) mounts: &'a [MountStep],
    pub(crate) traps: &'a [Trap],
}

/// A descriptor with these bytes that nobody can change any more.
pub(crate) fn sealed(name: &str, bytes: &[u8]) -> Sys<OwnedFd> {
    let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        let written = rustix::io::write(&fd, rest)?;
        rest = &rest[written..];
    }
    let all = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&fd, all)?;
    rustix::fs::seek(&fd, rustix::fs::SeekFrom::Start(0))?;
    Ok(fd)
}

/// Everything a descriptor holds, from its start.
pub(crate) fn contents(fd: BorrowedFd<'_>, most: usize) -> Sys<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut buffer = [0_u8; 16 * 1024];
    loop {
        match rustix::io::pread(fd, &mut buffer, bytes.len() as u64) {
            Ok(0) => return Ok(bytes),
            Ok(length) => bytes.extend_from_slice(&buffer[..length]),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        if bytes.len() > most {
            return Err(Errno::FBIG);
        }
    }
}

pub(crate) fn pack(contents: &Contents<'_>) -> Sys<OwnedFd> {
    let Contents { plan, exec, passed, tty, waits, mounts, traps } = contents;
    let mut out = Writer(Vec::with_capacity(64 * 1024));
    out.bytes(plan.hostname.as_bytes());
    out.list(mounts.iter(), Writer::mount);
    out.list(traps.iter(), |out, trap| {
        out.number(u64::from(trap.kind == Kind::Directory));
        out.bytes(trap.path.as_bytes());
    });
    out.list(plan.landlock.iter(), |out, (abi, rules)| {
        out.number(u64::from(*abi));
        out.list(rules.iter(), |out, rule| {
            out.number(code(rule.rights));
            out.bytes(rule.path.as_bytes());
        });
    });
    out.number(u64::from(plan.without_tcp));
    out.list(plan.rlimits.iter(), |out, limit| {
        out.number(u64::from(limit.resource));
        out.number(limit.soft);
        out.number(limit.hard);
    });
    out.program(&plan.filter);
    out.number(u64::from(plan.supervised));
    out.list(plan.unsupervised_filter.iter(), |out, program| out.program(program));
    for strings in [&exec.candidates[..], exec.argv.strings(), exec.env.strings()] {
        out.list(strings.iter(), |out, text| out.bytes(text.as_bytes()));
    }
    out.bytes(exec.cwd.as_bytes());
    out.list(passed.iter(), |out, passed| {
        out.number(u64::from(passed.source.unsigned_abs()));
        out.number(u64::from(passed.target.unsigned_abs()));
    });
    out.number(u64::from(exec.held));
    out.list(tty.iter(), |out, size| {
        for number in [size.ws_row, size.ws_col, size.ws_xpixel, size.ws_ypixel] {
            out.number(u64::from(number));
        }
    });
    out.number(u64::from(*waits));
    sealed("ringfence-order", &out.0)
}

/// The first mounts of a plan, ahead of it.
pub(crate) fn pack_mounts(mounts: &[MountStep]) -> Sys<OwnedFd> {
    let mut out = Writer(Vec::with_capacity(16 * 1024));
    out.list(mounts.iter(), Writer::mount);
    sealed("ringfence-mounts", &out.0)
}

pub(crate) fn unpack_mounts(fd: BorrowedFd<'_>) -> Sys<Vec<MountStep>> {
    let bytes = contents(fd, LARGEST)?;
    let mut from = Reader(&bytes);
    from.list(Reader::mount).filter(|_| from.0.is_empty()).ok_or(Errno::BADMSG)
}

pub(crate) fn unpack(fd: BorrowedFd<'_>) -> Sys<Order> {
    let bytes = contents(fd, LARGEST)?;
    let mut from = Reader(&bytes);
    from.order().filter(|_| from.0.is_empty()).ok_or(Errno::BADMSG)
}

fn code(rights: Rights) -> u64 {
    match rights {
        Rights::List => 1,
        Rights::Read => 2,
        Rights::Device => 3,
        Rights::Write => 4,
        Rights::SupervisorOnly => 5,
    }
}

fn rights(code: u64) -> Option<Rights> {
    [Rights::List, Rights::Read, Rights::Device, Rights::Write, Rights::SupervisorOnly]
        .into_iter()
        .find(|rights| self::code(*rights) == code)
}

struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_ne_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn list<T>(&mut self, items: impl ExactSizeIterator<Item = T>, mut each: impl FnMut(&mut Self, T)) {
        self.number(items.len() as u64);
        for item in items {
            each(self, item);
        }
    }

    fn mount(&mut self, step: &MountStep) {
        let mut named = |number: u64, path: &CString| {
            self.number(number);
            self.bytes(path.as_bytes());
        };
        match step {
            MountStep::Dir { path, mode } => {
                named(1, path);
                self.number(u64::from(*mode));
            }
            MountStep::File { path } => named(2, path),
            MountStep::Symlink { target, path } => {
                named(3, path);
                self.bytes(target.as_bytes());
            }
            MountStep::Bind { source, target, access } => {
                named(4, target);
                self.bytes(source.as_bytes());
                self.number(match access {
                    BindAccess::ReadOnly => 1,
                    BindAccess::ReadWrite => 2,
                    BindAccess::Device => 3,
                    BindAccess::Idmapped => 4,
                });
            }
            MountStep::Tmpfs { target, mode, size } => {
                named(5, target);
                self.number(u64::from(*mode));
                self.list(size.iter(), |out, size| out.number(*size));
            }
            MountStep::Proc { target } => named(6, target),
            MountStep::Devpts { target } => named(7, target),
            MountStep::Mask { target } => named(8, target),
            MountStep::Seal { target } => named(9, target),
            MountStep::Pin { target } => named(10, target),
            MountStep::Replace { target, content } => {
                named(11, target);
                self.bytes(content);
            }
            MountStep::ReadOnly { target } => named(12, target),
        }
    }

    fn program(&mut self, program: &[libc::sock_filter]) {
        self.list(program.iter(), |out, step| {
            for number in [u64::from(step.code), u64::from(step.jt), u64::from(step.jf), u64::from(step.k)] {
                out.number(number);
            }
        });
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        self.take(8)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
    }

    fn small<T: TryFrom<u64>>(&mut self) -> Option<T> {
        T::try_from(self.number()?).ok()
    }

    fn flag(&mut self) -> Option<bool> {
        match self.number()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn text(&mut self) -> Option<CString> {
        let length = self.small()?;
        CString::new(self.take(length)?).ok()
    }

    fn list<T>(&mut self, mut each: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let length: usize = self.small()?;
        // Every item takes bytes, so a length that lies ends soon; only what is there is made room for.
        let mut items = Vec::with_capacity(length.min(self.0.len()));
        for _ in 0..length {
            items.push(each(self)?);
        }
        Some(items)
    }

    fn mount(&mut self) -> Option<MountStep> {
        let (number, target) = (self.number()?, self.text()?);
        Some(match number {
            1 => MountStep::Dir { path: target, mode: self.small()? },
            2 => MountStep::File { path: target },
            3 => MountStep::Symlink { path: target, target: self.text()? },
            4 => MountStep::Bind {
                target,
                source: self.text()?,
                access: match self.number()? {
                    1 => BindAccess::ReadOnly,
                    2 => BindAccess::ReadWrite,
                    3 => BindAccess::Device,
                    4 => BindAccess::Idmapped,
                    _ => return None,
                },
            },
            5 => MountStep::Tmpfs {
                target,
                mode: self.small()?,
                size: self.list(Self::number)?.into_iter().next(),
            },
            6 => MountStep::Proc { target },
            7 => MountStep::Devpts { target },
            8 => MountStep::Mask { target },
            9 => MountStep::Seal { target },
            10 => MountStep::Pin { target },
            11 => {
                let length = self.small()?;
                MountStep::Replace { target, content: self.take(length)?.to_vec() }
            }
            12 => MountStep::ReadOnly { target },
            _ => return None,
        })
    }

    fn program(&mut self) -> Option<Vec<libc::sock_filter>> {
        self.list(|from| {
            Some(libc::sock_filter {
                code: from.small()?,
                jt: from.small()?,
                jf: from.small()?,
                k: from.small()?,
            })
        })
    }

    fn order(&mut self) -> Option<Order> {
        let hostname = self.text()?;
        let mounts = self.list(Self::mount)?;
        let traps = self.list(|from| {
            let kind = if from.flag()? { Kind::Directory } else { Kind::File };
            Some(Trap { kind, path: from.text()? })
        })?;
        let landlock = self.list(|from| {
            let abi = from.small()?;
            let rule =
                |from: &mut Self| Some(LandlockRule { rights: rights(from.number()?)?, path: from.text()? });
            Some((abi, from.list(rule)?))
        })?;
        let plan = Plan {
            hostname,
            mounts,
            idmapped: None,
            traps,
            landlock: landlock.into_iter().next(),
            without_tcp: self.flag()?,
            rlimits: self.list(|from| {
                Some(Rlimit { resource: from.small()?, soft: from.number()?, hard: from.number()? })
            })?,
            filter: self.program()?,
            supervised: self.flag()?,
            unsupervised_filter: self.list(Self::program)?.into_iter().next(),
        };
        let exec = Exec {
            candidates: self.list(Self::text)?,
            argv: CStringArray::new(self.list(Self::text)?),
            env: CStringArray::new(self.list(Self::text)?),
            cwd: self.text()?,
            passed: self.list(|from| Some(Passed { source: from.small()?, target: from.small()? }))?,
            held: self.flag()?,
        };
        let tty = self.list(|from| {
            Some(Winsize {
                ws_row: from.small()?,
                ws_col: from.small()?,
                ws_xpixel: from.small()?,
                ws_ypixel: from.small()?,
            })
        })?;
        Some(Order { plan, exec, tty: tty.into_iter().next(), waits: self.flag()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn plan() -> Plan {
        Plan {
            hostname: c"fence".into(),
            mounts: vec![
                MountStep::Dir { path: c"/d".into(), mode: 0o755 },
                MountStep::File { path: c"/f".into() },
                MountStep::Symlink { target: c"d".into(), path: c"/l".into() },
                MountStep::Bind { source: c"/s".into(), target: c"/t".into(), access: BindAccess::ReadOnly },
                MountStep::Bind { source: c"/s".into(), target: c"/t".into(), access: BindAccess::ReadWrite },
                MountStep::Bind { source: c"/s".into(), target: c"/t".into(), access: BindAccess::Device },
                MountStep::Bind { source: c"/s".into(), target: c"/t".into(), access: BindAccess::Idmapped },
                MountStep::Tmpfs { target: c"/tmp".into(), mode: 0o1777, size: Some(1 << 40) },
                MountStep::Tmpfs { target: c"/home".into(), mode: 0o700, size: None },
                MountStep::Proc { target: c"/proc".into() },
                MountStep::Devpts { target: c"/dev/pts".into() },
                MountStep::Mask { target: c"/m".into() },
                MountStep::Seal { target: c"/seal".into() },
                MountStep::Pin { target: c"/pin".into() },
                MountStep::Replace { target: c"/r".into(), content: b"\0\n".to_vec() },
                MountStep::ReadOnly { target: c"/ro".into() },
            ],
            idmapped: None,
            traps: vec![
                Trap { path: c"/trap".into(), kind: Kind::File },
                Trap { path: c"/traps".into(), kind: Kind::Directory },
            ],
            landlock: Some((
                7,
                vec![
                    LandlockRule { path: c"/usr".into(), rights: Rights::Read },
                    LandlockRule { path: c"/p \xff".into(), rights: Rights::Write },
                ],
            )),
            without_tcp: true,
            rlimits: vec![Rlimit { resource: 4, soft: 0, hard: u64::MAX }],
            filter: crate::seccomp::static_program(),
            supervised: true,
            unsupervised_filter: Some(crate::seccomp::static_program()),
        }
    }

    fn exec() -> Exec {
        Exec {
            candidates: vec![c"/bin/true".into()],
            argv: CStringArray::new(vec![c"true".into(), c"".into()]),
            env: CStringArray::new(vec![c"A=b c".into()]),
            cwd: c"/".into(),
            passed: vec![Passed { source: 130, target: 90 }],
            held: true,
        }
    }

    fn packed(plan: &Plan, exec: &Exec, tty: Option<Winsize>) -> OwnedFd {
        let (passed, mounts, traps) = (&exec.passed, &plan.mounts, &plan.traps);
        pack(&Contents { plan, exec, passed, tty, waits: true, mounts, traps }).unwrap()
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 1, ws_ypixel: 2 };
        let (plan, exec) = (plan(), exec());
        let fd = packed(&plan, &exec, Some(size));
        let order = unpack(fd.as_fd()).unwrap();
        assert_eq!(order.plan.mounts, plan.mounts);
        assert_eq!(order.plan.traps, plan.traps);
        assert!(order.waits);
        assert_eq!(order.plan.landlock, plan.landlock);
        assert_eq!(order.plan.rlimits, plan.rlimits);
        assert_eq!(order.plan.filter.len(), plan.filter.len());
        assert!(order.plan.without_tcp && order.plan.supervised);
        assert!(order.plan.unsupervised_filter.is_some());
        assert_eq!(order.exec.argv.strings(), exec.argv.strings());
        assert_eq!(order.exec.env.strings(), exec.env.strings());
        assert_eq!(order.exec.passed, exec.passed);
        assert_eq!(order.tty.map(|size| size.ws_col), Some(80));
        assert_eq!(rustix::io::write(&fd, b"x"), Err(Errno::PERM), "nobody can change it any more");
    }

    #[test]
    fn mounts_travel_ahead_of_their_plan() {
        let mounts = plan().mounts;
        let fd = pack_mounts(&mounts).unwrap();
        assert_eq!(unpack_mounts(fd.as_fd()).unwrap(), mounts);
        let whole = packed(&plan(), &exec(), None);
        assert_eq!(unpack_mounts(whole.as_fd()).err(), Some(Errno::BADMSG));
    }

    #[test]
    fn what_is_cut_or_longer_is_refused() {
        let fd = packed(&plan(), &exec(), None);
        let bytes = contents(fd.as_fd(), LARGEST).unwrap();
        for wrong in [&bytes[..bytes.len() - 1], &bytes[..7], &[], &[&bytes[..], b"x"].concat()] {
            let fd = sealed("wrong", wrong).unwrap();
            assert_eq!(unpack(fd.as_fd()).err(), Some(Errno::BADMSG));
        }
        let lying = sealed("lying", &[0xff; 64]).unwrap();
        assert_eq!(unpack(lying.as_fd()).err(), Some(Errno::BADMSG));
    }
}
