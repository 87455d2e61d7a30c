//! A configuration built in code.

use std::path::PathBuf;
use std::time::Duration;

use super::resolved::{Entry, SandboxConfig};
use super::words::{Mode, Strictness};
use crate::{Error, ErrorKind, PathPattern, Result};

/// Builds a [`SandboxConfig`] step by step, starting from [`SandboxConfig::restricted`].
#[derive(Debug, Clone)]
#[must_use]
pub struct SandboxBuilder {
    config: SandboxConfig,
    paths: Vec<(&'static str, PathBuf)>,
}

impl Default for SandboxBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl From<SandboxConfig> for SandboxBuilder {
    fn from(config: SandboxConfig) -> Self {
        Self { config, paths: vec![] }
    }
}

impl SandboxBuilder {
    pub fn new() -> Self {
        SandboxConfig::restricted().into()
    }

    /// Everything readable, nothing writable but the project, generous limits.
    pub fn permissive() -> Self {
        SandboxConfig::permissive().into()
    }

    /// One directory, no network, tight limits.
    pub fn strict(dir: impl Into<PathBuf>) -> Self {
        Self::from(SandboxConfig::strict("")).clear_paths().working_dir(dir)
    }

    fn clear_paths(mut self) -> Self {
        self.config.allow_read.clear();
        self.config.allow_write.clear();
        self.config.working_dir = None;
        self
    }

    pub fn enabled(mut self, enabled: bool) -> Self {
        self.config.enabled = enabled;
        self
    }

    pub fn mode(mut self, mode: Mode) -> Self {
        self.config.mode = mode;
        match mode {
            Mode::Permissive => self.config.validation_strictness = Strictness::Minimal,
            Mode::Custom | Mode::Restricted => {}
            Mode::Strict => {
                self.config.validation_strictness = Strictness::Strict;
                self.config.strict_sensitive_files = true;
            }
        }
        self
    }

    /// Where commands start; readable and writable.
    pub fn working_dir(self, path: impl Into<PathBuf>) -> Self {
        self.path("workingDir", path)
    }

    pub fn allow_read(self, path: impl Into<PathBuf>) -> Self {
        self.path("allowRead", path)
    }

    /// Lets a path be read and written.
    pub fn allow_write(self, path: impl Into<PathBuf>) -> Self {
        self.path("allowWrite", path)
    }

    fn path(mut self, key: &'static str, path: impl Into<PathBuf>) -> Self {
        self.paths.push((key, path.into()));
        self
    }

    /// Lets only the commands named this way run.
    pub fn allow_command(mut self, command: impl Into<String>) -> Self {
        self.config.allowed_commands.push(Entry::by_call(command));
        self
    }

    /// Refuses a command; several words (`rm -rf`) match as words.
    pub fn block_command(mut self, command: impl Into<String>) -> Self {
        self.config.blocked_commands.push(Entry::by_call(command));
        self
    }

    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.config.limits.max_memory_bytes = Some(bytes);
        self
    }

    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.config.limits.timeout_ms = Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        self
    }

    pub fn cpu_limit(mut self, seconds: u64) -> Self {
        self.config.limits.max_cpu_seconds = Some(seconds);
        self
    }

    pub fn output_limit(mut self, bytes: u64) -> Self {
        self.config.limits.max_output_bytes = Some(bytes);
        self
    }

    pub fn file_size_limit(mut self, bytes: u64) -> Self {
        self.config.limits.max_file_size_bytes = Some(bytes);
        self
    }

    pub fn allow_network(mut self, allow: bool) -> Self {
        self.config.allow_network = allow;
        self
    }

    /// The configuration, or the first thing that is wrong with it.
    pub fn build(self) -> Result<SandboxConfig> {
        let Self { mut config, paths } = self;
        for (key, path) in paths {
            let text = literal(key, path)?;
            match key {
                "workingDir" => config.working_dir = Some(text),
                "allowRead" => config.allow_read.push(Entry::by_call(text)),
                _ => config.allow_write.push(Entry::by_call(text)),
            }
        }
        let empty = config
            .allowed_commands
            .iter()
            .chain(&config.blocked_commands)
            .any(|entry| entry.text.trim().is_empty());
        if empty {
            return Err(Error::new(ErrorKind::InvalidConfig, "a command in a list is blank"));
        }
        if config.limits.timeout_ms == Some(0) {
            return Err(Error::new(ErrorKind::InvalidConfig, "a timeout of zero lets nothing run"));
        }
        Ok(config)
    }
}

/// A path as text that expansion leaves alone: every character that means something is escaped.
fn literal(key: &str, path: PathBuf) -> Result<String> {
    let invalid =
        |why: &str| Err(Error::new(ErrorKind::InvalidConfig, format!("{key}: {} {why}", path.display())));
    let Some(text) = path.to_str() else { return invalid("is not valid UTF-8") };
    if text.is_empty() {
        return invalid("is empty");
    }
    let mut written = PathPattern::literal(&path).to_syntax().replace('$', "\\$");
    if written.starts_with('~') {
        written.insert(0, '\\');
    }
    Ok(written)
}
