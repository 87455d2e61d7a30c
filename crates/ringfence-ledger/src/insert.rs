//! Records as they are kept, and the statement that writes each.

use std::borrow::Cow;

use ringfence_model::{Command, Violation};
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

use crate::ExecutionId;
use crate::owner::Owner;
use crate::record::{Decided, Event, ExecutionEnd, ExecutionStart, Granted};
use crate::redact::{self, Redact};
use crate::scribe::Job;
use crate::sql::{name_of, path_value, signed, to_json};

/// A record without known secrets, ready to be written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Row {
    Start(Box<StartRow>),
    End(Box<ExecutionEnd>),
    Violation(Option<ExecutionId>, Box<Violation>),
    Decision(Box<Decided>),
    Grant(Box<Granted>),
    Event(Box<Event>),
    Touch { sandbox: String, time_ms: u64 },
}

/// See [`ExecutionStart`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StartRow {
    id: ExecutionId,
    command: String,
    argv: Option<Vec<String>>,
    cwd: Option<String>,
    project: Option<String>,
    session_key: Option<String>,
    owner_pid: u32,
    owner: String,
}

impl Row {
    pub(crate) fn of(redact: &dyn Redact, owner: &Owner, job: &Job) -> Self {
        match job {
            Job::Start(start) => Self::Start(Box::new(StartRow::of(redact, owner, start))),
            Job::End(end) => {
                let mut clean = end.clone();
                redact::optional(redact, &mut clean.failure);
                Self::End(clean)
            }
            Job::Violation(execution, violation) => {
                let mut clean = violation.clone();
                redact::violation(redact, &mut clean);
                Self::Violation(*execution, clean)
            }
            Job::Decision(decided) => Self::decision(redact, decided),
            // The path of a grant is not redacted: it decides what is let through, so it must stay exact.
            Job::Grant(granted) => Self::Grant(granted.clone()),
            Job::Event(event) => Self::event(redact, event),
            Job::Touch { sandbox, time_ms } => Self::Touch { sandbox: sandbox.clone(), time_ms: *time_ms },
        }
    }

    pub(crate) fn decision(redact: &dyn Redact, decided: &Decided) -> Self {
        let mut clean = Box::new(decided.clone());
        redact::text(redact, &mut clean.resource);
        redact::optional(redact, &mut clean.reason);
        redact::optional(redact, &mut clean.command);
        Self::Decision(clean)
    }

    pub(crate) fn event(redact: &dyn Redact, event: &Event) -> Self {
        let mut clean = Box::new(event.clone());
        redact::json(redact, &mut clean.body);
        Self::Event(clean)
    }

    pub(crate) fn insert(&self, connection: &Connection) -> rusqlite::Result<()> {
        match self {
            Self::Start(row) => start(connection, row),
            Self::End(row) => end(connection, row),
            Self::Violation(execution, row) => violation(connection, *execution, row),
            Self::Decision(row) => decision(connection, row),
            Self::Grant(row) => grant(connection, row),
            Self::Event(row) => event(connection, row),
            Self::Touch { sandbox, time_ms } => {
                crate::registry::touch(connection, sandbox, *time_ms).map(drop)
            }
        }
    }
}

impl StartRow {
    fn of(redact: &dyn Redact, owner: &Owner, start: &ExecutionStart) -> Self {
        let (command, argv) = match &start.command {
            Command::Shell(text) => (redact.redact(text).into_owned(), None),
            Command::Argv(argv) => {
                // Secrets go before quoting, which may break their text apart.
                let words: Vec<String> =
                    argv.iter().map(|word| redact.redact(&word.to_string_lossy()).into_owned()).collect();
                let quoted: Vec<Cow<'_, str>> = words.iter().map(|word| quote(word)).collect();
                (quoted.join(" "), Some(words))
            }
        };
        Self {
            id: start.id,
            command,
            argv,
            cwd: start.cwd.as_deref().map(|path| redact::path(redact, path)),
            project: start.project.as_deref().map(|path| redact::path(redact, path)),
            session_key: start.session_key.clone(),
            owner_pid: owner.pid(),
            owner: owner.to_string(),
        }
    }
}

fn start(connection: &Connection, start: &StartRow) -> rusqlite::Result<()> {
    let sql = "INSERT OR IGNORE INTO executions
        (id, started_ms, command, argv, cwd, project, session_key, owner_pid, owner)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    connection.prepare_cached(sql)?.execute(params![
        start.id.to_string(),
        signed(start.id.time_ms()),
        start.command,
        start.argv.as_ref().map(to_json).transpose()?,
        start.cwd,
        start.project,
        start.session_key,
        start.owner_pid,
        start.owner,
    ])?;
    Ok(())
}

pub(crate) const END: &str =
    "UPDATE executions SET finished_ms = ?2, exit_code = ?3, signal = ?4, blocked = ?5,
    timed_out = ?6, duration_ms = ?7, adapter = ?8, launcher = ?9, layers = ?10, degraded = ?11,
    failure = ?12 WHERE id = ?1";

fn end(connection: &Connection, end: &ExecutionEnd) -> rusqlite::Result<()> {
    let launcher = end.adapter.as_deref().and_then(|adapter| adapter.split_once('/')).map(|(_, name)| name);
    connection.prepare_cached(END)?.execute(params![
        end.id.to_string(),
        signed(end.finished_ms),
        end.exit_code,
        end.signal,
        end.blocked,
        end.timed_out,
        end.duration_ms,
        end.adapter,
        launcher,
        to_json(&end.layers)?,
        to_json(&end.degraded)?,
        end.failure,
    ])?;
    Ok(())
}

fn violation(
    connection: &Connection,
    execution: Option<ExecutionId>,
    violation: &Violation,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO violations (execution_id, time_ms, kind, severity, resource, blocked, body)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    connection.prepare_cached(sql)?.execute(params![
        execution.map(String::from),
        signed(violation.time_ms),
        violation.kind.name(),
        severity_rank(violation.severity),
        violation.resource,
        violation.blocked,
        to_json(violation)?,
    ])?;
    Ok(())
}

/// A number, so that "at least high" is a comparison.
pub(crate) fn severity_rank(severity: ringfence_model::Severity) -> i64 {
    use ringfence_model::Severity::{Critical, High, Low, Medium};
    match severity {
        Low => 0,
        Medium => 1,
        High => 2,
        Critical => 3,
    }
}

fn decision(connection: &Connection, decided: &Decided) -> rusqlite::Result<()> {
    let sql = "INSERT INTO decisions (execution_id, time_ms, decision, kind, resource, body)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    connection.prepare_cached(sql)?.execute(params![
        decided.execution_id.map(String::from),
        signed(decided.time_ms),
        name_of(&decided.decision)?,
        decided.kind,
        decided.resource,
        to_json(decided)?,
    ])?;
    Ok(())
}

pub(crate) fn grant(connection: &Connection, granted: &Granted) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO grants
        (id, created_ms, scope, path, access, recursive, session_key, project, execution_id, revoked_ms)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    connection.prepare_cached(sql)?.execute(params![
        granted.id.to_string(),
        signed(granted.created_ms),
        name_of(&granted.grant.scope)?,
        path_value(&granted.grant.path),
        name_of(&granted.grant.access)?,
        granted.grant.recursive,
        granted.session_key,
        granted.project.as_deref().map(path_value),
        granted.execution_id.map(String::from),
        granted.revoked_ms.map(signed),
    ])?;
    Ok(())
}

fn event(connection: &Connection, event: &Event) -> rusqlite::Result<()> {
    let sql = "INSERT INTO events (execution_id, time_ms, kind, body) VALUES (?1, ?2, ?3, ?4)";
    connection.prepare_cached(sql)?.execute(params![
        event.execution_id.map(String::from),
        signed(event.time_ms),
        event.kind,
        event.body.to_string(),
    ])?;
    Ok(())
}

/// The word as a person would type it into a shell.
fn quote(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn words_are_quoted_only_when_they_need_it() {
        for (word, want) in [
            ("ls", "ls"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("--x=1", "--x=1"),
            ("$HOME", "'$HOME'"),
        ] {
            assert_eq!(quote(word), want);
        }
    }
}
