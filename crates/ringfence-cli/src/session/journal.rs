//! The ledger's record of a session: each command, what was refused, what was decided.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use ringfence::ledger::{ExecutionEnd, ExecutionId, ExecutionStart, Writer, WriterOptions};
use ringfence::local::approval::Settled;
use ringfence::model::{Command, ExecResult, Result};
use ringfence::setup::Setup;

use crate::gate::Judged;
use crate::{approve, report};

/// Written by one thread of its own; a ledger that can't be written is said once and stops nothing.
#[derive(Debug)]
pub(crate) struct Journal {
    writer: Writer,
    project: PathBuf,
    session: String,
}

impl Journal {
    pub(crate) fn new(setup: &Setup) -> Self {
        let options = WriterOptions {
            redact: setup.secrets(&[]),
            on_problem: Box::new(|problem| report::say(&format!("warning: {}", problem.chain()))),
            ..WriterOptions::default()
        };
        Self {
            writer: Writer::spawn(&setup.ledger_path(), options),
            project: setup.project.clone(),
            session: format!("session-{}", ExecutionId::new()),
        }
    }

    pub(crate) fn start(&self, command: &Command) -> ExecutionId {
        let mut start = ExecutionStart::new(command.clone());
        start.cwd = Some(self.project.clone());
        start.project = Some(self.project.clone());
        start.session_key = Some(self.session.clone());
        self.writer.start(start)
    }

    pub(crate) fn judged(&self, id: ExecutionId, judged: &Judged) {
        judged.record(&self.writer, id, "session");
    }

    pub(crate) fn finish(&self, id: ExecutionId, outcome: &Result<ExecResult>) {
        match outcome {
            Ok(result) => self.writer.finish(id, result),
            Err(error) => self.writer.end(ExecutionEnd::failed(id, error.chain())),
        }
    }

    fn settled(&self, id: ExecutionId, settled: Settled) {
        let (decided, granted) = approve::records(id, settled);
        self.writer.decision(decided);
        if let Some(granted) = granted {
            self.writer.grant(granted);
        }
    }

    /// Waits until all of it is written.
    pub(crate) fn flush(&self) {
        self.writer.flush();
    }
}

/// Which command of a shell decisions are about.
#[derive(Debug, Default)]
pub(crate) struct Page(Mutex<Option<ExecutionId>>);

impl Page {
    pub(crate) fn turn_to(&self, id: ExecutionId) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(id);
    }

    pub(crate) fn settled(&self, journal: &Journal, settled: &Settled) {
        if let Some(id) = *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            journal.settled(id, settled.clone());
        }
    }
}
