//! `cargo xtask release`: the program as it is packaged, with the functions of a start side by side.
//!
//! Three steps: a build that keeps its symbols, a traced run that lists the functions in the order of their first calls,
//! and a second link with that list. The list is made anew each time, because its names belong to one compiler and one
//! state of the sources.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::{shell, workspace};

const TRACE: &str = include_str!("release/trace.py");

/// Read by `ringfence-cli/build.rs`.
const VARIABLE: &str = "RINGFENCE_FUNCTION_ORDER";

/// What nearly every run does.
const COMMAND: &[&str] = &["run", "--quiet", "--", "bash", "-c", "echo hi"];

/// Builds the package's program and gives its place.
pub(crate) fn run() -> Result<PathBuf> {
    if let Some(why) = why_not()? {
        bail!("{why}; `cargo build --release` builds the same program without the order of functions");
    }
    let directory = workspace::target_directory()?.join("package");
    std::fs::create_dir_all(&directory).with_context(|| format!("making {}", directory.display()))?;
    let list = directory.join("functions");
    let names = trace(&build(None)?)?;
    std::fs::write(&list, names).with_context(|| format!("writing {}", list.display()))?;
    let program = directory.join("ringfence");
    // Stripped here and not by cargo: both builds must have the same flags, or their functions have other names.
    shell::run(shell::program("strip").arg("-o").arg(&program).arg(build(Some(&list))?))?;
    println!("{}", program.display());
    Ok(program)
}

/// Why this machine cannot make the list, if so.
pub(crate) fn why_not() -> Result<Option<&'static str>> {
    Ok(if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        Some("calls are traced on Linux on x86-64 only")
    } else if shell::user_id()? != 0 {
        // Root's start is the longer one: it has control groups, and /etc without its owners.
        Some("must be run by root, whose start has everything that others have")
    } else {
        None
    })
}

/// The program with its symbols.
fn build(order: Option<&Path>) -> Result<PathBuf> {
    let mut cargo = shell::cargo();
    match order {
        Some(list) => cargo.env(VARIABLE, list),
        None => cargo.env_remove(VARIABLE),
    };
    cargo.args(["rustc", "--release", "-p", "ringfence-cli", "--bin", "ringfence"]);
    cargo.args(["--message-format=json-render-diagnostics", "--", "-C", "strip=none"]);
    workspace::executable(&mut cargo, "ringfence")
}

/// The functions of a start in the order of their first calls.
fn trace(program: &Path) -> Result<String> {
    let scratch = shell::ScratchDir::new("order")?;
    let directory = |name: &str| {
        let path = scratch.path().join(name);
        std::fs::create_dir(&path).with_context(|| format!("making {}", path.display())).map(|()| path)
    };
    let (project, home) = (directory("project")?, directory("home")?);
    let plain = |program: &Path| {
        let mut command = shell::program(program);
        command.current_dir(&project).env("HOME", &home).env("RINGFENCE_HOME", home.join(".ringfence"));
        command
    };
    // A first run makes directories that later ones find; it is not traced.
    shell::run(plain(program).args(COMMAND))?;
    let mut traced = plain(Path::new("python3"));
    let names = shell::output(traced.args(["-c", TRACE]).arg(program).args(COMMAND))?;
    let count = names.lines().count();
    ensure!(count > 1000, "only {count} functions were called by {}", program.display());
    println!("{count} functions are called by a start");
    Ok(names)
}
