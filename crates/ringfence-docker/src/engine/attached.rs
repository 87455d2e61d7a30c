//! A program in a container, with its streams.

use std::pin::Pin;
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use bollard::query_parameters::AttachContainerOptionsBuilder;
use futures_util::Stream;
use ringfence_model::{Error, ErrorKind, Result};
use tokio::io::AsyncWrite;

use super::{Engine, QUICK, SLOW, Trouble};

/// What to start.
#[derive(Debug, Clone, Default)]
pub struct Program {
    pub argv: Vec<String>,
    /// `NAME=value`, beside the container's own.
    pub env: Vec<String>,
    /// None: the container's own.
    pub cwd: Option<String>,
}

impl Program {
    pub fn new<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Self {
        Self { argv: argv.into_iter().map(Into::into).collect(), ..Self::default() }
    }
}

/// Pieces of output as they come.
pub(crate) type Pieces =
    Pin<Box<dyn Stream<Item = std::result::Result<LogOutput, bollard::errors::Error>> + Send>>;

/// A program that runs, or ran.
pub(crate) struct Attached {
    pub(crate) id: String,
    /// Shut down: the program reads the end of its input.
    pub(crate) input: Pin<Box<dyn AsyncWrite + Send>>,
    pub(crate) output: Pieces,
}

/// As much as is read at a time.
const PIECE: usize = 64 * 1024;

impl Engine {
    /// Starts a program in a running container, as the container's user and with no more rights than it has.
    pub(crate) async fn attach(&self, container: &str, program: Program) -> Result<Attached> {
        let what = format!("start a program in the container {container}");
        let docker = self.docker().clone();
        let options = CreateExecOptions {
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            env: (!program.env.is_empty()).then_some(program.env),
            cmd: Some(program.argv),
            working_dir: program.cwd,
            ..CreateExecOptions::default()
        };
        let name = container.to_owned();
        let (id, started) = self
            .call(&what, SLOW, async move {
                let id = docker.create_exec(&name, options).await?.id;
                let start = StartExecOptions { output_capacity: Some(PIECE), ..StartExecOptions::default() };
                let started = docker.start_exec(&id, Some(start)).await?;
                Ok((id, started))
            })
            .await?;
        match started {
            StartExecResults::Attached { output, input } => Ok(Attached { id, input, output }),
            StartExecResults::Detached => {
                Err(Error::new(ErrorKind::Internal, format!("cannot {what}: its streams are missing")))
            }
        }
    }

    /// The streams of a container that is tied to them: it ends when what is given here is dropped.
    pub(crate) async fn tie(&self, container: &str) -> Result<Attached> {
        let options = AttachContainerOptionsBuilder::default()
            .stdin(true)
            .stdout(true)
            .stderr(true)
            .stream(true)
            .build();
        let (docker, name) = (self.docker().clone(), container.to_owned());
        let what = format!("attach to the container {container}");
        let attached = self
            .call(&what, QUICK, async move { docker.attach_container(&name, Some(options)).await })
            .await?;
        Ok(Attached { id: container.to_owned(), input: attached.input, output: attached.output })
    }

    /// How a program that was attached ended. Its streams end a moment before the engine knows.
    pub(crate) async fn exit_code(&self, id: &str) -> Result<i32> {
        const PATIENCE: Duration = Duration::from_secs(6);
        let mut pause = Duration::from_millis(1);
        let mut waited = Duration::ZERO;
        while waited < PATIENCE {
            let (docker, its) = (self.docker().clone(), id.to_owned());
            let state = self
                .call("tell how a program ended", QUICK, async move { docker.inspect_exec(&its).await })
                .await?;
            if state.running != Some(true)
                && let Some(code) = state.exit_code
            {
                return Ok(i32::try_from(code).unwrap_or(-1));
            }
            self.pause(pause).await;
            waited += pause;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
        Err(Error::new(ErrorKind::Timeout, "a program in the container closed its output and did not end"))
    }

    pub(crate) fn trouble(&self, what: &str, error: bollard::errors::Error) -> Error {
        Trouble { what, endpoint: self.endpoint() }.of(error)
    }
}

/// What a short program said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl Engine {
    /// Runs a short program to its end, with this as its input.
    pub async fn run(
        &self,
        container: &str,
        program: Program,
        input: Vec<u8>,
        limit: std::time::Duration,
    ) -> Result<Said> {
        use futures_util::StreamExt as _;
        use tokio::io::AsyncWriteExt as _;
        const MOST: usize = 1 << 20;
        let shown = program.argv.first().cloned().unwrap_or_default();
        let Attached { id, input: mut to, output: mut from } = self.attach(container, program).await?;
        let talk = self.spawn(async move {
            let feed = async {
                // Whoever does not read is no trouble: its status counts.
                let _ = to.write_all(&input).await;
                let _ = to.shutdown().await;
            };
            let hear = async {
                let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
                while let Some(piece) = from.next().await {
                    let (kept, piece) = match piece? {
                        LogOutput::StdErr { message } => (&mut stderr, message),
                        LogOutput::StdOut { message }
                        | LogOutput::Console { message }
                        | LogOutput::StdIn { message } => (&mut stdout, message),
                    };
                    let room = MOST.saturating_sub(kept.len());
                    kept.extend_from_slice(&piece[..piece.len().min(room)]);
                }
                Ok::<_, bollard::errors::Error>((stdout, stderr))
            };
            tokio::time::timeout(limit, async { tokio::join!(feed, hear).1 }).await
        });
        let what = format!("run {shown} in the container {container}");
        let (stdout, stderr) = match talk.await {
            Ok(Ok(said)) => said.map_err(|error| self.trouble(&what, error))?,
            Ok(Err(_)) => {
                let message =
                    format!("{shown} in the container {container} did not end within {} s", limit.as_secs());
                return Err(Error::new(ErrorKind::Timeout, message));
            }
            Err(_) => return Err(Error::new(ErrorKind::Internal, format!("cannot {what}: a task failed"))),
        };
        let code = self.exit_code(&id).await?;
        Ok(Said { code, stdout, stderr })
    }
}
