//! Writing to disks and file systems as a whole.

use ringfence_model::ViolationKind;

use super::{Check, Report, writes};
use crate::finding::Rule;
use crate::shell::Cmd;

const FORMAT: Rule = Rule::deny("make-file-system", "work on files, not on disks");
const DEVICE: Rule = Rule::deny("write-to-disk", "write to a file of the project");
const ASK: Rule = Rule::ask("disk-tool", "work on files, not on disks");
const READ: Rule = Rule::ask("read-disk", "read files of the project");
const OTHER: Rule = Rule::ask("write-to-device", "write to a file of the project");

const FORMATTERS: &[&str] = &["mkfs", "wipefs", "mkswap", "mke2fs", "mkdosfs", "mkntfs"];
const TOOLS: &[&str] = &[
    "fdisk",
    "sfdisk",
    "cfdisk",
    "parted",
    "gparted",
    "sgdisk",
    "gdisk",
    "cgdisk",
    "blkdiscard",
    "lvremove",
    "vgremove",
    "pvremove",
    "lvcreate",
    "vgcreate",
    "pvcreate",
    "lvresize",
    "lvreduce",
    "cryptsetup",
    "mdadm",
    "zpool",
    "zfs",
    "btrfs",
    "hdparm",
    "nvme",
    "tune2fs",
    "resize2fs",
    "e2fsck",
    "fsck",
    "xfs_repair",
    "debugfs",
    "badblocks",
    "swapoff",
    "swapon",
    "mount",
    "umount",
    "losetup",
    "dmsetup",
    "fstrim",
    "blockdev",
    "partprobe",
    "diskutil",
    "flashrom",
    "sg_format",
    "smartctl",
];

/// Programs that read what they are given.
const READERS: &[&str] = &[
    "cat",
    "dd",
    "head",
    "tail",
    "xxd",
    "od",
    "hexdump",
    "strings",
    "cp",
    "tar",
    "gzip",
    "grep",
    "less",
    "base64",
    "nc",
    "debugfs",
    "pv",
    "split",
    "sha256sum",
    "md5sum",
];

/// Disks: `/dev/sda`, `/dev/nvme0n1` and the like.
const DISKS: &[&str] = &[
    "sd", "hd", "vd", "xvd", "nvme", "mmcblk", "disk", "mapper", "dm-", "md", "loop", "sr", "mem", "kmem",
    "port", "block", "zd", "nbd", "fd0", "rdisk", "zvol",
];
const HARMLESS: &[&str] = &[
    "null", "zero", "full", "random", "urandom", "stdin", "stdout", "stderr", "fd", "tty", "ptmx", "pts",
    "shm", "tcp", "udp", "console",
];

/// File systems made, partitions changed, devices written.
#[derive(Debug)]
pub(super) struct Disk;

impl Check for Disk {
    fn name(&self) -> &'static str {
        "disk"
    }

    fn kind(&self) -> ViolationKind {
        ViolationKind::CommandBlocked
    }

    fn command(&self, cmd: &Cmd<'_>, report: &mut Report<'_>) {
        if FORMATTERS.contains(&cmd.name) || cmd.name.starts_with("mkfs.") {
            report.add(FORMAT, cmd.span, format!("`{}` makes or wipes a file system", cmd.name));
        } else if TOOLS.contains(&cmd.name) && !lists_only(cmd) {
            report.add(ASK, cmd.span, format!("`{}` changes disks or mounts", cmd.name));
        }
        if READERS.contains(&cmd.name) {
            for arg in cmd.rest() {
                let file = match arg.val.split_once('=') {
                    Some(("if", file)) => file,
                    _ => arg.val.clone(),
                };
                let Some(path) = cmd.path(&file).filter(|path| path.below("/dev")) else { continue };
                let shown = path.show();
                let name = shown.trim_start_matches("/dev/");
                let is = |names: &[&str]| names.iter().any(|known| name.starts_with(known));
                if is(DISKS) && !is(HARMLESS) && path.parts().len() > 1 {
                    report.add(READ, arg.span, format!("the disk `{shown}` is read past its file systems"));
                }
            }
        }
        writes::for_each(cmd, |target, _| {
            let Some(path) = cmd.path(&target.val) else { return };
            if !path.below("/dev") {
                return;
            }
            let Some(device) = path.parts().get(1) else { return };
            let is = |names: &[&str], name: &str| names.iter().any(|known| name.starts_with(known));
            let shown = path.show();
            let name = shown.trim_start_matches("/dev/");
            if DISKS.iter().any(|disk| device.means(disk)) || is(DISKS, name) && !is(HARMLESS, name) {
                report.add(DEVICE, target.span, format!("the disk `{shown}` is written"));
            } else if !is(HARMLESS, name) {
                report.add(OTHER, target.span, format!("the device `{shown}` is written"));
            }
        });
    }
}

fn lists_only(cmd: &Cmd<'_>) -> bool {
    match cmd.name {
        "mount" => cmd.args.len() == 1 || cmd.has("-l"),
        "fdisk" | "sfdisk" | "parted" => cmd.has("-l") || cmd.has("--list"),
        "nvme" | "zfs" | "zpool" | "diskutil" => cmd.sub() == Some("list"),
        "losetup" => cmd.has("-l") || cmd.has("-a"),
        "smartctl" => cmd.has("-a") || cmd.has("-i"),
        _ => false,
    }
}
