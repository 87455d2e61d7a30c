//! Asking a person, and what follows from the answer.
//!
//! A wish that policy does not grant (a path behind the fence, a command that the gate does not let pass, a tool)
//! becomes a [`Permission`]. [`Questions`](crate::session::Questions) bring it to the one
//! [`ApprovalService`] that was chosen, remember what was answered for the session, count refusals, and say what
//! they did as events.
//!
//! | module | what it holds |
//! |---|---|
//! | `request` | the question: [`Permission`], its options, its key |
//! | `answer` | the reply: a decision, a text for the agent, edited code |
//! | `service` | who answers: automatic ones, functions, rules, the terminal |
//! | `pending_questions` | questions that wait for answers from elsewhere |
//! | `file_questions` | the same between processes: answers from another terminal |
//! | `keep` | grants that last: written to the user's own file |
//!
//! **Invariant:** no service, no answer in time, or an answer that cannot be read is a refusal.
//! **Invariant:** a question and its key never carry a known secret, the content of a file, or the value of a
//! variable.

mod answer;
mod clean;
#[cfg(unix)]
mod file_questions;
mod keep;
mod pending_questions;
mod request;
mod service;

pub use answer::Answer;
pub use clean::{cleaned, key_of};
#[cfg(unix)]
pub use file_questions::{FileQuestions, Letter};
pub(crate) use keep::ConfigFileKeeper;
pub use pending_questions::PendingQuestions;
pub(crate) use request::shortened;
pub use request::{Permission, PermissionKind};
pub use service::{
    ApprovalRules, ApprovalService, AutoApprove, AutoDeny, Callback, Condition, RuleEntry, Terminal,
};
