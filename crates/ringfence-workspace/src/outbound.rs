//! Media that an agent names: which file of the host is meant, if any.

use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use ringfence_model::{Error, ErrorKind, Result};

use crate::workspace::{FileKind, Workspace};

/// What a name of media stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediaSource {
    /// An address elsewhere, as it was written.
    Address(String),
    /// A file of the host.
    File(PathBuf),
}

impl Workspace {
    /// Finds what an agent in a sandbox means by `source`: an address (`http`, `https`), or a file of this workspace, by a relative path,
    /// by `file:`, by the host's path, or by the path that it is seen at inside (`seen_at`); or one of `temporary`. Anything else is
    /// refused: neither the host's other files nor content in the text itself are media of the sandbox.
    pub fn media_source(
        &self,
        source: &str,
        seen_at: &Path,
        temporary: Option<&Workspace>,
    ) -> Result<MediaSource> {
        let source = source.trim();
        let refuse = |kind, why: &str| Err(Error::new(kind, format!("the media {source:?} {why}")));
        let path = match scheme(source) {
            _ if source.is_empty() => return refuse(ErrorKind::Validation, "are not named"),
            Some("http" | "https") => return Ok(MediaSource::Address(source.to_owned())),
            Some("file") => match file_address(source) {
                Some(path) => path,
                None => return refuse(ErrorKind::Validation, "are no file of this machine"),
            },
            Some("data") => {
                return refuse(
                    ErrorKind::Validation,
                    "are content, not a name; write it to a file and name that",
                );
            }
            Some(_) => return refuse(ErrorKind::Validation, "have an address that is not understood"),
            None => PathBuf::from(source),
        };
        let path = match path.strip_prefix(seen_at) {
            Ok(below) => self.host_path().join(below),
            Err(_) => path,
        };
        if let Some(temporary) = temporary.filter(|place| path.starts_with(place.host_path())) {
            return temporary.media_file(&path);
        }
        if path.is_absolute() && !path.starts_with(self.host_path()) {
            return refuse(ErrorKind::PathAccessDenied, "are outside of the sandbox's workspace");
        }
        self.media_file(&path)
    }

    fn media_file(&self, path: &Path) -> Result<MediaSource> {
        let below = self.relative(path)?;
        match self.stat(&below)? {
            Some(stat) if stat.kind == FileKind::File => Ok(MediaSource::File(self.host_path().join(below))),
            Some(_) => {
                Err(Error::new(ErrorKind::Validation, format!("the media {} are no file", path.display())))
            }
            None => Err(Error::new(ErrorKind::NotFound, format!("there are no media {}", path.display()))),
        }
    }
}

/// The scheme of an address; a single letter is none.
fn scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once(':')?;
    let is_scheme = scheme.len() > 1
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c));
    is_scheme.then_some(scheme)
}

/// The path of `file:///path` or `file://localhost/path`, with `%20` and the like read.
fn file_address(text: &str) -> Option<PathBuf> {
    let rest = text.strip_prefix("file://")?;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    if !path.starts_with('/') {
        return None;
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut left = path.bytes();
    while let Some(byte) = left.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || left.next().and_then(|byte| char::from(byte).to_digit(16));
        let byte = u8::try_from(digit()? * 16 + digit()?).ok()?;
        // An encoded slash or NUL is no part of any name.
        if matches!(byte, b'/' | 0) {
            return None;
        }
        bytes.push(byte);
    }
    Some(PathBuf::from(std::ffi::OsString::from_vec(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_addresses_are_paths_of_this_machine() {
        for (text, want) in [
            ("file:///a/b.jpg", Some("/a/b.jpg")),
            ("file://localhost/a%20b", Some("/a b")),
            ("file:///a%2fb", None),
            ("file:///a%00", None),
            ("file:///a%2", None),
            ("file://server/a", None),
            ("file:a", None),
        ] {
            assert_eq!(file_address(text), want.map(PathBuf::from), "{text}");
        }
    }
}
