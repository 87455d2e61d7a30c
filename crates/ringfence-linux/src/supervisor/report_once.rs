//! Tells of each refusal once, whoever saw it: the supervisor, or the tripwire.

use std::collections::HashSet;
use std::sync::Mutex;

use ringfence_model::LockExt as _;
use ringfence_model::{Operation, Violation};

/// The receiver of refusals.
pub struct Reporter<'a> {
    report: &'a (dyn Fn(Violation) + Sync),
    /// The reports so far, and whether each was refused: who only pointed at something first may be
    /// refused it later. None: it is reported each time.
    told: Option<Mutex<HashSet<(Operation, String, bool)>>>,
}

impl std::fmt::Debug for Reporter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reporter").finish_non_exhaustive()
    }
}

impl<'a> Reporter<'a> {
    pub fn new(report: &'a (dyn Fn(Violation) + Sync)) -> Self {
        Self { report, told: Some(Mutex::default()) }
    }

    /// For a sandbox in which one command follows another: each hears of its own refusals.
    pub fn each_time(report: &'a (dyn Fn(Violation) + Sync)) -> Self {
        Self { report, told: None }
    }

    pub(super) fn tell(&self, violation: Violation) {
        let key = (violation.operation, violation.resource.clone(), violation.blocked);
        let is_news = |told: &Mutex<HashSet<_>>| told.locked().insert(key);
        if self.told.as_ref().is_none_or(is_news) {
            (self.report)(violation);
        }
    }

    /// Whether its refusal was told already: then there is no need to find out who it was.
    pub(super) fn knows(&self, operation: Operation, resource: &str) -> bool {
        self.told.as_ref().is_some_and(|told| {
            let told = told.locked();
            told.contains(&(operation, resource.to_owned(), true))
        })
    }
}
