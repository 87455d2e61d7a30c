//! From the supervisor's refusals to questions for a person, and back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use ringfence_fence::approve::{Answered, Question, ask_within};
use ringfence_linux::supervisor::Ask;
use ringfence_model::LockExt as _;
use ringfence_model::{Decision, DenyReason, Grant, Violation, ViolationKind};

use crate::approval::{Approval, AskAbout, Settled};

/// One run's questions.
pub(crate) struct Asker {
    approval: Approval,
    command: String,
    refused: Mutex<Vec<Violation>>,
    answered: Mutex<Answered>,
    aborted: AtomicBool,
    wake: rustix::fd::OwnedFd,
    /// The master of the command's terminal, where it has one.
    terminal: OnceLock<Arc<rustix::fd::OwnedFd>>,
}

impl Asker {
    pub(crate) fn new(approval: Approval, command: String) -> rustix::io::Result<Self> {
        let wake = rustix::event::eventfd(
            0,
            rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK,
        )?;
        Ok(Self {
            approval,
            command,
            refused: Mutex::default(),
            answered: Mutex::new(Answered::ByApprover),
            aborted: AtomicBool::new(false),
            wake,
            terminal: OnceLock::new(),
        })
    }

    /// Refusals that were decided while the command ran.
    pub(crate) fn take_refused(&self) -> Vec<Violation> {
        std::mem::take(&mut *self.refused.locked())
    }

    /// Whoever was woken has heard it.
    pub(crate) fn is_heard(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
    }

    /// Becomes readable when the person wants the run to end, or has allowed something that waits.
    pub(crate) fn wake(&self) -> rustix::fd::BorrowedFd<'_> {
        rustix::fd::AsFd::as_fd(&self.wake)
    }

    /// The command has this terminal.
    pub(crate) fn is_at(&self, master: &Arc<rustix::fd::OwnedFd>) {
        let _ = self.terminal.set(Arc::clone(master));
    }

    /// What has the terminal now. A shell of a person gives it to one command after the other.
    fn foreground(&self) -> u64 {
        let group = self.terminal.get().and_then(|master| rustix::termios::tcgetpgrp(master).ok());
        group.and_then(|group| u64::try_from(group.as_raw_pid()).ok()).unwrap_or(0)
    }

    pub(crate) fn aborted(&self) -> bool {
        self.aborted.load(Ordering::Acquire)
    }

    fn question(&self, violation: &Violation, grant: &Grant) -> Question {
        Question {
            violation: violation.clone(),
            command: self.command.clone(),
            grant: grant.clone(),
            call: None,
        }
    }
}

impl Ask for Asker {
    fn wants(&self, violation: &Violation) -> bool {
        match self.approval.about {
            // Whoever is asked about hosts wanted that.
            _ if violation.kind == ViolationKind::NetworkViolation => true,
            AskAbout::All => true,
            AskAbout::DenyList => violation.reason == Some(DenyReason::Denied),
        }
    }

    fn ask(&self, violation: &Violation, grant: &Grant) -> Decision {
        let question = self.question(violation, grant);
        let (decision, answered) = ask_within(&*self.approval.approver, &question, self.approval.timeout);
        *self.answered.locked() = answered;
        decision
    }

    fn settled(
        &self,
        violation: &Violation,
        grant: &Grant,
        decision: Decision,
        outcome: Result<(), rustix::io::Errno>,
    ) {
        (self.approval.on_settled)(&Settled {
            question: self.question(violation, grant),
            decision,
            answered: *self.answered.locked(),
            problem: outcome.err().map(|errno| std::io::Error::from(errno).to_string()),
        });
    }

    fn refused(&self, violation: Violation) {
        self.refused.locked().push(violation);
    }

    fn turn(&self) -> u64 {
        (self.approval.approver.turn() << 32) | self.foreground()
    }

    fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn abort(&self) -> bool {
        if self.approval.approver.abort() {
            return true;
        }
        self.aborted.store(true, Ordering::Release);
        Ask::wake(self);
        false
    }
}
