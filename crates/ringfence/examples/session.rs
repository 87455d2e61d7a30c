//! A shell that remembers, and what happens meanwhile.

use std::io::Write as _;
use std::path::Path;

use ringfence::{EnvMap, Result, Ringfence};

/// Gives what the last command printed, and the names of the events.
pub(crate) fn example(project: &Path, environment: EnvMap) -> Result<(String, Vec<&'static str>)> {
    let ringfence = Ringfence::builder(project).environment(environment).build()?;
    let events = ringfence.events();
    let shell = ringfence.session("main")?;
    shell.run("mkdir -p src && cd src && export GREETING=hello")?;
    let result = shell.run("echo $GREETING from ${PWD##*/}")?;
    let names = events.try_iter().map(|event| event.name()).collect();
    Ok((String::from_utf8_lossy(&result.stdout).into_owned(), names))
}

fn main() -> Result<()> {
    let shown = example(Path::new("."), std::env::vars_os().collect())?;
    let _ = writeln!(std::io::stdout(), "{shown:?}");
    Ok(())
}
