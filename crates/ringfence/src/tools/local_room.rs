//! The persistent shell of the local fence as a room: a refused call waits there while a person is asked.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ringfence_fence::EventSink;
use ringfence_local::native::Native;
use ringfence_local::shell::{Shell, ShellOptions};
use ringfence_model::{Assurance, ExecRequest, ExecResult, Grant, Result};

use super::room::Room;
use crate::permission::Desk;

/// One shell, started when the first command comes.
#[derive(Debug)]
pub struct LocalRoom {
    native: Arc<Native>,
    desk: Arc<Desk>,
    shell: Mutex<Option<Arc<Shell>>>,
}

impl LocalRoom {
    #[must_use]
    pub fn new(native: Arc<Native>, desk: Arc<Desk>) -> Self {
        Self { native, desk, shell: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Shell>>> {
        self.shell.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shell(&self) -> Result<Arc<Shell>> {
        let mut shell = self.lock();
        if let Some(shell) = &*shell {
            return Ok(Arc::clone(shell));
        }
        let options = ShellOptions { approval: self.desk.live(), ..ShellOptions::default() };
        let started = Arc::new(Shell::start(Arc::clone(&self.native), options)?);
        *shell = Some(Arc::clone(&started));
        Ok(started)
    }
}

impl Room for LocalRoom {
    fn execute(&self, request: &ExecRequest, events: EventSink<'_>) -> Result<ExecResult> {
        self.shell()?.execute(request, events)
    }

    fn holds_calls(&self) -> bool {
        true
    }

    /// The desk has the grant already, and the fence asks the desk.
    fn execute_granted(&self, _: &Grant, request: &ExecRequest, events: EventSink<'_>) -> Result<ExecResult> {
        self.execute(request, events)
    }

    fn grant(&self, _: &Grant) -> Result<()> {
        Ok(())
    }

    fn assurance(&self) -> Assurance {
        self.native.assurance()
    }

    fn cancel(&self) {
        let shell = self.lock().clone();
        if let Some(shell) = shell {
            shell.cancel();
        }
    }

    fn restart(&self) -> Result<()> {
        self.dispose();
        self.shell().map(drop)
    }

    fn isolated_copy(&self) -> Result<Arc<dyn Room>> {
        Ok(Arc::new(Self::new(Arc::clone(&self.native), Arc::clone(&self.desk))))
    }

    fn dispose(&self) {
        let shell = self.lock().take();
        if let Some(shell) = shell {
            shell.dispose();
        }
    }
}
