//! A directory on the host that is the sandbox's own, where there are no private mounts.

use std::collections::BTreeMap;
#[cfg(target_os = "linux")]
use std::collections::BTreeSet;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ringfence_model::policy::Filesystem;
use ringfence_model::{Access, DenyReason, Error, ErrorKind, PathOutcome, Result};

use crate::environment::Places;
use crate::host::canonical_or_same;

/// What is allowed, and whether for writing, outermost first.
pub(crate) fn trees(fs: &Filesystem) -> BTreeMap<PathBuf, bool> {
    let mut trees = BTreeMap::new();
    for (rules, writable) in [(&fs.allow_read, false), (&fs.allow_write, true)] {
        for path in rules.iter().filter_map(|rule| rule.path.as_literal()) {
            trees.insert(path.to_owned(), writable);
        }
    }
    trees.retain(|path: &PathBuf, _| {
        !matches!(fs.decide(path, Access::Read).outcome, PathOutcome::Denied(DenyReason::Denied))
    });
    for grant in fs.grants.iter().filter(|grant| grant.access != Access::Connect) {
        trees.insert(grant.path.clone(), grant.access == Access::Write);
    }
    trees
}

/// The sandbox's own home and room for temporary files. Gone when dropped, if nobody removed it before.
#[derive(Debug)]
pub(crate) struct OwnDirectory {
    directory: tempfile::TempDir,
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "for the subreaper, which Linux has"))]
    pub(crate) c_path: CString,
    pub(crate) places: Places,
    /// In the place of `/dev/shm`.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "Linux has such a place"))]
    pub(crate) memory: PathBuf,
}

impl OwnDirectory {
    /// Makes one below `base` under a name that nobody can guess.
    pub(crate) fn new(base: &Path) -> Result<Self> {
        let failed = |what: &Path, error: std::io::Error| {
            let message = format!("cannot make the sandbox's own directory below {}", what.display());
            Error::new(ErrorKind::SandboxDenied, message).caused_by(error)
        };
        let closed = || std::fs::Permissions::from_mode(0o700);
        let base = canonical_or_same(base);
        let directory = tempfile::Builder::new()
            .prefix("ringfence-")
            .rand_bytes(16)
            .permissions(closed())
            .tempdir_in(&base)
            .map_err(|error| failed(&base, error))?;
        let place = |name: &str| directory.path().join(name);
        let places = Places { home: place("home"), tmp: place("tmp"), run: place("run") };
        let memory = place("shm");
        for place in [&places.home, &places.tmp, &places.run, &memory] {
            std::fs::create_dir(place)
                .and_then(|()| std::fs::set_permissions(place, closed()))
                .map_err(|error| failed(place, error))?;
        }
        let c_path = CString::new(directory.path().as_os_str().as_bytes())
            .map_err(|error| failed(&base, std::io::Error::other(error)))?;
        Ok(Self { directory, c_path, places, memory })
    }

    /// Where files are of whom programs trust.
    pub(crate) fn certificates(&self) -> PathBuf {
        self.places.run.join("ringfence")
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Puts links into its home to what the command may see of the person's: tool chains and programs look
    /// for their files there.
    pub(crate) fn furnish(&self, home: &Path, fs: &Filesystem) {
        self.link(home, trees(fs).keys().map(PathBuf::as_path));
    }

    /// Puts links to what is denied or protected by name: it is refused where it is, and so the refusal is
    /// told. For those who see each open. In the place of a denied directory there is another, which they refuse as
    /// they would refuse that: a link could be looked at in its place.
    #[cfg(target_os = "linux")]
    pub(crate) fn point_to_refused(&self, home: &Path, fs: &Filesystem) {
        let literal = |rules: &'_ [ringfence_model::PathRule]| -> BTreeSet<PathBuf> {
            rules.iter().filter_map(|rule| rule.path.as_literal().map(Path::to_owned)).collect()
        };
        let (denied, protected) = (literal(&fs.deny), literal(&fs.protect));
        for path in &denied {
            // What is missing there is looked for in the person's home, and refused as well.
            if let Ok(relative) = path.strip_prefix(home)
                && !relative.as_os_str().is_empty()
                && path.is_dir()
            {
                let _ = std::fs::create_dir_all(self.places.home.join(relative));
            }
        }
        self.link(home, denied.union(&protected).map(PathBuf::as_path));
    }

    /// Outermost first.
    fn link<'a>(&self, home: &Path, paths: impl Iterator<Item = &'a Path>) {
        for path in paths {
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
}

impl Drop for OwnDirectory {
    fn drop(&mut self) {
        if std::fs::remove_dir_all(self.path()).is_err() {
            // Directories that the command closed to its own user.
            open_up(self.path());
            let _ = std::fs::remove_dir_all(self.path());
        }
    }
}

/// Gives the owner all rights to every directory below, so that they can be removed.
fn open_up(directory: &Path) {
    let _ = std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700));
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        // Of a link this is false.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_model::PathRule;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
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
        let temp = tempfile::tempdir().unwrap();
        let own = OwnDirectory::new(temp.path()).unwrap();
        for place in [own.path(), &own.places.home, &own.places.tmp, &own.places.run] {
            assert_eq!(mode(place), 0o700, "{}", place.display());
        }
        drop(own);
        assert_eq!(temp.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn closed_directories_go_and_what_links_lead_to_stays() {
        let temp = tempfile::tempdir().unwrap();
        let (base, outside) = (temp.path().join("base"), temp.path().join("outside"));
        for path in [&base, &outside] {
            std::fs::create_dir(path).unwrap();
        }
        std::fs::set_permissions(&outside, std::fs::Permissions::from_mode(0o500)).unwrap();
        let own = OwnDirectory::new(&base).unwrap();
        let closed = own.places.tmp.join("a/b");
        std::fs::create_dir_all(&closed).unwrap();
        std::os::unix::fs::symlink(&outside, own.places.tmp.join("link")).unwrap();
        for path in [closed.as_path(), &own.places.tmp.join("a")] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o000)).unwrap();
        }
        drop(own);
        assert_eq!(base.read_dir().unwrap().count(), 0);
        assert_eq!(mode(&outside), 0o500);
    }
}
