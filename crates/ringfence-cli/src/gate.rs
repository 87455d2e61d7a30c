//! The gate before a run: judged, perhaps asked about, and what is kept of it.

use std::sync::Arc;

use ringfence::config::GateMode;
use ringfence::gate::{Admission, CodeReader, Gatekeeper, Refusal, Verdict, Worker};
use ringfence::ledger::{Event, ExecutionId, Writer};
use ringfence::model::{Command, Decision, Error, ErrorKind, Result};
use ringfence::setup::Setup;
use serde_json::json;

use crate::approve::Desk;
use crate::report;

/// What the gate said about a command.
#[derive(Debug)]
pub(crate) enum Judged {
    Admitted(Box<Admission>),
    Refused(Box<Refusal>),
    /// A person said that it is not to be judged.
    Skipped,
}

/// Has Python and JavaScript read by this program, in a process that is locked in. None is started before such
/// code comes.
pub(crate) fn reader() -> Arc<dyn CodeReader> {
    // This name holds when the file was replaced meanwhile, too.
    #[cfg(target_os = "linux")]
    let program = std::path::PathBuf::from("/proc/self/exe");
    #[cfg(not(target_os = "linux"))]
    let program = std::env::current_exe().unwrap_or_default();
    Arc::new(Worker::new(program))
}

/// Judges a command of `ringfence run`, and asks at the terminal where that is needed and possible.
pub(crate) fn judge(
    setup: &Arc<Setup>,
    command: &Command,
    no_gate: bool,
    desk: Option<&Desk>,
) -> Result<Judged> {
    let keeper = Gatekeeper::new(setup)?.reading_code_by(reader());
    if no_gate && keeper.mode() == GateMode::Required {
        return Err(Error::new(ErrorKind::InvalidConfig, "the configuration requires the gate")
            .hint("leave --no-gate out, or change \"safety\": { \"gate\": \"required\" }"));
    }
    if no_gate {
        return Ok(Judged::Skipped);
    }
    let ask = |code: &str, verdict: &Verdict| {
        Some(desk?.ask_about_command(&question(code, verdict), verdict.proposal.as_deref()))
    };
    Ok(match keeper.admit(command, Some(keeper.project()), &ask) {
        Ok(admission) => {
            if let Some(Err(error)) = &admission.kept {
                report::say(&format!("warning: the rule was not written: {}", error.chain()));
            }
            Judged::Admitted(admission)
        }
        Err(refusal) => Judged::Refused(refusal),
    })
}

/// What a person is asked, on a few lines.
fn question(code: &str, verdict: &Verdict) -> String {
    const LONGEST: usize = 200;
    let short: String = code.chars().take(LONGEST).collect();
    let more = if short.len() < code.len() { "…" } else { "" };
    let why = verdict.findings.iter().find(|finding| finding.decision == ringfence::gate::Decision::Ask);
    let why = why.map_or(verdict.risk.reason.as_str(), |finding| finding.message.as_str());
    format!("about to run `{short}{more}`: {why}")
}

impl Judged {
    /// Keeps in the ledger what is worth keeping.
    pub(crate) fn record(&self, writer: &Writer, execution: ExecutionId, by: &str) {
        let (event, decided) = match self {
            Self::Admitted(admission) => admission.records(execution, by),
            Self::Refused(refusal) => {
                let (event, decided) = refusal.records(execution, by);
                (Some(event), decided)
            }
            Self::Skipped => {
                let event = Event::now(ringfence::gate::EVENT, json!({ "outcome": "skipped" }));
                (Some(Event { execution_id: Some(execution), ..event }), None)
            }
        };
        if let Some(event) = event {
            writer.event(event);
        }
        if let Some(decided) = decided {
            writer.decision(decided);
        }
    }
}

/// Says what was refused, why, and what to do.
pub(crate) fn explain(refusal: &Refusal) {
    report::say(&format!("refused: {}", report::printable(&refusal.message())));
    for hint in refusal.hints() {
        report::say(&format!("  hint: {}", report::printable(&hint)));
    }
    report::say(
        "  hint: `ringfence check` shows the whole verdict; `ringfence run --no-gate` runs it all the same, inside the fence",
    );
}

/// What a kept answer did, in words.
pub(crate) fn kept(decision: Decision, proposal: Option<&str>) -> Option<String> {
    match (decision, proposal) {
        (Decision::AllowPermanent, Some(rule)) => {
            Some(format!("commands like `{rule}` pass from now on; see: ringfence rules list\r"))
        }
        _ => None,
    }
}
