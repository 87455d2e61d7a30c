//! The guest in a container: our own program, shown to it read-only, which gives it exact violations, limits, live approval
//! and shells that remember, all over one connection.
//!
//! | module | what it holds |
//! |---|---|
//! | [`link`] | the connection: requests and what comes of them |
//! | [`inside`] | the policy, in the container's words |
//! | `jobs` | background commands and terminals |
//! | `asking` | questions of the fence inside, answered outside |
//! | `connections` | connections of the fence inside, made outside |

mod asking;
mod connections;
pub mod inside;
mod jobs;
pub mod link;

use std::path::{Path, PathBuf};

use ringfence_model::{Error, ErrorKind, Result};
use sha1::{Digest as _, Sha1};

pub(crate) use connections::Outside;
pub(crate) use jobs::GuestJobs;
pub use link::Link;

/// Where the container sees the guest.
pub const TARGET: &str = "/.ringfence-guest";

/// The label that says which guest a container was made with.
pub const LABEL: &str = "ringfence.guest";

/// What the label says of a container that was made without: then, behind it, the one that does not run in it.
pub const WITHOUT: &str = "without";

/// The label of a container that was made without this one, because it does not run there.
#[must_use]
pub fn without(tag: &str) -> String {
    format!("{WITHOUT}:{tag}")
}

/// Where a guest finds its bash.
pub(crate) const BASH: [&str; 3] = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"];

/// How a guest starts its shells: as in a login the image's profile is read, and what the container was given as PATH comes before what
/// the profile says.
pub(crate) const SHELL: &str = r#"bash -c 'p=$PATH; if [ -r /etc/profile ]; then . /etc/profile </dev/null >/dev/null 2>&1; fi; case $PATH in "$p" | "$p":*) ;; *) PATH=$p:$PATH ;; esac; export PATH; unset p; exec "$@"' bash bash"#;

/// A program that can be a guest; see `ringfence_local::guest`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestProgram {
    pub path: PathBuf,
    /// Another one has another.
    pub tag: String,
}

impl GuestProgram {
    /// Looks at the program: it must be one that runs in any image, which on Linux is one without libraries.
    pub fn open(path: &Path) -> Result<Self> {
        use std::io::Read as _;
        use std::os::unix::fs::MetadataExt as _;
        let cannot = |error: std::io::Error| {
            Error::new(ErrorKind::InvalidConfig, format!("cannot use {} as a guest", path.display()))
                .caused_by(error)
        };
        let path = path.canonicalize().map_err(cannot)?;
        let mut file = std::fs::File::open(&path).map_err(cannot)?;
        let mut head = Vec::new();
        file.by_ref().take(4096).read_to_end(&mut head).map_err(cannot)?;
        if !is_static_elf(&head) {
            let message = format!("{} is not a Linux program without libraries", path.display());
            return Err(Error::new(ErrorKind::Unsupported, message)
                .hint("build ringfence as a static program, or set guest to \"off\""));
        }
        let meta = file.metadata().map_err(cannot)?;
        let identity = format!("{}:{}:{}:{}", path.display(), meta.size(), meta.mtime(), meta.mtime_nsec());
        let tag = Sha1::digest(identity).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { path, tag })
    }
}

/// Whether it is an ELF program whose headers name no loader.
fn is_static_elf(head: &[u8]) -> bool {
    const INTERPRETER: u32 = 3;
    let number = |at: usize, size: usize| -> Option<u64> {
        let bytes = head.get(at..at.checked_add(size)?)?;
        Some(bytes.iter().rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte)))
    };
    let sixty_four_little = head.get(..6).is_some_and(|start| start == b"\x7fELF\x02\x01");
    let headers = || -> Option<bool> {
        let start = usize::try_from(number(32, 8)?).ok()?;
        let size = usize::try_from(number(54, 2)?).ok()?;
        let count = usize::try_from(number(56, 2)?).ok()?;
        for index in 0..count {
            if number(start.checked_add(index.checked_mul(size)?)?, 4)? == u64::from(INTERPRETER) {
                return Some(false);
            }
        }
        Some(count > 0)
    };
    sixty_four_little && headers() == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_programs_without_a_loader_are_guests() {
        assert!(!is_static_elf(b"#!/bin/sh\n"));
        assert!(!is_static_elf(b""));
        assert!(!is_static_elf(b"\x7fELF\x02\x01"));
        let error = GuestProgram::open(Path::new("/etc/hostname-that-is-not-there")).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidConfig);
        // The shell of the system has libraries on every machine that runs tests.
        #[cfg(target_os = "linux")]
        assert_eq!(GuestProgram::open(Path::new("/bin/bash")).unwrap_err().kind, ErrorKind::Unsupported);
    }

    #[cfg(all(target_os = "linux", target_feature = "crt-static"))]
    #[test]
    fn our_own_programs_are_guests() {
        GuestProgram::open(&std::env::current_exe().unwrap()).unwrap();
    }
}
