//! `openat2`: flags behind a pointer, and limits on where a path may lead.

use std::os::fd::OwnedFd;

use ringfence_model::{Access, Operation};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::call::{self, Last, PathArg};
use super::opening::pointing;
use super::target::{self, PATH_MAX, Resolved};
use super::{Answer, Supervisor};
use crate::seccomp;

/// What the caller asked for, read once.
struct How {
    flags: i32,
    mode: u32,
    resolve: u64,
}

/// Limits that change where a path leads, or whether it leads anywhere.
const LIMITS: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::IN_ROOT).union(ResolveFlags::NO_SYMLINKS);

impl Supervisor<'_> {
    pub(super) fn open_how(&mut self, tid: i32, path: PathArg, how: u64) -> Answer {
        let Some(how) = read_how(tid, how) else {
            return if self.opens_itself() { Answer::Done(Err(Errno::FAULT)) } else { Answer::Continue };
        };
        self.how = (how.flags, how.mode);
        if super::makes_set_id(how.flags, how.mode) {
            return Answer::Refuse(&seccomp::SET_ID_FILE);
        }
        let resolve = ResolveFlags::from_bits_retain(how.resolve);
        // What only reads, the kernel opens, within the limits the caller set, where it opens anything.
        let writes = call::writes(how.flags);
        if (writes || self.opens_itself()) && resolve.intersects(LIMITS) {
            let access = if writes { Access::Write } else { Access::Read };
            return match self.limited(tid, path, how.flags, resolve) {
                Ok(Resolved::Missing) if how.flags & libc::O_CREAT == 0 => Answer::Done(Err(Errno::NOENT)),
                Ok(resolved) => {
                    self.resolved = resolved;
                    self.path.copy_from(&self.real);
                    pointing(how.flags, self.verdict(Operation::Open, access))
                }
                Err(errno) => Answer::Done(Err(errno)),
            };
        }
        let last = if how.flags & libc::O_NOFOLLOW != 0 { Last::Name } else { Last::Follow };
        self.open(tid, path, how.flags, last)
    }

    /// Where the path leads within the caller's limits, in `self.real`.
    fn limited(
        &mut self,
        tid: i32,
        path: PathArg,
        flags: i32,
        resolve: ResolveFlags,
    ) -> Result<Resolved, Errno> {
        let mut buffer = [0; PATH_MAX];
        let text = target::read_string(tid, path.address, &mut buffer).ok_or(Errno::NAMETOOLONG)?;
        if text.is_empty() {
            return Err(Errno::NOENT);
        }
        let stays = resolve.intersects(ResolveFlags::BENEATH | ResolveFlags::IN_ROOT);
        let (base, text, resolve) = if text.starts_with(b"/") && !stays {
            let root = self.root.as_ref().ok_or(Errno::ACCESS)?.try_clone().map_err(|_| Errno::MFILE)?;
            (root, text, resolve | ResolveFlags::IN_ROOT)
        } else {
            (base(tid, path.dirfd)?, text, resolve)
        };
        let resolve = resolve | ResolveFlags::NO_MAGICLINKS;
        let mut look = OFlags::PATH | OFlags::CLOEXEC;
        if flags & (libc::O_NOFOLLOW | libc::O_EXCL) != 0 {
            look |= OFlags::NOFOLLOW;
        }
        match rustix::fs::openat2(&base, text, look, Mode::empty(), resolve) {
            Ok(opened) => {
                target::real_path(&opened, &mut self.real).ok_or(Errno::NOENT)?;
                return Ok(Resolved::Exists);
            }
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
        let (directory, name) = split(text);
        if matches!(name, b"" | b"." | b"..") {
            return Err(Errno::NOENT);
        }
        let look = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat2(&base, directory, look, Mode::empty(), resolve)?;
        target::real_path(&opened, &mut self.real).ok_or(Errno::NOENT)?;
        if self.real.append(name) { Ok(Resolved::Missing) } else { Err(Errno::NAMETOOLONG) }
    }
}

/// The directory that a relative path starts from.
fn base(tid: i32, dirfd: i32) -> Result<OwnedFd, Errno> {
    let path = match dirfd {
        libc::AT_FDCWD => format!("/proc/{tid}/cwd"),
        _ => format!("/proc/{tid}/fd/{dirfd}"),
    };
    rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&b| b == b'/') {
        None => (b".", path),
        Some(0) => (b"/", &path[1..]),
        Some(slash) => (&path[..slash], &path[slash + 1..]),
    }
}

fn read_how(tid: i32, address: u64) -> Option<How> {
    let mut bytes = [0_u8; 24];
    if target::read_bytes(tid, address, &mut bytes).ok()? != bytes.len() {
        return None;
    }
    let (words, _) = bytes.as_chunks::<8>();
    let [flags, mode, resolve] = [0, 1, 2].map(|index| u64::from_ne_bytes(words[index]));
    Some(How {
        flags: i32::try_from(flags & 0x7fff_ffff).ok()?,
        mode: u32::try_from(mode & 0o7777).ok()?,
        resolve,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_name_is_split_off() {
        assert_eq!(split(b"a"), (&b"."[..], &b"a"[..]));
        assert_eq!(split(b"/a"), (&b"/"[..], &b"a"[..]));
        assert_eq!(split(b"../b/c"), (&b"../b"[..], &b"c"[..]));
        assert_eq!(split(b"b/"), (&b"b"[..], &b""[..]));
    }
}
