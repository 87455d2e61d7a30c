//! The server of the Model Context Protocol, tried by clients that are not ours.

mod npm;
mod python;

pub(crate) use npm::check as check_npm;
pub(crate) use python::{check as check_python, client as python_client};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::report::Done;
use crate::shell;

/// Builds the program; a machine on which no fence starts is said by name.
fn fenced_program() -> Result<std::result::Result<String, Done>> {
    let mut build = shell::cargo();
    build.args(["build", "-p", "ringfence-cli", "--message-format=json-render-diagnostics"]);
    let program = executable(&shell::output(&mut build)?)?;
    Ok(if shell::succeeds(shell::program(&program).args(["run", "--", "true"])) {
        Ok(program)
    } else {
        Err(Done::skipped("no fence can start here"))
    })
}

/// The program that cargo says it built.
fn executable(messages: &str) -> Result<String> {
    let mut messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let built = messages.find_map(|message| {
        let is_it = message["target"]["name"] == "ringfence" && message["target"]["kind"][0] == "bin";
        message["executable"].as_str().filter(|_| is_it).map(str::to_owned)
    });
    built.context("cargo did not say where it put ringfence")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_among_the_messages() {
        let messages = "not json\n{\"reason\":\"x\"}\n\
            {\"target\":{\"name\":\"ringfence\",\"kind\":[\"lib\"]},\"executable\":null}\n\
            {\"target\":{\"name\":\"ringfence\",\"kind\":[\"bin\"]},\"executable\":\"/t/ringfence\"}\n";
        assert_eq!(executable(messages).unwrap(), "/t/ringfence");
        assert!(executable("{}").is_err());
    }
}
