//! One running shell: the two programs in the container and their streams.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bollard::container::LogOutput;
use futures_util::StreamExt as _;
use ringfence_model::{Error, ErrorKind, Limits, Result};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;

use super::script::{self, MARK, SHELL, Seal, WATCHMAN, WRAPPER};
use super::sieve::Sieve;
use crate::engine::attached::{Attached, Pieces, Program};
use crate::engine::{Engine, Task};

/// How long the two may take to start, on a machine with other things to do.
const START: Duration = Duration::from_secs(60);
/// How long they may take to end.
const END: Duration = Duration::from_secs(20);

/// Pieces that wait; then the shell waits.
const UNREAD: usize = 64;
/// Longer than any honest report.
const LONGEST_REPORT: usize = 200;
/// What either said before it was of use, for the error message.
const LAST_WORDS: usize = 4096;

/// Where shells are started, and how.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) engine: Engine,
    pub(crate) container: String,
    /// Where they begin.
    pub(crate) cwd: String,
    pub(crate) env: BTreeMap<String, String>,
    /// Where the input of commands is put while they begin: nobody else's, and gone with the container.
    pub(crate) scratch: String,
    pub(crate) limits: Limits,
}

/// What was heard from inside.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Standard output (0) or error (1) of the shell.
    Output(usize, Vec<u8>),
    Report(Report),
    /// Nothing more comes from it; why, when it did not end by itself.
    Over(Whose, Option<String>),
}

/// Which of the two programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    Watchman,
    Shell,
}

/// When a command began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Began {
    /// In hundredths of a second since the machine started.
    since: u64,
    /// The highest number of a process that was there.
    last: u64,
}

impl Began {
    /// Later than anything: no process began then.
    pub(super) const NEVER: Self = Self { since: i64::MAX as u64, last: 0 };
}

/// What was said on the channel that no command has. Anybody may write there who looks for it in `/proc`, so the numbers in it decide.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Report {
    Watch { pid: u32 },
    Wrapper { pid: u32 },
    Began(Began),
    Done { nonce: String, status: u32 },
    Gone { secret: String, status: u32 },
    Left { count: u32 },
    Meter { killed: u64, refused: u64 },
    InputFailed,
}

impl Report {
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        Some(match words[..] {
            ["watch", pid] => Self::Watch { pid: pid.parse().ok()? },
            ["wrapper", pid] => Self::Wrapper { pid: pid.parse().ok()? },
            ["began", uptime, last] => {
                let (seconds, part) = uptime.split_once('.').unwrap_or((uptime, "00"));
                let hundredths: u64 = part.get(..2).unwrap_or("00").parse().ok()?;
                let since = seconds.parse::<u64>().ok()?.checked_mul(100)?.checked_add(hundredths)?;
                // Where it is not told, all of that hundredth count.
                Self::Began(Began { since, last: last.parse().unwrap_or(0) })
            }
            ["left", count] => Self::Left { count: count.parse().ok()? },
            ["meter", killed, refused] => {
                Self::Meter { killed: killed.parse().ok()?, refused: refused.parse().ok()? }
            }
            ["input", "failed"] => Self::InputFailed,
            [nonce, "done", status] => Self::Done { nonce: nonce.to_owned(), status: status.parse().ok()? },
            [secret, "gone", status] => {
                Self::Gone { secret: secret.to_owned(), status: status.parse().ok()? }
            }
            _ => return None,
        })
    }
}

/// A shell that waits for commands.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) heard: mpsc::Receiver<Heard>,
    commands: mpsc::UnboundedSender<Vec<u8>>,
    orders: mpsc::UnboundedSender<Vec<u8>>,
    wrapper: u32,
    shell: u32,
    /// Known to the wrapper alone: what it says when the shell has ended, on the channel and behind the output.
    pub(super) farewell: Seal,
    mark: String,
    /// How often limits of the container had been reached at the last look: processes killed for memory, processes not started.
    pub(super) meter: (u64, u64),
    /// By which the engine knows it.
    pub(super) exec: String,
    watching: Task<()>,
    _tasks: [Task<()>; 3],
}

impl Live {
    pub(super) async fn start(place: &Place) -> Result<Self> {
        let limit = place.engine.clone();
        let its = place.clone();
        let started = limit.spawn(async move { tokio::time::timeout(START, Self::begin(&its)).await });
        match started.await {
            Ok(Ok(live)) => live,
            Ok(Err(_)) => {
                let message = format!(
                    "the shell in the container {} did not start within {} s",
                    place.container,
                    START.as_secs()
                );
                Err(Error::new(ErrorKind::Timeout, message))
            }
            Err(_) => Err(Error::new(ErrorKind::Internal, "the start of a shell in the container failed")),
        }
    }

    async fn begin(place: &Place) -> Result<Self> {
        let engine = &place.engine;
        let (tell, heard) = mpsc::channel(UNREAD);
        let (farewell, ready) = (Seal::new(), Seal::new());
        let sieve = || Sieve::new(&ready.mark, &farewell.mark);
        let mut starting = Starting { heard, words: Arc::default(), sieves: [sieve(), sieve()] };
        let program = Program::new(["sh", "-c", WATCHMAN, "ringfence"]);
        let Attached { input, output, .. } = engine.attach(&place.container, program).await?;
        let (orders, queue) = mpsc::unbounded_channel();
        let ordering = engine.spawn(write(input, queue));
        let watching = engine.spawn(hear_reports(output, tell.clone(), Arc::clone(&starting.words)));
        let watchman = starting
            .report(|report| match report {
                Report::Watch { pid } => Some(pid),
                _ => None,
            })
            .await?;

        let mark = script::nonce();
        let mut env: Vec<String> = place.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        env.push(format!("{MARK}={mark}"));
        let number = |limit: Option<u64>| limit.map(|limit| limit.to_string()).unwrap_or_default();
        let limits = &place.limits;
        let blocks = limits.max_file_size_bytes.map(|bytes| bytes.div_ceil(512));
        let argv = [
            "sh".to_owned(),
            "-c".to_owned(),
            WRAPPER.to_owned(),
            "ringfence".to_owned(),
            SHELL.to_owned(),
            watchman.to_string(),
            number(limits.max_cpu_seconds),
            number(blocks),
            number(limits.max_open_files),
        ];
        let program = Program { argv: argv.to_vec(), env, cwd: Some(place.cwd.clone()) };
        let Attached { id: exec, input, output } = engine.attach(&place.container, program).await?;
        let (commands, queue) = mpsc::unbounded_channel();
        let commanding = engine.spawn(write(input, queue));
        let reading = engine.spawn(hear_output(output, tell));
        let _ = commands.send(format!("{}{}", farewell.line(), ready.line()).into_bytes());
        let wrapper = starting
            .report(|report| match report {
                Report::Wrapper { pid } => Some(pid),
                _ => None,
            })
            .await?;
        let _ = orders.send(format!("mind {wrapper} {mark}\n").into_bytes());
        let shell = starting
            .report(|report| match report {
                Report::Done { nonce, status } if nonce == ready.nonce => Some(status),
                _ => None,
            })
            .await?;
        starting.marks().await?;
        let _ = orders.send(b"meter\n".to_vec());
        let meter = starting
            .report(|report| match report {
                Report::Meter { killed, refused } => Some((killed, refused)),
                _ => None,
            })
            .await?;
        let tasks = [ordering, commanding, reading];
        Ok(Self {
            meter,
            heard: starting.heard,
            commands,
            orders,
            wrapper,
            shell,
            farewell,
            mark,
            exec,
            watching,
            _tasks: tasks,
        })
    }

    /// Sends the lines of a command. A shell that is gone says so by itself.
    pub(super) fn send(&self, lines: &str) {
        let _ = self.commands.send(lines.as_bytes().to_vec());
    }

    /// Makes the shell leave its command, and ends what was started since then.
    pub(super) fn stop(&self, signal: &str, began: Began) {
        self.order("stop", signal, began);
    }

    /// Ends what was started since then.
    pub(super) fn clear(&self, signal: &str, began: Began) {
        self.order("clear", signal, began);
    }

    fn order(&self, what: &str, signal: &str, began: Began) {
        let Self { wrapper, shell, mark, .. } = self;
        let Began { since, last } = began;
        let _ = self
            .orders
            .send(format!("{what} {signal} {wrapper} {shell} {mark} {since} {last}\n").into_bytes());
    }

    pub(super) fn ask_meter(&self) {
        let _ = self.orders.send(b"meter\n".to_vec());
    }

    /// Whether it has ended, or said that it would.
    pub(super) fn is_over(&self, heard: &Heard) -> bool {
        match heard {
            Heard::Over(..) => true,
            Heard::Report(Report::Gone { secret, .. }) => *secret == self.farewell.nonce,
            _ => false,
        }
    }

    /// Ends everything that it started, and waits for that.
    pub(super) async fn end(self) {
        let Self { heard, orders, watching, .. } = self;
        // Nobody listens: what is still said must not hold anybody up. The end of the watchman's input is its order to end all.
        drop((heard, orders));
        let _ = tokio::time::timeout(END, watching).await;
    }
}

/// Listens while the two programs start.
struct Starting {
    heard: mpsc::Receiver<Heard>,
    /// What either says on its standard error, and the shell on both of its outputs.
    words: Arc<Mutex<Vec<u8>>>,
    /// The first marks behind the output: what comes before them is not any command's.
    sieves: [Sieve; 2],
}

impl Starting {
    async fn report<T>(&mut self, wanted: impl Fn(Report) -> Option<T>) -> Result<T> {
        while let Some(heard) = self.heard.recv().await {
            match heard {
                Heard::Report(report) => {
                    if let Some(found) = wanted(report) {
                        return Ok(found);
                    }
                }
                Heard::Output(index, bytes) => self.said(index, &bytes),
                Heard::Over(..) => break,
            }
        }
        Err(self.trouble())
    }

    async fn marks(&mut self) -> Result<()> {
        while !self.sieves.iter().all(Sieve::ended) {
            match self.heard.recv().await {
                Some(Heard::Output(index, bytes)) => self.said(index, &bytes),
                Some(Heard::Report(_)) => {}
                Some(Heard::Over(..)) | None => return Err(self.trouble()),
            }
        }
        Ok(())
    }

    fn said(&mut self, index: usize, bytes: &[u8]) {
        let sifted = self.sieves[index].push(bytes);
        keep(&self.words, &sifted.own);
    }

    fn trouble(&self) -> Error {
        no_shell(&self.words.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn keep(words: &Mutex<Vec<u8>>, bytes: &[u8]) {
    let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
    let room = LAST_WORDS.saturating_sub(words.len());
    words.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

fn no_shell(said: &[u8]) -> Error {
    let said = String::from_utf8_lossy(said).trim().to_owned();
    let mut message = "the container's sh ended before its first command".to_owned();
    if !said.is_empty() {
        message = format!("{message}: {said}");
    }
    Error::new(ErrorKind::InitializationFailed, message)
        .hint("the image needs a POSIX sh on its PATH, and /proc")
}

async fn write(
    mut input: std::pin::Pin<Box<dyn tokio::io::AsyncWrite + Send>>,
    mut queue: mpsc::UnboundedReceiver<Vec<u8>>,
) {
    while let Some(bytes) = queue.recv().await {
        if input.write_all(&bytes).await.is_err() || input.flush().await.is_err() {
            return;
        }
    }
    let _ = input.shutdown().await;
    // Dropping it would take the output away, which may have something to say still.
    std::future::pending::<()>().await;
}

async fn hear_reports(mut output: Pieces, tell: mpsc::Sender<Heard>, words: Arc<Mutex<Vec<u8>>>) {
    let mut line = Vec::new();
    let why = loop {
        let bytes = match output.next().await {
            None => break None,
            Some(Err(error)) => break Some(error.to_string()),
            Some(Ok(LogOutput::StdErr { message })) => {
                keep(&words, &message);
                continue;
            }
            Some(Ok(piece)) => piece.into_bytes(),
        };
        for &byte in &bytes {
            if byte == b'\n' {
                let report = std::str::from_utf8(&line).ok().and_then(Report::parse);
                line.clear();
                if let Some(report) = report
                    && tell.send(Heard::Report(report)).await.is_err()
                {
                    // Nobody listens; what is said is still taken, or the watchman would wait.
                    continue;
                }
            } else if line.len() <= LONGEST_REPORT {
                line.push(byte);
            }
        }
    };
    let _ = tell.send(Heard::Over(Whose::Watchman, why)).await;
}

async fn hear_output(mut output: Pieces, tell: mpsc::Sender<Heard>) {
    let why = loop {
        let (index, bytes) = match output.next().await {
            None => break None,
            Some(Err(error)) => break Some(error.to_string()),
            Some(Ok(LogOutput::StdErr { message })) => (1, message),
            Some(Ok(piece)) => (0, piece.into_bytes()),
        };
        // Whoever does not listen any more misses nothing.
        let _ = tell.send(Heard::Output(index, bytes.to_vec())).await;
    };
    let _ = tell.send(Heard::Over(Whose::Shell, why)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reports_are_reports() {
        let began = |since, last| Some(Report::Began(Began { since, last }));
        assert_eq!(Report::parse("began 35537.61 12"), began(3_553_761, 12));
        assert_eq!(Report::parse("began 7 ?"), began(700, 0));
        let done = Report::Done { nonce: "n".to_owned(), status: 3 };
        assert_eq!(Report::parse("n done 3"), Some(done));
        for line in ["", "n done", "n done x", "n done 1 2", "began", "left -1", "x"] {
            assert_eq!(Report::parse(line), None, "{line}");
        }
    }
}
