//! Asking a person, and what follows from the answer.
//!
//! Whoever wants something that policy does not give (a path behind the fence, a command that the gate does not
//! let pass, a tool) becomes a [`Permission`]. The [`Desk`] brings it to the one [`ApprovalService`] that was
//! configured, remembers what was answered for the session, counts refusals, and says what it did as events.
//!
//! | module | what it holds |
//! |---|---|
//! | [`request`] | the question: [`Permission`], its options, its key |
//! | [`answer`] | the reply: a decision, a text for the agent, edited code |
//! | [`service`] | who answers: automatic ones, functions, rules, the terminal |
//! | [`mailbox`] | questions that wait for answers from elsewhere |
//! | [`letterbox`] | the same between processes: answers from another terminal |
//! | [`desk`] | the flow: cached, asked, decided, the end of a run |
//! | [`keep`] | grants that last: written to the user's own file |
//!
//! **Invariant:** no service, no answer in time, or an answer that cannot be read is a refusal.
//! **Invariant:** a question and its key never carry a known secret, the content of a file, or the value of a
//! variable.

pub mod answer;
mod clean;
pub mod desk;
pub mod keep;
#[cfg(unix)]
pub mod letterbox;
pub mod mailbox;
pub mod request;
pub mod service;

pub use answer::Answer;
pub use clean::{cleaned, key_of};
pub use desk::{Desk, DeskOptions, Ended, Outcome, Reason};
pub use keep::{ConfigFileKeeper, Keeper};
#[cfg(unix)]
pub use letterbox::{Letter, Letterbox};
pub use mailbox::Mailbox;
pub use request::{Permission, PermissionKind};
pub use service::{
    ApprovalRules, ApprovalService, AutoApprove, AutoDeny, Callback, Condition, RuleEntry, Terminal,
};
