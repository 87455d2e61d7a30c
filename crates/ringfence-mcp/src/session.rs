//! One client: where it works, its tools, its end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ringfence::model::Result;
use ringfence::permission::ApprovalService;
use ringfence::tools::{OpenTools, Tools};
use rmcp::RoleServer;
use rmcp::service::Peer;

use crate::attendance::{As, Attendance, Presence};
use crate::call::Running;
use crate::calls::Calls;
use crate::http::session_of;
use crate::options::Options;
use crate::roots;

/// What a session works with once it is known where.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) tools: Tools,
    pub(crate) directories: Vec<PathBuf>,
    pub(crate) ledger: PathBuf,
}

impl Drop for Opened {
    fn drop(&mut self) {
        // Ending processes takes its moment, which nobody here should wait for.
        let tools = self.tools.clone();
        std::thread::spawn(move || tools.dispose());
    }
}

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) options: Options,
    /// In the ledger.
    pub(crate) key: String,
    pub(crate) calls: Arc<Calls>,
    /// Whoever runs commands in the shell: one at a time, in the order in which they came.
    pub(crate) turn: Arc<tokio::sync::Mutex<()>>,
    /// Calls that wait for an answer from elsewhere, by the question's id.
    pub(crate) held: Mutex<BTreeMap<String, Running>>,
    /// A person was asked whether it goes on, and said no.
    pub(crate) over: AtomicBool,
    opened: tokio::sync::Mutex<Option<Arc<Opened>>>,
    /// Where many are served: who is there, and as whom this session is known.
    attendance: Option<Arc<Attendance>>,
    known_as: OnceLock<String>,
}

impl Session {
    pub(crate) fn new(options: Options) -> Self {
        let new = || format!("mcp-{}", uuid::Uuid::now_v7().simple());
        Self {
            key: options.session.clone().unwrap_or_else(new),
            options,
            calls: Arc::default(),
            turn: Arc::default(),
            held: Mutex::default(),
            over: AtomicBool::new(false),
            opened: tokio::sync::Mutex::default(),
            attendance: None,
            known_as: OnceLock::new(),
        }
    }

    /// One of many: it is over when nobody attends it.
    pub(crate) fn attended(options: Options, attendance: Arc<Attendance>) -> Self {
        Self { attendance: Some(attendance), ..Self::new(options) }
    }

    /// Learns from a request as whom this session is known.
    pub(crate) fn introduced(&self, extensions: &rmcp::model::Extensions) {
        if let Some(parts) = extensions.get::<http::request::Parts>()
            && let Some(session) = session_of(&parts.headers)
        {
            self.known_as.get_or_init(|| session);
        }
    }

    /// Work goes on, whoever waits for it, until the value is dropped.
    pub(crate) fn busy_until_dropped(&self) -> Option<Presence> {
        Some(self.attendance.as_ref()?.enter(self.known_as.get()?, As::Busy))
    }

    /// The tools, made when they are first needed: only then can the client be asked for its roots.
    pub(crate) async fn open(&self, peer: &Peer<RoleServer>) -> Result<Arc<Opened>> {
        let mut opened = self.opened.lock().await;
        if let Some(opened) = &*opened {
            return Ok(Arc::clone(opened));
        }
        let directories = roots::directories(&self.options.projects, peer).await?;
        let made = Arc::new(self.make(directories)?);
        *opened = Some(Arc::clone(&made));
        Ok(made)
    }

    fn make(&self, directories: Vec<PathBuf>) -> Result<Opened> {
        let more = directories.get(1..).unwrap_or_default();
        let setup = Arc::new((self.options.load)(&directories[0], more)?.in_the_project());
        let calls = Arc::clone(&self.calls);
        let open = OpenTools {
            service: Some(Arc::clone(&calls) as Arc<dyn ApprovalService>),
            ledger: self.options.ledger.clone(),
            session_key: Some(self.key.clone()),
            more: more.to_vec(),
            code_reader: self.options.code_reader.clone(),
            require: self.options.require.clone(),
            stage: self.options.stage.clone(),
            warn: Arc::clone(&self.options.warn),
            ..OpenTools::default()
        };
        let tools = open.open(&setup)?;
        tools.listen(Arc::new(move |event| calls.hear(event)));
        Ok(Opened { tools, directories, ledger: setup.ledger_path() })
    }

    /// The client's roots are others now: what was opened for the old ones ends, and what was granted with it.
    pub(crate) async fn moved(&self, peer: &Peer<RoleServer>) {
        let Ok(now) = roots::directories(&self.options.projects, peer).await else { return };
        let mut opened = self.opened.lock().await;
        if opened.as_ref().is_some_and(|opened| opened.directories != now) {
            self.forget_held();
            *opened = None;
        }
    }

    fn forget_held(&self) {
        std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Ends everything, and waits for it.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.forget_held();
        if let Ok(mut opened) = self.opened.try_lock()
            && let Some(opened) = opened.take()
        {
            opened.tools.cancel();
            opened.tools.dispose();
        }
        if let Some(ledger) = &self.options.ledger {
            ledger.flush();
        }
    }
}
