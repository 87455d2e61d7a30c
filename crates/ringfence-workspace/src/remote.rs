//! Media of another machine, fetched with `scp` before they are staged.

use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use ringfence_model::{Error, ErrorKind, Result};

use crate::media::MediaPlace;
use crate::workspace::Workspace;

/// A machine that media may come from, and the directories there that they may be in.
#[derive(Debug, Clone)]
pub struct RemoteMedia {
    /// `host` or `user@host`, as ssh takes it.
    pub host: String,
    /// Absolute. Nothing outside of them is fetched.
    pub roots: Vec<PathBuf>,
    /// The program that copies; `scp`, mostly.
    pub scp: PathBuf,
}

impl RemoteMedia {
    /// What is fetched, as `scp` takes it; or why it is not.
    fn checked(&self, path: &Path) -> Result<String> {
        let refuse = |kind, why: &str| {
            Err(Error::new(kind, format!("cannot fetch {} from {}: {why}", path.display(), self.host)))
        };
        let is_name = |text: &str| {
            !text.is_empty()
                && !text.starts_with('-')
                && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
        };
        let (user, host) = match self.host.split_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, self.host.as_str()),
        };
        if !is_name(host) || user.is_some_and(|user| !is_name(user)) {
            return refuse(ErrorKind::InvalidConfig, "that is neither host nor user@host");
        }
        // Older versions of scp hand the path to a shell of the other machine.
        let plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+,=@".contains(c));
        let Some(text) = path.to_str().filter(|text| plain(text)) else {
            return refuse(ErrorKind::Validation, "the path has characters that a shell would understand");
        };
        if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
            return refuse(ErrorKind::PathTraversal, "the path is not absolute, or goes up with `..`");
        }
        if !self.roots.iter().any(|root| path.starts_with(root) && path != root) {
            return refuse(
                ErrorKind::PathAccessDenied,
                "it is in none of the directories that media may come from",
            );
        }
        Ok(format!("{}:{text}", self.host))
    }
}

impl Workspace {
    /// Fetches one file into `scratch`, a directory that nobody else has, and stages it from there.
    pub fn stage_remote(&self, remote: &RemoteMedia, path: &Path, scratch: &Path) -> Result<PathBuf> {
        let source = remote.checked(path)?;
        let Some(name) = path.file_name() else {
            return Err(Error::new(ErrorKind::Validation, format!("{} is no file", path.display())));
        };
        let target = scratch.join(name);
        let failed = |why: String| {
            let message = format!("cannot fetch {} from {}: {why}", path.display(), remote.host);
            Error::new(ErrorKind::NotFound, message).hint(format!("try it by hand: scp -B {source} ."))
        };
        // Never a question: there is nobody to answer, and an unknown key is no reason to trust it.
        let said = Command::new(&remote.scp)
            .args(["-B", "-q", "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=15", "--", &source])
            .arg(&target)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| failed(error.to_string()))?;
        if !said.status.success() {
            let why = String::from_utf8_lossy(&said.stderr).trim().to_owned();
            return Err(failed(why));
        }
        let staged = MediaPlace::open(scratch).and_then(|place| self.stage_file(&place, &target));
        let removed = std::fs::remove_file(&target);
        let staged = staged?;
        removed.map_err(|error| failed(format!("what was fetched cannot be removed: {error}")))?;
        Ok(staged)
    }
}
