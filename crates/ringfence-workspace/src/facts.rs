//! What the kernel says about a file, with the same types on every platform.

use rustix::fs::{FileType, Mode, Stat};

/// The part of `stat` that is used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) kind: FileType,
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) names: u64,
    pub(crate) size: u64,
    pub(crate) mode: Mode,
    pub(crate) owner: u32,
    pub(crate) group: u32,
    pub(crate) modified_ns: i128,
    pub(crate) changed_ns: i128,
}

impl Facts {
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_sign_loss,
        clippy::cast_possible_truncation,
        clippy::useless_conversion,
        reason = "the fields of stat have other widths and signs on each platform"
    )]
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            kind: FileType::from_raw_mode(stat.st_mode as _),
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            names: stat.st_nlink as u64,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mode: Mode::from_raw_mode(stat.st_mode as _),
            owner: stat.st_uid,
            group: stat.st_gid,
            modified_ns: i128::from(stat.st_mtime) * 1_000_000_000 + stat.st_mtime_nsec as i128,
            changed_ns: i128::from(stat.st_ctime) * 1_000_000_000 + stat.st_ctime_nsec as i128,
        }
    }

    pub(crate) fn modified_ms(&self) -> i64 {
        i64::try_from(self.modified_ns.div_euclid(1_000_000)).unwrap_or(i64::MAX)
    }

    /// Whether names could have come and gone between these two looks at one file: its status changed, and
    /// no change of content explains that.
    pub(crate) fn names_may_have_changed(&self, later: &Self) -> bool {
        self.names != later.names
            || (self.changed_ns != later.changed_ns && self.modified_ns == later.modified_ns)
    }

    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}
