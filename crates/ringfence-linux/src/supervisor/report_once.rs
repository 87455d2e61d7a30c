//! Tells of each refusal once, whoever saw it: the supervisor, or the tripwire.

use std::collections::HashSet;
use std::sync::Mutex;

use ringfence_model::LockExt as _;
use ringfence_model::{Operation, Violation, ViolationKind};

use super::describe;

/// As many different refusals are told: more are somebody's aim, or nothing that anybody reads.
const MOST_TOLD: usize = 10_000;

/// The receiver of refusals.
pub struct Reporter<'a> {
    report: &'a (dyn Fn(Violation) + Sync),
    /// None: it is reported each time.
    told: Option<Mutex<Told>>,
}

/// The reports so far.
#[derive(Default)]
struct Told {
    /// And whether each was refused: who only pointed at something first may be refused it later.
    known: HashSet<(Operation, String, bool)>,
    left_out: u64,
}

impl Told {
    fn is_news(&mut self, violation: &Violation) -> bool {
        let key = (violation.operation, violation.resource.clone(), violation.blocked);
        if self.known.contains(&key) {
            return false;
        }
        if self.known.len() == MOST_TOLD {
            self.left_out += 1;
            return false;
        }
        self.known.insert(key)
    }
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
        // Every connection is one of its own.
        let is_told_anyway = violation.kind == ViolationKind::Connected;
        if is_told_anyway || self.told.as_ref().is_none_or(|told| told.locked().is_news(&violation)) {
            (self.report)(violation);
        }
    }

    /// Tells at the end how many refusals were not told.
    pub fn finish(&self) {
        let left_out = self.told.as_ref().map_or(0, |told| told.locked().left_out);
        if left_out > 0 {
            (self.report)(describe::left_out(left_out));
        }
    }

    /// Whether its refusal was told already: then there is no need to find out who it was.
    pub(super) fn knows(&self, operation: Operation, resource: &str) -> bool {
        self.told.as_ref().is_some_and(|told| {
            let told = told.locked();
            told.known.contains(&(operation, resource.to_owned(), true))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_counted_and_told_once() {
        let told = Mutex::new(Vec::new());
        let report = |violation: Violation| told.locked().push(violation.message);
        let reporter = Reporter::new(&report);
        for number in 0..MOST_TOLD + 7 {
            let resource = number.to_string();
            let violation = Violation::new(ViolationKind::PathAccessDenied, Operation::Open, resource);
            reporter.tell(violation.clone());
            if number < MOST_TOLD {
                reporter.tell(violation);
            }
        }
        assert_eq!(told.locked().len(), MOST_TOLD);
        reporter.finish();
        let told = told.locked();
        assert_eq!(told.len(), MOST_TOLD + 1);
        assert!(told[MOST_TOLD].starts_with("7 more refusals"), "{}", told[MOST_TOLD]);
    }
}
