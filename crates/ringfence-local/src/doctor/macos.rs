//! What macOS offers: the program that applies a profile, and the log of what is refused.

use std::path::{Path, PathBuf};

use ringfence_seatbelt::adapter::SANDBOX_EXEC;

use super::tools;
use super::{Check, Status};
use crate::host::Host;

/// The programs of the system that the fence is made with.
#[derive(Debug)]
pub(super) struct Programs {
    pub(super) sandbox_exec: PathBuf,
    pub(super) log: PathBuf,
}

impl Default for Programs {
    fn default() -> Self {
        Self { sandbox_exec: SANDBOX_EXEC.into(), log: "/usr/bin/log".into() }
    }
}

/// What a fence is made of on Linux, none of which has a meaning here.
const LINUX_ONLY: [(&str, &str); 7] = [
    ("userNamespaces", "user namespaces"),
    ("freshProc", "a fresh /proc"),
    ("landlock", "Landlock"),
    ("seccomp", "seccomp"),
    ("cgroup", "control groups"),
    ("fuse", "/dev/fuse"),
    ("bwrap", "bubblewrap"),
];

pub(super) fn checks(host: &Host, programs: &Programs) -> Vec<Check> {
    let mut checks = vec![sandbox_exec(host, &programs.sandbox_exec), log(host, &programs.log)];
    checks.extend(
        LINUX_ONLY.map(|(id, title)| Check::new(id, title, Status::NotApplicable, "a mechanism of Linux")),
    );
    checks
}

fn sandbox_exec(host: &Host, program: &Path) -> Check {
    const ID: &str = "sandboxExec";
    const TITLE: &str = "sandbox-exec";
    let cost = "`ringfence run` refuses to run anything";
    let shown = program.display();
    if !program.is_file() {
        return Check::new(ID, TITLE, Status::Missing, format!("{shown} is missing"))
            .required()
            .costs(cost)
            .remedy("use macOS itself: a Linux container on a Mac has no Seatbelt");
    }
    match tools::run(host, program, &["-p", "(version 1)(allow default)", "/usr/bin/true"]) {
        Ok(_) => Check::new(ID, TITLE, Status::Ok, format!("{shown} starts a command")).required(),
        Err(why) => Check::new(ID, TITLE, Status::Missing, format!("{shown} cannot start a command: {why}"))
            .required()
            .costs(cost)
            .remedy("start ringfence outside of any other sandbox: macOS does not nest them"),
    }
}

fn log(host: &Host, program: &Path) -> Check {
    const ID: &str = "log";
    const TITLE: &str = "the kernel's log";
    match tools::run(host, program, &["stream", "--timeout", "1s", "--predicate", "FALSEPREDICATE"]) {
        Ok(_) => Check::new(ID, TITLE, Status::Ok, "can be read"),
        Err(why) => Check::new(ID, TITLE, Status::Degraded, format!("{}: {why}", program.display()))
            .costs("refusals are guessed from what the command says, and marked as uncertain")
            .remedy("use an account that administers this Mac"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt;

    fn examined(sandbox_exec: Option<&str>) -> Vec<Check> {
        let temp = tempfile::tempdir().unwrap();
        let programs =
            Programs { sandbox_exec: temp.path().join("sandbox-exec"), log: temp.path().join("log") };
        if let Some(script) = sandbox_exec {
            std::fs::write(&programs.sandbox_exec, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&programs.sandbox_exec, std::fs::Permissions::from_mode(0o700)).unwrap();
        }
        checks(&Host::from_environment(BTreeMap::new()), &programs)
    }

    fn check<'a>(checks: &'a [Check], id: &str) -> &'a Check {
        checks.iter().find(|check| check.id == id).unwrap()
    }

    #[test]
    fn the_tool_is_tried_and_everything_of_linux_has_no_meaning() {
        let checks = examined(Some("shift 2; exec \"$@\""));
        assert_eq!(check(&checks, "sandboxExec").status, Status::Ok);
        assert_eq!(check(&checks, "log").status, Status::Degraded);
        for (id, _) in LINUX_ONLY {
            assert_eq!(check(&checks, id).status, Status::NotApplicable);
        }
    }

    #[test]
    fn a_tool_that_is_missing_or_fails_stands_in_the_way() {
        let missing = examined(None);
        assert!(check(&missing, "sandboxExec").blocks());
        let failing =
            examined(Some("echo 'sandbox-exec: sandbox_apply: Operation not permitted' >&2; exit 71"));
        let failing = check(&failing, "sandboxExec");
        assert!(failing.blocks() && failing.found.contains("sandbox_apply"), "{}", failing.found);
    }
}
