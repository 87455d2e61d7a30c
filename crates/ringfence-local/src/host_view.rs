//! The view of a sandbox without mounts: the host's own files, of which Landlock lets some through.
//!
//! Landlock only adds up: what lies below an allowed directory is allowed. In trees that are only read, the
//! denied parts are left out by allowing everything around them, one by one. In trees that are written that
//! would forbid new files; there the supervisor alone refuses, and [`HostView::by_supervisor`] says what.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use ringfence_linux::landlock::Rights;
use ringfence_linux::plan::LandlockRule;
use ringfence_model::policy::Filesystem;
use ringfence_model::{
    Access, DenyReason, Error, ErrorKind, PathOutcome, PathRule, Policy, Result, RuleLayer, RuleSource,
};

use crate::environment::Places;
use crate::scan::Found;
use crate::view::{self, c_path};

/// Usable inside. Terminals of the person, disks and the rest are not.
const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

#[derive(Debug, Default)]
pub(crate) struct HostView {
    pub(crate) landlock: Vec<LandlockRule>,
    /// Existing paths that are denied or protected: nothing above them may be renamed.
    pub(crate) fixed: Vec<PathBuf>,
    /// Of those, what lies in a tree that may be written, so that Landlock does not refuse it.
    pub(crate) by_supervisor: Vec<PathBuf>,
    /// Of those, what could be read if the supervisor did not refuse it.
    pub(crate) exposed: Vec<PathBuf>,
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
            let rights = if is_device(path) { Rights::Device } else { Rights::Write };
            host.rule(path, rights)?;
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
    if !fs.decide(cwd, Access::Read).allowed() {
        return Err(view::invisible(fs, cwd));
    }
    Ok(host)
}

fn is_device(path: &Path) -> bool {
    DEVICES.iter().any(|device| path == Path::new(device))
}

/// What is allowed, and whether for writing, outermost first.
fn trees(fs: &Filesystem) -> BTreeMap<PathBuf, bool> {
    let mut trees = BTreeMap::new();
    for (rules, writable) in [(&fs.allow_read, false), (&fs.allow_write, true)] {
        for path in rules.iter().filter_map(|rule| rule.path.as_literal()) {
            trees.insert(path.to_owned(), writable);
        }
    }
    trees.retain(|path: &PathBuf, _| {
        !matches!(fs.decide(path, Access::Read).outcome, PathOutcome::Denied(DenyReason::Denied))
    });
    for grant in fs.grants.iter() {
        trees.insert(grant.path.clone(), grant.access == Access::Write);
    }
    trees
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
    fs.allow_write.extend(DEVICES.iter().map(|device| PathRule::new(*device, launcher_rule())));
    (policy, hidden)
}

/// Not of the built-in layer: those are trusted to hold no links that the command made.
fn launcher_rule() -> RuleSource {
    RuleSource::layer(RuleLayer::Call).with_key("launcher landlock")
}

/// A directory on the host that is the sandbox's own home and room for temporary files. Gone when dropped, if
/// the keeper has not removed it.
#[derive(Debug)]
pub(crate) struct OwnDirectory {
    path: PathBuf,
    pub(crate) c_path: CString,
    pub(crate) places: Places,
}

impl OwnDirectory {
    /// Makes one below `base` under a name that nobody can guess.
    pub(crate) fn new(base: &Path) -> Result<Self> {
        let failed = |what: &str, error: std::io::Error| {
            let message = format!("cannot make the sandbox's own directory: {what}");
            Error::new(ErrorKind::SandboxDenied, message).caused_by(error)
        };
        let mut random = [0_u8; 12];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
            .map_err(|errno| failed("no random name", errno.into()))?;
        let name: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = base.join(format!("ringfence-{name}"));
        let make = |path: &Path| {
            // Fails on whatever is there already, a link included.
            let made = std::fs::DirBuilder::new().mode(0o700).create(path);
            made.map_err(|error| failed(&path.display().to_string(), error))
        };
        make(&path)?;
        let places = Places { home: path.join("home"), tmp: path.join("tmp"), run: path.join("run") };
        let own = Self { c_path: c_path(&path)?, path, places };
        for place in [&own.places.home, &own.places.tmp, &own.places.run] {
            make(place)?;
        }
        Ok(own)
    }

    /// Puts links into its home to what the command may see of the person's: tool chains and programs look
    /// for their files there.
    pub(crate) fn furnish(&self, home: &Path, fs: &Filesystem) {
        for path in trees(fs).keys() {
            let Ok(relative) = path.strip_prefix(home) else { continue };
            let link = self.places.home.join(relative);
            if relative.as_os_str().is_empty() || link.symlink_metadata().is_ok() || !path.exists() {
                continue;
            }
            // Without a link the program looks elsewhere or says what it misses.
            if link.parent().is_some_and(|parent| std::fs::create_dir_all(parent).is_ok()) {
                let _ = std::os::unix::fs::symlink(path, link);
            }
        }
    }

    pub(crate) fn rule(&self) -> PathRule {
        PathRule::new(self.path.as_path(), launcher_rule())
    }

    pub(crate) fn landlock_rule(&self) -> LandlockRule {
        LandlockRule { path: self.c_path.clone(), rights: Rights::Write }
    }
}

impl Drop for OwnDirectory {
    fn drop(&mut self) {
        // Usually the keeper was first.
        let _ = std::fs::remove_dir_all(&self.path);
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
            ("/work", Rights::Write),
        ];
        assert_eq!(rules, expected.map(|(path, rights)| (path.to_owned(), rights)));
        assert_eq!(view.by_supervisor, [root.join("work/.env")]);
    }

    #[test]
    fn what_may_be_seen_of_the_home_is_linked_into_the_own_one() {
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path().canonicalize().unwrap();
        std::fs::create_dir_all(home.join(".cargo/bin")).unwrap();
        std::fs::write(home.join(".gitconfig"), "[user]").unwrap();
        let fs = Filesystem {
            allow_read: vec![
                PathRule::built_in(home.join(".gitconfig")),
                PathRule::built_in(home.join(".cargo/bin")),
                PathRule::built_in(home.join("gone")),
            ],
            ..Filesystem::default()
        };
        let own = OwnDirectory::new(&home).unwrap();
        own.furnish(&home, &fs);
        assert_eq!(std::fs::read_to_string(own.places.home.join(".gitconfig")).unwrap(), "[user]");
        assert!(own.places.home.join(".cargo/bin").is_dir());
        assert!(own.places.home.join("gone").symlink_metadata().is_err());
    }

    #[test]
    fn the_own_directory_is_closed_to_others_and_goes() {
        use std::os::unix::fs::PermissionsExt;
        let temp = tempfile::tempdir().unwrap();
        let own = OwnDirectory::new(temp.path()).unwrap();
        let mode = own.path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o700);
        assert!(own.places.home.is_dir() && own.places.tmp.is_dir());
        drop(own);
        assert_eq!(temp.path().read_dir().unwrap().count(), 0);
    }
}
