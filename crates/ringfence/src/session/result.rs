//! The one result that every tool gives.

use ringfence_ledger::Redact;
use ringfence_model::{Assurance, Error, ErrorKind, ExecResult};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Bytes of one stream that an agent is given.
const STREAM: usize = 64 << 10;

/// The outcome of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    pub ok: bool,
    pub stdout: String,
    pub stderr: String,
    /// None when nothing ran, or when it was ended from outside.
    pub exit_code: Option<i32>,
    #[serde(serialize_with = "ringfence_model::rounded")]
    #[schemars(with = "f64")]
    pub duration_ms: f64,
    /// Output was left out.
    pub truncated: bool,
    /// Further facts: of commands `sandbox`, of refusals `reason`, and each tool's own fields.
    pub data: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_kind: Option<ErrorKind>,
    /// The same call may succeed later, unchanged.
    pub retryable: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl ToolResult {
    /// It worked, with this to read.
    #[must_use]
    pub fn text(stdout: impl Into<String>) -> Self {
        Self {
            ok: true,
            stdout: stdout.into(),
            stderr: String::new(),
            exit_code: Some(0),
            duration_ms: 0.0,
            truncated: false,
            data: Map::new(),
            error_kind: None,
            retryable: false,
            retry_after_ms: None,
        }
    }

    /// It did not.
    #[must_use]
    pub fn failed(kind: ErrorKind, stderr: impl Into<String>) -> Self {
        Self {
            ok: false,
            stderr: stderr.into(),
            exit_code: None,
            error_kind: Some(kind),
            retryable: matches!(kind, ErrorKind::ConcurrentAccess | ErrorKind::SandboxNotAvailable),
            ..Self::text("")
        }
    }

    #[must_use]
    pub fn of_error(error: &Error) -> Self {
        let mut text = error.chain();
        for hint in &error.hints {
            text.push_str("\nhint: ");
            text.push_str(hint);
        }
        // A path that leaves its room is refused like everything that policy refuses; the reason tells them apart.
        let (kind, reason) = match error.kind {
            ErrorKind::PathTraversal => (ErrorKind::Permission, Some("path_outside_workspace")),
            ErrorKind::PathAccessDenied => (ErrorKind::Permission, Some("path_denied")),
            kind => (kind, None),
        };
        let result = Self::failed(kind, text);
        match reason {
            Some(reason) => result.with("reason", reason),
            None => result,
        }
    }

    /// Of a command that ran.
    #[must_use]
    pub fn of_execution(result: &ExecResult, redact: &dyn Redact) -> Self {
        let (stdout, stderr, left_out) = shown(result, redact);
        let blocked = result.blocked.then(|| {
            json!({
                "type": "sandbox_blocked",
                "message": result.blocked_reason.as_deref().unwrap_or("the sandbox refused an access"),
                "resource": result.blocked_resource,
            })
        });
        let error_kind = if result.timed_out {
            Some(ErrorKind::Timeout)
        } else if blocked.is_some() {
            Some(ErrorKind::SandboxBlocked)
        } else if result.exit_code == 0 {
            None
        } else {
            Some(ErrorKind::ExitCode)
        };
        let mut tool = Self {
            ok: error_kind.is_none(),
            stdout,
            stderr,
            exit_code: (!result.timed_out).then_some(result.exit_code),
            duration_ms: result.duration_ms,
            truncated: result.truncated || left_out,
            error_kind,
            ..Self::text("")
        }
        .with("sandbox", sandbox(&result.sandbox));
        if let Some(blocked) = blocked {
            tool = tool.with("blocked", blocked);
        }
        if result.restarted {
            tool = tool.with("restarted", true);
        }
        if !result.violations.is_empty() {
            let lines =
                result.violations.iter().map(|violation| redact.redact(&violation.one_line()).into_owned());
            tool = tool.with("violations", lines.collect::<Vec<_>>());
        }
        for (name, told) in [("runsLater", &result.runs_later), ("changedRemotes", &result.changed_remotes)] {
            if !told.is_empty() {
                let lines = told.iter().map(|line| redact.redact(line).into_owned());
                tool = tool.with(name, lines.collect::<Vec<_>>());
            }
        }
        match super::hints::classify(&tool) {
            Some(failure) => tool.with("failure", failure),
            None => tool,
        }
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.data.insert(name.to_owned(), value.into());
        self
    }

    /// Whether the agent is to be told of an error. A refusal of the fence is news, not an error of the tool.
    #[must_use]
    pub fn is_error(&self) -> bool {
        !self.ok && self.error_kind != Some(ErrorKind::SandboxBlocked)
    }
}

/// Under which fence it ran.
pub(crate) fn sandbox(assurance: &Assurance) -> Value {
    json!({
        "requested": assurance.requested,
        "effective": assurance.effective,
        "active": assurance.active,
        "adapter": assurance.adapter,
        "layers": assurance.layers,
        "degraded": assurance.degraded,
    })
}

/// Output as an agent reads it: text, without known secrets, the end of what is too long.
fn shown(result: &ExecResult, redact: &dyn Redact) -> (String, String, bool) {
    let text = |bytes: &[u8]| redact.redact(&String::from_utf8_lossy(bytes)).into_owned();
    let (stdout, cut_out) = tail(text(&result.stdout));
    let (stderr, cut_err) = tail(text(&result.stderr));
    (stdout, stderr, cut_out || cut_err)
}

fn tail(text: String) -> (String, bool) {
    if text.len() <= STREAM {
        return (text, false);
    }
    let mut from = text.len() - STREAM;
    while !text.is_char_boundary(from) {
        from += 1;
    }
    (format!("[{from} bytes left out]\n{}", &text[from..]), true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_ledger::{Nothing, Secrets};

    fn ran(exit_code: i32, stdout: &[u8]) -> ExecResult {
        ExecResult { stdout: stdout.to_vec(), exit_code, ..ExecResult::silent(Assurance::unsandboxed()) }
    }

    #[test]
    fn the_kind_says_what_happened() {
        let kind = |result: &ExecResult| ToolResult::of_execution(result, &Nothing).error_kind;
        assert_eq!(kind(&ran(0, b"")), None);
        assert_eq!(kind(&ran(2, b"")), Some(ErrorKind::ExitCode));
        let late = ExecResult { timed_out: true, exit_code: 124, ..ran(124, b"") };
        assert_eq!(kind(&late), Some(ErrorKind::Timeout));
        assert_eq!(ToolResult::of_execution(&late, &Nothing).exit_code, None);
        let blocked = ExecResult { blocked: true, ..ran(0, b"") };
        let result = ToolResult::of_execution(&blocked, &Nothing);
        assert_eq!(result.error_kind, Some(ErrorKind::SandboxBlocked));
        assert!(!result.ok && !result.is_error());
        assert_eq!(result.data["blocked"]["message"], "the sandbox refused an access");
        assert_eq!(result.data["sandbox"]["effective"], "none");
        assert_eq!(result.data["sandbox"]["active"], false);
    }

    #[test]
    fn long_output_keeps_its_end_and_secrets_are_hidden() {
        let mut long = vec![b'a'; 100 << 10];
        long.extend_from_slice("é the end hunter22".as_bytes());
        let result = ToolResult::of_execution(&ran(0, &long), &Secrets::new(["hunter22"]));
        assert!(result.truncated);
        assert!(result.stdout.starts_with('['), "{}", &result.stdout[..40]);
        assert!(result.stdout.ends_with("é the end <redacted>"));
        assert!(result.stdout.len() < STREAM + 40);
    }

    #[test]
    fn each_stream_keeps_64_kib_of_its_end_and_neither_costs_the_other_anything() {
        let lines = |word: &str| (0..20_000).map(|n| format!("{word} {n}\n")).collect::<String>();
        let (out, err) = (lines("out"), lines("err"));
        let both = ExecResult { stderr: err.clone().into_bytes(), ..ran(0, out.as_bytes()) };
        let result = ToolResult::of_execution(&both, &Nothing);
        assert!(result.truncated);
        for (whole, shown) in [(out, result.stdout), (err, result.stderr)] {
            let (marker, kept) = shown.split_once('\n').unwrap();
            assert_eq!(marker, format!("[{} bytes left out]", whole.len() - (64 << 10)));
            assert_eq!(kept.len(), 64 << 10);
            assert!(whole.ends_with(kept));
        }
        let exact = ToolResult::of_execution(&ran(0, &[b'x'; 64 << 10]), &Nothing);
        assert!(!exact.truncated && exact.stdout.len() == 64 << 10);
    }

    #[test]
    fn names_on_the_wire_are_the_documented_ones() {
        let json = serde_json::to_value(ToolResult::failed(ErrorKind::ApprovalDenied, "no")).unwrap();
        let names: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "ok",
                "stdout",
                "stderr",
                "exitCode",
                "durationMs",
                "truncated",
                "data",
                "errorKind",
                "retryable"
            ]
        );
        assert_eq!(json["errorKind"], "approval_denied");
    }
}
