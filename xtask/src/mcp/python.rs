//! The official Python SDK, from PyPI.

use std::path::PathBuf;

use anyhow::Result;

use super::fenced_program;
use crate::report::Done;
use crate::{packages, shell, workspace};

/// The SDK, pinned: its changes are not ours to find by surprise.
const SDK: &str = "mcp==2.3.0";

const SCRIPT: &str = "xtask/data/mcp_client.py";

pub(crate) fn check() -> Result<Done> {
    let client = match client()? {
        Ok(client) => client,
        Err(done) => return Ok(done),
    };
    let [program, arguments @ ..] = client.as_slice() else { return Ok(Done::passed()) };
    shell::run(shell::program(program).args(arguments))?;
    Ok(Done::passed())
}

/// The client's command line, with everything it needs made; or why there is none.
pub(crate) fn client() -> Result<std::result::Result<Vec<PathBuf>, Done>> {
    let room = workspace::target_directory()?.join("xtask").join("mcp-python");
    let python = room.join("bin/python");
    let has_sdk = || {
        let script = format!("import importlib.metadata as m; assert 'mcp==' + m.version('mcp') == '{SDK}'");
        shell::succeeds(shell::program(&python).args(["-c", &script]))
    };
    if !has_sdk() {
        // The system's own python: an ordinary user has to reach it too.
        let mut venv = shell::program("/usr/bin/env");
        venv.env("PATH", packages::SYSTEM_PATH).args(["python3", "-m", "venv", "--clear"]).arg(&room);
        let made = shell::run(&mut venv).and_then(|()| {
            shell::run(shell::program(&python).args(["-m", "pip", "install", "--quiet", SDK]))
        });
        if let Err(error) = made {
            let reason = format!("the Python SDK ({SDK}) cannot be installed: {error:#}");
            return Ok(Err(Done::skipped(reason)));
        }
    }
    let program = match fenced_program()? {
        Ok(program) => PathBuf::from(program),
        Err(done) => return Ok(Err(done)),
    };
    Ok(Ok(vec![python, shell::clean_root()?.join(SCRIPT), program]))
}
