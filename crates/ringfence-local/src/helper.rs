//! Having a sandbox made by bwrap.

use std::os::fd::{AsFd, OwnedFd};

use ringfence_linux::bwrap::{self, Bwrap};
use ringfence_linux::launch::{LaunchError, Place, Sandboxed, Stdio};
use ringfence_linux::plan::{Exec, Plan};

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
            bwrap::launch(bwrap, plan, exec, stdio, place)
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
