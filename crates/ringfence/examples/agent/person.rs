//! A person who has made up their mind.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use ringfence::model::Decision;
use ringfence::permission::{Answer, ApprovalService, Callback, Permission};

pub(crate) struct Person(Vec<Answer>);

pub(crate) fn first_session() -> Person {
    Person(vec![
        Answer::new(Decision::AllowOnce),
        Answer::new(Decision::AllowSession),
        Answer::new(Decision::AllowPermanent),
        Answer::deny("keys stay with me; use the deploy token"),
        Answer::deny("no means no"),
    ])
}

pub(crate) fn second_session() -> Person {
    Person(vec![Answer::deny("not today")])
}

impl Person {
    /// Gives the answers in turn; to a question that was not expected, no.
    pub(crate) fn service(self) -> Arc<dyn ApprovalService> {
        let answers = Mutex::new(VecDeque::from(self.0));
        Arc::new(Callback(move |_: &Permission| {
            let next = answers.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            next.unwrap_or_else(|| Answer::deny("I did not expect this question"))
        }))
    }
}
