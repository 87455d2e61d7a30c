//! Having a sandbox made by bwrap.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

use ringfence_linux::bwrap::{self, Bwrap};
use ringfence_linux::launch::{LaunchError, Place, Sandboxed, Stdio};
use ringfence_linux::plan::{Exec, MountStep, Plan};
use rustix::fs::{FileType, Stat};

use crate::bwrap::{Arguments, is_of_a_cover};

/// The programs that make a sandbox by bwrap.
#[derive(Debug)]
pub(crate) struct Helper {
    pub(crate) arguments: Arguments,
    pub(crate) stage: OwnedFd,
}

impl Helper {
    /// Launches; again when something that was to be masked or sealed was there before and is not any more, or the other
    /// way round: bwrap goes by names, and nobody keeps the host from removing them meanwhile.
    pub(crate) fn launch(
        &self,
        plan: &Plan,
        exec: &Exec,
        stdio: Stdio,
        mut place: Place<'_>,
    ) -> std::result::Result<Sandboxed, LaunchError> {
        const MOST_TRIES: usize = 20;
        let launch = |arguments: &Arguments, place: Place<'_>| {
            let bwrap = Bwrap {
                program: &arguments.program,
                options: &arguments.options,
                data: &arguments.data,
                stage: self.stage.as_fd(),
            };
            let before = masked(&plan.mounts);
            let launched = bwrap::launch(bwrap, plan, exec, stdio, place);
            remove_what_was_made(&before);
            launched
        };
        let mut tried = launch(&self.arguments, place.as_mut().map(|place| &mut **place as _));
        for _ in 1..MOST_TRIES {
            match &tried {
                Err(LaunchError::Helper { said, .. }) if is_of_a_cover(said, &plan.mounts) => {}
                _ => break,
            }
            let Ok(arguments) = self.arguments.as_it_is_now(&plan.mounts) else { break };
            tried = launch(&arguments, place.as_mut().map(|place| &mut **place as _));
        }
        tried
    }
}

/// The places of masks, and what is there.
fn masked(steps: &[MountStep]) -> Vec<(&CStr, Option<Stat>)> {
    let masks = steps.iter().filter(|step| matches!(step, MountStep::Mask { .. }));
    masks.map(|step| (step.target(), rustix::fs::lstat(step.target()).ok())).collect()
}

/// bwrap makes what it is to mount on, if that is missing by then: on the host, empty, and for nobody to write, not even
/// its owner. Who else makes such a file, in the place of a denied one and within these milliseconds?
fn remove_what_was_made(before: &[(&CStr, Option<Stat>)]) {
    let me = rustix::process::geteuid().as_raw();
    let is_empty_mask = |stat: &Stat| {
        [0o444, 0].contains(&(stat.st_mode & !FileType::RegularFile.as_raw_mode()))
            && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            && stat.st_size == 0
            && stat.st_uid == me
    };
    for (path, before) in before {
        if !before.as_ref().is_some_and(is_empty_mask)
            && rustix::fs::lstat(*path).is_ok_and(|now| is_empty_mask(&now))
        {
            let _ = rustix::fs::unlink(*path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_what_bwrap_made_in_the_place_of_a_file_is_removed() {
        let temp = tempfile::tempdir().unwrap();
        let names = ["replaced", "appeared", "written", "empty"];
        let [replaced, appeared, written, empty] = names.map(|name| temp.path().join(name));
        std::fs::write(&replaced, "secret").unwrap();
        std::fs::write(&empty, "").unwrap();
        let close = |path| std::fs::set_permissions(path, PermissionsExt::from_mode(0o444)).unwrap();
        close(&empty);
        let steps = [&replaced, &appeared, &written, &empty]
            .map(|path| MountStep::Mask { target: crate::view::c_path(path).unwrap() });
        let before = masked(&steps);
        for made in [&replaced, &appeared] {
            let _ = std::fs::remove_file(made);
            std::fs::write(made, "").unwrap();
            close(made);
        }
        std::fs::write(&written, "new").unwrap();
        remove_what_was_made(&before);
        assert!(!replaced.exists() && !appeared.exists());
        assert!(written.exists() && empty.exists());
    }
}
