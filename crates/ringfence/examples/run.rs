//! One command in a fresh sandbox, and what was stopped.

use std::io::Write as _;
use std::path::Path;

use ringfence::{EnvMap, Result, Ringfence};

/// Gives what the command printed, and a line for everything that was stopped.
pub(crate) fn example(project: &Path, environment: EnvMap) -> Result<(String, Vec<String>)> {
    let ringfence = Ringfence::builder(project).environment(environment).build()?;
    let result = ringfence.run("echo hello > note.txt; cat note.txt ~/.ssh/id_rsa")?;
    let stopped = result.violations.iter().map(|violation| violation.one_line()).collect();
    Ok((String::from_utf8_lossy(&result.stdout).into_owned(), stopped))
}

fn main() -> Result<()> {
    let shown = example(Path::new("."), std::env::vars_os().collect())?;
    let _ = writeln!(std::io::stdout(), "{shown:?}");
    Ok(())
}
