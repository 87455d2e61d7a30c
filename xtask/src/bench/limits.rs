//! The limits: small programs in C that make the necessary system calls and no others, compiled when a bench begins.
//!
//! What they take is measured in the same run, so that a goal against them holds on every machine.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::{shell, workspace};

/// Where the references were compiled to.
#[derive(Debug)]
pub(crate) struct Limits {
    /// One open under the least supervisor.
    pub(crate) opens: PathBuf,
    /// From a yes to the return of the call.
    pub(crate) approval: PathBuf,
    /// A fenced start of a command.
    pub(crate) start: PathBuf,
}

impl Limits {
    /// None, and a message, where there is no C compiler.
    pub(crate) fn build() -> Result<Option<Self>> {
        if !shell::succeeds(shell::program("cc").arg("--version")) {
            println!("no C compiler (cc): what is measured is not compared with its limit");
            return Ok(None);
        }
        let directory = workspace::target_directory()?.join("bench/limits");
        std::fs::create_dir_all(&directory).context("making a directory for the limits")?;
        let compile = |name: &str| -> Result<PathBuf> {
            let source = shell::clean_root()?.join(format!("xtask/src/bench/limits/{name}.c"));
            let program = directory.join(name);
            // A dynamic one starts slower, and some systems have no C library to link statically.
            for link in [&["-static"][..], &[]] {
                let mut cc = shell::program("cc");
                cc.arg("-O2").args(link).arg("-o").arg(&program).arg(&source);
                if shell::succeeds(&mut cc) {
                    if link.is_empty() {
                        println!("{name}: linked dynamically, so the limit is a little too slow");
                    }
                    return Ok(program);
                }
            }
            bail!("cc cannot compile {}", source.display())
        };
        Ok(Some(Self { opens: compile("opens")?, approval: compile("approval")?, start: compile("start")? }))
    }
}
