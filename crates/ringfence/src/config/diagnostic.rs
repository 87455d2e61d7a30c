//! Diagnostics: what is wrong, or worth knowing, about a configuration.

use std::path::{Path, PathBuf};

use serde::Serialize;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// Something written has no effect, or another one than it seems.
    Warning,
    /// The file is not a valid configuration.
    Error,
}

/// The sort of a diagnostic, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum DiagnosticKind {
    /// The file cannot be read.
    Unreadable,
    /// Not JSON, even with comments.
    Syntax,
    UnknownKey,
    /// The same key twice.
    DuplicateKey,
    WrongType,
    BadValue,
    /// A file or object was left out as a whole, or a key of a project's file.
    LayerDropped,
    /// A project's file tried to widen something.
    ProjectWidens,
    /// A network was asked for that the local fence does not have.
    NoRawNetwork,
    /// A variable in a path has no value.
    UnsetVariable,
    /// A setting that does not apply here.
    Ignored,
    /// A set of hosts finds none on this machine.
    EmptySet,
    /// Other users can change the file.
    Permissions,
    /// The project is a whole home directory.
    WholeHome,
}

/// One finding, with its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnostic {
    pub severity: Severity,
    pub kind: DiagnosticKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// From 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// From 1, in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// As written, with dots: `policy.filesystem.whitelist`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

impl Diagnostic {
    pub(crate) fn error(kind: DiagnosticKind, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, kind, message)
    }

    pub(crate) fn warning(kind: DiagnosticKind, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, kind, message)
    }

    fn new(severity: Severity, kind: DiagnosticKind, message: impl Into<String>) -> Self {
        Self {
            severity,
            kind,
            file: None,
            line: None,
            column: None,
            key: None,
            message: message.into(),
            suggestion: None,
        }
    }

    pub(crate) fn in_file(mut self, file: Option<&Path>) -> Self {
        self.file = file.map(Path::to_path_buf);
        self
    }

    pub(crate) fn at(mut self, position: Option<(u32, u32)>) -> Self {
        self.line = position.map(|(line, _)| line);
        self.column = position.map(|(_, column)| column);
        self
    }

    pub(crate) fn on_line(mut self, line: Option<u32>) -> Self {
        self.line = line;
        self
    }

    pub(crate) fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into()).filter(|key: &String| !key.is_empty());
        self
    }

    pub(crate) fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }
}

/// `file:line:column: key: message; suggestion`, with the parts that are known.
impl std::fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}:", file.display())?;
            if let Some(line) = self.line {
                write!(f, "{line}:")?;
            }
            if let Some(column) = self.column {
                write!(f, "{column}:")?;
            }
            f.write_str(" ")?;
        }
        if let Some(key) = &self.key {
            write!(f, "{key}: ")?;
        }
        f.write_str(&self.message)?;
        match &self.suggestion {
            Some(suggestion) => write!(f, "; {suggestion}"),
            None => Ok(()),
        }
    }
}
