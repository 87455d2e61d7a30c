//! One object that answers every question about a project's sandbox, and runs, reads and writes within it.
//!
//! [`Guard`] is the trait; [`ProjectGuard`] answers by the project's configuration: paths by the same decision
//! function that the fence compiles, commands by the gate, hosts by the network policy. What runs is judged first
//! and then fenced in.

mod error;
mod files;
mod project;
#[cfg(test)]
mod tests;

use std::path::Path;

use ringfence_model::{ExecResult, Limits, Usage};

pub use error::GuardError;
pub use project::{GuardBuilder, ProjectGuard};

/// What may be asked of a sandbox, and what it does.
pub trait Guard: Send + Sync + std::fmt::Debug {
    /// A name for people and logs.
    fn name(&self) -> &str;

    /// Whether a path may be read, or written.
    fn check_path(&self, path: &Path, write: bool) -> Result<(), GuardError>;

    /// Whether a shell text may run without a person being asked.
    fn check_command(&self, command: &str) -> Result<(), GuardError>;

    /// Whether a host may be reached.
    fn check_network(&self, host: &str, port: u16) -> Result<(), GuardError>;

    fn resource_limits(&self) -> &Limits;

    /// Checks the command, then the directory, then runs it in the fence.
    fn execute(
        &self,
        program: &str,
        arguments: &[&str],
        directory: Option<&Path>,
        variables: &[(&str, &str)],
    ) -> Result<ExecResult, GuardError>;

    fn read_file(&self, path: &Path) -> Result<Vec<u8>, GuardError>;

    fn write_file(&self, path: &Path, content: &[u8]) -> Result<(), GuardError>;

    /// Whether commands are fenced in.
    fn is_active(&self) -> bool;

    /// What the commands so far used.
    fn current_usage(&self) -> Usage;
}
