//! The lines of a session.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ringfence::fence::jobs::TerminalSize;
use ringfence::model::{Decision, ErrorKind, ExecEvent, ExecRequest, ExecResult, Stdin};
use ringfence::session::SessionEvent;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::jobs;

/// A command that was asked for.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) id: Value,
    pub(crate) shell: Option<String>,
    pub(crate) request: ExecRequest,
    /// It goes on while others run.
    pub(crate) background: bool,
}

/// An order to a job, or to a command on a terminal.
#[derive(Debug, Default)]
pub(crate) struct Order {
    pub(crate) job: Option<String>,
    pub(crate) list: bool,
    pub(crate) offset: Option<u64>,
    pub(crate) max: Option<usize>,
    pub(crate) input: Option<String>,
    pub(crate) close_input: bool,
    pub(crate) resize: Option<TerminalSize>,
    pub(crate) signal: Option<i32>,
}

/// One line, understood.
#[derive(Debug)]
pub(crate) enum Line {
    Run(Box<Job>),
    Cancel(Value),
    Order(Value, Order),
    Answer(u64, Decision),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Raw {
    id: Option<Value>,
    command: Option<String>,
    timeout_ms: Option<u64>,
    stdin: Option<String>,
    shell: Option<String>,
    #[serde(default)]
    tty: bool,
    rows: Option<u16>,
    columns: Option<u16>,
    #[serde(default)]
    background: bool,
    job: Option<String>,
    #[serde(default)]
    jobs: bool,
    offset: Option<u64>,
    max: Option<usize>,
    input: Option<String>,
    #[serde(default)]
    close_input: bool,
    signal: Option<i32>,
    #[serde(default)]
    cancel: bool,
    permission: Option<u64>,
    decision: Option<Decision>,
}

/// Reads a line; none when it is empty. An error comes with the id, where there is one.
pub(crate) fn parse(line: &[u8]) -> Result<Option<Line>, (Option<Value>, String)> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    let value: Value =
        serde_json::from_slice(line).map_err(|error| (None, format!("not a line of JSON: {error}")))?;
    let id = value.get("id").cloned();
    let raw = Raw::deserialize(&value).map_err(|error| (id.clone(), wrong_field(&value, &error)))?;
    let wrong = |message: &str| Err((id.clone(), message.to_owned()));
    match raw {
        Raw { permission: Some(permission), decision: Some(decision), .. } => {
            Ok(Some(Line::Answer(permission, decision)))
        }
        Raw { permission: Some(_), .. } => wrong("an answer needs a decision"),
        Raw { id: None, .. } => wrong("a command needs an id"),
        Raw { id: Some(id), cancel: true, .. } => Ok(Some(Line::Cancel(id))),
        Raw {
            id: Some(id),
            command: Some(command),
            timeout_ms,
            stdin,
            shell,
            tty,
            background,
            rows,
            columns,
            ..
        } => {
            let mut request = ExecRequest::shell(command);
            request.tty = tty;
            request.timeout_ms = timeout_ms;
            request.stdin = stdin.map_or(Stdin::Empty, |text| Stdin::Bytes(text.into_bytes()));
            request.size = jobs::size(rows, columns);
            Ok(Some(Line::Run(Box::new(Job { id, shell, request, background }))))
        }
        Raw { id: Some(id), job, jobs, offset, max, input, close_input, signal, rows, columns, .. }
            if jobs || job.is_some() || input.is_some() || rows.is_some() || columns.is_some() =>
        {
            let resize = jobs::size(rows, columns);
            Ok(Some(Line::Order(
                id,
                Order { job, list: jobs, offset, max, input, close_input, resize, signal },
            )))
        }
        _ => wrong("the line has neither a command nor anything else to do"),
    }
}

/// Says which field of a line cannot be read, and why.
fn wrong_field(line: &Value, error: &serde_json::Error) -> String {
    let Value::Object(fields) = line else {
        return r#"a line is one JSON object, such as {"id":1,"command":"ls"}"#.to_owned();
    };
    let alone = |name: &String, value: &Value| Raw::deserialize(json!({ name: value })).err();
    for (name, value) in fields {
        match alone(name, value).map(|error| error.to_string()) {
            Some(unknown) if unknown.starts_with("unknown field") => return unknown,
            Some(wrong) => return format!("`{name}`: {wrong}"),
            None => {}
        }
    }
    error.to_string()
}

/// Standard output, one whole line at a time.
#[derive(Debug)]
pub(crate) struct Wire {
    turn: Mutex<()>,
    /// Whether whoever reads wants to hear of every step of a command.
    tells_steps: bool,
    /// The line that a call is for.
    lines: Mutex<BTreeMap<String, Value>>,
}

/// Waits until nobody reads standard output any more: for ever, where that can't be told.
pub(crate) fn wait_for_end_of_reader() {
    use rustix::event::{PollFd, PollFlags, poll};
    let stdout = std::io::stdout();
    loop {
        let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
        match poll(&mut fds, None) {
            Ok(_) if fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) => return,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => std::thread::park(),
        }
    }
}

impl Wire {
    pub(crate) fn new(tells_steps: bool) -> Self {
        Self { turn: Mutex::default(), tells_steps, lines: Mutex::default() }
    }

    /// A call is for the line of this id, until [`ends`](Self::ends).
    pub(crate) fn begins(&self, call: &str, id: &Value) {
        if self.tells_steps {
            self.lines().insert(call.to_owned(), id.clone());
        }
    }

    pub(crate) fn ends(&self, call: &str) {
        if self.tells_steps {
            self.lines().remove(call);
        }
    }

    fn lines(&self) -> MutexGuard<'_, BTreeMap<String, Value>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn send(&self, line: &impl Serialize) {
        let unsaid = |error: serde_json::Error| {
            json!({ "event": "error", "message": error.to_string() }).to_string().into_bytes()
        };
        let mut bytes = serde_json::to_vec(line).unwrap_or_else(unsaid);
        bytes.push(b'\n');
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = std::io::stdout().lock();
        // A reader that stopped reading is not told any more.
        let _ = out.write_all(&bytes).and_then(|()| out.flush());
    }

    /// The end of a command.
    pub(crate) fn result(&self, id: &Value, result: &ExecResult) {
        #[derive(Serialize)]
        struct Line<'a> {
            id: &'a Value,
            event: &'static str,
            result: &'a ExecResult,
        }
        self.send(&Line { id, event: "result", result });
    }

    pub(crate) fn error(&self, id: Option<&Value>, message: &str) {
        self.send(&json!({ "id": id, "event": "error", "message": message }));
    }

    pub(crate) fn failed(&self, id: &Value, kind: ErrorKind, message: &str) {
        self.send(&json!({ "id": id, "event": "error", "kind": kind, "message": message, "final": true }));
    }

    /// Tells of events around commands, where a reader has something from them.
    pub(crate) fn happened(&self, event: &SessionEvent) {
        match event {
            SessionEvent::Kept { .. } | SessionEvent::Warning { .. } => self.send(event),
            // Output comes with the line that it belongs to anyway.
            SessionEvent::Output { .. } => {}
            event if self.tells_steps => {
                let mut line = json!(event);
                let call = line["callId"].as_str().unwrap_or_default();
                if let Some(id) = self.lines().get(call).cloned() {
                    line["id"] = id;
                }
                self.send(&line);
            }
            _ => {}
        }
    }

    /// An event while a command runs.
    pub(crate) fn event(&self, id: &Value, shell: &str, event: &ExecEvent) {
        let (name, field, data) = match event {
            ExecEvent::Stdout(bytes) => ("stdout", "data", text_or_base64(bytes)),
            ExecEvent::Stderr(bytes) => ("stderr", "data", text_or_base64(bytes)),
            ExecEvent::Violation(violation) => match &violation.connection {
                Some(connection) => ("connection", "connection", json!(connection)),
                None => ("violation", "violation", json!(violation)),
            },
            _ => return,
        };
        self.send(&json!({ "id": id, "shell": shell, "event": name, field: data }));
    }

    /// Output of a command's jobs after its end.
    pub(crate) fn late(&self, id: &Value, shell: &str, event: &ExecEvent) {
        let (name, bytes) = match event {
            ExecEvent::Stdout(bytes) => ("stdout", bytes),
            ExecEvent::Stderr(bytes) => ("stderr", bytes),
            _ => return,
        };
        let data = text_or_base64(bytes);
        self.send(&json!({ "id": id, "shell": shell, "event": name, "late": true, "data": data }));
    }
}

/// As in results: text, or `base64:` and the bytes.
pub(crate) fn text_or_base64(bytes: &[u8]) -> Value {
    use base64::Engine as _;
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.starts_with("base64:") => json!(text),
        _ => json!(format!("base64:{}", base64::engine::general_purpose::STANDARD.encode(bytes))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_lines_say_why_and_whose_they_are() {
        for (line, id) in [
            ("{", None),
            ("[]", None),
            (r#"{"command":"x"}"#, None),
            (r#"{"id":1}"#, Some(json!(1))),
            (r#"{"id":"a","command":7}"#, Some(json!("a"))),
            (r#"{"id":2,"command":"x","unknown":1}"#, Some(json!(2))),
            (r#"{"permission":1}"#, None),
            (r#"{"permission":1,"decision":"maybe"}"#, None),
        ] {
            assert_eq!(parse(line.as_bytes()).unwrap_err().0, id, "{line}");
        }
        assert!(parse(b" \r").unwrap().is_none());
        for (line, why) in [
            ("[]", "a line is one JSON object"),
            (r#"{"id":1,"command":7}"#, "`command`: invalid type: integer `7`, expected a string"),
            (r#"{"id":1,"comand":"x"}"#, "unknown field `comand`, expected one of `id`, `command`"),
            (
                r#"{"permission":1,"decision":"maybe"}"#,
                "`decision`: unknown variant `maybe`, expected one of",
            ),
        ] {
            let said = parse(line.as_bytes()).unwrap_err().1;
            assert!(said.starts_with(why), "{line}: {said}");
        }
    }

    #[test]
    fn lines_are_read() {
        assert!(
            matches!(parse(br#"{"id":1,"command":"pwd","shell":"b"}"#), Ok(Some(Line::Run(job))) if job.shell.as_deref() == Some("b"))
        );
        assert!(matches!(parse(br#"{"id":1,"cancel":true}"#), Ok(Some(Line::Cancel(_)))));
        assert!(matches!(
            parse(br#"{"permission":3,"decision":"allow_once"}"#),
            Ok(Some(Line::Answer(3, Decision::AllowOnce)))
        ));
    }
}
