//! The tripwire: a file system in the place of what is hidden or denied, which refuses everything and tells.
//!
//! A mask refuses silently: a program that only asks for a file's size, or executes it, is told "Permission
//! denied" and nobody else hears of it. So masks and closed doors are covered once more, by parts of a FUSE
//! file system whose server ([`Server`]) runs on the host side. The kernel asks it whoever uses the path, by
//! whichever call, with the exact path and the caller. It holds nothing and gives nothing away: names that
//! the host has exist, names that it lacks do not, and every use of them is refused.
//!
//! Below each part the mask is still there. A server that dies is an error for whoever asks (`ENOTCONN`),
//! never a hang and never a way in.
//!
//! | module | what it holds |
//! |---|---|
//! | [`wire`] | requests and replies as the kernel writes and reads them |
//! | [`nodes`] | which number stands for which path |
//! | [`server`] | from requests to attempts and replies |
//! | [`mount`] | the inner side: makes the file system and lays its parts out |

pub(crate) mod mount;
mod nodes;
mod server;
mod wire;

pub use server::{Attempt, Guard, Server};

use std::ffi::CString;

/// A place that is covered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trap {
    /// Of the host, and inside.
    pub path: CString,
    pub kind: Kind,
}

/// What is seen there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Directory,
    File,
}

/// Whether this user can open the kernel's FUSE device at all. Without it there is no tripwire.
pub fn probe() -> Result<(), std::io::Error> {
    use rustix::fs::{Mode, OFlags};
    rustix::fs::open(c"/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    Ok(())
}
