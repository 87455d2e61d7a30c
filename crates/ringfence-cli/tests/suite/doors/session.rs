//! `ringfence session`: JSON lines.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use super::super::support::Room;
use super::door::{Can, Door, Outcome, Person, Seen};
use super::rule::{Answer, Step, WENT_ON};

pub(crate) struct Session;

impl Door for Session {
    fn name(&self) -> String {
        "session".to_owned()
    }

    fn can(&self) -> Can {
        Can { ask: true, remember: true, tell_commands_apart: true }
    }

    fn play(&self, room: &Room, steps: &[Step]) -> Vec<Seen> {
        let mut talk = Talk::begin(room);
        let seen = (1..).zip(steps).map(|(id, step)| talk.step(id, step)).collect();
        talk.end();
        seen
    }
}

struct Talk {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    person: Person,
}

impl Talk {
    fn begin(room: &Room) -> Self {
        let mut command = room.command(&["session"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output, person: Person::default() }
    }

    fn send(&mut self, line: &Value) {
        // One that has ended says why where its lines are read.
        let _ = writeln!(self.input.as_mut().unwrap(), "{line}");
    }

    fn step(&mut self, id: u64, step: &Step) -> Seen {
        self.person.will_say(step.answer);
        self.send(&json!({ "id": id, "command": step.line() }));
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).unwrap_or(0) == 0 {
                return Seen::closed(self.last_words());
            }
            let line: Value = serde_json::from_str(&line).unwrap();
            match line["event"].as_str() {
                Some("permission_request") => {
                    let answer = self.person.hears(line.to_string());
                    self.send(&json!({ "permission": line["permission"], "decision": answer.word() }));
                }
                Some("result") => {
                    let mut seen = Seen::of_result(&line["result"], self.person.heard());
                    if step.answer == Some(Answer::Abort) && !seen.stdout.contains(WENT_ON) {
                        seen.outcome = Outcome::Stopped;
                    }
                    return seen;
                }
                Some("error") => {
                    return Seen { asked: self.person.heard(), ..Seen::closed(line.to_string()) };
                }
                _ => (),
            }
        }
    }

    fn last_words(&mut self) -> String {
        let mut words = String::new();
        let _ = self.child.stderr.as_mut().unwrap().read_to_string(&mut words);
        format!("the session ended: {words}")
    }

    fn end(mut self) {
        drop(self.input.take());
        while self.output.read_line(&mut String::new()).unwrap_or(0) > 0 {}
        let _ = self.child.wait();
    }
}
