//! What a container is made of, after every check.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ringfence_workspace::{MountMode, PathMap};
use serde::Serialize;

/// A container, ready to be made: everything in it was checked, and nothing that is not in it is given to the engine.
/// There is no field for privileges, added capabilities, devices, host namespaces or published ports.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerSpec {
    pub name: String,
    pub image: String,
    pub labels: BTreeMap<String, String>,
    /// What the container was made from; see [`super::hash`].
    pub config_hash: String,
    /// Where the main workspace is seen, and where commands start.
    pub workdir: PathBuf,
    pub read_only_root: bool,
    /// `path` or `path:option,option`.
    pub tmpfs: Vec<String>,
    /// `none`, `bridge`, the name of a network, or (by break-glass) `container:NAME`.
    pub network: String,
    /// None: the image's own.
    pub user: Option<String>,
    /// Always with `ALL`.
    pub cap_drop: Vec<String>,
    /// As the engine's API takes them: a seccomp profile is its content, not its path.
    pub security_opt: Vec<String>,
    pub env: Vec<(String, String)>,
    pub pids_limit: u32,
    /// Bytes.
    pub memory: u64,
    /// Bytes of memory and swap together.
    pub memory_swap: u64,
    /// Billionths of a processor.
    pub nano_cpus: u64,
    pub ulimits: Vec<Ulimit>,
    pub dns: Vec<String>,
    /// `name:address`.
    pub extra_hosts: Vec<String>,
    /// The workspaces first, then the binds in the order they were written.
    pub mounts: Vec<Mount>,
    /// Run once after the first start, by `sh -lc`.
    pub setup_command: Option<String>,
    /// What a person should know about it.
    pub notes: Vec<Note>,
}

/// A directory or file of the host and where the container sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Mount {
    /// Absolute, with all symbolic links resolved.
    pub source: PathBuf,
    pub target: PathBuf,
    pub read_only: bool,
}

/// A limit of the container's processes; `None` is no limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ulimit {
    pub name: String,
    pub soft: Option<u64>,
    pub hard: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum NoteKind {
    /// A `dangerously…` key let something through.
    BreakGlass,
    /// Weaker than the default, or not done as it was written.
    Warning,
}

/// Something about a container that is allowed and should be seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Note {
    pub kind: NoteKind,
    /// The configuration key, such as `docker.binds`.
    pub key: String,
    pub text: String,
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.key, self.text)
    }
}

impl ContainerSpec {
    /// Whether nothing but its own loopback can be reached.
    #[must_use]
    pub fn has_no_network(&self) -> bool {
        self.network == "none"
    }

    /// Finds paths of the host inside the container, and the other way round.
    #[must_use]
    pub fn path_map(&self) -> PathMap {
        let mounts = self.mounts.iter().map(|mount| {
            let mode = if mount.read_only { MountMode::ReadOnly } else { MountMode::ReadWrite };
            ringfence_workspace::Mount::new(&mount.source, &mount.target, mode)
        });
        PathMap::new(mounts.collect(), Path::new(&self.workdir))
    }
}
