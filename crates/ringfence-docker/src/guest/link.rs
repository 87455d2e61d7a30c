//! The connection to a guest: requests, and what comes of them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bollard::container::LogOutput;
use futures_util::StreamExt as _;
use ringfence_fence::{Approval, Background, EventSink};
use ringfence_local::guest::GUEST_ARGUMENT;
use ringfence_local::guest::job_wire::{JobAnswer, JobCall};
use ringfence_local::guest::wire::{Order, Start, VERSION, Word};
use ringfence_model::{Assurance, Error, ErrorKind, ExecEvent, ExecRequest, ExecResult, Result};
use ringfence_workspace::PathMap;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::{Notify, mpsc, oneshot};

use super::TARGET;
use super::asking::Asking;
use super::connections::{Connections, Outside};
use super::inside;
use crate::engine::attached::{Attached, Pieces, Program};
use crate::engine::{Engine, Task};

/// How a guest is called.
pub(crate) const COMMAND: [&str; 2] = [TARGET, GUEST_ARGUMENT];

/// How long a guest may take to build its fence, on a machine with other things to do.
const START: Duration = Duration::from_secs(60);

/// How long one may take to end what runs in it.
const END: Duration = Duration::from_secs(20);

/// Events that wait for their reader; then the guest waits.
const UNREAD: usize = 64;

/// The longest line of a guest: a result with all of its output.
const LONGEST: usize = 1 << 30;

/// What the guest said on its standard error that is kept for the error message.
const LAST_WORDS: usize = 4096;

/// One guest, as long as this lives.
#[derive(Debug)]
pub struct Link {
    shared: Arc<Shared>,
    orders: mpsc::UnboundedSender<Vec<u8>>,
    assurance: Assurance,
    last: AtomicU64,
    engine: Engine,
    closing: Arc<Notify>,
    /// Ended with this value, and the guest with them.
    reader: Mutex<Option<Task<()>>>,
    _writer: Task<()>,
}

#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    background: Option<BackgroundHook>,
    asking: Option<Asking>,
    connections: Connections,
    map: PathMap,
}

struct BackgroundHook(Background);

impl std::fmt::Debug for BackgroundHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BackgroundHook")
    }
}

#[derive(Debug, Default)]
struct State {
    ready: Option<oneshot::Sender<Result<Assurance>>>,
    waiting: BTreeMap<u64, Waiting>,
    /// Who waits for an answer about a job.
    asked: BTreeMap<u64, oneshot::Sender<Result<JobAnswer>>>,
    /// Why nothing more will come.
    ended: Option<String>,
    last_words: Vec<u8>,
}

#[derive(Debug)]
struct Waiting {
    shell: Option<String>,
    reader: mpsc::Sender<News>,
}

#[derive(Debug)]
enum News {
    Event(ExecEvent),
    Ended(Box<Result<ExecResult>>),
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whom the guest turns to by itself.
#[derive(Default)]
pub(crate) struct Listeners {
    pub(crate) approval: Option<Approval>,
    pub(crate) background: Option<Background>,
    pub(crate) outside: Option<Outside>,
}

impl Link {
    /// Starts the guest in a running container, unless it is what the container runs (`running`), and waits until its fence stands.
    pub(crate) async fn open(
        engine: &Engine,
        container: &str,
        running: Option<Attached>,
        start: Start,
        map: PathMap,
        listeners: Listeners,
    ) -> Result<Self> {
        let attached = match running {
            Some(attached) => attached,
            None => engine.attach(container, Program::new(COMMAND)).await?,
        };
        let (orders, queue) = mpsc::unbounded_channel();
        let (tell, told) = oneshot::channel();
        let connections = Connections::new(listeners.outside, orders.clone())?;
        let asking = listeners
            .approval
            .map(|approval| Asking::new(approval, map.clone(), orders.clone(), connections.clone()));
        let shared = Arc::new(Shared {
            state: Mutex::new(State { ready: Some(tell), ..State::default() }),
            background: listeners.background.map(BackgroundHook),
            asking,
            connections,
            map,
        });
        let Attached { input, output, .. } = attached;
        let closing = Arc::new(Notify::new());
        let writer = engine.spawn(write(input, queue, Arc::clone(&closing)));
        let reader = engine.spawn(read(Arc::clone(&shared), output));
        send(&orders, &Order::Start(Box::new(start)))?;
        let ready = engine.spawn(async move { tokio::time::timeout(START, told).await });
        let assurance = match ready.await {
            Ok(Ok(Ok(ready))) => ready?,
            Ok(Err(_)) => {
                let message = format!(
                    "the guest in the container {container} did not start within {} s",
                    START.as_secs()
                );
                return Err(Error::new(ErrorKind::Timeout, message));
            }
            Ok(Ok(Err(_))) | Err(_) => {
                return Err(Error::new(ErrorKind::Internal, "the connection to the guest failed"));
            }
        };
        Ok(Self {
            shared,
            orders,
            assurance,
            last: AtomicU64::new(1),
            engine: engine.clone(),
            closing,
            reader: Mutex::new(Some(reader)),
            _writer: writer,
        })
    }

    /// The layers that the guest itself has.
    #[must_use]
    pub fn assurance(&self) -> &Assurance {
        &self.assurance
    }

    /// Whether connections are made for the guest.
    #[must_use]
    pub fn connects(&self) -> bool {
        self.shared.connections.are_made()
    }

    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.shared.state().ended.is_none()
    }

    /// Runs a command in a shell of the guest. When nobody waits for it any more, it is ended.
    pub async fn execute(
        &self,
        shell: Option<&str>,
        request: ExecRequest,
        events: EventSink<'_>,
    ) -> Result<ExecResult> {
        let id = self.last.fetch_add(1, Ordering::Relaxed);
        let (tell, mut told) = mpsc::channel(UNREAD);
        {
            let mut state = self.shared.state();
            if let Some(why) = &state.ended {
                return Err(Error::new(ErrorKind::SandboxNotAvailable, format!("{why}; nothing ran")));
            }
            if state.waiting.is_empty() {
                self.shared.connections.next_command();
            }
            state.waiting.insert(id, Waiting { shell: shell.map(str::to_owned), reader: tell });
        }
        let mut awaited = Awaited { link: self, id, ended: false };
        let order = Order::Run { id, shell: shell.map(str::to_owned), request: Box::new(request.into()) };
        send(&self.orders, &order)?;
        loop {
            match told.recv().await {
                Some(News::Event(event)) => events(event),
                Some(News::Ended(result)) => {
                    awaited.ended = true;
                    return *result;
                }
                None => {
                    awaited.ended = true;
                    let why = self.shared.state().ended.clone().unwrap_or_default();
                    // It may have run, so it is not said that the sandbox was not available.
                    return Err(Error::new(
                        ErrorKind::Unknown,
                        format!("{why} while the command ran; it may have done some of its work"),
                    )
                    .hint("look at what it did before it is run again"));
                }
            }
        }
    }

    /// Something about a background command.
    pub async fn job(&self, call: JobCall) -> Result<JobAnswer> {
        let id = self.last.fetch_add(1, Ordering::Relaxed);
        let (tell, told) = oneshot::channel();
        {
            let mut state = self.shared.state();
            if let Some(why) = &state.ended {
                return Err(Error::new(ErrorKind::SandboxNotAvailable, format!("{why}; nothing was done")));
            }
            state.asked.insert(id, tell);
        }
        send(&self.orders, &Order::Job { id, call })?;
        told.await.unwrap_or_else(|_| {
            let why = self.shared.state().ended.clone().unwrap_or_default();
            Err(Error::new(ErrorKind::SandboxNotAvailable, format!("{why}, and the job with it")))
        })
    }

    /// Ends the guest and waits until it, and so everything that ran in it, has ended.
    pub async fn close(&self) {
        self.closing.notify_one();
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(reader) = reader {
            // One that does not end by itself loses its connection, and the container its use.
            let ended = self.engine.spawn(async move { tokio::time::timeout(END, reader).await });
            let _ = ended.await;
        }
        end(&self.shared, "the sandbox was closed");
        self.shared.connections.end().await;
    }

    /// Ends the command that runs in a shell, if one does.
    pub fn cancel(&self, shell: Option<&str>) {
        let state = self.shared.state();
        let its: Vec<u64> = state
            .waiting
            .iter()
            .filter(|(_, waiting)| waiting.shell.as_deref() == shell)
            .map(|(id, _)| *id)
            .collect();
        drop(state);
        // Commands of one shell run in the order of their numbers; those behind wait.
        if let Some(id) = its.first() {
            self.cancel_command(*id);
        }
    }

    fn cancel_command(&self, id: u64) {
        // A guest that is gone has ended everything.
        let _ = send(&self.orders, &Order::Cancel { id });
    }

    pub fn close_shell(&self, name: &str) {
        let _ = send(&self.orders, &Order::Close { shell: name.to_owned() });
    }
}

/// Ends the command of a caller who went away.
struct Awaited<'a> {
    link: &'a Link,
    id: u64,
    ended: bool,
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.link.shared.state().waiting.remove(&self.id);
            self.link.cancel_command(self.id);
        }
    }
}

pub(super) fn send(orders: &mpsc::UnboundedSender<Vec<u8>>, order: &Order) -> Result<()> {
    let mut line = serde_json::to_vec(order)
        .map_err(|error| Error::new(ErrorKind::Internal, "an order is not JSON").caused_by(error))?;
    line.push(b'\n');
    orders.send(line).map_err(|_| {
        Error::new(ErrorKind::SandboxNotAvailable, "the guest in the container is gone; nothing ran")
    })
}

async fn write(
    mut input: std::pin::Pin<Box<dyn tokio::io::AsyncWrite + Send>>,
    mut queue: mpsc::UnboundedReceiver<Vec<u8>>,
    closing: Arc<Notify>,
) {
    loop {
        let line = tokio::select! {
            line = queue.recv() => line,
            () = closing.notified() => None,
        };
        let Some(line) = line else { break };
        if input.write_all(&line).await.is_err() || input.flush().await.is_err() {
            return;
        }
    }
    // The end of its input is the end of the guest.
    let _ = input.shutdown().await;
}

/// Reads until the guest, the container or the engine ends, and then tells everybody.
async fn read(shared: Arc<Shared>, mut output: Pieces) {
    let mut line = Vec::new();
    let why = loop {
        let bytes = match output.next().await {
            None => break "the guest in the container ended".to_owned(),
            Some(Err(error)) => break format!("the connection to the container was lost ({error})"),
            Some(Ok(LogOutput::StdErr { message })) => {
                let mut state = shared.state();
                state.last_words.extend_from_slice(&message);
                let excess = state.last_words.len().saturating_sub(LAST_WORDS);
                state.last_words.drain(..excess);
                continue;
            }
            Some(Ok(
                LogOutput::StdOut { message } | LogOutput::Console { message } | LogOutput::StdIn { message },
            )) => message,
        };
        let mut rest: &[u8] = &bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            line.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            hear(&shared, &std::mem::take(&mut line)).await;
        }
        line.extend_from_slice(rest);
        if line.len() > LONGEST {
            break "the guest in the container said something that has no end".to_owned();
        }
    };
    end(&shared, &why);
}

/// Nobody waits any longer; who waited for the start hears what the guest said last.
fn end(shared: &Shared, why: &str) {
    let mut state = shared.state();
    let last_words = String::from_utf8_lossy(&state.last_words).trim().to_owned();
    state.ended.get_or_insert_with(|| why.to_owned());
    state.waiting.clear();
    state.asked.clear();
    if let Some(ready) = state.ready.take() {
        let mut error = Error::new(ErrorKind::InitializationFailed, format!("{why} before it began"));
        if !last_words.is_empty() {
            error.message = format!("{}: {last_words}", error.message);
        }
        let _ = ready.send(Err(error));
    }
}

async fn hear(shared: &Arc<Shared>, line: &[u8]) {
    // What is not understood comes from something that is no guest; it is nobody's.
    let Ok(word) = serde_json::from_slice::<Word>(line) else { return };
    let (id, news) = match word {
        Word::Ready { version, assurance } => {
            let ready = if version == VERSION {
                Ok(assurance)
            } else {
                Err(Error::new(
                    ErrorKind::SandboxNotAvailable,
                    format!("the guest speaks version {version}, not {VERSION}"),
                ))
            };
            if let Some(tell) = shared.state().ready.take() {
                let _ = tell.send(ready);
            }
            return;
        }
        Word::Failed { id: None, error } => {
            if let Some(tell) = shared.state().ready.take() {
                let _ = tell.send(Err(error.into()));
            }
            return;
        }
        Word::Late { stderr, data } => {
            if let Some(BackgroundHook(background)) = &shared.background {
                background(if stderr { ExecEvent::Stderr(data.0) } else { ExecEvent::Stdout(data.0) });
            }
            return;
        }
        Word::Question { question, violation, command, grant } => {
            if let Some(asking) = &shared.asking {
                asking.ask(question, *violation, command, grant);
            }
            return;
        }
        Word::Settled { question, problem } => {
            if let Some(asking) = &shared.asking {
                asking.settled(question, problem);
            }
            return;
        }
        Word::Out { word } => return shared.connections.hear(word),
        Word::Job { id, answer } => {
            if let Some(asked) = shared.state().asked.remove(&id) {
                let _ = asked.send(Ok(answer));
            }
            return;
        }
        Word::Stdout { id, data } => (id, News::Event(ExecEvent::Stdout(data.0))),
        Word::Stderr { id, data } => (id, News::Event(ExecEvent::Stderr(data.0))),
        Word::Violation { id, violation } => {
            let violation = inside::told_outside(*violation, &shared.map);
            (id, News::Event(ExecEvent::Violation(Box::new(violation))))
        }
        Word::Result { id, result } => {
            (id, News::Ended(Box::new(Ok(inside::result_outside(*result, &shared.map)))))
        }
        Word::Failed { id: Some(id), error } if shared.state().asked.contains_key(&id) => {
            if let Some(asked) = shared.state().asked.remove(&id) {
                let _ = asked.send(Err(error.into()));
            }
            return;
        }
        Word::Failed { id: Some(id), error } => (id, News::Ended(Box::new(Err(error.into())))),
    };
    let reader = {
        let mut state = shared.state();
        match &news {
            News::Event(_) => state.waiting.get(&id).map(|waiting| waiting.reader.clone()),
            News::Ended(_) => state.waiting.remove(&id).map(|waiting| waiting.reader),
        }
    };
    if let Some(reader) = reader {
        // Somebody who does not listen any more misses nothing.
        let _ = reader.send(news).await;
    }
}
