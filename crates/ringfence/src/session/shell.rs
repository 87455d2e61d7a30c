//! One shell of a session: what it is given goes through the core, and where it stands is followed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ringfence_fence::{EventSink, Jobs, Ticket};
use ringfence_model::{Assurance, ExecRequest, Result};

use super::core::{Admitted, Core, Proposal, Ran};
use super::position::Position;
use super::recorder::Call;
use super::refusal::Refusal;
use super::workplace::Workplace;

/// A shell that remembers its directory, variables and jobs from one command to the next.
#[derive(Debug)]
pub struct Shell {
    core: Core,
    place: Arc<dyn Workplace>,
    position: Mutex<Position>,
}

impl Shell {
    /// The shell of a workplace.
    #[must_use]
    pub fn new(core: &Core, place: Arc<dyn Workplace>) -> Self {
        let position = Position::new(core.gatekeeper().start());
        Self { core: core.clone(), place, position: Mutex::new(position) }
    }

    /// Judges, asks, runs, retries, records. A refused command has run nothing.
    pub fn run(
        &self,
        call: &mut Call,
        ticket: &Ticket,
        mut request: ExecRequest,
        events: EventSink<'_>,
    ) -> std::result::Result<Result<Ran>, Box<Refusal>> {
        let admitted = self.admit(call, &request)?;
        if let Some(verdict) = &admitted.verdict {
            self.position().heads_for(verdict.cwd.as_deref());
        }
        let code = admitted.code();
        request.command = admitted.command;
        let outcome = self.core.execute(call, &code, &*self.place, ticket, request, events);
        self.position().follow(outcome.as_ref().ok().map(|ran| &ran.result));
        let exit_code = outcome.as_ref().ok().map(|ran| ran.result.exit_code);
        self.core.finished(call, exit_code == Some(0), exit_code);
        Ok(outcome)
    }

    /// Judges and asks, for a command that the caller runs as a [job](Self::jobs).
    pub fn admit(
        &self,
        call: &mut Call,
        request: &ExecRequest,
    ) -> std::result::Result<Admitted, Box<Refusal>> {
        let cwd = {
            let mut position = self.position();
            position.stays();
            position.cwd().map(str::to_owned)
        };
        let proposal = Proposal {
            cwd: cwd.as_deref(),
            is_fenced: self.place.is_fenced(),
            ..Proposal::new(request.command.clone())
        };
        self.core.requested(call, &proposal.arguments);
        let admitted = self.core.admit(call, &proposal);
        match &admitted {
            Ok(_) => self.core.started(call),
            Err(_) => self.core.finished(call, false, None),
        }
        admitted
    }

    /// Background commands, which begin like this shell.
    pub fn jobs(&self) -> Result<Arc<dyn Jobs>> {
        self.place.jobs()
    }

    /// Which layers hold.
    #[must_use]
    pub fn assurance(&self) -> Assurance {
        self.place.assurance()
    }

    /// Ends it, and what it started.
    pub fn dispose(&self) {
        self.place.dispose();
    }

    fn position(&self) -> MutexGuard<'_, Position> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
