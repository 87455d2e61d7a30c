//! `ringfence violations`: what was refused.

use std::process::ExitCode;

use ringfence::ledger::{About, LedgerViolation, ViolationCounts, ViolationFilter, now_ms};
use ringfence::model::{Result, Severity, ViolationKind};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::args::{Format, Violations};
use crate::log::{nothing, short_id};
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
        about: About::Refusals,
        since_ms,
        kind: args.kind.as_deref().and_then(named::<ViolationKind>),
        at_least: args.severity.as_deref().and_then(named::<Severity>),
        execution: None,
        execution_ends: args.of_command.clone(),
        project: args.of.project(),
        session_key: args.of.session.clone(),
        resource: args.path.as_deref().map(|path| resource(&places, path)),
        limit: Some(args.limit),
    };
    let found = match &ledger {
        Some(ledger) => ledger.violations(&filter)?,
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

/// Enough to recognise a command by; `ringfence log` has all of it.
const COMMAND_WIDTH: usize = 32;

/// The resource that records have for `path`, which a person wrote; a host or an address stays as it is.
fn resource(places: &Places, path: &str) -> String {
    let absolute = places.absolute(path.as_ref());
    let is_path = path.starts_with(['/', '~', '.']) || absolute.symlink_metadata().is_ok();
    if is_path { absolute.canonicalize().unwrap_or(absolute).display().to_string() } else { path.to_owned() }
}

fn named<T: DeserializeOwned>(name: &str) -> Option<T> {
    serde_json::from_value(Value::String(name.to_owned())).ok()
}

fn table(found: &[LedgerViolation], now_ms: u64) -> Table {
    // The command is cut, and never what was refused.
    let mut table = Table::new(&["WHEN", "SEVERITY", "KIND", "ID", "COMMAND", "WHAT"]).whole();
    for LedgerViolation { violation, command, execution_id, .. } in found {
        let certainty = if violation.certain { "" } else { " (inferred)" };
        table.row([
            (Tone::Quiet, ago(violation.time_ms, now_ms)),
            (tone(violation.severity), violation.severity.name().to_owned()),
            (Tone::Plain, violation.kind.name().to_owned()),
            (Tone::Quiet, execution_id.map_or_else(|| "-".to_owned(), short_id)),
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
