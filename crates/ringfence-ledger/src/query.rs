//! Reading the records back, newest first.

use std::collections::BTreeMap;

use ringfence_model::{Grant, GrantScope, Result, Severity, Violation, ViolationKind};
use rusqlite::{Connection, Row, ToSql, params_from_iter};

use crate::owner;
use crate::record::{Decided, Event, Execution, Granted, LedgerViolation, Status};
use crate::sql::{
    from_json, from_name, optional_name, optional_time, path_column, signed, time_column, unsigned,
};
use crate::{ExecutionId, GrantId, Ledger, insert};

/// Which executions; everything left open matches all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExecutionFilter {
    /// Started at this moment or later, in milliseconds since the Unix epoch.
    pub since_ms: Option<u64>,
    pub project: Option<String>,
    pub session_key: Option<String>,
    /// The newest that many.
    pub limit: Option<usize>,
}

/// What sort of records of the fence: it tells of connections in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum About {
    #[default]
    Refusals,
    /// Connections, those that were refused too.
    Network,
    All,
}

/// Which violations; everything left open matches all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ViolationFilter {
    pub about: About,
    pub since_ms: Option<u64>,
    pub kind: Option<ViolationKind>,
    /// This severe or worse.
    pub at_least: Option<Severity>,
    pub execution: Option<ExecutionId>,
    /// As [`execution`](Self::execution), by the end of its id as tables show it.
    pub execution_ends: Option<String>,
    pub project: Option<String>,
    pub session_key: Option<String>,
    /// What was refused is this, or below it.
    pub resource: Option<String>,
    pub limit: Option<usize>,
}

/// How many violations there are, by what they are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ViolationCounts {
    pub total: u64,
    pub blocked: u64,
    pub by_kind: BTreeMap<String, u64>,
    pub by_severity: BTreeMap<Severity, u64>,
}

/// Whether revoked grants are wanted too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GrantSet {
    /// Those that still hold.
    #[default]
    Active,
    All,
}

/// Conditions and their values, gathered before the statement is made.
#[derive(Default)]
struct Conditions {
    sql: String,
    values: Vec<Box<dyn ToSql>>,
}

impl Conditions {
    fn and(&mut self, condition: &str, value: impl ToSql + 'static) {
        self.sql.push_str(if self.values.is_empty() { " WHERE " } else { " AND " });
        self.sql.push_str(condition);
        self.values.push(Box::new(value));
    }

    fn all<T>(
        self,
        connection: &Connection,
        select: &str,
        tail: &str,
        limit: Option<usize>,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Vec<T>> {
        let limit = limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
        let sql = format!("{select}{} {tail} LIMIT {limit}", self.sql);
        connection.prepare_cached(&sql)?.query_map(params_from_iter(self.values), read)?.collect()
    }
}

const EXECUTION: &str =
    "SELECT id, started_ms, finished_ms, command, argv, cwd, project, session_key, exit_code,
    signal, blocked, timed_out, duration_ms, adapter, launcher, layers, degraded, failure, owner_pid, owner
    FROM executions";

impl Ledger {
    pub fn executions(&self, filter: &ExecutionFilter) -> Result<Vec<Execution>> {
        let mut conditions = Conditions::default();
        if let Some(since) = filter.since_ms {
            conditions.and("id >= ?", ExecutionId::lower_bound(since));
        }
        if let Some(project) = &filter.project {
            conditions.and("project = ?", project.clone());
        }
        if let Some(session) = &filter.session_key {
            conditions.and("session_key = ?", session.clone());
        }
        conditions
            .all(&self.connection, EXECUTION, "ORDER BY id DESC", filter.limit, read_execution)
            .map_err(self.failed("read executions"))
    }

    pub fn execution(&self, id: ExecutionId) -> Result<Option<Execution>> {
        let mut conditions = Conditions::default();
        conditions.and("id = ?", id.to_string());
        let found = conditions
            .all(&self.connection, EXECUTION, "", Some(1), read_execution)
            .map_err(self.failed("read an execution"))?;
        Ok(found.into_iter().next())
    }

    pub fn violations(&self, filter: &ViolationFilter) -> Result<Vec<LedgerViolation>> {
        let mut conditions = Conditions::default();
        match filter.about {
            About::Refusals => conditions.and("v.kind <> ?", ViolationKind::Connected.name()),
            About::Network => conditions
                .and("(v.kind = ? OR v.kind = 'network_violation')", ViolationKind::Connected.name()),
            About::All => {}
        }
        if let Some(since) = filter.since_ms {
            conditions.and("v.time_ms >= ?", signed(since));
        }
        if let Some(kind) = filter.kind {
            conditions.and("v.kind = ?", kind.name());
        }
        if let Some(severity) = filter.at_least {
            conditions.and("v.severity >= ?", insert::severity_rank(severity));
        }
        if let Some(execution) = filter.execution {
            conditions.and("v.execution_id = ?", execution.to_string());
        }
        if let Some(end) = &filter.execution_ends {
            let plain: String = end.chars().filter(char::is_ascii_alphanumeric).collect();
            conditions.and("replace(v.execution_id, '-', '') LIKE ?", format!("%{plain}"));
        }
        if let Some(project) = &filter.project {
            conditions.and("e.project = ?", project.clone());
        }
        if let Some(session) = &filter.session_key {
            conditions.and("e.session_key = ?", session.clone());
        }
        if let Some(resource) = &filter.resource {
            // Whatever stands in a name is meant as it is, so this is no LIKE.
            conditions.and("instr(v.resource || '/', ?) = 1", format!("{}/", resource.trim_end_matches('/')));
        }
        let select = "SELECT v.id, v.execution_id, e.command, v.body FROM violations v
            LEFT JOIN executions e ON e.id = v.execution_id";
        conditions
            .all(&self.connection, select, "ORDER BY v.time_ms DESC, v.id DESC", filter.limit, |row| {
                Ok(LedgerViolation {
                    id: row.get(0)?,
                    execution_id: optional_name(row, 1)?,
                    command: row.get(2)?,
                    violation: from_json::<Violation>(row, 3)?,
                })
            })
            .map_err(self.failed("read violations"))
    }

    /// Counts without reading the records themselves.
    pub fn count_violations(&self, since_ms: Option<u64>) -> Result<ViolationCounts> {
        let sql = "SELECT kind, severity, count(*), sum(blocked) FROM violations WHERE time_ms >= ?1
            AND kind <> 'connected' GROUP BY kind, severity";
        let count = || -> rusqlite::Result<ViolationCounts> {
            let mut counts = ViolationCounts::default();
            let mut statement = self.connection.prepare_cached(sql)?;
            let mut rows = statement.query([signed(since_ms.unwrap_or(0))])?;
            while let Some(row) = rows.next()? {
                let number = unsigned(row.get(2)?);
                let severity = match row.get::<_, i64>(1)? {
                    ..=0 => Severity::Low,
                    1 => Severity::Medium,
                    2 => Severity::High,
                    3.. => Severity::Critical,
                };
                counts.total += number;
                counts.blocked += unsigned(row.get(3)?);
                *counts.by_kind.entry(row.get(0)?).or_default() += number;
                *counts.by_severity.entry(severity).or_default() += number;
            }
            Ok(counts)
        };
        count().map_err(self.failed("count violations"))
    }

    pub fn decisions(&self, since_ms: Option<u64>, limit: Option<usize>) -> Result<Vec<Decided>> {
        let mut conditions = Conditions::default();
        if let Some(since) = since_ms {
            conditions.and("time_ms >= ?", signed(since));
        }
        let select = "SELECT body FROM decisions";
        conditions
            .all(&self.connection, select, "ORDER BY time_ms DESC, id DESC", limit, |row| from_json(row, 0))
            .map_err(self.failed("read decisions"))
    }

    pub fn events(&self, since_ms: Option<u64>, limit: Option<usize>) -> Result<Vec<Event>> {
        let mut conditions = Conditions::default();
        if let Some(since) = since_ms {
            conditions.and("time_ms >= ?", signed(since));
        }
        let select = "SELECT execution_id, time_ms, kind, body FROM events";
        conditions
            .all(&self.connection, select, "ORDER BY time_ms DESC, id DESC", limit, |row| {
                Ok(Event {
                    execution_id: optional_name(row, 0)?,
                    time_ms: time_column(row, 1)?,
                    kind: row.get(2)?,
                    body: from_json(row, 3)?,
                })
            })
            .map_err(self.failed("read events"))
    }

    pub fn grants(&self, set: GrantSet) -> Result<Vec<Granted>> {
        let select =
            "SELECT id, created_ms, scope, path, access, recursive, session_key, project, execution_id,
            revoked_ms, (SELECT owner FROM executions WHERE executions.id = grants.execution_id) FROM grants";
        let mut conditions = Conditions::default();
        match set {
            GrantSet::All => {}
            GrantSet::Active => {
                // A grant for one call is spent as soon as it is recorded.
                conditions.and("revoked_ms IS NULL AND scope <> ?", "once");
            }
        }
        let read = |row: &Row<'_>| Ok((read_grant(row)?, row.get::<_, Option<String>>(10)?));
        let all = conditions.all(&self.connection, select, "ORDER BY id DESC", None, read);
        let holds =
            |granted: &Granted, owner: Option<String>| match (granted.grant.scope, granted.execution_id) {
                // It ends with the process that runs the session, also where that could not say so.
                (GrantScope::Session, Some(_)) => owner.is_some_and(|owner| owner::is_alive(&owner)),
                _ => true,
            };
        let all = all.map_err(self.failed("read grants"))?.into_iter();
        Ok(all
            .filter_map(|(granted, owner)| {
                (set == GrantSet::All || holds(&granted, owner)).then_some(granted)
            })
            .collect())
    }

    /// Writes a grant at once; the caller acts on it.
    pub fn add_grant(&mut self, granted: &Granted) -> Result<()> {
        self.change("record a grant", |transaction| insert::grant(transaction, granted))
    }

    /// Ends a grant. False when there is no such grant, or it has ended already.
    pub fn revoke_grant(&mut self, id: GrantId, now_ms: u64) -> Result<bool> {
        self.change("revoke a grant", |transaction| {
            let sql = "UPDATE grants SET revoked_ms = ?2 WHERE id = ?1 AND revoked_ms IS NULL";
            Ok(transaction.execute(sql, (id.to_string(), signed(now_ms)))? > 0)
        })
    }

    /// Ends all session grants of a session; gives their number.
    pub fn revoke_session_grants(&mut self, session_key: &str, now_ms: u64) -> Result<usize> {
        self.change("revoke the grants of a session", |transaction| {
            let sql = "UPDATE grants SET revoked_ms = ?2
                WHERE session_key = ?1 AND scope = 'session' AND revoked_ms IS NULL";
            transaction.execute(sql, (session_key, signed(now_ms)))
        })
    }

    /// Writes a decision at once.
    pub fn add_decision(&mut self, decided: &Decided) -> Result<()> {
        let redact = std::sync::Arc::clone(&self.redact);
        self.change("record a decision", |transaction| {
            insert::Row::decision(redact.as_ref(), decided).insert(transaction)
        })
    }

    /// Writes an event at once.
    pub fn add_event(&mut self, event: &Event) -> Result<()> {
        let redact = std::sync::Arc::clone(&self.redact);
        self.change("record an event", |transaction| {
            insert::Row::event(redact.as_ref(), event).insert(transaction)
        })
    }

    /// Forgets executions, violations, decisions and events older than `before_ms`; gives the number of
    /// records. Grants and sandboxes stay.
    pub fn forget_before(&mut self, before_ms: u64) -> Result<usize> {
        self.change("forget old records", |transaction| {
            let mut gone = transaction
                .execute("DELETE FROM executions WHERE id < ?1", [ExecutionId::lower_bound(before_ms)])?;
            for table in ["violations", "decisions", "events"] {
                let sql = format!("DELETE FROM {table} WHERE time_ms < ?1");
                gone += transaction.execute(&sql, [signed(before_ms)])?;
            }
            Ok(gone)
        })
    }
}

fn read_execution(row: &Row<'_>) -> rusqlite::Result<Execution> {
    let finished_ms = optional_time(row, 2)?;
    let failure: Option<String> = row.get(17)?;
    let status = match (finished_ms, &failure) {
        (Some(_), None) => Status::Finished,
        (Some(_), Some(_)) => Status::Failed,
        (None, _) if owner::is_alive(&row.get::<_, String>(19)?) => Status::Running,
        (None, _) => Status::Interrupted,
    };
    Ok(Execution {
        id: from_name(row, 0)?,
        status,
        started_ms: time_column(row, 1)?,
        finished_ms,
        command: row.get(3)?,
        argv: optional_json(row, 4)?,
        cwd: row.get(5)?,
        project: row.get(6)?,
        session_key: row.get(7)?,
        exit_code: row.get(8)?,
        signal: row.get(9)?,
        blocked: row.get(10)?,
        timed_out: row.get(11)?,
        duration_ms: row.get(12)?,
        adapter: row.get(13)?,
        launcher: row.get(14)?,
        layers: optional_json(row, 15)?.unwrap_or_default(),
        degraded: optional_json(row, 16)?.unwrap_or_default(),
        failure,
        owner_pid: row.get(18)?,
    })
}

fn optional_json<T: serde::de::DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
) -> rusqlite::Result<Option<Vec<T>>> {
    match row.get_ref(column)? {
        rusqlite::types::ValueRef::Null => Ok(None),
        _ => from_json(row, column).map(Some),
    }
}

fn read_grant(row: &Row<'_>) -> rusqlite::Result<Granted> {
    Ok(Granted {
        id: from_name(row, 0)?,
        created_ms: time_column(row, 1)?,
        grant: Grant {
            scope: from_name(row, 2)?,
            path: path_column(row, 3)?.unwrap_or_default(),
            access: from_name(row, 4)?,
            recursive: row.get(5)?,
        },
        session_key: row.get(6)?,
        project: path_column(row, 7)?,
        execution_id: optional_name(row, 8)?,
        revoked_ms: optional_time(row, 9)?,
    })
}
