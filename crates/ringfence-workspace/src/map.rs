//! Paths of the host and paths inside a container.

use std::path::{Component, Path, PathBuf};

use ringfence_model::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MountMode {
    ReadWrite,
    ReadOnly,
}

impl MountMode {
    /// As it is written after a volume: `rw` or `ro`.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Self::ReadWrite => "rw",
            Self::ReadOnly => "ro",
        }
    }
}

/// A directory of the host and where a container sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mount {
    pub host: PathBuf,
    pub container: PathBuf,
    pub mode: MountMode,
}

impl Mount {
    #[must_use]
    pub fn new(host: &Path, container: &Path, mode: MountMode) -> Self {
        Self { host: host.to_owned(), container: container.to_owned(), mode }
    }

    /// `host:container:rw`, as container engines write it.
    #[must_use]
    pub fn volume(&self) -> String {
        format!("{}:{}:{}", self.host.display(), self.container.display(), self.mode.suffix())
    }
}

/// One file, seen from both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapped {
    pub host: PathBuf,
    pub container: PathBuf,
    /// For showing: relative to the working directory when it is below it.
    pub shown: PathBuf,
    /// The mount it is in, as the container sees it.
    pub mount: PathBuf,
    pub mode: MountMode,
}

/// All mounts of a container. Later mounts beat earlier ones of the same place, as binds beat defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathMap {
    mounts: Vec<Mount>,
    workdir: PathBuf,
}

impl PathMap {
    #[must_use]
    pub fn new(mounts: Vec<Mount>, workdir: &Path) -> Self {
        Self { mounts, workdir: workdir.to_owned() }
    }

    #[must_use]
    pub fn mounts(&self) -> &[Mount] {
        &self.mounts
    }

    /// Finds a path that somebody typed: relative ones are meant from the working directory, absolute ones
    /// are tried as the container's and then as the host's. One that leads to no mount is refused.
    pub fn resolve(&self, path: &Path) -> Result<Mapped> {
        refuse_parents(path)?;
        let inside = self.workdir.join(path);
        self.by_container(&inside).or_else(|| self.by_host(path)).ok_or_else(|| {
            let message = format!("the path {} is not mounted in the sandbox", path.display());
            Error::new(ErrorKind::PathTraversal, message)
        })
    }

    /// As [`resolve`](Self::resolve), and refuses what is mounted read-only.
    pub fn resolve_for_writing(&self, path: &Path) -> Result<Mapped> {
        let mapped = self.resolve(path)?;
        match mapped.mode {
            MountMode::ReadWrite => Ok(mapped),
            MountMode::ReadOnly => {
                let message = format!("cannot change {}: it is mounted read-only", mapped.shown.display());
                Err(Error::new(ErrorKind::Permission, message))
            }
        }
    }

    /// The host's side of a container path, through the deepest mount.
    #[must_use]
    pub fn to_host(&self, container: &Path) -> Option<PathBuf> {
        self.by_container(container).map(|mapped| mapped.host)
    }

    /// The container's side of a host path, through the deepest mount.
    #[must_use]
    pub fn to_container(&self, host: &Path) -> Option<PathBuf> {
        self.by_host(host).map(|mapped| mapped.container)
    }

    fn by_container(&self, container: &Path) -> Option<Mapped> {
        refuse_parents(container).ok()?;
        let mount = deepest(&self.mounts, container, |mount| &mount.container)?;
        let below = container.strip_prefix(&mount.container).ok()?;
        Some(self.mapped(mount, below))
    }

    fn by_host(&self, host: &Path) -> Option<Mapped> {
        refuse_parents(host).ok()?;
        let mount = deepest(&self.mounts, host, |mount| &mount.host)?;
        let below = host.strip_prefix(&mount.host).ok()?;
        // A deeper mount may hide this place inside the container.
        let mapped = self.mapped(mount, below);
        let seen = deepest(&self.mounts, &mapped.container, |mount| &mount.container)?;
        (seen == mount).then_some(mapped)
    }

    fn mapped(&self, mount: &Mount, below: &Path) -> Mapped {
        let join =
            |base: &Path| if below.as_os_str().is_empty() { base.to_owned() } else { base.join(below) };
        let container = join(&mount.container);
        let shown = match container.strip_prefix(&self.workdir) {
            Ok(relative) if relative.as_os_str().is_empty() => PathBuf::from("."),
            Ok(relative) => relative.to_owned(),
            Err(_) => container.clone(),
        };
        Mapped { host: join(&mount.host), container, shown, mount: mount.container.clone(), mode: mount.mode }
    }
}

/// The mount with the longest matching side; of equals, the last.
fn deepest<'a>(mounts: &'a [Mount], path: &Path, side: impl Fn(&Mount) -> &PathBuf) -> Option<&'a Mount> {
    mounts
        .iter()
        .filter(|mount| path.starts_with(side(mount)))
        .max_by_key(|mount| side(mount).components().count())
}

fn refuse_parents(path: &Path) -> Result<()> {
    if path.components().any(|component| component == Component::ParentDir) {
        let message = format!("the path {} goes up with `..`", path.display());
        return Err(Error::new(ErrorKind::PathTraversal, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> PathMap {
        let mount =
            |host: &str, container: &str, mode| Mount::new(Path::new(host), Path::new(container), mode);
        PathMap::new(
            vec![
                mount("/home/u/project", "/workspace", MountMode::ReadWrite),
                mount("/home/u/agent", "/agent", MountMode::ReadOnly),
                mount("/data/set", "/workspace/data", MountMode::ReadOnly),
            ],
            Path::new("/workspace"),
        )
    }

    #[test]
    fn paths_are_found_from_both_sides_through_the_deepest_mount() {
        for (typed, host, container, shown) in [
            ("src/a.rs", "/home/u/project/src/a.rs", "/workspace/src/a.rs", "src/a.rs"),
            ("/workspace/src/a.rs", "/home/u/project/src/a.rs", "/workspace/src/a.rs", "src/a.rs"),
            ("/home/u/project/src/a.rs", "/home/u/project/src/a.rs", "/workspace/src/a.rs", "src/a.rs"),
            ("data/x", "/data/set/x", "/workspace/data/x", "data/x"),
            ("/agent/skills", "/home/u/agent/skills", "/agent/skills", "/agent/skills"),
            (".", "/home/u/project", "/workspace", "."),
            ("..foo", "/home/u/project/..foo", "/workspace/..foo", "..foo"),
        ] {
            let mapped = map().resolve(Path::new(typed)).unwrap();
            assert_eq!(
                (mapped.host, mapped.container, mapped.shown),
                (host.into(), container.into(), shown.into())
            );
        }
    }

    #[test]
    fn what_is_not_mounted_or_hidden_is_refused() {
        for typed in
            ["/etc/passwd", "../x", "/workspace/../etc", "/workspacex", "/home/u/project/data/x", "/home/u"]
        {
            let error = map().resolve(Path::new(typed)).unwrap_err();
            assert_eq!(error.kind, ErrorKind::PathTraversal, "{typed}");
        }
    }

    #[test]
    fn read_only_mounts_refuse_writes_before_anything_happens() {
        assert!(map().resolve_for_writing(Path::new("src/a.rs")).is_ok());
        for typed in ["data/x", "/agent/x"] {
            assert_eq!(map().resolve_for_writing(Path::new(typed)).unwrap_err().kind, ErrorKind::Permission);
        }
    }

    #[test]
    fn a_later_mount_of_the_same_place_wins() {
        let mut mounts = map().mounts;
        mounts.push(Mount::new(Path::new("/other"), Path::new("/workspace"), MountMode::ReadWrite));
        let map = PathMap::new(mounts, Path::new("/workspace"));
        assert_eq!(map.to_host(Path::new("/workspace/x")), Some(PathBuf::from("/other/x")));
        assert_eq!(map.to_container(Path::new("/home/u/project/x")), None, "hidden by the later mount");
    }

    #[test]
    fn a_volume_is_written_as_engines_read_it() {
        assert_eq!(map().mounts()[0].volume(), "/home/u/project:/workspace:rw");
    }
}
