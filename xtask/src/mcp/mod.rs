//! The server of the Model Context Protocol, tried by clients that are not ours.

mod npm;
mod python;

pub(crate) use npm::check as check_npm;
pub(crate) use python::{check as check_python, client as python_client};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::report::Done;
use crate::{shell, workspace};

/// Builds the program; a machine on which no fence starts is said by name.
fn fenced_program() -> Result<std::result::Result<String, Done>> {
    let program = executable(&workspace::test_artifacts()?)?;
    Ok(if shell::succeeds(shell::program(&program).args(["run", "--", "true"])) {
        Ok(program)
    } else {
        Err(Done::skipped("no fence can start here"))
    })
}

/// The program itself, and not the binary of its unit tests.
fn executable(messages: &[Value]) -> Result<String> {
    let built = messages.iter().find_map(|message| {
        let is_it = message["target"]["name"] == "ringfence"
            && message["target"]["kind"][0] == "bin"
            && message["profile"]["test"] == false;
        message["executable"].as_str().filter(|_| is_it).map(str::to_owned)
    });
    built.context("cargo did not say where it put ringfence")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_program_is_found_among_the_messages() {
        let message = |kind: &str, test: bool, executable: Option<&str>| {
            json!({
                "target": { "name": "ringfence", "kind": [kind] },
                "profile": { "test": test },
                "executable": executable,
            })
        };
        let messages = [
            json!({ "reason": "x" }),
            message("lib", false, None),
            message("bin", true, Some("/t/ringfence-0123")),
            message("bin", false, Some("/t/ringfence")),
        ];
        assert_eq!(executable(&messages).unwrap(), "/t/ringfence");
        assert!(executable(&messages[..3]).is_err());
    }
}
