//! One call: progress, questions, cancellation.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use ringfence::model::ErrorKind;
use ringfence::permission::{Answer, FileQuestions, Permission};
use ringfence::tools::{ToolResult, Tools};
use rmcp::RoleServer;
use rmcp::model::ProgressNotificationParam;
use rmcp::service::RequestContext;
use tokio::sync::{OwnedMutexGuard, mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::calls::{Calls, News};
use crate::session::{Opened, Session};
use crate::{elicit, log, offer};

/// Between two signs of life.
const BEAT: Duration = Duration::from_secs(1);
/// Between two looks for an answer.
const LOOK: Duration = Duration::from_millis(200);

/// A call on its own thread.
#[derive(Debug)]
pub(crate) struct Running {
    id: String,
    tools: Tools,
    calls: Arc<Calls>,
    news: mpsc::UnboundedReceiver<News>,
    done: JoinHandle<ToolResult>,
    /// Only a call that holds the turn may end what runs in the shell.
    turn: Option<OwnedMutexGuard<()>>,
    started: Instant,
    /// Waits for an answer in the file_questions.
    waiting: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.calls.close(&self.id);
        if let Some(waiting) = &self.waiting {
            waiting.abort();
        }
        if self.turn.is_some() && !self.done.is_finished() {
            self.tools.cancel();
        }
    }
}

/// How a call left off.
enum Stop {
    Done(ToolResult),
    /// It goes on when the question is answered.
    Held(Box<Permission>),
}

impl Session {
    /// Starts a call on a thread for blocking work.
    pub(crate) fn start(
        &self,
        opened: &Opened,
        turn: Option<OwnedMutexGuard<()>>,
        work: impl FnOnce(&str, &Tools) -> ToolResult + Send + 'static,
    ) -> Running {
        let id = uuid::Uuid::now_v7().simple().to_string();
        let news = self.calls.open(&id);
        let (its, tools) = (id.clone(), opened.tools.clone());
        let presence = self.busy_until_dropped();
        let done = tokio::task::spawn_blocking(move || {
            let result = work(&its, &tools);
            drop(presence);
            result
        });
        Running {
            id,
            tools: opened.tools.clone(),
            calls: Arc::clone(&self.calls),
            news,
            done,
            turn,
            started: Instant::now(),
            waiting: None,
        }
    }

    /// Goes along with a call to its end, to its first question that the client cannot bring to a person, or for as
    /// long as `patience` lasts.
    pub(crate) async fn follow(
        &self,
        mut running: Running,
        context: &RequestContext<RoleServer>,
        patience: Option<(Duration, Permission)>,
    ) -> ToolResult {
        let stop = match &patience {
            None => running.drive(context, &self.options.file_questions).await,
            Some((most, permission)) => {
                let driven = running.drive(context, &self.options.file_questions);
                match tokio::time::timeout(*most, driven).await {
                    Ok(stop) => stop,
                    Err(_) => Stop::Held(Box::new(permission.clone())),
                }
            }
        };
        match stop {
            Stop::Done(result) => result,
            Stop::Held(permission) => {
                let result = offer::requires_permission(&permission);
                let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
                held.insert(permission.id.clone(), running);
                result
            }
        }
    }
}

impl Running {
    pub(crate) fn is_finished(&self) -> bool {
        self.done.is_finished()
    }

    pub(crate) fn has_turn(&self) -> bool {
        self.turn.is_some()
    }

    async fn drive(&mut self, context: &RequestContext<RoleServer>, file_questions: &FileQuestions) -> Stop {
        self.calls.is_elsewhere.store(!elicit::supported(&context.peer), Ordering::Relaxed);
        let mut beat = tokio::time::interval_at(tokio::time::Instant::now() + BEAT, BEAT);
        let mut last_line = String::new();
        loop {
            tokio::select! {
                biased;
                () = context.ct.cancelled() => return Stop::Done(self.cancel().await),
                news = self.news.recv() => match news {
                    Some(News::Output(text)) => {
                        if let Some(line) = text.lines().rev().find(|line| !line.trim().is_empty()) {
                            last_line = line.chars().take(200).collect();
                        }
                    }
                    Some(News::Event(event)) => log::send(&context.peer, &self.calls.level, &event).await,
                    Some(News::Asked(permission, answer)) => {
                        if elicit::supported(&context.peer) {
                            self.elicit(context, &permission, answer).await;
                        } else {
                            match file_questions.post(&permission) {
                                Ok(()) => {
                                    self.wait_for_letter(file_questions.clone(), &permission, answer);
                                    return Stop::Held(permission);
                                }
                                Err(error) => drop(answer.send(Answer::deny(error.chain()))),
                            }
                        }
                    }
                    // Only this call closes its own channel.
                    None => {}
                },
                done = &mut self.done => {
                    return Stop::Done(done.unwrap_or_else(|error| {
                        ToolResult::failed(ErrorKind::Internal, format!("the call broke off: {error}"))
                    }));
                }
                _ = beat.tick() => self.progress(context, &last_line).await,
            }
        }
    }

    /// Brings a question to the person at the client. One that is cancelled, or that nobody waits for any more, is
    /// taken back.
    async fn elicit(
        &self,
        context: &RequestContext<RoleServer>,
        permission: &Permission,
        mut answer: oneshot::Sender<Answer>,
    ) {
        let reply = tokio::select! {
            reply = elicit::elicit(&context.peer, permission) => reply,
            () = context.ct.cancelled() => Answer::deny("the client cancelled the call"),
            () = answer.closed() => return,
        };
        // Whoever asked may have stopped waiting in this moment.
        let _ = answer.send(reply);
    }

    fn wait_for_letter(
        &mut self,
        file_questions: FileQuestions,
        permission: &Permission,
        mut answer: oneshot::Sender<Answer>,
    ) {
        let id = permission.id.clone();
        let letter = Letter { file_questions, id };
        self.waiting = Some(tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = answer.closed() => return,
                    () = tokio::time::sleep(LOOK) => {}
                }
                if let Some(reply) = letter.file_questions.answered(&letter.id) {
                    let _ = answer.send(reply);
                    return;
                }
            }
        }));
    }

    async fn progress(&self, context: &RequestContext<RoleServer>, last_line: &str) {
        let Some(token) = context.meta.get_progress_token() else { return };
        let mut sign = ProgressNotificationParam::new(token, self.started.elapsed().as_secs_f64());
        let seconds = self.started.elapsed().as_secs();
        sign.message = Some(if last_line.is_empty() { format!("{seconds} s") } else { last_line.to_owned() });
        // A client that is gone is noticed elsewhere.
        let _ = context.peer.notify_progress(sign).await;
    }

    /// Ends it, and waits until it is over.
    async fn cancel(&mut self) -> ToolResult {
        self.calls.close(&self.id);
        loop {
            if self.turn.is_some() {
                let tools = self.tools.clone();
                let _ = tokio::task::spawn_blocking(move || tools.cancel()).await;
            }
            // It may not have begun when it was told to end.
            if let Ok(done) = tokio::time::timeout(LOOK, &mut self.done).await {
                if self.tools.questions().ended().is_some() {
                    // Taking a question back is no refusal.
                    self.tools.begin_run();
                }
                let mut result = done.unwrap_or_else(|_| ToolResult::failed(ErrorKind::Cancelled, ""));
                (result.ok, result.error_kind) = (false, Some(ErrorKind::Cancelled));
                return result;
            }
        }
    }
}

/// A question in ringfence's own directory, for as long as somebody waits.
struct Letter {
    file_questions: FileQuestions,
    id: String,
}

impl Drop for Letter {
    fn drop(&mut self) {
        self.file_questions.remove(&self.id);
    }
}
