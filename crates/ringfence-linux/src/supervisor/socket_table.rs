//! Which file a local socket of this network namespace is bound to, as the kernel's own table has it.
//!
//! [`look_up`] runs in a helper process: nothing in it allocates.

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

use crate::sys::Sys;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const REQUEST_AND_DUMP: u16 = 0x301;
const SHOW_FILE: u32 = 2;
const FILE: u16 = 1;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Of a netlink message, and of what the table says of a socket.
const HEADER: usize = 16;
const SOCKET: usize = 16;

/// A file as the table has it: the device and the number that the kernel itself knows it by. Programs are told others by
/// some file systems (btrfs, overlayfs).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) major: u32,
    pub(super) minor: u32,
    pub(super) inode: u64,
}

impl Bound {
    /// The file that is held open, in a mount that the thread `tid` sees. None when nobody can tell.
    pub(super) fn of(file: &OwnedFd, tid: i32) -> Option<Self> {
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
        let field = |key: &str| info.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let (mount, inode) = (field("mnt_id:")?, field("ino:")?.parse().ok()?);
        let mounts = std::fs::read_to_string(format!("/proc/{tid}/mountinfo")).ok()?;
        let device = mounts.lines().find_map(|line| {
            let mut fields = line.split(' ');
            // After it: the mount above.
            (fields.next() == Some(mount)).then(|| fields.nth(1)).flatten()
        });
        let (major, minor) = device?.split_once(':')?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()?, inode })
    }
}

/// The number of the socket that is bound to the file. `ESRCH` when there is none.
pub(super) fn look_up(file: Bound) -> Sys<u32> {
    let flags = SocketFlags::CLOEXEC;
    let table =
        rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(netlink::SOCK_DIAG))?;
    rustix::net::send(&table, &request(), SendFlags::empty())?;
    let mut buffer = [0_u8; 32 * 1024];
    loop {
        let (length, _) = rustix::net::recv(&table, &mut buffer[..], RecvFlags::empty())?;
        match scan(&buffer[..length], file) {
            Found::Yes(socket) => return Ok(socket),
            Found::NotYet => {}
            Found::No => return Err(Errno::SRCH),
            Found::Unknown => return Err(Errno::NOSYS),
        }
    }
}

/// All local sockets, with the file each is bound to.
fn request() -> [u8; 40] {
    let mut bytes = [0; 40];
    bytes[..4].copy_from_slice(&40_u32.to_ne_bytes());
    bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&REQUEST_AND_DUMP.to_ne_bytes());
    bytes[16] = 1; // AF_UNIX
    bytes[20..24].copy_from_slice(&u32::MAX.to_ne_bytes()); // in whatever state
    bytes[28..32].copy_from_slice(&SHOW_FILE.to_ne_bytes());
    bytes
}

#[derive(Debug, PartialEq, Eq)]
enum Found {
    Yes(u32),
    No,
    NotYet,
    /// The kernel does not keep such a table.
    Unknown,
}

fn scan(mut messages: &[u8], file: Bound) -> Found {
    while let (Some(length), Some(kind)) = (number(messages, 0), short(messages, 4)) {
        match kind {
            DONE => return Found::No,
            ERROR => return Found::Unknown,
            _ => {}
        }
        let length = length as usize;
        let Some(message) = messages.get(..length).filter(|_| length >= HEADER) else {
            return Found::Unknown;
        };
        if message.get(HEADER + SOCKET..).is_some_and(|attributes| names(attributes, file)) {
            // After family, kind and state.
            return number(message, HEADER + 4).map_or(Found::Unknown, Found::Yes);
        }
        messages = messages.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Found::NotYet
}

/// Whether the attributes of a socket name that file.
fn names(mut attributes: &[u8], file: Bound) -> bool {
    while let (Some(length), Some(kind)) = (short(attributes, 0), short(attributes, 2)) {
        let length = usize::from(length);
        if kind == FILE
            && let (Some(inode), Some(device)) = (number(attributes, 4), number(attributes, 8))
        {
            let own = file.major << 20 | file.minor;
            // The table has room for the lower half only.
            return u64::from(inode) == file.inode & 0xffff_ffff && device == own;
        }
        if length < 4 {
            return false;
        }
        attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    false
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_socket_is_found_by_its_file() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let file = || {
            let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
            let file = rustix::fs::open(&path, flags, rustix::fs::Mode::empty()).unwrap();
            Bound::of(&file, rustix::thread::gettid().as_raw_nonzero().get()).unwrap()
        };
        let socket = look_up(file()).unwrap();
        let number = rustix::fs::fstat(&listener).unwrap().st_ino;
        assert_eq!(u64::from(socket), number & 0xffff_ffff);
        drop(listener);
        // The file is still there.
        assert_eq!(look_up(file()), Err(Errno::SRCH));
    }
}
