//! One function per record: the statement that writes it.

use std::borrow::Cow;

use ringfence_model::{Command, Violation};
use rusqlite::{Connection, params};

use crate::ExecutionId;
use crate::owner::Owner;
use crate::record::{Decided, Event, ExecutionEnd, ExecutionStart, Granted};
use crate::redact::{self, Redact};
use crate::sql::{name_of, path_value, signed, to_json};

pub(crate) fn start(
    connection: &Connection,
    redact: &dyn Redact,
    owner: &Owner,
    start: &ExecutionStart,
) -> rusqlite::Result<()> {
    let (command, argv) = match &start.command {
        Command::Shell(text) => (redact.redact(text).into_owned(), None),
        Command::Argv(argv) => {
            // Secrets go before quoting, which may break their text apart.
            let words: Vec<String> =
                argv.iter().map(|word| redact.redact(&word.to_string_lossy()).into_owned()).collect();
            let quoted: Vec<Cow<'_, str>> = words.iter().map(|word| quote(word)).collect();
            (quoted.join(" "), Some(to_json(&words)?))
        }
    };
    let sql = "INSERT OR IGNORE INTO executions
        (id, started_ms, command, argv, cwd, project, session_key, owner_pid, owner)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    connection.prepare_cached(sql)?.execute(params![
        start.id.to_string(),
        signed(start.id.time_ms()),
        command,
        argv,
        start.cwd.as_deref().map(|path| redact::path(redact, path)),
        start.project.as_deref().map(|path| redact::path(redact, path)),
        start.session_key,
        owner.pid(),
        owner.to_string(),
    ])?;
    Ok(())
}

pub(crate) const END: &str =
    "UPDATE executions SET finished_ms = ?2, exit_code = ?3, signal = ?4, blocked = ?5,
    timed_out = ?6, duration_ms = ?7, adapter = ?8, launcher = ?9, layers = ?10, degraded = ?11,
    failure = ?12 WHERE id = ?1";

pub(crate) fn end(connection: &Connection, redact: &dyn Redact, end: &ExecutionEnd) -> rusqlite::Result<()> {
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
        end.failure.as_deref().map(|why| redact.redact(why)),
    ])?;
    Ok(())
}

pub(crate) fn violation(
    connection: &Connection,
    redact: &dyn Redact,
    execution: Option<ExecutionId>,
    violation: &Violation,
) -> rusqlite::Result<()> {
    let mut clean = violation.clone();
    redact::violation(redact, &mut clean);
    let sql = "INSERT INTO violations (execution_id, time_ms, kind, severity, resource, blocked, body)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    connection.prepare_cached(sql)?.execute(params![
        execution.map(String::from),
        signed(clean.time_ms),
        clean.kind.name(),
        severity_rank(clean.severity),
        clean.resource,
        clean.blocked,
        to_json(&clean)?,
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

pub(crate) fn decision(
    connection: &Connection,
    redact: &dyn Redact,
    decided: &Decided,
) -> rusqlite::Result<()> {
    let mut clean = decided.clone();
    redact::text(redact, &mut clean.resource);
    redact::optional(redact, &mut clean.reason);
    redact::optional(redact, &mut clean.command);
    let sql = "INSERT INTO decisions (execution_id, time_ms, decision, kind, resource, body)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    connection.prepare_cached(sql)?.execute(params![
        clean.execution_id.map(String::from),
        signed(clean.time_ms),
        name_of(&clean.decision)?,
        clean.kind,
        clean.resource,
        to_json(&clean)?,
    ])?;
    Ok(())
}

/// The path of a grant is not redacted: it decides what is let through, so it must stay exact.
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

pub(crate) fn event(connection: &Connection, redact: &dyn Redact, event: &Event) -> rusqlite::Result<()> {
    let mut body = event.body.clone();
    redact::json(redact, &mut body);
    let sql = "INSERT INTO events (execution_id, time_ms, kind, body) VALUES (?1, ?2, ?3, ?4)";
    connection.prepare_cached(sql)?.execute(params![
        event.execution_id.map(String::from),
        signed(event.time_ms),
        event.kind,
        body.to_string(),
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
