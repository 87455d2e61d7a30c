//! The persistent shell of the local fence as a room: a refused call waits there while a person is asked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ringfence_fence::{EventSink, Jobs};
use ringfence_local::fence::LocalFence;
use ringfence_local::provider::LocalJobs;
use ringfence_local::shell::{SharedSandbox, Shell, ShellOptions};
use ringfence_model::{Assurance, ExecRequest, ExecResult, Grant, Result};

use super::room::Room;
use crate::permission::Desk;

/// One sandbox with a shell and background commands, started when the first command comes.
#[derive(Debug)]
pub struct LocalRoom {
    native: Arc<LocalFence>,
    desk: Arc<Desk>,
    inside: Mutex<Option<Inside>>,
}

#[derive(Debug, Clone)]
struct Inside {
    sandbox: SharedSandbox,
    shell: Arc<Shell>,
    jobs: Arc<LocalJobs>,
}

impl LocalRoom {
    #[must_use]
    pub fn new(native: Arc<LocalFence>, desk: Arc<Desk>) -> Self {
        Self { native, desk, inside: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Inside>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn inside(&self) -> Result<Inside> {
        let mut inside = self.lock();
        if let Some(inside) = &*inside {
            return Ok(inside.clone());
        }
        let sandbox = SharedSandbox::new(Arc::clone(&self.native), &BTreeMap::new());
        let options = ShellOptions { approval: self.desk.live(), ..ShellOptions::default() };
        let shell = Arc::new(Shell::start_in(&sandbox, options)?);
        let jobs = Arc::new(LocalJobs::new(sandbox.clone(), Arc::clone(&shell)));
        Ok(inside.insert(Inside { sandbox, shell, jobs }).clone())
    }
}

impl Room for LocalRoom {
    fn execute(&self, request: &ExecRequest, events: EventSink<'_>) -> Result<ExecResult> {
        self.inside()?.shell.execute(request, events)
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

    fn jobs(&self) -> Result<Arc<dyn Jobs>> {
        Ok(self.inside()?.jobs)
    }

    fn assurance(&self) -> Assurance {
        self.native.assurance()
    }

    fn cancel(&self) {
        let inside = self.lock().clone();
        if let Some(inside) = inside {
            inside.shell.cancel();
        }
    }

    fn restart(&self) -> Result<()> {
        self.dispose();
        self.inside().map(drop)
    }

    fn isolated_copy(&self) -> Result<Arc<dyn Room>> {
        Ok(Arc::new(Self::new(Arc::clone(&self.native), Arc::clone(&self.desk))))
    }

    fn dispose(&self) {
        let inside = self.lock().take();
        if let Some(inside) = inside {
            inside.shell.dispose();
            inside.sandbox.close();
        }
    }
}
