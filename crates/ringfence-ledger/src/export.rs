//! Everything as JSON lines: one record per line, each with its `type`.

use std::io::{self, Write};

use ringfence_model::{Error, ErrorKind, Result};
use serde::Serialize;

use crate::Ledger;
use crate::query::{About, ExecutionFilter, GrantSet, ViolationFilter};
use crate::record::{Decided, Event, Execution, Granted, LedgerViolation};
use crate::registry::{Sandbox, SandboxFilter};

/// One line of an export.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Exported {
    Execution(Box<Execution>),
    Violation(Box<LedgerViolation>),
    Decision(Box<Decided>),
    Grant(Box<Granted>),
    Sandbox(Box<Sandbox>),
    Event(Box<Event>),
}

impl Ledger {
    /// Writes what happened since that moment, oldest first within each type, and all grants and
    /// sandboxes. Gives the number of lines.
    pub fn export(&self, since_ms: Option<u64>, out: &mut dyn Write) -> Result<u64> {
        // One snapshot for all of it; dropping the transaction ends it.
        let _snapshot = self.connection.unchecked_transaction().map_err(self.failed("export"))?;
        let executions = self.executions(&ExecutionFilter { since_ms, ..ExecutionFilter::default() })?;
        let violations =
            self.violations(&ViolationFilter { about: About::All, since_ms, ..ViolationFilter::default() })?;
        let lines = (executions.into_iter().rev().map(|record| Exported::Execution(Box::new(record))))
            .chain(violations.into_iter().rev().map(|record| Exported::Violation(Box::new(record))))
            .chain(
                self.decisions(since_ms, None)?
                    .into_iter()
                    .rev()
                    .map(|record| Exported::Decision(Box::new(record))),
            )
            .chain(
                self.grants(GrantSet::All)?.into_iter().rev().map(|record| Exported::Grant(Box::new(record))),
            )
            .chain(
                self.sandboxes(&SandboxFilter::default())?
                    .into_iter()
                    .map(|record| Exported::Sandbox(Box::new(record))),
            )
            .chain(
                self.events(since_ms, None)?
                    .into_iter()
                    .rev()
                    .map(|record| Exported::Event(Box::new(record))),
            );
        let mut count = 0;
        for line in lines {
            write_line(out, &line).map_err(|error| {
                Error::new(ErrorKind::Internal, "cannot write the export").caused_by(error)
            })?;
            count += 1;
        }
        Ok(count)
    }
}

fn write_line(out: &mut dyn Write, line: &Exported) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}
