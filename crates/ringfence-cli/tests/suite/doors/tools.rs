//! A tool as a door, whoever brings the call to it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::support::Room;
use super::door::{Can, Door, Outcome, Person, Seen, arguments};
use super::library;
use super::rule::Step;

/// One tool of the library.
pub(crate) struct Library(pub(crate) &'static str);

impl Door for Library {
    fn name(&self) -> String {
        format!("library {}", self.0)
    }

    fn can(&self) -> Can {
        Can { ask: true, remember: true, tell_commands_apart: true }
    }

    fn tool(&self) -> Option<&'static str> {
        Some(self.0)
    }

    fn play(&self, room: &Room, steps: &[Step]) -> Vec<Seen> {
        let person = Arc::new(Person::default());
        let tools = match library::Tools::open(room, Arc::clone(&person)) {
            Ok(tools) => tools,
            Err(why) => return vec![Seen::closed(why); steps.len()],
        };
        let mut call = |name: &'static str, arguments: Value| Ok(tools.call(name, &arguments));
        let seen = steps.iter().map(|step| one(self.0, step, &person, &mut call)).collect();
        tools.close();
        seen
    }
}

/// Asks a tool for a step. Whoever brings the call there may fail, for a reason.
pub(crate) fn one(
    tool: &'static str,
    step: &Step,
    person: &Person,
    call: &mut dyn FnMut(&'static str, Value) -> Result<Value, String>,
) -> Seen {
    person.will_say(step.answer);
    let given = arguments(tool, step).unwrap();
    match call(tool, given).and_then(|result| finished(tool, result, call)) {
        Ok(Finished::Call(result)) => Seen::of_tool(tool, &result, person.heard()),
        Ok(Finished::Job(end)) => Seen { asked: person.heard(), ..end },
        Err(why) => Seen { asked: person.heard(), ..Seen::closed(why) },
    }
}

enum Finished {
    Call(Value),
    Job(Seen),
}

/// A job that began is waited for.
fn finished(
    tool: &str,
    result: Value,
    call: &mut dyn FnMut(&'static str, Value) -> Result<Value, String>,
) -> Result<Finished, String> {
    let id = result["data"]["job"]["id"].clone();
    if tool != "jobs" || id.is_null() {
        return Ok(Finished::Call(result));
    }
    let (mut output, mut offset) = (String::new(), json!(0));
    // Each read waits for something new, so this ends with the job.
    for _ in 0..1000 {
        let read = call("jobs", json!({ "action": "read", "id": id, "offset": offset, "waitMs": 60_000 }))?;
        let text = read["stdout"].as_str().unwrap_or_default();
        output.push_str(text);
        offset = read["data"]["nextOffset"].clone();
        let job = &read["data"]["job"];
        if job["state"] == "ended" && text.is_empty() {
            let code = job["exitCode"].as_i64().and_then(|code| i32::try_from(code).ok()).unwrap_or(-1);
            let outcome = if job["timedOut"] == true { Outcome::TimedOut } else { Outcome::Ended(code) };
            let truncated = read["truncated"].as_bool();
            return Ok(Finished::Job(Seen {
                outcome,
                blocked: job["blocked"].as_bool(),
                violations: Some(job["violations"].as_array().map_or(0, Vec::len)),
                truncated,
                stdout: output.clone(),
                stderr: format!("{output}{}", read["stderr"].as_str().unwrap_or_default()),
                asked: vec![],
            }));
        }
    }
    Err(format!("the job did not end: {output}"))
}
