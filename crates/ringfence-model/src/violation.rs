//! What was refused: exactly what, by which rule, and how sure we are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Access, Connection, DenyReason, RuleSource};

/// What sort of refusal this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ViolationKind {
    HeredocInjection,
    ShellMetacharacterAbuse,
    VariableInjection,
    DangerousPattern,
    CriticalPathRemoval,
    SensitiveFileAccess,
    PathAccessDenied,
    CommandBlocked,
    DisallowedTempWrite,
    NetworkViolation,
    /// A system call that the fence does not let through.
    SyscallDenied,
    /// A resource limit was reached.
    ResourceLimit,
    /// Something was made that a tool of the person's acts on by itself. Told, not refused.
    RunsLater,
    /// A repository fetches from, or pushes to, another place than before. Told, not refused.
    RemoteChanged,
    /// A host was connected to, and the connection has ended. Told, not refused.
    Connected,
}

impl ViolationKind {
    #[must_use]
    pub fn default_severity(self) -> Severity {
        match self {
            Self::HeredocInjection | Self::VariableInjection | Self::SensitiveFileAccess => Severity::High,
            Self::CriticalPathRemoval => Severity::Critical,
            Self::DisallowedTempWrite => Severity::Low,
            Self::RunsLater | Self::RemoteChanged | Self::Connected => Severity::Low,
            Self::ShellMetacharacterAbuse
            | Self::DangerousPattern
            | Self::PathAccessDenied
            | Self::CommandBlocked
            | Self::NetworkViolation
            | Self::SyscallDenied
            | Self::ResourceLimit => Severity::Medium,
        }
    }

    /// The wire name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::HeredocInjection => "heredoc_injection",
            Self::ShellMetacharacterAbuse => "shell_metacharacter_abuse",
            Self::VariableInjection => "variable_injection",
            Self::DangerousPattern => "dangerous_pattern",
            Self::CriticalPathRemoval => "critical_path_removal",
            Self::SensitiveFileAccess => "sensitive_file_access",
            Self::PathAccessDenied => "path_access_denied",
            Self::CommandBlocked => "command_blocked",
            Self::DisallowedTempWrite => "disallowed_temp_write",
            Self::NetworkViolation => "network_violation",
            Self::SyscallDenied => "syscall_denied",
            Self::ResourceLimit => "resource_limit",
            Self::RunsLater => "runs_later",
            Self::RemoteChanged => "remote_changed",
            Self::Connected => "connected",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Low,
    Medium,
    High,
    Critical,
}

impl Severity {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}

/// What the program tried to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Operation {
    Open,
    Create,
    Remove,
    Rename,
    Link,
    Symlink,
    Mkdir,
    Truncate,
    Chmod,
    Chown,
    Utime,
    Xattr,
    Stat,
    List,
    Execute,
    Connect,
    Bind,
    Send,
    /// A name was asked for.
    Lookup,
    Signal,
    Syscall,
    /// A limit was reached rather than a call made.
    Limit,
}

/// One refused access.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Violation {
    pub kind: ViolationKind,
    pub severity: Severity,
    pub operation: Operation,
    /// Absolute host path, `address:port`, host name, program, system call or limit.
    pub resource: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<DenyReason>,
    /// The rule as it was written, and where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_source: Option<RuleSource>,
    /// Process id inside the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<String>,
    /// Milliseconds since the Unix epoch.
    pub time_ms: u64,
    /// True when the fence itself refused the call, false when it was concluded afterwards.
    pub certain: bool,
    /// Whether it was stopped (and not merely noticed).
    pub blocked: bool,
    /// One sentence for a person.
    pub message: String,
    /// Of a connection that was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<Box<Connection>>,
}

impl Violation {
    /// A refusal by the fence itself. What else is known of it is filled in by whoever makes it.
    #[must_use]
    pub fn new(kind: ViolationKind, operation: Operation, resource: impl Into<String>) -> Self {
        Self {
            kind,
            severity: kind.default_severity(),
            operation,
            resource: resource.into(),
            access: None,
            reason: None,
            rule: None,
            rule_source: None,
            pid: None,
            program: None,
            argv: vec![],
            time_ms: 0,
            certain: true,
            blocked: true,
            message: String::new(),
            connection: None,
        }
    }

    /// Tells of a connection that has ended.
    #[must_use]
    pub fn connected(connection: Connection) -> Self {
        Self {
            program: connection.program.clone(),
            pid: connection.pid,
            time_ms: connection.started_ms,
            blocked: false,
            message: connection.to_string(),
            connection: Some(Box::new(connection.clone())),
            ..Self::new(ViolationKind::Connected, Operation::Connect, connection.resource())
        }
    }

    /// Whether both are about the same thing done to the same resource.
    #[must_use]
    pub fn is_same_refusal(&self, other: &Self) -> bool {
        self.operation == other.operation && self.resource == other.resource
    }

    /// `sensitive_file_access: read of /home/u/.ssh/id_rsa denied by ~/.ssh (built-in)`.
    #[must_use]
    pub fn one_line(&self) -> String {
        format!("{} [{}] {}", self.kind.name(), self.severity.name(), self.message)
    }
}

/// The violations as an XML block to append to a command's stderr; empty when there are none.
#[must_use]
pub fn annotate(violations: &[Violation]) -> String {
    if violations.is_empty() {
        return String::new();
    }
    let mut xml = String::from("<sandbox_violations>\n");
    for violation in violations {
        xml.push_str(&format!(
            "  <violation type=\"{}\" severity=\"{}\" blocked=\"{}\">\n    <message>{}</message>\n    <trigger>{}</trigger>\n",
            violation.kind.name(),
            violation.severity.name(),
            violation.blocked,
            escape(&violation.message),
            escape(&violation.resource),
        ));
        if let Some(rule) = &violation.rule {
            xml.push_str(&format!("    <context>{}</context>\n", escape(rule)));
        }
        xml.push_str("  </violation>\n");
    }
    xml.push_str("</sandbox_violations>\n");
    xml
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violation(kind: ViolationKind, resource: &str) -> Violation {
        Violation {
            access: Some(Access::Read),
            rule: Some("~/.ssh".to_owned()),
            message: format!("read of {resource} denied"),
            ..Violation::new(kind, Operation::Open, resource)
        }
    }

    #[test]
    fn kinds_have_the_documented_names_and_severities() {
        use ViolationKind as Kind;
        let documented = [
            (Kind::HeredocInjection, "heredoc_injection", Severity::High),
            (Kind::ShellMetacharacterAbuse, "shell_metacharacter_abuse", Severity::Medium),
            (Kind::VariableInjection, "variable_injection", Severity::High),
            (Kind::DangerousPattern, "dangerous_pattern", Severity::Medium),
            (Kind::CriticalPathRemoval, "critical_path_removal", Severity::Critical),
            (Kind::SensitiveFileAccess, "sensitive_file_access", Severity::High),
            (Kind::PathAccessDenied, "path_access_denied", Severity::Medium),
            (Kind::CommandBlocked, "command_blocked", Severity::Medium),
            (Kind::DisallowedTempWrite, "disallowed_temp_write", Severity::Low),
            (Kind::NetworkViolation, "network_violation", Severity::Medium),
        ];
        for (kind, name, severity) in documented {
            assert_eq!((kind.name(), kind.default_severity()), (name, severity));
            assert_eq!(serde_json::to_value(kind).unwrap(), name);
        }
        let ordered = [Severity::Low, Severity::Medium, Severity::High, Severity::Critical];
        assert!(ordered.is_sorted() && ordered.map(Severity::name) == ["low", "medium", "high", "critical"]);
    }

    #[test]
    fn annotation_escapes_and_is_empty_for_nothing() {
        assert_eq!(annotate(&[]), "");
        let xml = annotate(&[violation(ViolationKind::PathAccessDenied, "/a<b>&\"'")]);
        assert!(xml.contains("<trigger>/a&lt;b&gt;&amp;&quot;&apos;</trigger>"), "{xml}");
        assert!(xml.contains("type=\"path_access_denied\" severity=\"medium\" blocked=\"true\""), "{xml}");
    }
}
