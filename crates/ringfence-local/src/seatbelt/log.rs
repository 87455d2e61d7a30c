//! The kernel's log, listened to while a command runs.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, PipeReader, Read as _};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use ringfence_seatbelt::Denial;
use ringfence_seatbelt::denial::log_command;

use super::process::{self, Process, Start};
use crate::relay;
use crate::terminal::USUAL_SIZE;

/// How long the log may take to be there.
const PATIENCE: Duration = Duration::from_secs(2);
/// A refusal is in the log a little later than it happened.
const QUIET: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// The log as one sandbox sees it. Ended when dropped, and by the system when this process dies.
#[derive(Debug)]
pub(super) struct Log {
    process: Process,
    stderr: PipeReader,
    tag: String,
    lines: AtomicUsize,
}

/// What [`Log::listen`] reads from.
#[derive(Debug)]
pub(super) struct Ear {
    stdout: PipeReader,
    ready: mpsc::Sender<()>,
}

/// Tells when the log is there.
#[derive(Debug)]
pub(super) struct Ready(mpsc::Receiver<()>);

impl Log {
    /// Starts to listen for the refusals that carry `tag`.
    pub(super) fn start(program: &Path, tag: &str) -> std::io::Result<(Self, Ear, Ready)> {
        let mut argv: Vec<OsString> = log_command(Some(tag)).into_iter().map(OsString::from).collect();
        argv[0] = program.into();
        let turn = process::turn();
        let (stdout, theirs) = std::io::pipe()?;
        let (stderr, their_stderr) = std::io::pipe()?;
        let process = Process::start(Start {
            argv: &argv,
            env: &BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
            cwd: Path::new("/"),
            stdio: [relay::open_null()?, theirs.into(), their_stderr.into()].map(Some),
            size: USUAL_SIZE,
        })?;
        drop(turn);
        let (ready, is_ready) = mpsc::channel();
        let log = Self { process, stderr, tag: tag.to_owned(), lines: AtomicUsize::new(0) };
        Ok((log, Ear { stdout, ready }, Ready(is_ready)))
    }

    /// Hands on every refusal, until the log ends.
    pub(super) fn listen(&self, ear: Ear, mut refused: impl FnMut(&Denial)) {
        let Ear { stdout, ready } = ear;
        for line in BufReader::new(stdout).split(b'\n') {
            let Ok(line) = line else { return };
            // The first line says what is listened for: nothing is missed from now on.
            let _ = ready.send(());
            self.lines.fetch_add(1, Ordering::Relaxed);
            let line = String::from_utf8_lossy(&line);
            if line.contains(&self.tag)
                && let Some(denial) = Denial::parse(&line, Some(&self.tag))
            {
                refused(&denial);
            }
        }
    }

    /// Waits for what is still under way.
    pub(super) fn settle(&self) {
        let started = Instant::now();
        let mut seen = self.lines.load(Ordering::Relaxed);
        while started.elapsed() < LONGEST_WAIT {
            std::thread::sleep(QUIET);
            let now = self.lines.load(Ordering::Relaxed);
            if now == seen {
                return;
            }
            seen = now;
        }
    }

    /// Ends it, and with it [`listen`](Self::listen).
    pub(super) fn stop(&self) {
        self.process.kill();
    }

    /// What it complained about, in one line. To be asked when it has ended.
    pub(super) fn complaint(&self) -> Option<String> {
        let mut said = Vec::new();
        let _ = (&self.stderr).take(4096).read_to_end(&mut said);
        let said = String::from_utf8_lossy(&said);
        said.lines().map(str::trim).rfind(|line| !line.is_empty()).map(str::to_owned)
    }
}

impl Ready {
    /// Waits until it listens; else says why it does not.
    pub(super) fn wait(&self) -> Result<(), &'static str> {
        self.0.recv_timeout(PATIENCE).map_err(|error| match error {
            mpsc::RecvTimeoutError::Timeout => "it takes too long to start",
            mpsc::RecvTimeoutError::Disconnected => "it ended at once",
        })
    }
}
