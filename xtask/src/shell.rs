//! Starts other programs; the only place that does.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The root of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The same, without `..`, for programs and people that read it.
pub(crate) fn clean_root() -> Result<PathBuf> {
    root().canonicalize().context("resolving the root of the workspace")
}

/// The cargo that runs this program.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.current_dir(root());
    command
}

/// Another program, started in the root of the workspace.
pub(crate) fn program(name: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root());
    command
}

/// The command as a person would type it.
pub(crate) fn line(command: &Command) -> String {
    let mut text = Path::new(command.get_program())
        .file_name()
        .unwrap_or(command.get_program())
        .to_string_lossy()
        .into_owned();
    for argument in command.get_args() {
        text.push(' ');
        let argument = argument.to_string_lossy();
        if argument.contains(char::is_whitespace) || argument.is_empty() {
            text.push_str(&format!("'{argument}'"));
        } else {
            text.push_str(&argument);
        }
    }
    text
}

/// Runs it with its output on our terminal; anything but success is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    println!("$ {}", line(command));
    let status = command.status().with_context(|| format!("starting {}", line(command)))?;
    if !status.success() {
        bail!("{}: {status}", line(command));
    }
    Ok(())
}

/// Runs it quietly and gives its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("starting {}", line(command)))?;
    if !output.status.success() {
        bail!("{}: {}", line(command), output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("reading the output of {}", line(command)))
}

/// Whether it can be started and succeeds; its output is dropped.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// What a test run printed at its end, and whether it succeeded.
#[derive(Debug)]
pub(crate) struct TestRun {
    pub(crate) passed: bool,
    /// The lines with the counts, as the test runner wrote them.
    pub(crate) counts: Vec<String>,
}

/// Runs a test runner with its output passed through, and keeps the lines that hold the counts.
pub(crate) fn run_tests(command: &mut Command) -> Result<TestRun> {
    let shown = line(command);
    run_tests_as(command, &shown)
}

/// The same, announced in words of the caller's.
pub(crate) fn run_tests_as(command: &mut Command, shown: &str) -> Result<TestRun> {
    println!("$ {shown}");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {shown}"))?;
    let stdout = child.stdout.take().context("the child has no stdout")?;
    let stderr = child.stderr.take().context("the child has no stderr")?;
    let (out, err) = std::thread::scope(|scope| {
        let out = scope.spawn(|| pass_through(stdout, std::io::stdout()));
        let err = pass_through(stderr, std::io::stderr());
        (out.join().unwrap_or_default(), err)
    });
    let status = child.wait().with_context(|| format!("waiting for {shown}"))?;
    Ok(TestRun { passed: status.success(), counts: out.into_iter().chain(err).collect() })
}

fn pass_through(from: impl Read, mut to: impl Write) -> Vec<String> {
    let mut reader = BufReader::new(from);
    let mut counts = Vec::new();
    let mut bytes = Vec::new();
    while matches!(reader.read_until(b'\n', &mut bytes), Ok(1..)) {
        // A closed terminal must not stop the tests.
        let _ = to.write_all(&bytes);
        let text = String::from_utf8_lossy(&bytes);
        if text.starts_with("test result:") || text.trim_start().starts_with("Summary [") {
            counts.push(text.trim().to_owned());
        }
        bytes.clear();
    }
    counts
}

/// The numeric user this program runs as.
pub(crate) fn user_id() -> Result<u32> {
    output(program("id").arg("-u"))?.trim().parse().context("reading the output of id -u")
}

/// A directory that is removed, with all in it, when the value is dropped.
#[derive(Debug)]
pub(crate) struct ScratchDir(PathBuf);

impl ScratchDir {
    /// Makes a fresh directory below `/var/tmp`, which unlike `/tmp` is on a disk.
    pub(crate) fn new(purpose: &str) -> Result<Self> {
        let path = output(program("mktemp").args(["-d", &format!("/var/tmp/ringfence-{purpose}.XXXXXX")]))?;
        Ok(Self(PathBuf::from(path.trim_end())))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("xtask: cannot remove {}: {error}", self.0.display());
        }
    }
}
