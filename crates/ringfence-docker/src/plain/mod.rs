//! Shells in a container that has nothing but `sh`: for images that no guest runs in.
//!
//! | module | what it holds |
//! |---|---|
//! | `shells` | the shells of one sandbox: commands in turn, their results, a new shell when the old one is gone |
//! | `turn` | one running command: output, time, cancellation, status |
//! | `live` | one running shell: its two programs, its streams |
//! | `script`, `*.sh` | what these run, and the form of a request |
//! | `sieve` | where a command's output ends |
//! | `guess` | what a command's own words say about refusals |
//! | `masks` | what of the policy the container's mounts hold |
//!
//! A shell is two programs that the engine starts once: the shell, whose streams are those of its commands, and its *watchman*. The
//! shell reports on the watchman's standard output, which it opens through `/proc`; so a status travels on a connection that no
//! command has, and nothing a command prints is looked at but for the end of its output. A report counts when it has a number that was
//! sent for this command alone and behind it, so that even the shell does not know it while the command runs. The watchman finds and
//! ends processes.
//!
//! # What remains
//!
//! All of this runs as one user in one container. A program that looks for the shell's descriptors or memory in `/proc`, or that traces
//! it, can read what the shell reads and say what the shell says: it can lie about the status of commands, as it could spoil the shell
//! itself. What it cannot do is anything beyond the container.
//!
//! **Invariant:** a command is sent once. When it is not known whether it ran, that is said, and it is not run again.

mod guess;
mod live;
mod masks;
mod script;
mod shells;
mod sieve;
mod turn;

pub(crate) use guess::violation;
pub(crate) use live::Place;
pub(crate) use masks::Masks;
pub(crate) use shells::Shells;

/// How the refusal of a directory begins.
pub(crate) const NO_SUCH_PLACE: &str = "cannot run the command there";
