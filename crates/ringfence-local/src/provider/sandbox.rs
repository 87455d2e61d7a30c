//! One prepared fence and its shells.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use ringfence_fence::{BoxFuture, CreateOptions, EventSink, Hooks, Jobs, Sandbox, Ticket};
use ringfence_model::{
    Assurance, Command, Error, ErrorKind, ExecRequest, ExecResult, Policy, Result, shell_word,
};

use super::jobs::LocalJobs;
use super::turns::Turns;
use crate::fence::LocalFence;
use crate::offload::offload;
use crate::shell::{SharedSandbox, Shell, ShellOptions};
use crate::way_out::Elsewhere;

/// The private channels of a shell have numbers below this.
const LEAST_OPEN_FILES: u64 = 128;

/// A fence with a bash that remembers, and others by name.
#[derive(Debug)]
pub struct LocalSandbox {
    native: Arc<LocalFence>,
    shared: SharedSandbox,
    options: ShellOptions,
    main: LocalShell,
    named: Mutex<BTreeMap<String, Arc<LocalShell>>>,
    /// Only one shell is made at a time, so that a name never gets two.
    making: tokio::sync::Mutex<()>,
}

impl LocalSandbox {
    /// Prepares the fence and starts its main shell; blocks until bash is ready.
    pub fn start(options: CreateOptions) -> Result<Self> {
        Self::start_in(options, None)
    }

    /// As [`start`](Self::start), in a place without a network, where somebody else makes connections.
    pub(crate) fn start_in(
        mut options: CreateOptions,
        elsewhere: Option<Arc<dyn Elsewhere>>,
    ) -> Result<Self> {
        let most = &mut options.policy.limits.max_open_files;
        *most = most.map(|most| most.max(LEAST_OPEN_FILES));
        let Hooks { approval, background, .. } = options.hooks.clone();
        let mut shell_options = ShellOptions { approval, ..ShellOptions::default() };
        if let Some(background) = background {
            shell_options.background = background;
        }
        let native = Arc::new(LocalFence::prepare_in(options, elsewhere)?);
        let shared = SharedSandbox::new(Arc::clone(&native), &BTreeMap::new());
        let shell = Shell::start_in(&shared, shell_options.clone())?;
        let turns = Turns::new(shell);
        let jobs = LocalJobs::new(shared.clone(), Arc::clone(turns.shell()));
        Ok(Self {
            main: LocalShell { id: new_id(super::KIND)?, turns, jobs },
            native,
            shared,
            options: shell_options,
            named: Mutex::default(),
            making: tokio::sync::Mutex::default(),
        })
    }

    fn named(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<LocalShell>>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sandbox for LocalSandbox {
    fn id(&self) -> &str {
        &self.main.id
    }

    fn assurance(&self) -> Assurance {
        self.native.assurance()
    }

    fn execute<'a>(
        &'a self,
        request: ExecRequest,
        events: EventSink<'a>,
    ) -> BoxFuture<'a, Result<ExecResult>> {
        self.main.execute(request, events)
    }

    fn run(&self, ticket: &Ticket, request: &ExecRequest, events: EventSink<'_>) -> Result<ExecResult> {
        self.main.run(ticket, request, events)
    }

    fn dispose(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let _making = self.making.lock().await;
            let named = std::mem::take(&mut *self.named());
            for shell in named.values() {
                shell.dispose().await?;
            }
            self.main.dispose().await?;
            let shared = self.shared.clone();
            offload(move || shared.close()).await
        })
    }

    fn cancel(&self) -> BoxFuture<'_, Result<()>> {
        self.main.cancel()
    }

    fn is_alive(&self) -> bool {
        self.main.is_alive()
    }

    fn policy(&self) -> Option<&Policy> {
        Some(self.native.policy())
    }

    fn jobs(&self) -> Option<&dyn Jobs> {
        self.main.jobs()
    }

    fn shell<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Arc<dyn Sandbox>>> {
        Box::pin(async move {
            let _making = self.making.lock().await;
            if !self.is_alive() {
                return Err(Error::new(ErrorKind::SandboxNotAvailable, "the sandbox was closed"));
            }
            let found = self.named().get(name).filter(|shell| shell.is_alive()).cloned();
            if let Some(shell) = found {
                return Ok(shell as Arc<dyn Sandbox>);
            }
            let (shared, options) = (self.shared.clone(), self.options.clone());
            let shell = offload(move || Shell::start_in(&shared, options)).await??;
            let id = format!("{}/{name}", self.main.id);
            let turns = Turns::new(shell);
            let jobs = self.main.jobs.like(Arc::clone(turns.shell()));
            let shell = Arc::new(LocalShell { id, turns, jobs });
            self.named().insert(name.to_owned(), Arc::clone(&shell));
            Ok(shell as Arc<dyn Sandbox>)
        })
    }
}

/// One shell of a sandbox.
#[derive(Debug)]
struct LocalShell {
    id: String,
    turns: Turns,
    jobs: LocalJobs,
}

impl Sandbox for LocalShell {
    fn id(&self) -> &str {
        &self.id
    }

    fn assurance(&self) -> Assurance {
        self.turns.shell().assurance()
    }

    fn execute<'a>(
        &'a self,
        request: ExecRequest,
        events: EventSink<'a>,
    ) -> BoxFuture<'a, Result<ExecResult>> {
        Box::pin(async move {
            let visit = request.cwd.as_deref().map(visit).transpose()?;
            self.turns.execute(visit, in_its_place(request)?, events).await
        })
    }

    fn run(&self, ticket: &Ticket, request: &ExecRequest, events: EventSink<'_>) -> Result<ExecResult> {
        let visit = request.cwd.as_deref().map(visit).transpose()?;
        if request.cwd.is_none() && request.env.is_empty() {
            return self.turns.run(ticket, None, request, events);
        }
        self.turns.run(ticket, visit, &in_its_place(request.clone())?, events)
    }

    fn jobs(&self) -> Option<&dyn Jobs> {
        Some(&self.jobs)
    }

    fn dispose(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.turns.dispose())
    }

    fn cancel(&self) -> BoxFuture<'_, Result<()>> {
        self.turns.cancel();
        Box::pin(std::future::ready(Ok(())))
    }

    fn is_alive(&self) -> bool {
        self.turns.is_alive()
    }
}

/// Whether the shell can go there: only it knows what exists inside.
fn visit(cwd: &Path) -> Result<ExecRequest> {
    let words = format!("(builtin cd -- {})", shell_word(cwd.to_str().ok_or_else(not_text)?));
    Ok(ExecRequest::shell(words))
}

fn not_text() -> Error {
    Error::new(ErrorKind::Validation, "the directory of the command is not UTF-8")
}

/// A directory and variables that are for one command only are those of a subshell.
fn in_its_place(request: ExecRequest) -> Result<ExecRequest> {
    if request.cwd.is_none() && request.env.is_empty() {
        return Ok(request);
    }
    let mut text = "(".to_owned();
    if let Some(cwd) = &request.cwd {
        let cwd = cwd.to_str().ok_or_else(not_text)?;
        text.push_str(&format!("builtin cd -- {} || builtin exit; ", shell_word(cwd)));
    }
    for (name, value) in &request.env {
        text.push_str(&format!(
            "builtin export {} || builtin exit; ",
            shell_word(&format!("{name}={value}"))
        ));
    }
    let command = match &request.command {
        Command::Shell(text) => format!("builtin eval {}", shell_word(text)),
        Command::Argv(argv) => {
            let words: Option<Vec<String>> = argv.iter().map(|word| word.to_str().map(shell_word)).collect();
            words
                .ok_or_else(|| Error::new(ErrorKind::Validation, "a word of the command is not UTF-8"))?
                .join(" ")
        }
    };
    text.push_str(&command);
    text.push_str("\n)");
    Ok(ExecRequest { command: Command::Shell(text), cwd: None, env: BTreeMap::new(), ..request })
}

/// `kind-<milliseconds>-<six letters or digits>`.
pub(crate) fn new_id(kind: &str) -> Result<String> {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut random = [0; 6];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).map_err(|errno| {
        Error::new(ErrorKind::Internal, "no random numbers").caused_by(std::io::Error::from(errno))
    })?;
    let tail: String = random.iter().map(|byte: &u8| char::from(DIGITS[usize::from(*byte) % 36])).collect();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(format!("{kind}-{}-{tail}", now.as_millis()))
}
