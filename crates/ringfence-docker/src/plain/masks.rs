//! What of the policy the container's own mounts hold, where no guest looks at each call: denied files are covered with nothing, protected
//! ones are read-only. It is what was there when the container was made.

use std::path::{Path, PathBuf};

use ringfence_model::{Access, Filesystem, Policy};
use sha1::{Digest as _, Sha1};

use crate::options::ContainerSpec;

/// More mounts than this make a container slow to start; the rest is not covered, and that is said.
const MOST: usize = 1000;

/// Paths of the container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Masks {
    pub(crate) hidden: Vec<String>,
    pub(crate) read_only: Vec<String>,
    /// Not everything was found, or there was too much of it.
    pub(crate) incomplete: bool,
}

impl Masks {
    /// Others have another.
    pub(crate) fn digest(&self) -> String {
        let mut text = Sha1::new();
        for path in self.hidden.iter().chain([&String::new()]).chain(&self.read_only) {
            text.update(path);
            text.update([0]);
        }
        text.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    pub(crate) fn of(policy: &Policy, spec: &ContainerSpec) -> Self {
        let roots: Vec<&Path> = spec.mounts.iter().map(|mount| mount.source.as_path()).collect();
        let (files, found) = looked_up(&policy.filesystem, &roots);
        let map = spec.path_map();
        let inside = |path: &Path| map.to_container(path)?.into_os_string().into_string().ok();
        // A rule about a link holds for what it leads to.
        let target = |path: &PathBuf| path.canonicalize().ok().and_then(|target| inside(&target));
        let mut masks = Self { incomplete: found.incomplete, ..Self::default() };
        let denied = found.denied.iter().filter(|path| !files.decide(path, Access::Read).allowed());
        masks.hidden.extend(denied.filter_map(target));
        let protected = found.protected.iter().filter(|path| !files.decide(path, Access::Write).allowed());
        masks.read_only.extend(protected.filter_map(target));
        for paths in [&mut masks.hidden, &mut masks.read_only] {
            paths.sort();
            paths.dedup();
            masks.incomplete |= paths.len() > MOST;
            paths.truncate(MOST);
        }
        masks
    }
}

#[derive(Debug, Default)]
struct Found {
    denied: Vec<PathBuf>,
    protected: Vec<PathBuf>,
    incomplete: bool,
}

/// The rules, with those that follow from what is there, and the paths they are about.
#[cfg(target_os = "linux")]
fn looked_up(files: &Filesystem, roots: &[&Path]) -> (Filesystem, Found) {
    use ringfence_local::scan;
    let mut files = files.clone();
    let walked = scan::scan(&files, roots);
    scan::add_rules(&mut files, &walked);
    let mut found =
        Found { denied: walked.denied, protected: walked.protected, incomplete: walked.incomplete };
    found.denied.extend(files.deny.iter().filter_map(|rule| rule.path.as_literal().map(Path::to_owned)));
    found
        .protected
        .extend(files.protect.iter().filter_map(|rule| rule.path.as_literal().map(Path::to_owned)));
    (files, found)
}

/// Only paths that are written out.
#[cfg(not(target_os = "linux"))]
fn looked_up(files: &Filesystem, _: &[&Path]) -> (Filesystem, Found) {
    let literal = |rules: &[ringfence_model::PathRule]| {
        rules.iter().filter_map(|rule| rule.path.as_literal().map(Path::to_owned)).collect()
    };
    let found = Found { denied: literal(&files.deny), protected: literal(&files.protect), incomplete: true };
    (files.clone(), found)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::options::{ContainerRequest, build};
    use ringfence_model::PathRule;

    #[test]
    fn what_is_there_is_covered_at_every_depth_and_so_is_what_a_link_leads_to() {
        let room = tempfile::tempdir_in("/var/tmp").unwrap();
        let project = room.path().canonicalize().unwrap();
        for path in ["a/b/.git/hooks", "vault"] {
            std::fs::create_dir_all(project.join(path)).unwrap();
        }
        std::fs::write(project.join("a/.env"), "x").unwrap();
        std::fs::write(project.join("real"), "x").unwrap();
        std::os::unix::fs::symlink("real", project.join(".env")).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", project.join("a/b/.env")).unwrap();
        let mut policy = Policy::default();
        let files = &mut policy.filesystem;
        files.allow_write.push(PathRule::built_in(project.as_path()));
        files.deny.push(PathRule::built_in("**/.env"));
        files.deny.push(PathRule::built_in(project.join("vault")));
        files.deny.push(PathRule::built_in(project.join("none")));
        files.protect.push(PathRule::built_in("**/.git/hooks"));
        let section = ringfence_model::config::DockerSection::default();
        let spec = build(&ContainerRequest::new(&section, "agent:masks", &project)).unwrap();
        let masks = Masks::of(&policy, &spec);
        assert_eq!(masks.hidden, ["/workspace/a/.env", "/workspace/real", "/workspace/vault"]);
        assert_eq!(masks.read_only, ["/workspace/a/b/.git/hooks"]);
        assert!(!masks.incomplete);
        let other = Masks { hidden: vec![], ..masks.clone() };
        assert_ne!(masks.digest(), other.digest());
        assert_eq!(masks.digest(), Masks::of(&policy, &spec).digest());
    }
}
