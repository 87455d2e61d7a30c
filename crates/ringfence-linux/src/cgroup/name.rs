//! Names of groups, from which their owner can be told.

use std::ffi::{CStr, CString};
use std::fmt;

const PREFIX: &str = "ringfence-";

/// `ringfence-<pid of the owner>-<random>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(CString);

impl Name {
    /// A new name, owned by this process.
    #[must_use]
    pub fn random() -> Self {
        let mut random = [0; 8];
        // Uniqueness is all that is asked; should there be no random numbers, the address of a local does.
        if rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::NONBLOCK).is_err() {
            random = ((&raw const random) as usize as u64).to_ne_bytes();
        }
        let text = format!("{PREFIX}{}-{:016x}", std::process::id(), u64::from_ne_bytes(random));
        Self(CString::new(text).unwrap_or_default())
    }

    #[must_use]
    pub fn as_c_str(&self) -> &CStr {
        &self.0
    }

    /// The process that owns the group of this name, if it is one of ours.
    #[must_use]
    pub fn owner(name: &[u8]) -> Option<rustix::process::Pid> {
        let name = std::str::from_utf8(name).ok()?;
        let (pid, random) = name.strip_prefix(PREFIX)?.split_once('-')?;
        let ours = random.len() == 16 && random.bytes().all(|byte| byte.is_ascii_hexdigit());
        ours.then(|| pid.parse().ok().and_then(rustix::process::Pid::from_raw)).flatten()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_string_lossy())
    }
}
