//! Runs steps, times them, prints the summary.

use std::time::{Duration, Instant};

use anyhow::Result;

/// How a step ended, when nothing went wrong in running it.
#[derive(Debug)]
pub(crate) enum Done {
    Passed {
        /// Lines worth repeating in the summary: the counts of a test run.
        notes: Vec<String>,
    },
    Failed {
        reason: String,
        notes: Vec<String>,
    },
    /// Not run, and why; shown by name in the summary.
    Skipped {
        reason: String,
    },
}

impl Done {
    pub(crate) fn passed() -> Self {
        Self::Passed { notes: Vec::new() }
    }

    pub(crate) fn skipped(reason: impl Into<String>) -> Self {
        Self::Skipped { reason: reason.into() }
    }
}

#[derive(Debug)]
struct Step {
    name: &'static str,
    took: Duration,
    done: Done,
}

/// The steps so far.
#[derive(Debug)]
pub(crate) struct Report {
    only: Option<Vec<String>>,
    steps: Vec<Step>,
}

impl Report {
    /// `only` names the steps to run, separated by commas; without it every step runs.
    pub(crate) fn new(only: Option<&str>) -> Self {
        let only = only.map(|names| names.split(',').map(str::to_owned).collect());
        Self { only, steps: Vec::new() }
    }

    /// Runs one step. A failure is kept for the summary, so that one run shows all of them.
    pub(crate) fn step(&mut self, name: &'static str, body: impl FnOnce() -> Result<Done>) {
        if self.only.as_ref().is_some_and(|only| !only.iter().any(|wanted| wanted == name)) {
            return;
        }
        println!("\n=== {name}");
        let start = Instant::now();
        let done =
            body().unwrap_or_else(|error| Done::Failed { reason: format!("{error:#}"), notes: Vec::new() });
        let took = start.elapsed();
        let word = match &done {
            Done::Passed { .. } => "ok".to_owned(),
            Done::Failed { reason, .. } => format!("FAILED: {reason}"),
            Done::Skipped { reason } => format!("skipped: {reason}"),
        };
        println!("=== {name}: {word} ({:.1} s)", took.as_secs_f64());
        self.steps.push(Step { name, took, done });
    }

    /// Prints what ran, what was skipped and what failed; true when nothing failed.
    pub(crate) fn finish(self) -> bool {
        if self.steps.is_empty() {
            println!("no step of that name");
            return false;
        }
        println!("\n=== summary");
        for step in &self.steps {
            let (word, text) = match &step.done {
                Done::Passed { .. } => ("ok", ""),
                Done::Failed { reason, .. } => ("FAILED", reason.as_str()),
                Done::Skipped { reason } => ("skipped", reason.as_str()),
            };
            let head = text.lines().next().unwrap_or_default();
            println!("{:<14} {:>8.1} s  {word:<8} {head}", step.name, step.took.as_secs_f64());
        }
        for step in &self.steps {
            if let Done::Passed { notes } | Done::Failed { notes, .. } = &step.done {
                for note in notes {
                    println!("{}: {note}", step.name);
                }
            }
        }
        let failed: Vec<&str> = self
            .steps
            .iter()
            .filter(|step| matches!(step.done, Done::Failed { .. }))
            .map(|step| step.name)
            .collect();
        let total: Duration = self.steps.iter().map(|step| step.took).sum();
        if failed.is_empty() {
            println!("all steps passed in {:.0} s", total.as_secs_f64());
        } else {
            println!("failed: {}", failed.join(", "));
        }
        failed.is_empty()
    }
}
