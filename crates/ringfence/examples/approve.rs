//! A person decides about what is not allowed. The refused call waits meanwhile, inside the fence.

use std::io::Write as _;
use std::path::Path;

use ringfence::{Answer, Decision, EnvMap, Permission, Result, Ringfence};

/// Gives what an allowed and a refused command printed.
pub(crate) fn example(project: &Path, environment: EnvMap) -> Result<(String, String)> {
    // A program with a window would show `question.sentence()` in it.
    let person = |question: &Permission| match question.resource.ends_with("/notes") {
        true => Answer::new(Decision::AllowOnce),
        false => Answer::deny("not that one"),
    };
    let ringfence = Ringfence::builder(project).environment(environment).ask(person).build()?;
    let print = |command: &str| -> Result<String> {
        Ok(String::from_utf8_lossy(&ringfence.run(command)?.stdout).into_owned())
    };
    Ok((print("cat ~/.ssh/notes")?, print("cat ~/.ssh/id_rsa")?))
}

fn main() -> Result<()> {
    let shown = example(Path::new("."), std::env::vars_os().collect())?;
    let _ = writeln!(std::io::stdout(), "{shown:?}");
    Ok(())
}
