//! Asking a person.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use ringfence_model::{Decision, Grant, Violation};

use crate::BoxFuture;

/// How long a person has, unless configured otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// What a person is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// What was refused, by which rule, and who wanted it.
    pub violation: Violation,
    /// The command that is running, as it was given.
    pub command: String,
    /// The smallest grant that would have let it through.
    pub grant: Grant,
    /// Whose request the command was; see [`ExecRequest::call`](ringfence_model::ExecRequest).
    pub call: Option<String>,
}

/// Answers questions. The answer to a question that is not answered in time is no.
pub trait Approver: Send + Sync + std::fmt::Debug {
    /// Asks one question; the future ends with the answer.
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Decision>;

    /// Which command the questions are about, where one sandbox runs several. What was allowed once, and what
    /// was refused, is asked again in another turn.
    fn turn(&self) -> u64 {
        0
    }

    /// Ends the command that asked, after an answer that wants it: true once nothing of it goes on. Where not, the whole
    /// sandbox is ended.
    fn abort(&self) -> bool {
        false
    }
}

/// Where an answer came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    /// The approver answered.
    ByApprover,
    /// Nobody answered in time.
    ByClock,
}

/// Asks and waits for the answer, at most so long.
pub fn ask_within(approver: &dyn Approver, question: &Question, timeout: Duration) -> (Decision, Answered) {
    match wait_for(approver.ask(question), timeout) {
        Some(decision) => (decision, Answered::ByApprover),
        None => (Decision::Deny, Answered::ByClock),
    }
}

/// Asks a function: for programs that embed ringfence.
pub struct Callback<F>(pub F);

impl<F> std::fmt::Debug for Callback<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Callback")
    }
}

impl<F: Fn(&Question) -> Decision + Send + Sync> Approver for Callback<F> {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Decision> {
        Box::pin(std::future::ready((self.0)(question)))
    }
}

/// Waits for a future on this thread, without a runtime, however long it takes: what is waited for has limits of its
/// own.
pub fn block_on<T>(future: BoxFuture<'_, T>) -> T {
    const LONG: Duration = Duration::from_secs(24 * 60 * 60);
    let mut future = future;
    loop {
        if let Some(value) = wait_for(Box::pin(future.as_mut()), LONG) {
            return value;
        }
    }
}

/// Waits for a future on this thread, without a runtime; none when the time is over.
pub fn wait_for<T>(future: BoxFuture<'_, T>, timeout: Duration) -> Option<T> {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let deadline = Instant::now() + timeout;
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Some(value);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        std::thread::park_timeout(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_model::{Access, GrantScope, Operation, ViolationKind};

    fn question() -> Question {
        Question {
            violation: Violation {
                access: Some(Access::Read),
                ..Violation::new(ViolationKind::SensitiveFileAccess, Operation::Open, "/home/u/.ssh/id")
            },
            command: "cat ~/.ssh/id".to_owned(),
            grant: Grant {
                path: "/home/u/.ssh/id".into(),
                access: Access::Read,
                scope: GrantScope::Once,
                recursive: false,
            },
            call: None,
        }
    }

    #[derive(Debug)]
    struct Silent;

    impl Approver for Silent {
        fn ask<'a>(&'a self, _: &'a Question) -> BoxFuture<'a, Decision> {
            Box::pin(std::future::pending())
        }
    }

    #[test]
    fn silence_is_a_refusal() {
        let answer = ask_within(&Silent, &question(), Duration::from_millis(5));
        assert_eq!(answer, (Decision::Deny, Answered::ByClock));
    }

    #[test]
    fn a_function_answers() {
        let long = Duration::from_secs(5);
        let callback = Callback(|question: &Question| {
            if question.command.starts_with("cat") { Decision::AllowSession } else { Decision::Deny }
        });
        assert_eq!(ask_within(&callback, &question(), long).0, Decision::AllowSession);
    }
}
