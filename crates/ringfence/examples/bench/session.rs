//! A warm shell: commands in it, and what they write, beside the same bash without any of it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use ringfence::fence::CreateOptions;
use ringfence::local::fence::LocalFence;
use ringfence::local::shell::{Shell, ShellOptions};
use ringfence::model::config::ConfigFile;
use ringfence::model::{ExecEvent, ExecRequest};
use ringfence::setup::Setup;
use serde_json::{Value, json};

use crate::Outcome;

type Error = Box<dyn std::error::Error>;

/// As little as keeps a bash busy: one command per line, its status back.
const LOOP: &str = "while IFS= read -r line; do eval \"$line\"; printf '%s\\n' $?; done";
const GIB: u64 = 1 << 30;

/// Bash over two pipes.
struct Bare {
    child: Child,
    input: std::process::ChildStdin,
    output: BufReader<std::process::ChildStdout>,
}

impl Bare {
    fn start(program: &mut Command) -> Result<Self, Error> {
        let mut child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().ok_or("no input")?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        Ok(Self { child, input, output })
    }

    /// Sends a line and waits until one with `end` comes.
    fn ask(&mut self, line: &str, end: &str) -> Result<(), Error> {
        self.input.write_all(line.as_bytes())?;
        loop {
            let mut answer = String::new();
            if self.output.read_line(&mut answer)? == 0 {
                return Err("it ended".into());
            }
            if answer.contains(end) {
                return Ok(());
            }
        }
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Times of the same command in every way, taken in turn. `ringfence` is the command-line program.
pub(crate) fn measure(project: &Path, rounds: usize, ringfence: &str) -> Outcome {
    let setup = Setup::load(project, std::env::vars_os().collect(), ConfigFile::default(), None)?;
    let native = LocalFence::prepare(CreateOptions {
        environment: setup.env.clone(),
        ..CreateOptions::new(setup.project.clone(), setup.policy())
    })?;
    let shell = Shell::start(Arc::new(native), ShellOptions::default())?;
    let mut bare = Bare::start(Command::new("bash").args(["--norc", "--noprofile", "-c", LOOP]))?;
    let mut whole = Bare::start(Command::new(ringfence).arg("session").current_dir(project))?;
    let mut times: [Vec<u64>; 6] = Default::default();
    let requests = [":", "/bin/true"].map(ExecRequest::shell);
    for round in 0..rounds {
        let mut took = |index: usize, act: &mut dyn FnMut() -> Result<(), Error>| {
            let begin = Instant::now();
            act()?;
            times[index].push(u64::try_from(begin.elapsed().as_nanos())?);
            Ok::<(), Error>(())
        };
        let execute = |request: &ExecRequest| Ok(shell.execute(request, &|_| ()).map(drop)?);
        took(0, &mut || bare.ask(":\n", "0"))?;
        took(1, &mut || execute(&requests[0]))?;
        took(2, &mut || whole.ask("{\"id\":1,\"command\":\":\"}\n", "\"result\""))?;
        // These take a hundred times longer.
        if round % 20 == 0 {
            took(3, &mut || bare.ask("/bin/true\n", "0"))?;
            took(4, &mut || execute(&requests[1]))?;
            took(5, &mut || Ok(Command::new("bash").args(["-c", ":"]).status().map(drop)?))?;
        }
    }
    let [builtin, in_shell, in_session, external, external_in_shell, spawned] = times;
    Ok(json!({
        "builtin over bare pipes": builtin,
        "builtin in a shell": in_shell,
        "builtin in a session, with gate and ledger": in_session,
        "program over bare pipes": external,
        "program in a shell": external_in_shell,
        "bash -c :": spawned,
        "streams": streams(&shell, rounds)?,
    }))
}

/// MiB per second of a GiB of output, read as it comes.
fn streams(shell: &Shell, rounds: usize) -> Result<Value, Error> {
    let (mut bare, mut fenced) = (vec![], vec![]);
    for _ in 0..(rounds / 400).clamp(3, 9) {
        let begin = Instant::now();
        let total = AtomicU64::new(0);
        shell.execute(&ExecRequest::shell("head -c 1G /dev/zero"), &|event| {
            if let ExecEvent::Stdout(bytes) = event {
                total.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            }
        })?;
        if total.into_inner() != GIB {
            return Err("some of the output is missing".into());
        }
        fenced.push(1024.0 / begin.elapsed().as_secs_f64());
        let begin = Instant::now();
        bare.push(bare_stream().map(|()| 1024.0 / begin.elapsed().as_secs_f64())?);
    }
    Ok(json!({ "bare read loop": bare, "in a shell": fenced }))
}

/// The same over a pipe of the same size that nobody looks into.
fn bare_stream() -> Result<(), Error> {
    let (mut read, write) = std::io::pipe()?;
    let _ = rustix::pipe::fcntl_setpipe_size(&read, 1 << 20);
    let mut child = Command::new("head").args(["-c", "1G", "/dev/zero"]).stdout(write).spawn()?;
    let mut buffer = vec![0; 64 << 10];
    let mut total = 0;
    loop {
        match read.read(&mut buffer)? {
            0 => break,
            length => total += length as u64,
        }
    }
    child.wait()?;
    if total == GIB { Ok(()) } else { Err("some of the output is missing".into()) }
}
