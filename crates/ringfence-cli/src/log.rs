//! `ringfence log`: what was run.

mod network;

use std::collections::HashMap;
use std::process::ExitCode;

use ringfence::ledger::{Execution, ExecutionFilter, ExecutionId, Ledger, Status, now_ms};
use ringfence::model::{Error, ErrorKind, Result};
use serde_json::Value;

use crate::args::{Format, Log};
use crate::output::{self, Table, Tone};
use crate::places::Places;
use crate::report;
use crate::since::{ago, duration};

pub(crate) fn log(args: &Log) -> Result<ExitCode> {
    if args.network {
        return network::log(args);
    }
    let ledger = Places::find(None)?.ledger()?;
    let executions = match &ledger {
        Some(ledger) => find(ledger, args)?,
        None => vec![],
    };
    match args.format {
        Format { json: true, .. } => output::print_json(&with_verdicts(ledger.as_ref(), &executions)?)?,
        Format { jsonl: true, .. } => output::print_json_lines(with_verdicts(ledger.as_ref(), &executions)?)?,
        Format { .. } if executions.is_empty() => report::say(nothing(ledger.is_some())),
        Format { .. } => table(&executions, now_ms()).print()?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The executions, each with what the gate said about it, where that was worth remembering.
fn with_verdicts(ledger: Option<&Ledger>, executions: &[Execution]) -> Result<Vec<Value>> {
    let Some(oldest) = executions.iter().map(|execution| execution.started_ms).min() else {
        return Ok(vec![]);
    };
    let events = ledger.map(|ledger| ledger.events(Some(oldest), None)).transpose()?.unwrap_or_default();
    let verdicts: HashMap<ExecutionId, Value> = events
        .into_iter()
        .filter(|event| event.kind == ringfence::session::recorder::GATE_EVENT)
        .filter_map(|event| Some((event.execution_id?, event.body)))
        .collect();
    let mut values = Vec::new();
    for execution in executions {
        let mut value = serde_json::to_value(execution).map_err(|error| {
            Error::new(ErrorKind::Internal, "cannot write a record as JSON").caused_by(error)
        })?;
        if let Some(verdict) = verdicts.get(&execution.id) {
            value["gate"] = verdict.clone();
        }
        values.push(value);
    }
    Ok(values)
}

/// Why a list is empty.
pub(crate) fn nothing(recorded: bool) -> &'static str {
    if recorded { "nothing matches" } else { "nothing has been recorded yet" }
}

fn find(ledger: &Ledger, args: &Log) -> Result<Vec<Execution>> {
    let wanted = |execution: &Execution| {
        (!args.failed || has_failed(execution)) && (!args.blocked || execution.blocked)
    };
    let since_ms = args.since.map(|since| since.0);
    // The ledger does not know these two conditions: more is read, step by step, until enough match.
    let mut ask = if args.failed || args.blocked { args.limit.saturating_mul(8).max(64) } else { args.limit };
    loop {
        let (project, session_key) = (args.of.project(), args.of.session.clone());
        let filter = ExecutionFilter { since_ms, project, session_key, limit: Some(ask) };
        let found = ledger.executions(&filter)?;
        let all_seen = found.len() < ask;
        let mut matching: Vec<Execution> = found.into_iter().filter(|execution| wanted(execution)).collect();
        if all_seen || matching.len() >= args.limit {
            matching.truncate(args.limit);
            return Ok(matching);
        }
        ask = ask.saturating_mul(8);
    }
}

fn has_failed(execution: &Execution) -> bool {
    match execution.status {
        Status::Running => false,
        Status::Finished => execution.exit_code != Some(0),
        Status::Failed | Status::Interrupted => true,
    }
}

fn table(executions: &[Execution], now_ms: u64) -> Table {
    let mut table = Table::new(&["WHEN", "ID", "RESULT", "TOOK", "PROJECT", "COMMAND"]);
    for execution in executions {
        let (tone, result) = result(execution);
        let took = execution.duration_ms.map_or_else(|| "-".to_owned(), duration);
        let project = execution.project.as_deref().unwrap_or("-");
        let project = project.rsplit('/').find(|name| !name.is_empty()).unwrap_or(project);
        table.row([
            (Tone::Quiet, ago(execution.started_ms, now_ms)),
            (Tone::Quiet, short_id(execution.id)),
            (tone, result),
            (Tone::Plain, took),
            (Tone::Plain, project.to_owned()),
            (Tone::Plain, execution.command.clone()),
        ]);
    }
    table
}

/// The end of an id, which tells commands apart; its beginning is the time.
pub(crate) fn short_id(id: ExecutionId) -> String {
    let id = id.to_string();
    id[id.len().saturating_sub(8)..].to_owned()
}

fn result(execution: &Execution) -> (Tone, String) {
    let (tone, mut word) = match (execution.status, execution.exit_code) {
        (Status::Running, _) => (Tone::Strong, "running".to_owned()),
        (Status::Interrupted, _) => (Tone::Bad, "interrupted".to_owned()),
        (Status::Failed, _) if execution.blocked => return (Tone::Bad, "refused".to_owned()),
        (Status::Failed, _) => (Tone::Bad, "not started".to_owned()),
        (Status::Finished, _) if execution.timed_out => (Tone::Bad, "timeout".to_owned()),
        (Status::Finished, Some(0)) => (Tone::Good, "ok".to_owned()),
        (Status::Finished, code) => match (execution.signal, code) {
            (Some(signal), _) => (Tone::Bad, format!("signal {signal}")),
            (None, Some(code)) => (Tone::Bad, format!("exit {code}")),
            (None, None) => (Tone::Bad, "failed".to_owned()),
        },
    };
    if execution.blocked {
        word.push_str(", blocked");
    }
    (if execution.blocked { Tone::Bad } else { tone }, word)
}
