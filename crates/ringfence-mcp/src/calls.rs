//! Which call a question or an event belongs to.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ringfence::fence::BoxFuture;
use ringfence::permission::{Answer, ApprovalService, Permission};
use ringfence::session::SessionEvent;
use tokio::sync::{mpsc, oneshot};

use crate::log;

/// What happens during a call.
#[derive(Debug)]
pub(crate) enum News {
    Output(String),
    Event(Box<SessionEvent>),
    Asked(Box<Permission>, oneshot::Sender<Answer>),
}

/// The calls that run, by id. The service that the tools of a session ask.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// What the client wants to be told.
    pub(crate) level: log::Level,
    /// The client cannot ask its person: somebody has to find a terminal.
    pub(crate) is_elsewhere: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    running: HashMap<String, mpsc::UnboundedSender<News>>,
    /// Of a question, the call.
    asking: HashMap<String, String>,
}

impl Calls {
    pub(crate) fn open(&self, call: &str) -> mpsc::UnboundedReceiver<News> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.lock().running.insert(call.to_owned(), sender);
        receiver
    }

    pub(crate) fn close(&self, call: &str) {
        let mut inner = self.lock();
        inner.running.remove(call);
        inner.asking.retain(|_, asking| asking != call);
    }

    /// A question is on behalf of this call.
    pub(crate) fn route(&self, permission: &str, call: &str) {
        self.lock().asking.insert(permission.to_owned(), call.to_owned());
    }

    pub(crate) fn hear(&self, event: &SessionEvent) {
        let (call, news) = match event {
            SessionEvent::ApprovalRequested { call_id, permission, .. } => {
                self.route(&permission.id, call_id);
                (call_id, News::Event(Box::new(event.clone())))
            }
            SessionEvent::Output { call_id, data, .. } => (call_id, News::Output(data.clone())),
            SessionEvent::ApprovalDecided { call_id, .. }
            | SessionEvent::ToolCallRequested { call_id, .. }
            | SessionEvent::ToolCallStarted { call_id, .. }
            | SessionEvent::ToolCallFinished { call_id, .. } => {
                (call_id, News::Event(Box::new(event.clone())))
            }
            SessionEvent::Warning { .. }
            | SessionEvent::RunFailed { .. }
            | SessionEvent::RunCancelled { .. } => {
                // They name no call; whoever is there hears of it.
                for sender in self.lock().running.values() {
                    let _ = sender.send(News::Event(Box::new(event.clone())));
                }
                return;
            }
            _ => return,
        };
        if let Some(sender) = self.lock().running.get(call) {
            // Whoever does not wait for the call any more misses nothing.
            let _ = sender.send(news);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ApprovalService for Calls {
    fn ask<'a>(&'a self, permission: &'a Permission) -> BoxFuture<'a, Answer> {
        let (sender, answer) = oneshot::channel();
        let told = {
            let inner = self.lock();
            let call = inner.asking.get(&permission.id).and_then(|call| inner.running.get(call));
            call.is_some_and(|call| call.send(News::Asked(Box::new(permission.clone()), sender)).is_ok())
        };
        Box::pin(async move {
            let nobody = || Answer::deny("nobody is left to ask");
            if told { answer.await.unwrap_or_else(|_| nobody()) } else { nobody() }
        })
    }

    fn name(&self) -> &str {
        "mcp"
    }

    fn is_elsewhere(&self) -> bool {
        self.is_elsewhere.load(Ordering::Relaxed)
    }
}
