//! A fresh sandbox for one command: the fast path of `ringfence run`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ringfence_fence::{CreateOptions, EventSink, Ticket};
use ringfence_local::{Fence, Streams};
use ringfence_model::{ExecRequest, ExecResult, PolicyMode, Result, visible};

use super::questions::Questions;
use super::workplace::Runner;
use crate::setup::Setup;
use crate::unsandboxed::{self, Output};

/// Runs one command, with the caller's own streams or with captured ones.
pub struct OneCommand<'a> {
    place: Place<'a>,
}

/// Told what a person should know before the command runs.
pub type Warn<'a> = &'a dyn Fn(&str);

enum Place<'a> {
    Fenced { options: Box<CreateOptions>, streams: Streams<'a>, questions: Arc<Questions>, warn: Warn<'a> },
    Unfenced { setup: Arc<Setup>, output: Output },
}

impl std::fmt::Debug for OneCommand<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OneCommand")
    }
}

impl<'a> OneCommand<'a> {
    /// In the local fence, planned when the command may run. A person is asked about refused calls while they wait. `warn`
    /// is told of a fence that does not hold files.
    #[must_use]
    pub fn fenced(
        options: CreateOptions,
        streams: Streams<'a>,
        questions: &Arc<Questions>,
        warn: Warn<'a>,
    ) -> Self {
        Self {
            place: Place::Fenced {
                options: Box::new(options),
                streams,
                questions: Arc::clone(questions),
                warn,
            },
        }
    }

    /// With all rights of the caller, because a person configured that.
    #[must_use]
    pub fn unfenced(setup: &Arc<Setup>, output: Output) -> Self {
        Self { place: Place::Unfenced { setup: Arc::clone(setup), output } }
    }
}

/// What a person should know of files that are gone.
fn vanished(files: &[PathBuf]) -> Option<String> {
    const MOST: usize = 3;
    if files.is_empty() {
        return None;
    }
    let names: Vec<String> = files.iter().take(MOST).map(|file| visible(&file.to_string_lossy())).collect();
    let more = match files.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "written to the private home directory, and gone with it: {}{more}; keep files in the project, or show the \
         directory with --allow-write",
        names.join(", ")
    ))
}

impl Runner for OneCommand<'_> {
    fn run(&self, _: &Ticket, request: &ExecRequest, events: EventSink<'_>) -> Result<ExecResult> {
        match &self.place {
            Place::Fenced { options, streams, questions, warn } => {
                let fence = Fence::prepare((**options).clone())?;
                let assurance = fence.assurance();
                if assurance.effective == PolicyMode::None {
                    // Nobody shall take a fence around the network for one around files.
                    assurance.degraded.iter().for_each(|lost| warn(&lost.text));
                }
                let result = fence.run_asking(request, *streams, events, questions.live());
                vanished(&fence.take_vanished()).iter().for_each(|lost| warn(lost));
                result
            }
            Place::Unfenced { setup, output } => {
                let timeout = setup.loaded.config.limits.timeout_ms.map(Duration::from_millis);
                unsandboxed::run(request, &setup.env, &setup.start(), *output, timeout)
            }
        }
    }

    fn is_fenced(&self) -> bool {
        matches!(self.place, Place::Fenced { .. })
    }

    /// The fence asks itself, where somebody can be asked; one that does not is not started twice.
    fn holds_calls(&self) -> bool {
        true
    }
}
