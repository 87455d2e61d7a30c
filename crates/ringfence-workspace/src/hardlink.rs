//! Files with several names.
//!
//! A hard link is as good as the file itself, so a name inside the workspace can be a file of the outside:
//! reading it on behalf of an agent would hand out what the fence keeps from it. Such a file is read only
//! when every one of its names is found inside. (Writing needs no rule: files are replaced, never changed
//! in place while they have other names.)

use std::path::Path;

use ringfence_model::{Error, ErrorKind, Result};
use rustix::fs::FileType;

use crate::beneath::{Root, facts_of};
use crate::facts::Facts;
use crate::tree::{self, Next};
use crate::workspace::HardLinks;

/// Entries looked at before giving up; beyond that nobody can tell where the other names are.
const MOST_ENTRIES: usize = 200_000;

/// Refuses an open file whose content may belong to the outside.
pub(crate) fn check(
    root: &Root,
    rule: HardLinks,
    path: &Path,
    file: &impl std::os::fd::AsFd,
    facts: &Facts,
) -> Result<()> {
    if facts.names <= 1 || rule == HardLinks::Allow {
        return Ok(());
    }
    let mut inside = 0;
    let mut looked_at = 0;
    tree::visit(root.fd(), &mut |_, entry| {
        looked_at += 1;
        if entry.kind == FileType::RegularFile && entry.is_same_file(facts) {
            inside += 1;
        }
        if inside >= facts.names || looked_at >= MOST_ENTRIES { Next::Stop } else { Next::Enter }
    });
    // A name moved around under our eyes could have been counted twice, but moving it leaves a trace.
    let unchanged =
        facts_of(file).is_ok_and(|now| now.changed_ns == facts.changed_ns && now.names == facts.names);
    if inside >= facts.names && unchanged {
        return Ok(());
    }
    let message = format!(
        "cannot read {}: it is a hard link, and not all of its {} names are inside the workspace",
        path.display(),
        facts.names
    );
    Err(Error::new(ErrorKind::PathAccessDenied, message).hint("copy the file instead of linking it"))
}
