//! Which functions a start calls, and in which order: for the linker, which lays them side by side.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::{shell, workspace};

const TRACE: &str = include_str!("order/trace.py");

/// Where `ringfence-cli/build.rs` looks for it.
const LIST: &str = "crates/ringfence-cli/order.txt";

/// What nearly every run does.
const COMMAND: &[&str] = &["run", "--quiet", "--", "bash", "-c", "echo hi"];

pub(crate) fn run() -> Result<()> {
    let program = workspace::build(&["-p", "ringfence-cli", "--bin", "ringfence"], "ringfence")?;
    // Root's start is the longer one: it has control groups, and /etc without its owners.
    ensure!(shell::user_id()? == 0, "must be run by root, whose start has everything that others have");
    let scratch = shell::ScratchDir::new("order")?;
    let directory = |name: &str| {
        let path = scratch.path().join(name);
        std::fs::create_dir(&path).with_context(|| format!("making {}", path.display())).map(|()| path)
    };
    let (project, home) = (directory("project")?, directory("home")?);
    // What only a first run does shall not be between the others.
    let plain = |program: &Path| {
        let mut command = shell::program(program);
        command.current_dir(&project).env("HOME", &home).env("RINGFENCE_HOME", home.join(".ringfence"));
        command
    };
    shell::run(plain(&program).args(COMMAND))?;
    let mut traced = plain(Path::new("python3"));
    let names = shell::output(traced.args(["-c", TRACE]).arg(&program).args(COMMAND))?;
    let count = names.lines().count();
    ensure!(count > 1000, "only {count} functions were called: {}", shell::line(&traced));
    std::fs::write(shell::root().join(LIST), names).with_context(|| format!("writing {LIST}"))?;
    println!("{count} functions are in {LIST}; the next build uses it");
    Ok(())
}
