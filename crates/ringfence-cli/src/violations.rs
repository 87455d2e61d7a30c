//! `ringfence violations`: what was refused.

use std::collections::HashSet;
use std::path::Path;
use std::process::ExitCode;

use ringfence::ledger::{ExecutionId, Ledger, LedgerViolation, ViolationCounts, ViolationFilter, now_ms};
use ringfence::model::{Result, Severity, ViolationKind};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::args::{Format, Violations};
use crate::log::{filter_of, nothing};
use crate::output::{self, Table, Tone, cut};
use crate::places::Places;
use crate::report;
use crate::since::ago;

/// The names of [`ViolationKind`].
pub(crate) const KINDS: [&str; 12] = [
    "heredoc_injection",
    "shell_metacharacter_abuse",
    "variable_injection",
    "dangerous_pattern",
    "critical_path_removal",
    "sensitive_file_access",
    "path_access_denied",
    "command_blocked",
    "disallowed_temp_write",
    "network_violation",
    "syscall_denied",
    "resource_limit",
];
/// The names of [`Severity`].
pub(crate) const SEVERITIES: [&str; 4] = ["low", "medium", "high", "critical"];

pub(crate) fn violations(args: &Violations) -> Result<ExitCode> {
    let places = Places::find(None)?;
    let ledger = places.ledger()?;
    let since_ms = args.since.map(|since| since.0);
    if args.summary {
        let counts = match &ledger {
            Some(ledger) => ledger.count_violations(since_ms)?,
            None => ViolationCounts::default(),
        };
        summary(&counts, args.format)?;
        return Ok(ExitCode::SUCCESS);
    }
    let filter = ViolationFilter {
        since_ms,
        kind: args.kind.as_deref().and_then(named::<ViolationKind>),
        at_least: args.severity.as_deref().and_then(named::<Severity>),
        execution: None,
        limit: Some(args.limit),
    };
    let found = match &ledger {
        Some(ledger) if args.path.is_none() && args.of.project.is_none() && args.of.session.is_none() => {
            ledger.violations(&filter)?
        }
        // The ledger does not know these conditions: all that may match are looked at.
        Some(ledger) => {
            let mut found = ledger.violations(&ViolationFilter { limit: None, ..filter })?;
            keep_matching(ledger, args, &places, &mut found)?;
            found.truncate(args.limit);
            found
        }
        None => vec![],
    };
    match args.format {
        Format { json: true, .. } => output::print_json(&found)?,
        Format { jsonl: true, .. } => output::print_json_lines(&found)?,
        Format { .. } if found.is_empty() => report::say(nothing(ledger.is_some())),
        Format { .. } => table(&found, now_ms()).print()?,
    }
    Ok(ExitCode::SUCCESS)
}

fn keep_matching(
    ledger: &Ledger,
    args: &Violations,
    places: &Places,
    found: &mut Vec<LedgerViolation>,
) -> Result<()> {
    if let Some(path) = &args.path {
        let wanted = places.absolute(Path::new(path));
        let is_about = |resource: &str| resource == path.as_str() || Path::new(resource).starts_with(&wanted);
        found.retain(|found| is_about(&found.violation.resource));
    }
    if args.of.project.is_some() || args.of.session.is_some() {
        let executions = ledger.executions(&filter_of(&args.of, places))?;
        let theirs: HashSet<ExecutionId> = executions.into_iter().map(|execution| execution.id).collect();
        found.retain(|found| found.execution_id.is_some_and(|id| theirs.contains(&id)));
    }
    Ok(())
}

/// Enough to recognise a command by; `ringfence log` has all of it.
const COMMAND_WIDTH: usize = 32;

fn named<T: DeserializeOwned>(name: &str) -> Option<T> {
    serde_json::from_value(Value::String(name.to_owned())).ok()
}

fn table(found: &[LedgerViolation], now_ms: u64) -> Table {
    // The command is cut, and never what was refused.
    let mut table = Table::new(&["ID", "WHEN", "SEVERITY", "KIND", "COMMAND", "WHAT"]).whole();
    for LedgerViolation { id, violation, command, .. } in found {
        let certainty = if violation.certain { "" } else { " (inferred)" };
        table.row([
            (Tone::Quiet, id.to_string()),
            (Tone::Quiet, ago(violation.time_ms, now_ms)),
            (tone(violation.severity), violation.severity.name().to_owned()),
            (Tone::Plain, violation.kind.name().to_owned()),
            (Tone::Quiet, cut(command.as_deref().unwrap_or("-"), COMMAND_WIDTH)),
            (Tone::Plain, format!("{}{certainty}", violation.message)),
        ]);
    }
    table
}

fn tone(severity: Severity) -> Tone {
    match severity {
        Severity::Low => Tone::Quiet,
        Severity::Medium => Tone::Warning,
        Severity::High | Severity::Critical => Tone::Bad,
    }
}

fn summary(counts: &ViolationCounts, format: Format) -> Result<()> {
    let by_severity: serde_json::Map<String, Value> = counts
        .by_severity
        .iter()
        .map(|(severity, count)| (severity.name().to_owned(), json!(count)))
        .collect();
    if format.json {
        return output::print_json(&json!({
            "total": counts.total,
            "blocked": counts.blocked,
            "byKind": counts.by_kind,
            "bySeverity": by_severity,
        }));
    }
    let plural = if counts.total == 1 { "violation" } else { "violations" };
    if counts.total == 0 {
        return output::print(&format!("no {plural}\n"));
    }
    output::print(&format!("{} {plural}, {} of them stopped\n", counts.total, counts.blocked))?;
    let mut table = Table::new(&["COUNT", "WHAT"]);
    for (severity, count) in counts.by_severity.iter().rev() {
        table.row([(Tone::Strong, count.to_string()), (tone(*severity), severity.name().to_owned())]);
    }
    for (kind, count) in &counts.by_kind {
        table.row([(Tone::Strong, count.to_string()), (Tone::Plain, kind.clone())]);
    }
    table.print()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_the_model() {
        for name in KINDS {
            assert_eq!(named::<ViolationKind>(name).map(ViolationKind::name), Some(name));
        }
        for name in SEVERITIES {
            assert_eq!(named::<Severity>(name).map(Severity::name), Some(name));
        }
    }
}
