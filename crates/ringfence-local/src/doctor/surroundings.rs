//! What is around us on every system: another fence, the disk.

use std::ffi::OsStr;
use std::path::Path;

use rustix::fs::Access;

use super::{Check, Status};
use crate::host::Host;

pub(super) fn nested(host: &Host) -> Check {
    const ID: &str = "nested";
    const TITLE: &str = "fence around us";
    if host.variable("RINGFENCE") == Some(OsStr::new("1")) {
        return Check::new(ID, TITLE, Status::Degraded, "RINGFENCE=1: this is the inside of a fence")
            .costs("a fence refuses new namespaces inside, so that a second one promises less, if it starts at all")
            .remedy("run the command directly: it is fenced in already");
    }
    Check::new(ID, TITLE, Status::Ok, "none: RINGFENCE is not set")
}

/// Less than that is as good as full.
const LITTLE: u64 = 64 << 20;

pub(super) fn room_for(ledger: &Path) -> Check {
    const ID: &str = "ledger";
    const TITLE: &str = "room for the ledger";
    let cost = "commands run, but what they did is not remembered";
    // The nearest that exists: the file itself, or the directory in which it will be made.
    let Some(place) = ledger.ancestors().find(|path| path.exists()) else {
        return Check::new(ID, TITLE, Status::Missing, format!("no directory above {}", ledger.display()))
            .costs(cost);
    };
    let shown = place.display();
    if let Err(errno) = rustix::fs::access(place, Access::WRITE_OK) {
        let error = std::io::Error::from(errno);
        return Check::new(ID, TITLE, Status::Missing, format!("{shown} cannot be written ({error})"))
            .costs(cost)
            .remedy("set RINGFENCE_HOME to a directory of yours");
    }
    let free =
        rustix::fs::statvfs(place).map_or(u64::MAX, |stat| stat.f_bavail.saturating_mul(stat.f_frsize));
    let mib = free >> 20;
    if free < LITTLE {
        return Check::new(ID, TITLE, Status::Degraded, format!("{mib} MiB left on the disk of {shown}"))
            .costs(cost)
            .remedy("free some space, or set RINGFENCE_HOME to another disk");
    }
    Check::new(ID, TITLE, Status::Ok, format!("{}, {mib} MiB free", ledger.display()))
}
