//! For agents that stop at a question: a call either finishes, or gives the question and goes on with the answer.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ringfence_model::{Error, ErrorKind, Result};
use serde::Serialize;
use serde_json::Value;

use super::toolbox::Tools;
use crate::permission::{Answer, ApprovalService, PendingQuestions, Permission};
use crate::session::ToolResult;

/// How far a call got.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Step {
    Finished {
        result: Box<ToolResult>,
    },
    /// The call waits: in the fence where that can hold it, else before it runs, or before it runs again.
    RequiresPermission {
        permission: Box<Permission>,
    },
}

enum News {
    Asked(Box<Permission>),
    Done(Box<ToolResult>),
}

/// The place where the questions of [`Steps`] go. Make the tools with its [`service`](Self::service), then the steps
/// with both.
#[derive(Debug)]
pub struct Inbox {
    pending_questions: Arc<PendingQuestions>,
    listener: Arc<Mutex<Option<Sender<News>>>>,
}

impl Default for Inbox {
    fn default() -> Self {
        let listener: Arc<Mutex<Option<Sender<News>>>> = Arc::default();
        let listening = Arc::clone(&listener);
        let pending_questions = PendingQuestions::new(move |permission| {
            let listener = listening.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(listener) = &*listener {
                // Nobody waits for the step any more: the question runs out of time.
                let _ = listener.send(News::Asked(Box::new(permission.clone())));
            }
        });
        Self { pending_questions: Arc::new(pending_questions), listener }
    }
}

impl Inbox {
    #[must_use]
    pub fn service(&self) -> Arc<dyn ApprovalService> {
        Arc::clone(&self.pending_questions) as _
    }
}

/// Tools whose questions come back as steps. One call at a time.
#[derive(Debug)]
pub struct Steps {
    tools: Tools,
    inbox: Inbox,
    pending: Mutex<Option<Pending>>,
}

#[derive(Debug)]
struct Pending {
    permission: String,
    news: Receiver<News>,
}

impl Steps {
    #[must_use]
    pub fn new(tools: Tools, inbox: Inbox) -> Self {
        Self { tools, inbox, pending: Mutex::default() }
    }

    #[must_use]
    pub fn tools(&self) -> &Tools {
        &self.tools
    }

    /// Calls a tool, up to its end or its first question.
    pub fn call(&self, name: &str, arguments: &Value) -> Result<Step> {
        let mut pending = self.lock();
        if pending.is_some() {
            return Err(Error::new(ErrorKind::ConcurrentAccess, "a call still waits for its answer"));
        }
        let (sender, news) = channel();
        *self.inbox.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender.clone());
        let (tools, name, arguments) = (self.tools.clone(), name.to_owned(), arguments.clone());
        let thread = std::thread::Builder::new().name("tool-call".to_owned());
        let spawned = thread.spawn(move || {
            let result = tools.call(&name, &arguments);
            // A caller that gave up waiting does not need it.
            let _ = sender.send(News::Done(Box::new(result)));
        });
        spawned.map_err(|error| Error::new(ErrorKind::Internal, "cannot start a call").caused_by(error))?;
        Ok(next(&mut pending, news))
    }

    /// Answers the question of the last step, and goes on.
    pub fn resolve(&self, answer: Answer) -> Result<Step> {
        let mut pending = self.lock();
        let Some(Pending { permission, news }) = pending.take() else {
            return Err(Error::new(ErrorKind::Validation, "no question waits for an answer"));
        };
        // One that ran out of time meanwhile was refused; the next step tells.
        self.inbox.pending_questions.answer(&permission, answer);
        Ok(next(&mut pending, news))
    }

    /// The question that waits, by its id.
    #[must_use]
    pub fn waiting(&self) -> Option<String> {
        self.lock().as_ref().map(|pending| pending.permission.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn next(pending: &mut Option<Pending>, news: Receiver<News>) -> Step {
    match news.recv() {
        Ok(News::Asked(permission)) => {
            *pending = Some(Pending { permission: permission.id.clone(), news });
            Step::RequiresPermission { permission }
        }
        Ok(News::Done(result)) => Step::Finished { result },
        Err(_) => {
            let result = ToolResult::failed(ErrorKind::Internal, "the call ended without a result");
            Step::Finished { result: Box::new(result) }
        }
    }
}

impl Drop for Steps {
    /// Nobody answers any more.
    fn drop(&mut self) {
        self.inbox.pending_questions.close();
    }
}
