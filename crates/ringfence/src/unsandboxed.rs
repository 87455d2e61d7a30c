//! Provider `none`: no fence at all. Only for a person to configure (`enabled: false`,
//! `defaultPolicy: none`, or the profile `dev`), and said loudly each time.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use ringfence_model::{Assurance, Command, Error, ErrorKind, ExecRequest, ExecResult, Result, Stdin};

/// The warning before such a run.
pub const WARNING: &str =
    "the sandbox is switched off by the configuration: the command runs with all your rights";

/// The destination of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// The caller's own.
    Inherit,
    Capture,
}

/// Runs a command with all rights of the caller. Its process group is ended when it takes too long.
pub fn run(
    request: &ExecRequest,
    env: &BTreeMap<OsString, OsString>,
    cwd: &Path,
    output: Output,
    timeout: Option<Duration>,
) -> Result<ExecResult> {
    let started = Instant::now();
    let mut command = match &request.command {
        Command::Shell(text) => {
            let mut bash = std::process::Command::new("bash");
            bash.arg("-c").arg(text);
            bash
        }
        Command::Argv(argv) => {
            let Some((program, arguments)) = argv.split_first() else {
                return Err(Error::new(ErrorKind::Validation, "no command given"));
            };
            let mut command = std::process::Command::new(program);
            command.args(arguments);
            command
        }
    };
    command.env_clear().envs(env).envs(&request.env).current_dir(request.cwd.as_deref().unwrap_or(cwd));
    command.stdin(match request.stdin {
        Stdin::Inherit => Stdio::inherit(),
        Stdin::Empty => Stdio::null(),
        Stdin::Bytes(_) => Stdio::piped(),
    });
    if output == Output::Capture {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    if timeout.is_some() {
        command.process_group(0);
    }
    let mut child = command.spawn().map_err(|error| {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            _ => ErrorKind::SpawnFailed,
        };
        Error::new(kind, "cannot run the command").caused_by(error)
    })?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (status, timed_out, stdout, stderr) = std::thread::scope(|scope| {
        let reading = |stream: Option<Box<dyn Read + Send>>| {
            scope.spawn(move || stream.map_or_else(Vec::new, read_all))
        };
        let stdout = reading(stdout.map(|stream| Box::new(stream) as _));
        let stderr = reading(stderr.map(|stream| Box::new(stream) as _));
        feed(&mut child, &request.stdin);
        let (status, timed_out) = wait(&mut child, timeout.map(|timeout| started + timeout))?;
        Ok::<_, Error>((
            status,
            timed_out,
            stdout.join().unwrap_or_default(),
            stderr.join().unwrap_or_default(),
        ))
    })?;
    Ok(ExecResult {
        stdout,
        stderr,
        exit_code: if timed_out {
            124
        } else {
            status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
        },
        signal: status.signal(),
        timed_out,
        duration_ms: started.elapsed().as_secs_f64() * 1000.0,
        ..ExecResult::silent(Assurance::unsandboxed())
    })
}

fn read_all(mut stream: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Bytes that were read before an error are still output.
    let _ = stream.read_to_end(&mut bytes);
    bytes
}

fn feed(child: &mut Child, stdin: &Stdin) {
    use std::io::Write as _;
    if let (Some(mut pipe), Stdin::Bytes(bytes)) = (child.stdin.take(), stdin) {
        // A command that does not read its input is free not to.
        let _ = pipe.write_all(bytes);
    }
}

fn wait(child: &mut Child, deadline: Option<Instant>) -> Result<(ExitStatus, bool)> {
    let failed = |error| Error::new(ErrorKind::Internal, "cannot wait for the command").caused_by(error);
    let Some(deadline) = deadline else { return Ok((child.wait().map_err(failed)?, false)) };
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            return Ok((status, false));
        }
        if Instant::now() >= deadline {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::KILL] {
        if let Some(group) = group {
            // A group that is gone needs no signal.
            let _ = rustix::process::kill_process_group(group, signal);
        }
        let grace = Instant::now() + Duration::from_millis(200);
        while Instant::now() < grace {
            if let Some(status) = child.try_wait().map_err(failed)? {
                return Ok((status, true));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    Ok((child.wait().map_err(failed)?, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env() -> BTreeMap<OsString, OsString> {
        BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())])
    }

    #[test]
    fn it_runs_and_says_that_nothing_held_it() {
        let request = ExecRequest {
            stdin: Stdin::Bytes(b"in".to_vec()),
            ..ExecRequest::shell("cat; echo err >&2; exit 3")
        };
        let result = run(&request, &env(), Path::new("/"), Output::Capture, None).unwrap();
        assert_eq!(
            (result.exit_code, result.stdout.as_slice(), result.stderr.as_slice()),
            (3, &b"in"[..], &b"err\n"[..])
        );
        assert!(!result.sandbox.active);
        assert!(!result.sandbox.degraded.is_empty());
    }

    #[test]
    fn a_timeout_ends_the_whole_group() {
        let request = ExecRequest::shell("sleep 30 & sleep 30");
        let result =
            run(&request, &env(), Path::new("/"), Output::Capture, Some(Duration::from_millis(100))).unwrap();
        assert!(result.timed_out);
        assert_eq!(result.exit_code, 124);
        assert!(result.duration_ms < 20_000.0);
    }

    #[test]
    fn a_missing_program_is_not_found() {
        let error =
            run(&ExecRequest::argv(["no-such-program"]), &env(), Path::new("/"), Output::Capture, None);
        assert_eq!(error.unwrap_err().kind, ErrorKind::NotFound);
    }
}
