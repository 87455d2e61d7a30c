//! Other people's tests, bare and inside: a program that cannot tell the difference passes the same ones.
//!
//! Parts of the suites of CPython, git and bash, and a table of small programs, run as an ordinary user, once bare and once
//! in a sandbox. What passes bare and not inside must be on the list, with the reason; docs/compatibility.md explains the
//! reasons.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::packages::SYSTEM_PATH;
use crate::report::Done;
use crate::{shell, unprivileged};

const SCRIPT: &str = include_str!("../data/suites.py");
const KNOWN: &str = include_str!("../data/suites.txt");
const SOURCES: &str = include_str!("../data/suites.sh");
const PROGRAMS: &str = include_str!("../data/programs.txt");

/// Runs the quick part of every suite.
pub(crate) fn run() -> Result<Done> {
    run_chosen(&[])
}

/// Runs what these patterns name, such as `git/t1*`, instead of the quick part.
pub(crate) fn run_chosen(patterns: &[&str]) -> Result<Done> {
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
    std::fs::write(project.join("programs"), PROGRAMS).context("writing the table of programs")?;
    let missing =
        sources(&project).err().map(|error| format!("without the tests of git and bash: {error:#}"));
    std::fs::set_permissions(scratch.path(), PermissionsExt::from_mode(0o755))
        .context("opening the place")?;
    let mut command = if shell::user_id()? == 0 {
        let user = unprivileged::USER;
        shell::run(shell::program("chown").args(["-R", &format!("{user}:{user}")]).arg(&home))?;
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
        .args(patterns)
        .current_dir(&project);
    let run = shell::run_tests_as(&mut command, "suites.py: other people's tests, bare and inside")?;
    let notes = run.counts.into_iter().chain(missing).collect();
    Ok(if run.passed {
        Done::Passed { notes }
    } else {
        Done::Failed { reason: "tests that pass bare fail inside, see above".to_owned(), notes }
    })
}

/// Puts the tests of git and bash into the project; they are fetched and built once.
fn sources(project: &Path) -> Result<()> {
    let kept = target()?.join("suites");
    shell::run(shell::program("sh").args(["-c", SOURCES, "suites.sh"]).arg(&kept))?;
    shell::run(
        shell::program("cp").args(["-r", "--"]).args([kept.join("git"), kept.join("bash")]).arg(project),
    )
}

fn target() -> Result<PathBuf> {
    let metadata = shell::output(shell::cargo().args(["metadata", "--format-version", "1", "--no-deps"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata).context("reading what cargo says")?;
    let target = metadata["target_directory"].as_str().context("cargo names no target directory")?;
    Ok(PathBuf::from(target))
}

fn built() -> Result<PathBuf> {
    let target = target()?;
    let places = [
        "debug/ringfence".to_owned(),
        format!("{}-unknown-linux-gnu/debug/ringfence", std::env::consts::ARCH),
    ];
    let found = places.iter().map(|place| target.join(place)).filter(|path| path.exists());
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
