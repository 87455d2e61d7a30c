//! The view of a sandbox without mounts: the host's own files, of which Landlock lets some through.
//!
//! Landlock only adds up: what lies below an allowed directory is allowed. In trees that are only read, the
//! denied parts are left out by allowing everything around them, one by one. In trees that are written that
//! would forbid new files; there the supervisor alone refuses, and [`HostView::by_supervisor`] says what.

use std::path::{Path, PathBuf};

use ringfence_linux::landlock::Rights;
use ringfence_linux::plan::LandlockRule;
use ringfence_model::policy::Filesystem;
use ringfence_model::{Access, PathRule, Policy, Result, RuleLayer, RuleSource};

use crate::base_mounts::devices;
use crate::own_directory::trees;
use crate::scan::Found;
use crate::view::{self, c_path};

pub(crate) use crate::own_directory::OwnDirectory;

/// Usable inside. Terminals of the person, disks and the rest are not.
/// Where terminals are; a directory of devices.
const TERMINALS: &str = "/dev/pts";

#[derive(Debug, Default)]
pub(crate) struct HostView {
    pub(crate) landlock: Vec<LandlockRule>,
    /// Existing paths that are denied or protected: nothing above them may be renamed.
    pub(crate) fixed: Vec<PathBuf>,
    /// Of those, what lies in a tree that may be written, so that Landlock does not refuse it.
    pub(crate) by_supervisor: Vec<PathBuf>,
    /// Of those, what could be read if the supervisor did not refuse it.
    pub(crate) exposed: Vec<PathBuf>,
    /// Trees in which only the supervisor makes and writes files.
    pub(crate) kept: Vec<PathBuf>,
}

/// Lays out the rules. `fs` is what [`for_host`] made of the policy.
pub(crate) fn lay_out(fs: &Filesystem, hidden: &[PathBuf], found: &Found, cwd: &Path) -> Result<HostView> {
    let mut host = HostView::default();
    let trees = trees(fs);
    let denied = view::denied_paths(fs, found);
    // What is the sandbox's own elsewhere must not show through here.
    let left_out: Vec<&Path> = denied.iter().chain(hidden).map(PathBuf::as_path).collect();
    for (path, writable) in &trees {
        // The sandbox's own places below are trees by themselves; links are allowed by what they lead to.
        let Ok(metadata) = path.symlink_metadata() else { continue };
        if metadata.is_symlink() {
            continue;
        }
        if *writable {
            if is_device(path) {
                host.rule(path, Rights::Device)?;
            } else {
                host.rule(path, Rights::SupervisorOnly)?;
                host.kept.push(path.clone());
            }
        } else {
            host.allow_around(path, &left_out)?;
        }
    }
    let writable = |path: &Path| trees.iter().any(|(tree, writable)| *writable && path.starts_with(tree));
    let protected = fs.protect.iter().filter_map(|rule| rule.path.as_literal().map(Path::to_owned));
    let protected: Vec<PathBuf> = protected.chain(found.protected.iter().cloned()).collect();
    for path in denied.iter().filter(|path| writable(path) && path.symlink_metadata().is_ok()) {
        let readable = rustix::fs::access(path.as_path(), rustix::fs::Access::READ_OK).is_ok();
        if readable && !found.sockets.contains(path) {
            host.exposed.push(path.clone());
        }
        host.by_supervisor.push(path.clone());
    }
    host.by_supervisor.extend(protected.into_iter().filter(|path| writable(path) && path.exists()));
    host.by_supervisor.sort();
    host.by_supervisor.dedup();
    host.fixed.clone_from(&host.by_supervisor);
    // What lies below something of the list need not be named.
    let all = std::mem::take(&mut host.by_supervisor);
    for path in all {
        if !host.by_supervisor.last().is_some_and(|last| path.starts_with(last)) {
            host.by_supervisor.push(path);
        }
    }
    if !fs.decide(cwd, Access::Read).allowed() {
        return Err(view::invisible(fs, cwd));
    }
    Ok(host)
}

/// Terminals are allowed by nobody but a container, where all of them are the sandbox's own.
fn is_device(path: &Path) -> bool {
    path == Path::new(TERMINALS) || devices().any(|device| path == device)
}

impl HostView {
    fn rule(&mut self, path: &Path, rights: Rights) -> Result<()> {
        self.landlock.push(LandlockRule { path: c_path(path)?, rights });
        Ok(())
    }

    /// Allows reading `path` but for what is to be left out below it.
    fn allow_around(&mut self, path: &Path, left_out: &[&Path]) -> Result<()> {
        let below: Vec<&Path> = left_out.iter().copied().filter(|out| out.starts_with(path)).collect();
        if below.contains(&path) {
            return Ok(());
        }
        if below.is_empty() {
            return self.rule(path, Rights::Read);
        }
        self.rule(path, Rights::List)?;
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
                self.allow_around(&entry.path(), &below)?;
            }
        }
        Ok(())
    }
}

/// The policy where the sandbox has no file system of its own, and what was private in it.
pub(crate) fn for_host(mut policy: Policy) -> (Policy, Vec<PathBuf>) {
    let fs = &mut policy.filesystem;
    let private = std::mem::take(&mut fs.private);
    let hidden = private.iter().filter_map(|rule| rule.path.as_literal()).map(Path::to_owned);
    let made_elsewhere = |path: &PathBuf| path.starts_with("/proc") || path.starts_with("/dev");
    let hidden: Vec<PathBuf> = hidden.filter(|path| !made_elsewhere(path)).collect();
    fs.allow_read.push(PathRule::new("/proc", launcher_rule()));
    fs.allow_write.extend(devices().map(|device| PathRule::new(device, launcher_rule())));
    (policy, hidden)
}

/// Pipes and the like are written through `/proc` as well (`/dev/fd/63`). For the supervisor only: Landlock
/// lets nothing else of it be written.
pub(crate) fn open_descriptors(policy: &mut Policy) {
    policy.filesystem.allow_write.push(PathRule::new("/proc", launcher_rule()));
}

/// Not of the built-in layer: those are trusted to hold no links that the command made.
fn launcher_rule() -> RuleSource {
    RuleSource::layer(RuleLayer::Call).with_key("launcher landlock")
}

/// The command may write to the sandbox's own directory.
impl OwnDirectory {
    pub(crate) fn rule(&self) -> PathRule {
        PathRule::new(self.path(), launcher_rule())
    }

    pub(crate) fn landlock_rule(&self) -> LandlockRule {
        LandlockRule { path: self.c_path.clone(), rights: Rights::Write }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denied_parts_of_read_only_trees_are_left_out() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("etc/ssl/private")).unwrap();
        std::fs::create_dir_all(root.join("etc/ssl/certs")).unwrap();
        std::fs::create_dir_all(root.join("work")).unwrap();
        for file in ["etc/shadow", "etc/hosts", "work/.env", "work/code"] {
            std::fs::write(root.join(file), "").unwrap();
        }
        let rule = |path: &str| PathRule::built_in(root.join(path));
        let fs = Filesystem {
            allow_read: vec![rule("etc")],
            allow_write: vec![rule("work")],
            deny: vec![rule("etc/shadow"), rule("etc/ssl/private"), rule("work/.env")],
            ..Filesystem::default()
        };
        let view = lay_out(&fs, &[], &Found::default(), &root.join("work")).unwrap();
        let mut rules: Vec<(String, Rights)> = view
            .landlock
            .iter()
            .map(|rule| {
                let path = rule.path.to_str().unwrap().strip_prefix(root.to_str().unwrap()).unwrap();
                (path.to_owned(), rule.rights)
            })
            .collect();
        rules.sort_by(|a, b| a.0.cmp(&b.0));
        let expected = [
            ("/etc", Rights::List),
            ("/etc/hosts", Rights::Read),
            ("/etc/ssl", Rights::List),
            ("/etc/ssl/certs", Rights::Read),
            ("/work", Rights::SupervisorOnly),
        ];
        assert_eq!(rules, expected.map(|(path, rights)| (path.to_owned(), rights)));
        assert_eq!(view.by_supervisor, [root.join("work/.env")]);
    }
}
