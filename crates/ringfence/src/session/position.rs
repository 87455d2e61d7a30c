//! The position of a shell, as far as the commands it was given tell.

use ringfence_model::ExecResult;

/// Follows the directory of a shell that remembers it, from one judged command to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    start: String,
    /// None when it cannot be told.
    cwd: Option<String>,
    /// The directory after the command that was admitted last.
    next: Option<String>,
}

impl Position {
    /// Of a shell that begins at `start`, each time it is replaced too.
    pub fn new(start: impl Into<String>) -> Self {
        let start = start.into();
        Self { cwd: Some(start.clone()), next: Some(start.clone()), start }
    }

    /// The current directory; none when that cannot be told.
    #[must_use]
    pub fn cwd(&self) -> Option<&str> {
        self.cwd.as_deref()
    }

    /// Something is judged, and has led nowhere yet.
    pub fn stays(&mut self) {
        self.next.clone_from(&self.cwd);
    }

    /// Something was admitted that leads to `cwd`, as its verdict says.
    pub fn heads_for(&mut self, cwd: Option<&str>) {
        self.next = cwd.map(str::to_owned);
    }

    /// The admitted command has ended, or could not run.
    pub fn follow(&mut self, result: Option<&ExecResult>) {
        self.cwd = match result {
            Some(result) if result.restarted => Some(self.start.clone()),
            Some(result) if result.exit_code == 0 => self.next.take(),
            // Only some of it may have been done.
            _ if self.next == self.cwd => self.next.take(),
            _ => None,
        };
    }
}
