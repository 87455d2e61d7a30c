//! The table: every rule through a door, and what was not as it must be.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::super::support::Room;
use super::door::{Door, Outcome, Seen, arguments, is_file_tool};
use super::remembered::Remembered;
use super::rule::{Also, Answer, CONTENT, Deed, Needs, Rule, Step, Thing, Verdict};

/// Tries every rule, and fails with all that was wrong.
pub(crate) fn try_all(door: &dyn Door, rules: &[Rule]) {
    if !Room::new().has_fence() {
        return;
    }
    let red = row(door, rules);
    assert_eq!(red, 0, "cells of the door `{}` are not as they must be; the table is above", door.name());
}

/// Shows a door's row of the table; how many of its cells are not as they must be.
#[expect(clippy::print_stderr, reason = "shown where the test fails, with the cells that do not apply")]
pub(crate) fn row(door: &dyn Door, rules: &[Rule]) -> usize {
    let mut red = 0;
    for rule in rules {
        if let Some(reason) = does_not_apply(door, rule) {
            eprintln!("   –  {} × {}: does not apply: {reason}", door.name(), rule.name);
            continue;
        }
        let complaints = cell(door, rule);
        let mark = if complaints.is_empty() { " ok " } else { "RED " };
        eprintln!("{mark}  {} × {}", door.name(), rule.name);
        for complaint in &complaints {
            eprintln!("         {complaint}");
        }
        red += usize::from(!complaints.is_empty());
    }
    red
}

/// Why a rule is not about a door.
pub(crate) fn does_not_apply(door: &dyn Door, rule: &Rule) -> Option<&'static str> {
    let name = door.name();
    if let Some((_, reason)) = rule.except.iter().find(|(start, _)| name.starts_with(start)) {
        return Some(reason);
    }
    if let Some(tool) = door.tool()
        && let Some(reason) = rule.steps.iter().find_map(|step| arguments(tool, step).err())
    {
        return Some(reason);
    }
    match rule.needs {
        Needs::Person | Needs::Session if !door.can().ask => Some("nobody can be asked without a terminal"),
        Needs::Session if !door.can().remember => Some("one command is the whole session"),
        Needs::Tools if door.tool().is_none() => Some("there are no tools that a policy could be about"),
        _ => None,
    }
}

/// What is wrong in one cell.
fn cell(door: &dyn Door, rule: &Rule) -> Vec<String> {
    let room = rule.room();
    let seen = match catch_unwind(AssertUnwindSafe(|| door.play(&room, &rule.steps))) {
        Ok(seen) => seen,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            return vec![format!("the door fell over: {}", text.unwrap_or_default())];
        }
    };
    let mut check = Check { door, rule, room: &room, wrong: vec![] };
    if check.is_refused_by_name(&seen) {
        return vec![];
    }
    for (step, seen) in rule.steps.iter().zip(&seen) {
        check.step(step, seen);
    }
    let remembered = Remembered::of(&room);
    check.ledger(&remembered);
    check.also(&seen, &remembered);
    check.secret(&seen, &remembered);
    check.wrong
}

struct Check<'a> {
    door: &'a dyn Door,
    rule: &'a Rule,
    room: &'a Room,
    wrong: Vec<String>,
}

impl Check<'_> {
    fn must(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.wrong.push(what());
        }
    }

    /// A key that nobody enforces may be refused, if it is named.
    fn is_refused_by_name(&self, seen: &[Seen]) -> bool {
        let key = self.rule.steps.iter().find_map(|step| match step.verdict {
            Verdict::HeldOrNamed(key) => Some(key),
            _ => None,
        });
        let named = |seen: &Seen| matches!((&seen.outcome, key), (Outcome::Closed(why), Some(key)) if why.contains(key));
        seen.iter().any(named)
    }

    fn is_about_files(&self) -> bool {
        self.door.tool().is_some_and(is_file_tool)
    }

    fn name_of(&self, thing: Thing, step: &Step) -> String {
        thing.name(self.room, step, self.door.tool().unwrap_or_default())
    }

    /// How often the person is asked at this door.
    fn questions(&self, step: &Step) -> usize {
        let outside = matches!(step.deed, Deed::Read(path) | Deed::Write(path) if path.starts_with(".."));
        let of_fence = !matches!(step.about, Some(Thing::Command));
        match self.door.tool() {
            _ if !self.door.can().ask => 0,
            // What leaves the workspace is refused without a question (docs/tools.md).
            Some(tool) if is_file_tool(tool) && outside => 0,
            Some("jobs") if of_fence => 0,
            _ => step.asked,
        }
    }

    fn step(&mut self, step: &Step, seen: &Seen) {
        let line = step.line();
        let fits = self.fits(step, seen);
        self.must(fits, || {
            let blocked = seen.blocked.map_or(String::new(), |blocked| format!(", blocked {blocked}"));
            format!(
                "`{line}`: expected {:?}, seen {:?}{blocked}; {}",
                step.verdict,
                seen.outcome,
                last_words(&seen.stderr)
            )
        });
        let questions = self.questions(step);
        self.must(seen.asked.len() == questions, || {
            format!("`{line}`: expected {questions} questions, seen {}: {:?}", seen.asked.len(), seen.asked)
        });
        if let (Some(thing), Some(question), None) = (step.about, seen.asked.first(), self.rule.secret) {
            let name = self.name_of(thing, step);
            self.must(question.contains(&name), || {
                format!("expected a question about {name}, seen {question}")
            });
        }
        if let Some(text) = step.shows.filter(|_| fits) {
            self.must(seen.stdout.contains(text), || {
                format!("`{line}`: expected {text:?} in the output, seen {:?}", last_words(&seen.stdout))
            });
        }
        if matches!(step.verdict, Verdict::Blocked | Verdict::Stopped) && matches!(step.deed, Deed::Read(_)) {
            self.must(!seen.stdout.contains("treasure"), || format!("`{line}`: what is refused was shown"));
        }
        if let Deed::Write(path) = step.deed
            && let Ok(content) = std::fs::read_to_string(self.room.project.join(path))
        {
            let written = content.contains(CONTENT);
            let may = matches!(step.verdict, Verdict::Ran(0));
            self.must(written == may, || format!("`{line}`: expected written {may}, seen {written}"));
        }
    }

    fn fits(&self, step: &Step, seen: &Seen) -> bool {
        let held = seen.blocked != Some(false);
        match (step.verdict, &seen.outcome) {
            (Verdict::Ran(code), Outcome::Ended(seen)) => code == *seen,
            (Verdict::Refused, Outcome::Refused)
            | (Verdict::TimedOut, Outcome::TimedOut)
            | (Verdict::Stopped, Outcome::Stopped)
            | (Verdict::HeldOrNamed(_), Outcome::Refused) => true,
            (Verdict::Refused, Outcome::Ended(code)) => self.is_about_files() && *code != 0 && held,
            (Verdict::Blocked, Outcome::Ended(code)) => *code != 0 && held,
            (Verdict::HeldOrNamed(_), Outcome::Ended(code)) => *code != 0,
            _ => false,
        }
    }

    fn ledger(&mut self, remembered: &Remembered) {
        let rows = &remembered.executions;
        let expected = if self.door.can().tell_commands_apart { self.rule.steps.len() } else { 1 };
        // What no tool was called for is no command.
        if !self.is_about_files() && self.rule.needs != Needs::Tools {
            self.must(rows.len() == expected, || {
                let commands: Vec<_> = rows.iter().map(|row| row["command"].to_string()).collect();
                format!("ledger: expected {expected} executions, seen {}: {commands:?}", rows.len())
            });
            if self.door.can().tell_commands_apart && rows.len() == expected {
                for (step, row) in self.rule.steps.iter().zip(rows) {
                    self.row(step, row);
                }
            }
        }
        if let Some(tool) = self.door.tool() {
            let kinds = |kind: &str| remembered.events.iter().filter(|event| *event == kind).count();
            let (begun, ended) = (kinds("tool_call_requested"), kinds("tool_call_finished"));
            let enough = if tool == "jobs" { begun >= expected } else { begun == expected };
            self.must(enough && begun == ended, || {
                format!("events: expected {expected} calls, seen {begun} requested and {ended} finished")
            });
        }
        self.refusals(remembered);
        self.decisions(remembered);
    }

    fn row(&mut self, step: &Step, row: &serde_json::Value) {
        let line = step.line();
        let (blocked, timed_out) = match step.verdict {
            Verdict::Ran(_) => (false, false),
            Verdict::Refused | Verdict::Blocked => (true, false),
            Verdict::TimedOut => (false, true),
            Verdict::Stopped | Verdict::HeldOrNamed(_) => return,
        };
        self.must(row["blocked"] == blocked && row["timedOut"] == timed_out, || {
            format!(
                "log of `{line}`: expected blocked {blocked}, timedOut {timed_out}, seen {}, {}",
                row["blocked"], row["timedOut"]
            )
        });
        let Some(outcome) = step.gate else { return };
        let outcome = match outcome {
            "not_approved" if !self.door.can().ask => "nobody_to_ask",
            outcome => outcome,
        };
        self.must(row["gate"]["outcome"] == outcome, || {
            format!("log of `{line}`: expected the gate's event {outcome:?}, seen {}", row["gate"]["outcome"])
        });
    }

    fn refusals(&mut self, remembered: &Remembered) {
        // Whoever enforces a quota chooses its name.
        let held = |step: &Step| matches!(step.verdict, Verdict::HeldOrNamed(_));
        if self.rule.secret.is_some()
            || matches!(self.rule.also, Also::Violations(_))
            || self.rule.steps.iter().any(held)
        {
            return;
        }
        let advised = |step: &&Step| !self.door.can().tell_commands_apart && step.verdict == Verdict::Refused;
        let steps = self.rule.steps.iter().filter(|step| !advised(step));
        let expected: Vec<String> =
            steps.flat_map(|step| step.refused.iter().map(|thing| self.name_of(*thing, step))).collect();
        let seen = remembered.refused();
        self.must(seen == expected, || format!("violations: expected {expected:?}, seen {seen:?}"));
        if !self.is_about_files() && self.rule.needs != Needs::Tools {
            let lost = remembered.without_execution();
            self.must(lost == 0, || format!("violations: {lost} belong to no execution of the log"));
        }
    }

    fn decisions(&mut self, remembered: &Remembered) {
        if self.rule.secret.is_some() {
            return;
        }
        let asked = |step: &&Step| self.questions(step) == 1;
        let answers = self.rule.steps.iter().filter(asked).filter_map(|step| {
            let answer = step.answer.unwrap_or(Answer::Deny);
            Some((answer.word().to_owned(), self.name_of(step.about?, step)))
        });
        let expected: Vec<_> = answers.collect();
        if self.rule.steps.iter().all(|step| step.asked < 2) {
            let seen = &remembered.decisions;
            self.must(*seen == expected, || format!("decisions: expected {expected:?}, seen {seen:?}"));
        }
    }

    fn also(&mut self, seen: &[Seen], remembered: &Remembered) {
        let file = &remembered.file;
        match self.rule.also {
            Also::Nothing => (),
            Also::KeepsGrant(path) => {
                let path = self.room.project.join(path).display().to_string();
                let kept = file.contains("\"grants\"") && file.contains(&path);
                self.must(kept, || format!("expected a grant of {path} in the user's file, seen {file}"));
            }
            Also::KeepsRule(rule) => {
                let kept = file.contains("\"allowlist\"") && file.contains(&format!("\"{rule}\""));
                self.must(kept, || format!("expected the rule {rule:?} in the user's file, seen {file}"));
            }
            Also::KeepsNothing => {
                let kept = file.contains("grants") || file.contains("allowlist");
                self.must(!kept, || format!("expected nothing kept, seen {file}"));
            }
            Also::Annotates(path) => {
                let path = self.room.project.join(path).display().to_string();
                let added = |seen: &Seen| {
                    let note = seen.stderr.split("<sandbox_violations>").nth(1);
                    note.is_some_and(|note| note.contains(&path))
                };
                self.must(seen.iter().any(added), || {
                    format!("expected the violation in standard error, seen {:?}", seen[0].stderr)
                });
            }
            Also::Violations(count) => {
                let kept = remembered.violations.len();
                self.must(kept == count, || format!("violations: expected {count} kept, seen {kept}"));
                let told = seen[0].violations;
                self.must(told.is_none_or(|told| told == count), || {
                    format!("result: expected {count} violations, seen {told:?}")
                });
            }
            Also::Truncates => self.must(seen[0].truncated == Some(true), || {
                format!("expected truncated, seen {:?}, {} bytes", seen[0].truncated, seen[0].stdout.len())
            }),
            Also::ReachesLimit => {
                let kinds = remembered.kinds();
                let told = kinds.contains(&"resource_limit");
                let (outcome, said) = (&seen[0].outcome, last_words(&seen[0].stderr));
                self.must(told, || {
                    format!(
                        "violations: expected the kind resource_limit, seen {kinds:?}; {outcome:?} {said}"
                    )
                });
            }
        }
    }

    fn secret(&mut self, seen: &[Seen], remembered: &Remembered) {
        let Some(secret) = self.rule.secret else { return };
        self.must(!remembered.has_byte_for_byte(secret), || "the secret is in the ledger".to_owned());
        for question in seen.iter().flat_map(|seen| &seen.asked) {
            self.must(!question.contains(secret), || format!("the secret is in a question: {question}"));
        }
    }
}

/// The end of a text, on one line.
fn last_words(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let from = line.char_indices().rev().nth(299).map_or(0, |(at, _)| at);
    line[from..].to_owned()
}
