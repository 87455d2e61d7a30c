//! Selecting the launcher that builds the fence: the strongest that works, found by trying.
//!
//! Trying costs nothing where the first one works. One that cannot make its namespaces fails before the
//! command starts; then the next is taken, and the result says which and why.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use ringfence_linux::launch::LaunchError;
use ringfence_linux::probe;
use ringfence_model::LockExt as _;
use ringfence_model::{Assurance, Degradation, DegradationCode, Error, ErrorKind, Result};

use crate::doctor;
use crate::fence_plan::{FencePlan, HeadStart, NoFence, PlanInputs, no_head_start};
use crate::launcher::{self, Launcher};
use crate::not_promised;

/// A fence and why no stronger one.
#[derive(Debug)]
pub(crate) struct Selected {
    pub(crate) fence_plan: FencePlan,
    why: Vec<Degradation>,
    /// A run found a supervisor above.
    unsupervised: AtomicBool,
    /// The last run could not lay its traps out.
    untrapped: AtomicBool,
    /// The kernel wakes the supervisor wherever it likes.
    slow: AtomicBool,
    /// A result of a shared sandbox said that there is no tripwire.
    tripwire_told: AtomicBool,
}

impl Selected {
    pub(crate) fn assurance(&self, inputs: &PlanInputs) -> Assurance {
        let supervised = !self.unsupervised.load(Ordering::Relaxed);
        let mut assurance = self.fence_plan.assurance(&inputs.limits, supervised, &self.why);
        if self.untrapped.load(Ordering::Relaxed) {
            assurance.degraded.push(not_promised::no_tripwire());
        }
        if self.slow.load(Ordering::Relaxed) {
            assurance.degraded.push(not_promised::slow_supervisor());
        }
        assurance
    }

    /// For one of the many results of a shared sandbox, which never has a tripwire: the first one says so.
    pub(crate) fn assurance_of_command(&self, inputs: &PlanInputs) -> Assurance {
        let mut assurance = self.assurance(inputs);
        let is_told = |lost: &Degradation| lost.code == DegradationCode::NoTripwire;
        if assurance.degraded.iter().any(is_told) && self.tripwire_told.swap(true, Ordering::Relaxed) {
            assurance.degraded.retain(|lost| !is_told(lost));
        }
        assurance
    }

    /// Whether the supervisor is woken on the caller's processor.
    pub(crate) fn is_woken_at_once(&self, at_once: bool) {
        self.slow.store(!at_once, Ordering::Relaxed);
    }

    /// Whether the traps that were planned for a run are there.
    pub(crate) fn has_traps(&self, there: bool) {
        self.untrapped.store(!there, Ordering::Relaxed);
    }

    pub(crate) fn is_unsupervised(&self) {
        self.unsupervised.store(true, Ordering::Relaxed);
    }
}

/// The launcher in use; changes when it turns out not to work.
#[derive(Debug)]
pub(crate) struct Selection(Mutex<Arc<Selected>>);

impl Selection {
    /// `head_start` is for the first launcher that is planned with mounts of our own.
    pub(crate) fn new(inputs: &PlanInputs, head_start: HeadStart<'_>) -> Result<Self> {
        let (first, why) = match inputs.options.wanted {
            Some(wanted) => (wanted, vec![]),
            None => strongest(inputs),
        };
        Ok(Self(Mutex::new(Arc::new(choose(inputs, Some(first), why, head_start)?))))
    }

    pub(crate) fn current(&self) -> Arc<Selected> {
        Arc::clone(&self.0.locked())
    }

    /// The fence to use instead of `failed`, which could not be launched.
    pub(crate) fn instead_of(
        &self,
        inputs: &PlanInputs,
        failed: &Arc<Selected>,
        error: &LaunchError,
    ) -> Result<Arc<Selected>> {
        let mut current = self.0.locked();
        // Another thread may have been faster.
        if Arc::ptr_eq(&current, failed) {
            let launcher = failed.fence_plan.launcher;
            let mut why = failed.why.clone();
            let reason = launcher::in_words(error);
            why.push(not_possible(launcher, DegradationCode::LauncherUnavailable, &reason));
            *current = Arc::new(choose(inputs, weaker(inputs, launcher), why, &no_head_start)?);
        }
        Ok(Arc::clone(&current))
    }
}

/// The first launcher to try when none was asked for. Inside a fence that refuses namespaces nothing is planned with them:
/// the plan looks at what it would hide, which the fence around us would tell as attempts.
fn strongest(inputs: &PlanInputs) -> (Launcher, Vec<Degradation>) {
    let refused = inputs.host.variable("RINGFENCE").and_then(|_| probe::user_namespace().error());
    match refused {
        None => (Launcher::Native, vec![]),
        Some(error) => {
            let reason = format!("this is inside a fence, which refuses new user namespaces: {error}");
            let code = DegradationCode::LauncherUnavailable;
            let why =
                [Launcher::Native, Launcher::Bwrap].map(|launcher| not_possible(launcher, code, &reason));
            (Launcher::Landlock, why.to_vec())
        }
    }
}

/// The next launcher that may be tried; none when one was asked for by name.
fn weaker(inputs: &PlanInputs, launcher: Launcher) -> Option<Launcher> {
    if inputs.options.wanted.is_some() { None } else { launcher.next() }
}

fn choose(
    inputs: &PlanInputs,
    mut candidate: Option<Launcher>,
    mut why: Vec<Degradation>,
    head_start: HeadStart<'_>,
) -> Result<Selected> {
    while let Some(launcher) = candidate {
        match inputs.build(launcher, head_start) {
            Ok(fence_plan) => {
                let selected = Selected {
                    fence_plan,
                    why,
                    unsupervised: AtomicBool::default(),
                    untrapped: AtomicBool::default(),
                    slow: AtomicBool::default(),
                    tripwire_told: AtomicBool::default(),
                };
                let assurance = selected.assurance(inputs);
                launcher::refuse_unless_held(&inputs.options.required, launcher, &assurance, &selected.why)?;
                return Ok(selected);
            }
            Err(NoFence::Refused(error)) => return Err(error),
            Err(NoFence::Unavailable(reason)) => {
                why.push(not_possible(launcher, reason.code, &reason.text));
                candidate = weaker(inputs, launcher);
            }
        }
    }
    Err(nothing_works(inputs, &why))
}

fn not_possible(launcher: Launcher, code: DegradationCode, reason: &str) -> Degradation {
    Degradation::new(code, format!("the launcher {} is not possible here: {reason}", launcher.name()))
}

fn nothing_works(inputs: &PlanInputs, why: &[Degradation]) -> Error {
    let texts: Vec<&str> = why.iter().map(|why| why.text.as_str()).collect();
    let mut error =
        Error::new(ErrorKind::SandboxDenied, format!("cannot start the sandbox: {}", texts.join("; ")));
    if let Some(remedy) = doctor::why_no_namespaces(&inputs.host) {
        error = error.hint(remedy);
    }
    let tried = |launcher: Launcher| {
        inputs.options.wanted.is_none_or(|wanted| wanted == launcher) && launcher != Launcher::NetworkOnly
    };
    if tried(Launcher::Bwrap) && why.iter().any(|why| why.code == DegradationCode::BwrapMissing) {
        error = error.hint("bwrap: install the package bubblewrap, or set os.bubblewrap.bwrapPath");
    }
    if tried(Launcher::Landlock) && ringfence_linux::landlock::abi() == 0 {
        error = error.hint(
            "Landlock: needs Linux 5.13 with CONFIG_SECURITY_LANDLOCK=y and landlock in the list of the boot \
             option lsm=",
        );
    }
    error.hint("`ringfence doctor` says what is missing and how to get it")
}
