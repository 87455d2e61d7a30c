//! Questions that wait for answers from elsewhere: another thread, a connection, the next step of an agent.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use ringfence_fence::BoxFuture;

use super::answer::Answer;
use super::request::Permission;
use super::service::ApprovalService;

type Notify = Box<dyn Fn(&Permission) + Send + Sync>;

/// Holds each question until [`answer`](Self::answer) is called with its id. A question that nobody waits for any more is
/// forgotten.
pub struct PendingQuestions {
    /// Told of each new question, which is already waiting by then.
    notify: Notify,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    closed: bool,
    slots: BTreeMap<String, Arc<Mutex<Slot>>>,
}

#[derive(Debug, Default)]
struct Slot {
    answer: Option<Answer>,
    waker: Option<Waker>,
}

impl std::fmt::Debug for PendingQuestions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PendingQuestions").field("waiting", &self.lock().slots.len()).finish_non_exhaustive()
    }
}

impl PendingQuestions {
    /// `notify` is told of each new question, which is already waiting by then.
    #[must_use]
    pub fn new(notify: impl Fn(&Permission) + Send + Sync + 'static) -> Self {
        Self { notify: Box::new(notify), waiting: Mutex::default() }
    }

    /// Answers a question; false when nobody waits for it.
    pub fn answer(&self, id: &str, answer: Answer) -> bool {
        let slot = self.lock().slots.remove(id);
        slot.is_some_and(|slot| {
            put(&slot, answer);
            true
        })
    }

    /// Takes a question back: it is refused. False when nobody waits for it.
    pub fn cancel(&self, id: &str) -> bool {
        self.answer(id, Answer::deny("the question was taken back"))
    }

    /// Nobody answers any more: whatever waits, now or later, is refused.
    pub fn close(&self) {
        let mut waiting = self.lock();
        waiting.closed = true;
        let slots = std::mem::take(&mut waiting.slots);
        drop(waiting);
        for slot in slots.into_values() {
            put(&slot, Answer::deny("nobody is left to ask"));
        }
    }

    /// The ids of the questions that wait, oldest first.
    #[must_use]
    pub fn pending(&self) -> Vec<String> {
        self.lock().slots.keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn put(slot: &Mutex<Slot>, answer: Answer) {
    let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    slot.answer = Some(answer);
    if let Some(waker) = slot.waker.take() {
        waker.wake();
    }
}

impl ApprovalService for PendingQuestions {
    fn ask<'a>(&'a self, permission: &'a Permission) -> BoxFuture<'a, Answer> {
        let slot: Arc<Mutex<Slot>> = Arc::default();
        {
            let mut waiting = self.lock();
            if waiting.closed {
                return Box::pin(std::future::ready(Answer::deny("nobody is left to ask")));
            }
            waiting.slots.insert(permission.id.clone(), Arc::clone(&slot));
        }
        let wait = Wait { pending_questions: self, id: &permission.id, slot };
        (self.notify)(permission);
        Box::pin(wait)
    }

    fn name(&self) -> &str {
        "pending"
    }
}

/// Waits for one answer; its place goes with it, however it ends.
struct Wait<'a> {
    pending_questions: &'a PendingQuestions,
    id: &'a str,
    slot: Arc<Mutex<Slot>>,
}

impl Future for Wait<'_> {
    type Output = Answer;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        match slot.answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                slot.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.pending_questions.lock().slots.remove(self.id);
    }
}
