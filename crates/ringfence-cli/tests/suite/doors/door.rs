//! A door, and the observations made through it.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use super::super::support::Room;
use super::rule::{Answer, CONTENT, Deed, Step};

/// A way to have something done.
pub(crate) trait Door {
    fn name(&self) -> String;

    fn can(&self) -> Can;

    /// Asks for one step after the other, in one session where the door has sessions, and ends that. The ledger is
    /// complete afterwards.
    fn play(&self, room: &Room, steps: &[Step]) -> Vec<Seen>;

    /// The tool behind it, where there is one.
    fn tool(&self) -> Option<&'static str> {
        None
    }
}

/// What a door is for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Can {
    /// Somebody can be asked: by the gate, and by the fence.
    pub(crate) ask: bool,
    /// Commands of one session follow each other.
    pub(crate) remember: bool,
    /// A row of the ledger is about one command, not about a session of a person.
    pub(crate) tell_commands_apart: bool,
}

/// How it ended, as the door says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Ended(i32),
    /// Before anything ran.
    Refused,
    TimedOut,
    Stopped,
    /// Nothing could be asked at all, for this reason.
    Closed(String),
}

/// What was seen of one step.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) outcome: Outcome,
    /// Whether the fence refused something; none: this door does not say it by itself.
    pub(crate) blocked: Option<bool>,
    /// How many violations the result has, where there is a result.
    pub(crate) violations: Option<usize>,
    pub(crate) truncated: Option<bool>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// The questions as the person got them.
    pub(crate) asked: Vec<String>,
}

impl Seen {
    pub(crate) fn closed(why: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::Closed(why.into()),
            blocked: None,
            violations: None,
            truncated: None,
            stdout: String::new(),
            stderr: String::new(),
            asked: vec![],
        }
    }

    /// From the result of `run --json` and of a session.
    pub(crate) fn of_result(result: &Value, asked: Vec<String>) -> Self {
        let text = |name: &str| result[name].as_str().unwrap_or_default().to_owned();
        let code = result["exitCode"].as_i64().and_then(|code| i32::try_from(code).ok()).unwrap_or(-1);
        let outcome = match code {
            _ if result["timedOut"] == true => Outcome::TimedOut,
            126 if result["blocked"] == true => Outcome::Refused,
            code => Outcome::Ended(code),
        };
        Self {
            outcome,
            blocked: Some(result["blocked"] == true),
            violations: result["violations"].as_array().map(Vec::len),
            truncated: result["truncated"].as_bool(),
            stdout: text("stdout"),
            stderr: text("stderr"),
            asked,
        }
    }

    /// From the result of a tool. A refused file was not touched: for files this is what the fence's refusal is for
    /// commands.
    pub(crate) fn of_tool(tool: &str, result: &Value, asked: Vec<String>) -> Self {
        let text = |name: &str| result[name].as_str().unwrap_or_default().to_owned();
        let kind = result["errorKind"].as_str().unwrap_or_default();
        let about_files = is_file_tool(tool);
        let said_no = matches!(
            kind,
            "permission"
                | "approval_denied"
                | "command_not_allowed"
                | "sandbox_blocked"
                | "sandbox_denied"
                | "resource_limit_exceeded"
        );
        let code = result["exitCode"].as_i64().and_then(|code| i32::try_from(code).ok());
        let outcome = match (kind, code) {
            ("timeout", _) => Outcome::TimedOut,
            ("cancelled", _) => Outcome::Stopped,
            ("config_error" | "invalid_config", _) => Outcome::Closed(text("stderr")),
            _ if result["ok"] == true => Outcome::Ended(0),
            _ if said_no && about_files => Outcome::Ended(1),
            (_, None) if said_no => Outcome::Refused,
            (_, code) => Outcome::Ended(code.unwrap_or(-1)),
        };
        Self {
            outcome,
            blocked: Some(said_no),
            violations: None,
            truncated: result["truncated"].as_bool(),
            stdout: text("stdout"),
            stderr: text("stderr"),
            asked,
        }
    }
}

/// The person behind a door: what they will say, and what they were asked.
#[derive(Debug, Default)]
pub(crate) struct Person {
    answers: Mutex<VecDeque<Answer>>,
    asked: Mutex<Vec<String>>,
}

impl Person {
    /// Nothing said before counts from here on.
    pub(crate) fn will_say(&self, answer: Option<Answer>) {
        *self.answers.lock().unwrap_or_else(PoisonError::into_inner) = answer.into_iter().collect();
    }

    pub(crate) fn hears(&self, question: String) -> Answer {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(question);
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).pop_front().unwrap_or(Answer::Deny)
    }

    pub(crate) fn heard(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(crate) fn is_file_tool(tool: &str) -> bool {
    !matches!(tool, "bash" | "run_code" | "jobs")
}

/// How a tool is asked for a step, or why it cannot be.
pub(crate) fn arguments(tool: &str, step: &Step) -> Result<Value, &'static str> {
    let line = || step.line();
    match (tool, &step.deed) {
        ("bash", _) => Ok(json!({ "command": line() })),
        ("run_code", _) => Ok(json!({ "code": line(), "language": "shell" })),
        ("jobs", _) => Ok(json!({ "action": "start", "command": line() })),
        (_, Deed::Command(_)) => Err("a tool for files runs no command"),
        ("read", Deed::Read(path)) => Ok(json!({ "path": path })),
        ("list", Deed::List(path)) => Ok(json!({ "path": path })),
        ("search", Deed::List(path)) => Ok(json!({ "path": path, "text": "treasure" })),
        ("write", Deed::Write(path)) => Ok(json!({ "path": path, "content": CONTENT })),
        ("edit", Deed::Write(path)) => Ok(json!({ "path": path, "old": "old", "new": CONTENT })),
        ("apply_patch", Deed::Write(path)) => Ok(json!({ "patch": format!(
            "*** Begin Patch\n*** Update File: {path}\n@@\n-old\n+{CONTENT}\n*** End Patch"
        ) })),
        ("read", Deed::Anything) => Ok(json!({ "path": "note.txt" })),
        ("list", Deed::Anything) => Ok(json!({ "path": "" })),
        ("search", Deed::Anything) => Ok(json!({ "path": "", "text": "old" })),
        ("write" | "edit" | "apply_patch", Deed::Anything) => {
            arguments(tool, &Step { deed: Deed::Write("note.txt"), ..step.clone() })
        }
        ("read", _) => Err("it only reads files"),
        ("list" | "search", _) => Err("it only looks at directories"),
        _ => Err("it only writes files"),
    }
}
