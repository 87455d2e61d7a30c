//! The scripts in the shells that images have, on this machine.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use ringfence_fence::BoxFuture;
use ringfence_model::{Error, ErrorKind, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::exec::{Exec, Finished, Input, Output, SCRIPT_NAME, STDERR_KEPT, Script};

/// What the scripts need besides `sh`; they find nothing else.
const PROGRAMS: &[&str] = &["cat", "chmod", "ls", "mkdir", "mv", "readlink", "rm", "rmdir", "stat", "wc"];

/// A shell of this machine, and a directory with the only programs it finds.
#[derive(Debug, Clone)]
pub(super) struct Shell {
    program: PathBuf,
    arguments: Vec<&'static str>,
    programs: Arc<tempfile::TempDir>,
}

/// dash and bash with the coreutils, and busybox with its own programs. All three are packages that the tests need.
pub(super) fn all() -> Vec<Shell> {
    vec![
        Shell::new("/bin/dash", &[], None),
        Shell::new("/bin/bash", &["--posix"], None),
        Shell::new("/bin/busybox", &["sh"], Some("/bin/busybox")),
    ]
}

impl Shell {
    /// `one_for_all` is a program that is all the others, by their names.
    fn new(program: &str, arguments: &[&'static str], one_for_all: Option<&str>) -> Self {
        let programs = tempfile::tempdir().unwrap();
        for name in PROGRAMS {
            let real = one_for_all.map_or_else(|| format!("/bin/{name}"), str::to_owned);
            assert!(Path::new(&real).exists(), "{real} is missing; `cargo xtask test` installs it");
            std::os::unix::fs::symlink(real, programs.path().join(name)).unwrap();
        }
        Self { program: PathBuf::from(program), arguments: arguments.to_vec(), programs: Arc::new(programs) }
    }
}

impl Exec for Shell {
    fn run<'a>(
        &'a self,
        script: Script<'a>,
        input: Input<'a>,
        output: Output<'a>,
    ) -> BoxFuture<'a, Result<Finished>> {
        Box::pin(async move {
            let failed = |error: std::io::Error| Error::new(ErrorKind::SpawnFailed, error.to_string());
            let mut child = tokio::process::Command::new(&self.program)
                .args(&self.arguments)
                .args(["-c", script.text, SCRIPT_NAME])
                .args(script.arguments)
                .env_clear()
                .env("PATH", self.programs.path())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .kill_on_drop(true)
                .spawn()
                .map_err(failed)?;
            let (Some(mut stdin), Some(mut stdout), Some(mut stderr)) =
                (child.stdin.take(), child.stdout.take(), child.stderr.take())
            else {
                return Err(Error::new(ErrorKind::Internal, "a pipe is missing"));
            };
            let feed = async {
                let mut buffer = vec![0; 64 * 1024];
                loop {
                    let read = input.read(&mut buffer).await?;
                    // A script that wants no more is no error.
                    if read == 0 || stdin.write_all(&buffer[..read]).await.is_err() {
                        drop(stdin);
                        return Ok::<(), std::io::Error>(());
                    }
                }
            };
            let drain = async { tokio::io::copy(&mut stdout, output).await.map(drop) };
            let listen = async {
                let mut said = Vec::new();
                (&mut stderr).take(STDERR_KEPT as u64).read_to_end(&mut said).await?;
                tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await?;
                Ok(said)
            };
            let ((), (), stderr) = match tokio::try_join!(feed, drain, listen) {
                Ok(ended) => ended,
                Err(error) => {
                    child.kill().await.map_err(failed)?;
                    return Err(Error::new(ErrorKind::Cancelled, error.to_string()));
                }
            };
            let status = child.wait().await.map_err(failed)?;
            let signal = std::os::unix::process::ExitStatusExt::signal(&status);
            let code = status.code().unwrap_or(128 + signal.unwrap_or_default());
            Ok(Finished { code, stderr })
        })
    }
}
