//! Other people's tests, bare and inside: a program that cannot tell the difference passes the same ones.
//!
//! A part of CPython's own suite runs as an ordinary user, once bare and once in a sandbox. What passes bare and not
//! inside must be on the list beside this file, with the reason; docs/compatibility.md explains the reasons.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::packages::SYSTEM_PATH;
use crate::report::Done;
use crate::{shell, unprivileged};

const SCRIPT: &str = include_str!("../data/suites.py");
const KNOWN: &str = include_str!("../data/suites.txt");

pub(crate) fn run() -> Result<Done> {
    if let Err(reason) = python_suite()? {
        return Ok(Done::skipped(reason));
    }
    shell::run(shell::cargo().args(["build", "--package", "ringfence-cli"]))?;
    let scratch = shell::ScratchDir::new("suites")?;
    let place = |name: &str| scratch.path().join(name);
    let (home, project, program) = (place("home"), place("home/project"), place("ringfence"));
    std::fs::create_dir_all(&project).context("making a project")?;
    std::fs::copy(built()?, &program).context("copying the program to where everybody reaches it")?;
    std::fs::write(place("suites.py"), SCRIPT).context("writing the script")?;
    std::fs::write(place("known"), KNOWN).context("writing the list")?;
    std::fs::set_permissions(scratch.path(), PermissionsExt::from_mode(0o755))
        .context("opening the place")?;
    let mut command = if shell::user_id()? == 0 {
        for directory in [&home, &project] {
            std::os::unix::fs::chown(directory, Some(unprivileged::USER), Some(unprivileged::USER))
                .context("giving the project to the user")?;
        }
        let user = unprivileged::USER;
        let mut command = shell::program("setpriv");
        command.args([format!("--reuid={user}"), format!("--regid={user}")]).args([
            "--clear-groups",
            "env",
            "-i",
        ]);
        command
    } else {
        let mut command = shell::program("env");
        command.arg("-i");
        command
    };
    command
        .arg(format!("HOME={}", home.display()))
        .arg(format!("PATH={SYSTEM_PATH}"))
        .args(["LANG=C.UTF-8", "/usr/bin/python3"])
        .args([place("suites.py"), program, place("known"), project.clone()])
        .current_dir(&project);
    let run = shell::run_tests_as(&mut command, "suites.py: CPython's tests, bare and inside")?;
    let notes = run.counts;
    Ok(if run.passed {
        Done::Passed { notes }
    } else {
        Done::Failed { reason: "tests that pass bare fail inside, see above".to_owned(), notes }
    })
}

fn built() -> Result<PathBuf> {
    let metadata = shell::output(shell::cargo().args(["metadata", "--format-version", "1", "--no-deps"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata).context("reading what cargo says")?;
    let target = metadata["target_directory"].as_str().context("cargo names no target directory")?;
    let places = [
        "debug/ringfence".to_owned(),
        format!("{}-unknown-linux-gnu/debug/ringfence", std::env::consts::ARCH),
    ];
    let found = places.iter().map(|place| Path::new(target).join(place)).filter(|path| path.exists());
    let newest = found.max_by_key(|path| path.metadata().and_then(|metadata| metadata.modified()).ok());
    newest.context("cargo built no ringfence")
}

/// Whether the system's Python has its tests, installed where that is possible; if not, why.
fn python_suite() -> Result<Result<(), String>> {
    if !cfg!(target_os = "linux") {
        return Ok(Err("not Linux".to_owned()));
    }
    let has = || shell::succeeds(shell::program("/usr/bin/python3").args(["-c", "import test.test_os"]));
    if has() {
        return Ok(Ok(()));
    }
    let version = "import sys; print('libpython3.%d-testsuite' % sys.version_info[1])";
    let name = shell::output(shell::program("/usr/bin/python3").args(["-c", version]))?;
    let name = name.trim();
    if shell::user_id()? != 0 || !Path::new("/usr/bin/apt-get").exists() {
        return Ok(Err(format!("{name} is not installed (as root: apt-get install {name})")));
    }
    let mut install = shell::program("apt-get");
    install.env("DEBIAN_FRONTEND", "noninteractive");
    install.args(["install", "--quiet", "--yes", "--no-install-recommends", name]);
    Ok(match shell::run(&mut install) {
        Ok(()) if has() => Ok(()),
        Ok(()) => Err(format!("{name} is installed, and /usr/bin/python3 does not find its tests")),
        Err(error) => Err(format!("{name} cannot be installed: {error}")),
    })
}
