//! Scripts run in a container by its engine.

use std::pin::pin;

use bollard::container::LogOutput;
use futures_util::StreamExt as _;
use ringfence_fence::BoxFuture;
use ringfence_model::{Error, ErrorKind, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::engine::Engine;
use crate::engine::attached::{Attached, Pieces, Program};
use crate::exec::{Exec, Finished, Input, Output, SCRIPT_NAME, STDERR_KEPT, Script};

/// As much as is read of the input at a time: more than a socket takes at once, so that it is never waited for twice.
const PIECE: usize = 256 * 1024;

/// One container, for scripts.
#[derive(Debug, Clone)]
pub struct ContainerExec {
    engine: Engine,
    container: String,
}

impl ContainerExec {
    #[must_use]
    pub fn new(engine: Engine, container: impl Into<String>) -> Self {
        Self { engine, container: container.into() }
    }
}

impl Exec for ContainerExec {
    fn run<'a>(
        &'a self,
        script: Script<'a>,
        input: Input<'a>,
        output: Output<'a>,
    ) -> BoxFuture<'a, Result<Finished>> {
        Box::pin(async move {
            let argv =
                ["sh", "-c", script.text, SCRIPT_NAME].into_iter().chain(script.arguments.iter().copied());
            let Attached { id, input: mut to, output: from } =
                self.engine.attach(&self.container, Program::new(argv)).await?;
            let feed = async {
                let mut buffer = vec![0; PIECE];
                loop {
                    let read = input.read(&mut buffer).await.map_err(broken)?;
                    // A script that wants no more is no error; what it says counts.
                    if read == 0 || to.write_all(&buffer[..read]).await.is_err() {
                        let _ = to.shutdown().await;
                        return Ok(());
                    }
                }
            };
            let (mut feed, mut hear) = (pin!(feed), pin!(self.hear(from, output)));
            let mut fed = false;
            let stderr = loop {
                tokio::select! {
                    biased;
                    heard = &mut hear => break heard?,
                    ended = &mut feed, if !fed => {
                        let ended: Result<()> = ended;
                        // The connection is dropped, not closed in order: the script finds that bytes are missing.
                        ended?;
                        fed = true;
                    }
                }
            };
            Ok(Finished { code: self.engine.exit_code(&id).await?, stderr })
        })
    }
}

impl ContainerExec {
    async fn hear(&self, mut from: Pieces, output: Output<'_>) -> Result<Vec<u8>> {
        let mut stderr = Vec::new();
        while let Some(piece) = from.next().await {
            let what = || format!("run a script in the container {}", self.container);
            match piece.map_err(|error| self.engine.trouble(&what(), error))? {
                LogOutput::StdErr { message } => {
                    let room = STDERR_KEPT.saturating_sub(stderr.len());
                    stderr.extend_from_slice(&message[..message.len().min(room)]);
                }
                LogOutput::StdOut { message }
                | LogOutput::Console { message }
                | LogOutput::StdIn { message } => {
                    output.write_all(&message).await.map_err(broken)?;
                }
            }
        }
        output.flush().await.map_err(broken)?;
        Ok(stderr)
    }
}

fn broken(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Cancelled, "the bytes cannot be passed on").caused_by(error)
}
