//! A reader of code that is a process of its own, which can do nothing else.
//!
//! [`Worker`] starts the program it is given with [`READ_CODE`] when the first code comes, keeps it, and talks to
//! it over one socket: a length, then JSON, both ways. That program calls [`serve_reader`], which locks itself in
//! before it reads the first byte. A worker that ends, stays silent or says too much is stopped, and the code is
//! asked about; the next code gets a new one.

use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ringfence_gate::reading::{CodeReader, InProcess, Question, Reading};
use rustix::io::Errno;

/// The argument with which a program becomes a reader: it calls [`serve_reader`] before anything else.
pub const READ_CODE: &str = "__read-code";

/// Far more than reading the longest code takes, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longer messages are not believed.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// Has code read by another process, which is started when it is needed.
#[derive(Debug)]
pub struct Worker {
    program: PathBuf,
    patience: Duration,
    running: Mutex<Option<Running>>,
}

impl Worker {
    /// `program`: one that calls [`serve_reader`] when its only argument is [`READ_CODE`].
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), patience: PATIENCE, running: Mutex::default() }
    }

    /// The same, for somebody who waits this long only.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    fn start(&self) -> io::Result<Running> {
        let (ours, theirs) = UnixStream::pair()?;
        let child = self
            .command()?
            .env_clear()
            .current_dir("/")
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Running { child, channel: ours })
    }

    #[cfg(not(target_os = "macos"))]
    #[expect(clippy::unnecessary_wraps, reason = "it can fail on another system")]
    fn command(&self) -> io::Result<Command> {
        let mut command = Command::new(&self.program);
        command.arg(READ_CODE);
        Ok(command)
    }

    /// Seatbelt is put on from outside here.
    #[cfg(target_os = "macos")]
    fn command(&self) -> io::Result<Command> {
        let program = self.program.to_str().filter(|path| !path.contains(['"', '\\']));
        let program = program.ok_or_else(|| io::Error::other("the path of the program cannot be written"))?;
        let profile = format!(
            "(version 1)(deny default)(import \"system.sb\")\
             (allow process-exec file-read* (literal \"{program}\"))"
        );
        let mut command = Command::new("/usr/bin/sandbox-exec");
        command.args(["-p", &profile, program, READ_CODE]);
        Ok(command)
    }
}

impl CodeReader for Worker {
    fn read(&self, question: &Question) -> Result<Reading, String> {
        let message = serde_json::to_vec(question).map_err(|error| error.to_string())?;
        let mut slot = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let deadline = Instant::now() + self.patience;
        // One that has served before may have been ended by somebody meanwhile.
        if let Some(mut running) = slot.take()
            && let Ok(reading) = running.exchange(&message, deadline)
        {
            *slot = Some(running);
            return Ok(reading);
        }
        let mut running = self.start().map_err(|error| format!("its reader cannot be started: {error}"))?;
        let reading = running.exchange(&message, deadline).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                "its reader ended".to_owned()
            }
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                format!("its reader did not answer within {} ms", self.patience.as_millis())
            }
            _ => format!("its reader gave no answer: {error}"),
        })?;
        *slot = Some(running);
        Ok(reading)
    }
}

/// A process and the way to it. Dropped, it is ended.
#[derive(Debug)]
struct Running {
    child: Child,
    channel: UnixStream,
}

impl Running {
    fn exchange(&mut self, message: &[u8], deadline: Instant) -> io::Result<Reading> {
        let length = u32::try_from(message.len()).map_err(io::Error::other)?.to_le_bytes();
        for mut rest in [&length[..], message] {
            while !rest.is_empty() {
                self.channel.set_write_timeout(Some(left(deadline)?))?;
                rest = &rest[self.channel.write(rest)?..];
            }
        }
        let mut length = [0; 4];
        self.fill(&mut length, deadline)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > MOST_BYTES {
            return Err(io::Error::other("the answer is too long"));
        }
        let mut answer = vec![0; length];
        self.fill(&mut answer, deadline)?;
        let answer: Result<Reading, String> = serde_json::from_slice(&answer)?;
        answer.map_err(io::Error::other)
    }

    fn fill(&mut self, mut buffer: &mut [u8], deadline: Instant) -> io::Result<()> {
        while !buffer.is_empty() {
            self.channel.set_read_timeout(Some(left(deadline)?))?;
            match self.channel.read(buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => buffer = &mut buffer[count..],
            }
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// The work of a program that was started with [`READ_CODE`]: it locks itself in, then reads code until nobody asks
/// any more. Where it cannot be locked in, it reads nothing.
pub fn serve_reader() -> ExitCode {
    #[cfg(target_os = "linux")]
    if ringfence_local::confine().is_err() {
        return ExitCode::FAILURE;
    }
    serve().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
}

fn serve() -> io::Result<()> {
    loop {
        let mut length = [0; 4];
        if !receive(&mut length)? {
            return Ok(());
        }
        let length = u32::from_le_bytes(length) as usize;
        if length > MOST_BYTES {
            return Err(io::Error::other("the question is too long"));
        }
        let mut question = vec![0; length];
        receive(&mut question)?;
        let question: Question = serde_json::from_slice(&question)?;
        let answer = serde_json::to_vec(&InProcess.read(&question))?;
        send(&u32::try_from(answer.len()).map_err(io::Error::other)?.to_le_bytes())?;
        send(&answer)?;
    }
}

/// Fills the buffer; false when nobody asks any more.
fn receive(mut buffer: &mut [u8]) -> io::Result<bool> {
    while !buffer.is_empty() {
        match rustix::io::read(rustix::stdio::stdin(), &mut *buffer) {
            Ok(0) => return Ok(false),
            Ok(count) => buffer = &mut buffer[count..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(true)
}

fn send(mut rest: &[u8]) -> io::Result<()> {
    while !rest.is_empty() {
        match rustix::io::write(rustix::stdio::stdin(), rest) {
            Ok(count) => rest = &rest[count..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question() -> Question {
        Question {
            language: "python".into(),
            code: "print(1)".into(),
            home: "/home/dev".into(),
            project: "/home/dev/project".into(),
            cwd: None,
        }
    }

    /// A program that ignores its argument and does this.
    fn program(script: &str) -> tempfile::TempPath {
        use std::os::unix::fs::PermissionsExt as _;
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        file.into_temp_path()
    }

    fn refusal(script: &str, patience: Duration) -> String {
        let program = program(script);
        Worker::new(&*program).patience(patience).read(&question()).unwrap_err()
    }

    #[test]
    fn a_worker_that_fails_leaves_a_reason() {
        let long = Duration::from_secs(60);
        assert_eq!(refusal("exit 3", long), "its reader ended");
        assert_eq!(refusal("kill -SEGV $$", long), "its reader ended");
        assert_eq!(
            refusal("exec sleep 60", Duration::from_millis(200)),
            "its reader did not answer within 200 ms"
        );
        assert!(refusal("printf '\\377\\377\\377\\377' >&0; exec sleep 60", long).contains("too long"));
        assert!(refusal("printf '\\002\\0\\0\\0{}' >&0; exec sleep 60", long).contains("no answer"));
        let missing = Worker::new("/nonexistent/program").read(&question()).unwrap_err();
        assert!(missing.contains("cannot be started"), "{missing}");
    }
}
