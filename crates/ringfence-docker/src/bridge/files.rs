//! The bridge and its operations.

use std::path::Path;
use std::sync::Arc;

use ringfence_model::{Error, ErrorKind, Result};
use ringfence_workspace::map::Mapped;
use ringfence_workspace::{FileStat, HardLinks, PathMap, RemoveDepth, clean_input};
use tokio::io::AsyncReadExt as _;

use super::listing::{BridgeEntry, read_listings, read_stat};
use super::status::{Found, failure};
use crate::exec::{Exec, Finished, Input, Output, Script};

/// A script with what comes before each of them; one that is `exact` follows no link.
macro_rules! script {
    ($name:literal) => {
        concat!(include_str!("scripts/prelude.sh"), include_str!(concat!("scripts/", $name)))
    };
    (exact $name:literal) => {
        concat!(include_str!("scripts/prelude.sh"), "exact=yes\n", include_str!(concat!("scripts/", $name)))
    };
}
pub(super) use script;

/// A listing larger than this is cut off with an error; a directory of a hundred thousand files is smaller.
const LARGEST_LISTING: u64 = 32 << 20;

/// What a bridge may be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BridgeOptions {
    pub hard_links: HardLinks,
    /// The largest file that is read as a whole.
    pub max_file_bytes: u64,
}

impl Default for BridgeOptions {
    fn default() -> Self {
        Self { hard_links: HardLinks::Refuse, max_file_bytes: 256 << 20 }
    }
}

/// What is done about directories that a file is to be in and that are not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Parents {
    #[default]
    Make,
    /// They must be there.
    Require,
}

/// What removing something that is not there means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Missing {
    /// Nothing was left to do.
    #[default]
    Ignore,
    Fail,
}

/// Files of one container. Paths are relative to its working directory, or absolute: as the container sees them, or the host.
#[derive(Debug, Clone)]
pub struct Bridge {
    exec: Arc<dyn Exec>,
    map: PathMap,
    options: BridgeOptions,
}

impl Bridge {
    #[must_use]
    pub fn new(exec: Arc<dyn Exec>, map: PathMap, options: BridgeOptions) -> Self {
        Self { exec, map, options }
    }

    /// Where the container's mounts are.
    #[must_use]
    pub fn map(&self) -> &PathMap {
        &self.map
    }

    /// Tidies a path as a model typed it, and finds it. Nothing is run for that.
    pub fn find(&self, typed: &str) -> Result<Mapped> {
        self.map.resolve(&clean_input(typed, None))
    }

    /// Hands the content of a file to `output` as it comes; returns how much it was.
    pub async fn read_to(&self, path: &Path, output: Output<'_>) -> Result<u64> {
        self.read_by(script!("read.sh"), path, output).await
    }

    async fn read_by(&self, text: &str, path: &Path, output: Output<'_>) -> Result<u64> {
        let place = Place::find(&self.map, path, For::Reading)?;
        let mut counted = Counted { output, bytes: 0, limit: u64::MAX };
        let arguments = place.arguments(&[self.several_names()]);
        let script = Script { text, arguments: &arguments };
        let finished = self.exec.run(script, &mut tokio::io::empty(), &mut counted).await?;
        let bytes = counted.bytes;
        succeed("read", path, &finished)?;
        Ok(bytes)
    }

    /// The whole content of a file.
    pub async fn read(&self, path: &Path) -> Result<Vec<u8>> {
        self.read_whole(script!("read.sh"), path).await
    }

    pub(super) async fn read_whole(&self, text: &str, path: &Path) -> Result<Vec<u8>> {
        let limit = self.options.max_file_bytes;
        let mut content = Vec::new();
        let mut limited = Counted { output: &mut content, bytes: 0, limit };
        let read = self.read_by(text, path, &mut limited).await;
        if limited.bytes > limit {
            let message = format!("cannot read {}: it has more than {limit} bytes", path.display());
            return Err(Error::new(ErrorKind::ResourceLimitExceeded, message).hint("read a part of it"));
        }
        read.map(|_| content)
    }

    /// Puts `length` bytes of `input` in the place of a file, all or nothing.
    pub async fn write_from(
        &self,
        path: &Path,
        input: Input<'_>,
        length: u64,
        parents: Parents,
    ) -> Result<()> {
        self.write_by(script!("write.sh"), path, input, length, parents).await
    }

    pub(super) async fn write_by(
        &self,
        text: &str,
        path: &Path,
        input: Input<'_>,
        length: u64,
        parents: Parents,
    ) -> Result<()> {
        let place = Place::find(&self.map, path, For::Writing)?;
        let fresh = format!(".ringfence-{}.tmp", uuid::Uuid::now_v7().simple());
        let size = length.to_string();
        let make = match parents {
            Parents::Make => "yes",
            Parents::Require => "no",
        };
        let arguments = place.arguments(&[&fresh, &size, make]);
        let script = Script { text, arguments: &arguments };
        // One byte more than announced is as wrong as one less, and is noticed inside.
        let mut input = input.take(length.saturating_add(1));
        let finished = self.exec.run(script, &mut input, &mut tokio::io::sink()).await?;
        succeed("write", path, &finished)
    }

    pub async fn write(&self, path: &Path, content: &[u8], parents: Parents) -> Result<()> {
        let mut input = content;
        self.write_from(path, &mut input, content.len() as u64, parents).await
    }

    /// Makes a directory and those above it; one that is there is left as it is.
    pub async fn mkdirp(&self, path: &Path) -> Result<()> {
        let place = Place::find(&self.map, path, For::Writing)?;
        self.run("make", path, script!("mkdirp.sh"), &place.arguments(&[])).await.map(drop)
    }

    /// Removes a file, a link (never what it leads to) or a directory.
    pub async fn remove(&self, path: &Path, depth: RemoveDepth, missing: Missing) -> Result<()> {
        self.remove_by(script!("remove.sh"), path, depth, missing).await
    }

    pub(super) async fn remove_by(
        &self,
        text: &str,
        path: &Path,
        depth: RemoveDepth,
        missing: Missing,
    ) -> Result<()> {
        let place = Place::find(&self.map, path, For::Replacing)?;
        let depth = match depth {
            RemoveDepth::Single => "single",
            RemoveDepth::Recursive => "recursive",
        };
        let arguments = place.arguments(&[depth]);
        let finished = self.finish(text, &arguments, &mut tokio::io::sink()).await?;
        match Found::of(finished.code) {
            Some(Found::Absent) if missing == Missing::Ignore => Ok(()),
            _ => succeed("remove", path, &finished),
        }
    }

    /// Moves a file, link or directory; directories above the new place are made. A file that is there is replaced, a
    /// directory never.
    pub async fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let (source, target) =
            (Place::find(&self.map, from, For::Replacing)?, Place::find(&self.map, to, For::Replacing)?);
        let arguments = source.arguments(&target.arguments(&[]));
        let finished = self.finish(script!("rename.sh"), &arguments, &mut tokio::io::sink()).await?;
        let blamed = if Found::of(finished.code) == Some(Found::Directory) { to } else { from };
        succeed("rename", blamed, &finished)
    }

    /// What a path leads to; none when nothing is there.
    pub async fn stat(&self, path: &Path) -> Result<Option<FileStat>> {
        let place = Place::find(&self.map, path, For::Reading)?;
        let mut line = Vec::new();
        let finished = self.finish(script!("stat.sh"), &place.arguments(&[]), &mut line).await?;
        if Found::of(finished.code) == Some(Found::Absent) {
            return Ok(None);
        }
        succeed("look at", path, &finished)?;
        read_stat(&line).map(Some).ok_or_else(|| garbled("stat", path))
    }

    /// The entries of a directory, sorted by name.
    pub async fn list(&self, path: &Path) -> Result<Vec<BridgeEntry>> {
        let place = Place::find(&self.map, path, For::Reading)?;
        let text = self.run("list", path, script!("list.sh"), &place.arguments(&[])).await?;
        let listed = read_listings(&text).and_then(|mut all| all.pop()).flatten();
        listed.ok_or_else(|| garbled("list", path))
    }

    /// As `read.sh` takes it.
    pub(super) fn several_names(&self) -> &'static str {
        match self.options.hard_links {
            HardLinks::Refuse => "refuse",
            HardLinks::Allow => "allow",
        }
    }

    pub(super) fn exec(&self) -> &dyn Exec {
        &*self.exec
    }

    pub(super) async fn run(
        &self,
        doing: &str,
        path: &Path,
        text: &str,
        arguments: &[&str],
    ) -> Result<Vec<u8>> {
        let mut said = Vec::new();
        let mut limited = Counted { output: &mut said, bytes: 0, limit: LARGEST_LISTING };
        let finished = self.finish(text, arguments, &mut limited).await?;
        succeed(doing, path, &finished)?;
        Ok(said)
    }

    async fn finish(&self, text: &str, arguments: &[&str], output: Output<'_>) -> Result<Finished> {
        self.exec.run(Script { text, arguments }, &mut tokio::io::empty(), output).await
    }
}

pub(super) fn succeed(doing: &str, path: &Path, finished: &Finished) -> Result<()> {
    if finished.code == 0 { Ok(()) } else { Err(failure(doing, path, finished)) }
}

pub(super) fn garbled(what: &str, path: &Path) -> Error {
    let message = format!("the answer of {what} for {} is not understood", path.display());
    Error::new(ErrorKind::Internal, message).hint("the image may have a stat that does not know -c")
}

/// What a path is looked up for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    Reading,
    Writing,
    /// Something that has a name to lose; a mount has none.
    Replacing,
}

/// A path as the scripts take it: a mount, a directory below it, a name in that.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) mount: String,
    pub(super) directory: String,
    pub(super) name: String,
}

impl Place {
    pub(super) fn find(map: &PathMap, path: &Path, purpose: For) -> Result<Self> {
        let mapped = match purpose {
            For::Reading => map.resolve(path)?,
            For::Writing | For::Replacing => map.resolve_for_writing(path)?,
        };
        let text = |part: &Path| match part.to_str() {
            Some(text) if !text.contains('\0') => Ok(text.to_owned()),
            _ => {
                let message =
                    format!("the path {} has bytes that cannot be told to a container", path.display());
                Err(Error::new(ErrorKind::Validation, message).hint("rename it to a name in UTF-8"))
            }
        };
        let below = mapped.container.strip_prefix(&mapped.mount).unwrap_or(Path::new(""));
        let Some(name) = below.file_name() else {
            if purpose == For::Replacing {
                let message = format!("{} is a mount, which stays where it is", mapped.container.display());
                return Err(Error::new(ErrorKind::Validation, message));
            }
            return Ok(Self { mount: text(&mapped.mount)?, directory: String::new(), name: ".".to_owned() });
        };
        Ok(Self {
            mount: text(&mapped.mount)?,
            directory: text(below.parent().unwrap_or(Path::new("")))?,
            name: text(Path::new(name))?,
        })
    }

    pub(super) fn arguments<'a>(&'a self, further: &[&'a str]) -> Vec<&'a str> {
        let mut arguments = vec![self.mount.as_str(), &self.directory, &self.name];
        arguments.extend(further);
        arguments
    }
}

/// Counts what is written, and ends it at a limit.
pub(super) struct Counted<'a> {
    pub(super) output: Output<'a>,
    pub(super) bytes: u64,
    pub(super) limit: u64,
}

impl tokio::io::AsyncWrite for Counted<'_> {
    fn poll_write(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> std::task::Poll<std::io::Result<usize>> {
        if self.bytes.saturating_add(bytes.len() as u64) > self.limit {
            self.bytes = u64::MAX;
            return std::task::Poll::Ready(Err(std::io::Error::other("the answer is larger than allowed")));
        }
        let polled = std::pin::Pin::new(&mut *self.output).poll_write(context, bytes);
        if let std::task::Poll::Ready(Ok(written)) = polled {
            self.bytes += written as u64;
        }
        polled
    }

    fn poll_flush(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::pin::Pin::new(&mut *self.output).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::pin::Pin::new(&mut *self.output).poll_shutdown(context)
    }
}
