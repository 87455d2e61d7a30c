//! What the machine around the kernel offers: limits, devices, containers.

use std::path::Path;

use ringfence_linux::cgroup::{Cgroup, Probe, Support, Version};
use rustix::fs::{Mode, OFlags};

use super::{Check, Status};
use crate::host::Host;

pub(super) fn control_groups() -> Check {
    limits(&Cgroup::probe())
}

pub(super) fn limits(probe: &Probe) -> Check {
    const ID: &str = "cgroup";
    const TITLE: &str = "control groups";
    let word = |support: &Support| match support {
        Support::Yes { version: Version::V1, below } => format!("v1 below {below}"),
        Support::Yes { version: Version::V2, below } => format!("v2 below {below}"),
        Support::No { reason } => reason.clone(),
    };
    let has = |support: &Support| matches!(support, Support::Yes { .. });
    let found = if word(&probe.memory) == word(&probe.pids) {
        word(&probe.memory)
    } else {
        format!("memory: {}; processes: {}", word(&probe.memory), word(&probe.pids))
    };
    if has(&probe.memory) && has(&probe.pids) {
        return Check::new(ID, TITLE, Status::Ok, format!("memory and processes can be limited, {found}"));
    }
    let status = if has(&probe.memory) || has(&probe.pids) { Status::Degraded } else { Status::Missing };
    Check::new(ID, TITLE, status, found)
        .costs("limits of memory and processes hold for each process, not for all of them together")
        .remedy("systemd-run --user --scope -p Delegate=yes -- ringfence run …")
}

pub(super) fn fuse() -> Check {
    const ID: &str = "fuse";
    const TITLE: &str = "/dev/fuse";
    let opened = rustix::fs::open(c"/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    let Err(errno) = opened else { return Check::new(ID, TITLE, Status::Ok, "can be opened") };
    let remedy = match errno {
        rustix::io::Errno::ACCESS | rustix::io::Errno::PERM => "sudo chmod 666 /dev/fuse",
        _ => "sudo modprobe fuse; for a container: docker run --device /dev/fuse …",
    };
    Check::new(ID, TITLE, Status::Missing, format!("cannot be opened ({})", std::io::Error::from(errno)))
        .costs("questions about denied files are refused without being reported, and with precision writes so are reads")
        .remedy(remedy)
}

/// The kind of container this process is in.
pub(super) fn container(host: &Host) -> Option<String> {
    let exists = |path: &str| Path::new(path).exists();
    if host.variable("KUBERNETES_SERVICE_HOST").is_some() {
        return Some("kubernetes".to_owned());
    }
    if exists("/.dockerenv") {
        return Some("docker".to_owned());
    }
    if exists("/run/.containerenv") {
        return Some("podman".to_owned());
    }
    // systemd's convention, which nspawn, LXC and others follow.
    if let Some(kind) = host.variable("container").filter(|kind| !kind.is_empty()) {
        return Some(kind.to_string_lossy().into_owned());
    }
    let kind = std::fs::read_to_string("/run/systemd/container").ok()?;
    Some(kind.trim().to_owned()).filter(|kind| !kind.is_empty())
}

pub(super) fn in_container(kind: Option<&str>) -> Check {
    const ID: &str = "container";
    const TITLE: &str = "container around us";
    match kind {
        None => Check::new(ID, TITLE, Status::Ok, "none"),
        Some(kind) => Check::new(
            ID,
            TITLE,
            Status::Degraded,
            format!("inside of a {kind} container, which is Linux whatever the machine below is"),
        )
        .costs("the container decides which mechanisms work, and shares its own limits with the fence")
        .remedy(format!("if something above is missing: {}", super::kernel::container_remedy(kind))),
    }
}
