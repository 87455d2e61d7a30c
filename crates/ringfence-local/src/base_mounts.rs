//! The first mounts of every sandbox that has mounts of its own, whatever the policy.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use ringfence_linux::plan::{BindAccess, DEVICES, MountStep};

/// The device nodes of every sandbox.
pub(crate) fn devices() -> impl Iterator<Item = &'static Path> {
    DEVICES.iter().map(|device| Path::new(OsStr::from_bytes(device.to_bytes())))
}

/// The mounts that every view begins with: `/proc`, and a `/dev` with single harmless nodes. Binding the
/// host's whole directory would let the sandbox open any device its user can.
pub(crate) fn base_mounts() -> Vec<MountStep> {
    let mut steps = vec![MountStep::Dir { path: c"/dev".into(), mode: 0o755 }];
    for device in DEVICES {
        let [path, source, target] = [device, device, device].map(CString::from);
        steps.push(MountStep::File { path });
        steps.push(MountStep::Bind { source, target, access: BindAccess::Device });
    }
    steps.push(MountStep::Dir { path: c"/dev/pts".into(), mode: 0o755 });
    steps.push(MountStep::Devpts { target: c"/dev/pts".into() });
    for (target, path) in [
        (c"pts/ptmx", c"/dev/ptmx"),
        (c"/proc/self/fd", c"/dev/fd"),
        (c"/proc/self/fd/0", c"/dev/stdin"),
        (c"/proc/self/fd/1", c"/dev/stdout"),
        (c"/proc/self/fd/2", c"/dev/stderr"),
    ] {
        steps.push(MountStep::Symlink { target: target.into(), path: path.into() });
    }
    steps.push(MountStep::Dir { path: c"/proc".into(), mode: 0o555 });
    steps.push(MountStep::Proc { target: c"/proc".into() });
    steps
}
