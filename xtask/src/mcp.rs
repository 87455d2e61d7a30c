//! The server of the Model Context Protocol, tried by a client that is not ours: the official Python SDK from PyPI.

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::report::Done;
use crate::{shell, workspace};

/// The SDK, pinned: its changes are not ours to find by surprise.
const SDK: &str = "mcp==2.3.0";

pub(crate) fn check() -> Result<Done> {
    let room = workspace::target_directory()?.join("xtask").join("mcp");
    let python = room.join("bin/python");
    let has_sdk = || {
        let script = format!("import importlib.metadata as m; assert 'mcp==' + m.version('mcp') == '{SDK}'");
        shell::succeeds(shell::program(&python).args(["-c", &script]))
    };
    if !has_sdk() {
        let made = shell::run(shell::program("python3").args(["-m", "venv"]).arg(&room)).and_then(|()| {
            shell::run(shell::program(&python).args(["-m", "pip", "install", "--quiet", SDK]))
        });
        if let Err(error) = made {
            return Ok(Done::skipped(format!("the Python SDK ({SDK}) cannot be installed: {error:#}")));
        }
    }
    let mut build = shell::cargo();
    build.args(["build", "-p", "ringfence-cli", "--message-format=json-render-diagnostics"]);
    let program = executable(&shell::output(&mut build)?)?;
    if !shell::succeeds(shell::program(&program).args(["run", "--", "true"])) {
        return Ok(Done::skipped("no fence can start here"));
    }
    shell::run(shell::program(&python).arg(shell::root().join("xtask/data/mcp_client.py")).arg(program))?;
    Ok(Done::passed())
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
