//! `ringfence log --network`: which hosts were reached, and which were not.

use std::process::ExitCode;

use ringfence::ledger::{About, LedgerViolation, ViolationFilter, now_ms};
use ringfence::model::Result;

use crate::args::{Format, Log};
use crate::output::{self, Table, Tone};
use crate::places::Places;
use crate::report;
use crate::since::{ago, duration};

pub(super) fn log(args: &Log) -> Result<ExitCode> {
    let ledger = Places::find(None)?.ledger()?;
    let filter = ViolationFilter {
        about: About::Network,
        since_ms: args.since.map(|since| since.0),
        project: args.of.project(),
        session_key: args.of.session.clone(),
        limit: Some(args.limit),
        ..ViolationFilter::default()
    };
    let mut found = ledger.as_ref().map(|ledger| ledger.violations(&filter)).transpose()?.unwrap_or_default();
    if args.failed || args.blocked {
        found.retain(|record| record.violation.blocked);
    }
    match args.format {
        Format { json: true, .. } => output::print_json(&found)?,
        Format { jsonl: true, .. } => output::print_json_lines(found)?,
        Format { .. } if found.is_empty() => report::say(super::nothing(ledger.is_some())),
        Format { .. } => table(&found, now_ms()).print()?,
    }
    Ok(ExitCode::SUCCESS)
}

fn table(found: &[LedgerViolation], now_ms: u64) -> Table {
    let mut table = Table::new(&["WHEN", "RESULT", "HOST", "ADDRESS", "OUT", "IN", "TOOK", "PROGRAM"]);
    let none = || "-".to_owned();
    for LedgerViolation { violation, .. } in found {
        let connection = violation.connection.as_deref();
        let (tone, result) = match connection.map(|connection| &connection.problem) {
            Some(None) => (Tone::Good, "ok".to_owned()),
            Some(Some(problem)) => (Tone::Plain, problem.clone()),
            None => (Tone::Bad, "refused".to_owned()),
        };
        let bytes = |count: Option<u64>| count.map_or_else(none, |count| count.to_string());
        #[expect(clippy::cast_precision_loss, reason = "for people")]
        let took = connection.map_or_else(none, |connection| duration(connection.duration_ms as f64));
        let address = connection.and_then(|connection| connection.address);
        table.row([
            (Tone::Quiet, ago(violation.time_ms, now_ms)),
            (tone, result),
            (Tone::Plain, violation.resource.clone()),
            (Tone::Quiet, address.map_or_else(none, |address| address.ip().to_string())),
            (Tone::Plain, bytes(connection.map(|connection| connection.bytes_out))),
            (Tone::Plain, bytes(connection.map(|connection| connection.bytes_in))),
            (Tone::Plain, took),
            (Tone::Plain, violation.program.clone().unwrap_or_else(none)),
        ]);
    }
    table
}
