//! A shell that remembers: one bash in one sandbox, and many commands.
//!
//! | module | what it holds |
//! |---|---|
//! | `session` | [`Shell`]: commands in turn, their results, replacement of a bash that is gone |
//! | `live` | one running bash: its sandbox, its channels |
//! | `watch` | one running command: output, time, cancellation, status |
//! | `driver` | the script that bash runs, and the form of a request to it |
//! | `channel` | the two private sockets |
//! | `tree` | the processes inside, as seen from outside |
//! | `jobs` | commands that go on in the background, or on a terminal |
//! | `job_watcher` | one of them while it runs: output, time, refusals, status |
//! | `outputs` | where commands write, and what their jobs write later |
//! | `ticket` | one command, from the moment somebody wants it |
//! | `asking` | who is asked, on behalf of which command |
//!
//! Commands and their status travel on sockets that no command can open. What bash reports is believed only
//! when the kernel says that it comes from bash, and names the command that runs. Output is never looked at.
//! What cannot be prevented: code that bash itself evaluates can spoil that bash. Then it is replaced, and the
//! result says so.
//!
//! A shell has a sandbox of its own, or several share one ([`SharedSandbox`]).

mod asking;
mod channel;
mod driver;
mod job_watcher;
mod jobs;
mod live;
mod outputs;
mod session;
mod tree;
mod watch;

pub use jobs::{JobOptions, Jobs};
pub use ringfence_fence::Ticket;
pub use session::{SharedSandbox, Shell, ShellOptions};
