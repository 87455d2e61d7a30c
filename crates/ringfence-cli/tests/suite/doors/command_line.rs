//! `ringfence run` and `ringfence shell`, without and with a terminal.

use super::super::approval::Person as AtTerminal;
use super::super::support::{Ran, Room};
use super::door::{Can, Door, Outcome, Seen};
use super::rule::{Answer, Step, WENT_ON};

/// The last words of every question at a terminal.
const QUESTION: &str = "[q]uit? ";

/// The keys that the person presses: their answer to the first question, no to unexpected ones, and an end to many.
fn key(answer: Option<Answer>, asked: usize) -> &'static str {
    match asked {
        0 => answer.unwrap_or(Answer::Deny).key(),
        1..10 => Answer::Deny.key(),
        _ => Answer::Abort.key(),
    }
}

/// `run --json`, with nobody to ask.
pub(crate) struct Run {
    pub(crate) as_text: bool,
}

impl Door for Run {
    fn name(&self) -> String {
        if self.as_text { "run -c" } else { "run --" }.to_owned()
    }

    fn can(&self) -> Can {
        Can { ask: false, remember: false, tell_commands_apart: true }
    }

    fn play(&self, room: &Room, steps: &[Step]) -> Vec<Seen> {
        let one = |step: &Step| {
            let line = step.line();
            let mut arguments = vec!["run", "--json"];
            arguments.extend(if self.as_text { vec!["-c", &line] } else { words(&line) });
            let ran = room.run(&arguments);
            match serde_json::from_str::<serde_json::Value>(&ran.stdout) {
                Ok(result) if result.get("error").is_none() => Seen::of_result(&result, vec![]),
                Ok(_) | Err(_) => Seen::closed(closed(&ran)),
            }
        };
        steps.iter().map(one).collect()
    }
}

fn closed(ran: &Ran) -> String {
    format!("exit code {}: {}", ran.code, ran.stderr)
}

/// A line of plain words is given as those; any other needs a shell.
fn words(line: &str) -> Vec<&str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || " ./_-".contains(c);
    if line.chars().all(plain) {
        std::iter::once("--").chain(line.split(' ')).collect()
    } else {
        vec!["--", "bash", "-c", line]
    }
}

/// `run -c` by a person at a terminal.
pub(crate) struct RunAtTerminal;

impl Door for RunAtTerminal {
    fn name(&self) -> String {
        "run at a terminal".to_owned()
    }

    fn can(&self) -> Can {
        Can { ask: true, remember: false, tell_commands_apart: true }
    }

    fn play(&self, room: &Room, steps: &[Step]) -> Vec<Seen> {
        let one = |step: &Step| {
            let line = step.line();
            let mut person = AtTerminal::at_terminal(room, &["run", "-c", &line]);
            let mut asked = 0;
            while person.sees_one_of(&[(QUESTION, asked + 1)]).is_some() {
                person.decides(key(step.answer, asked));
                asked += 1;
            }
            let (code, screen) = person.leaves();
            let outcome = match code {
                124 => Outcome::TimedOut,
                125 => Outcome::Closed(screen.clone()),
                _ if step.answer == Some(Answer::Abort) && !ran_on(step, &screen) => Outcome::Stopped,
                126 => Outcome::Refused,
                code => Outcome::Ended(code),
            };
            at_terminal(outcome, &screen, asked)
        };
        steps.iter().map(one).collect()
    }
}

/// Whether it went on after a person said that it ends.
fn ran_on(step: &Step, screen: &str) -> bool {
    // The screen shows typed text, too.
    let typed = screen.matches(&format!("echo {WENT_ON}")).count();
    step.line().contains(WENT_ON) && screen.matches(WENT_ON).count() > typed
}

fn at_terminal(outcome: Outcome, screen: &str, asked: usize) -> Seen {
    Seen {
        outcome,
        blocked: None,
        violations: None,
        truncated: None,
        stdout: screen.to_owned(),
        stderr: screen.to_owned(),
        asked: questions(screen, asked),
    }
}

/// The text before the end of each question.
fn questions(screen: &str, asked: usize) -> Vec<String> {
    screen.split(QUESTION).take(asked).map(str::to_owned).collect()
}

/// `shell`: commands are typed, the gate advises, the fence asks.
pub(crate) struct Shell;

const PROMPT: &str = "next-one> ";

impl Door for Shell {
    fn name(&self) -> String {
        "shell".to_owned()
    }

    fn can(&self) -> Can {
        Can { ask: true, remember: true, tell_commands_apart: false }
    }

    fn play(&self, room: &Room, steps: &[Step]) -> Vec<Seen> {
        let mut typist = Typist { person: AtTerminal::at_terminal(room, &["shell"]), prompts: 0 };
        // The typed text must differ from the text that is waited for: the screen shows both.
        if let Err(screen) = typist.types("PS1='next-''one> '", None) {
            let (code, _) = typist.person.leaves();
            return vec![Seen::closed(format!("exit code {code}: {screen}")); steps.len()];
        }
        let mut seen: Vec<Seen> = steps.iter().map(|step| typist.step(step)).collect();
        let before = typist.person.screen().len();
        let mut asked = typist.person.screen().matches(QUESTION).count();
        typist.person.presses("exit\n");
        while typist.person.sees_one_of(&[(QUESTION, asked + 1)]).is_some() {
            typist.person.decides(Answer::Deny.key());
            asked += 1;
        }
        let (_, screen) = typist.person.leaves();
        // Messages about the whole session come at its end.
        if let Some(last) = seen.last_mut() {
            last.stderr.push_str(&screen[before..]);
        }
        seen
    }
}

struct Typist {
    person: AtTerminal,
    prompts: usize,
}

impl Typist {
    /// Types a line and waits for the next prompt; what came and how many questions, or the screen when the shell ended.
    fn types(&mut self, line: &str, answer: Option<Answer>) -> Result<(String, usize), String> {
        let before = self.person.screen().len();
        let earlier = self.person.screen().matches(QUESTION).count();
        self.person.presses(&format!("{line}\n"));
        let mut asked = 0;
        loop {
            let next = [(PROMPT, self.prompts + 1), (QUESTION, earlier + asked + 1)];
            match self.person.sees_one_of(&next) {
                Some(0) => {
                    self.prompts += 1;
                    return Ok((self.person.screen()[before..].to_owned(), asked));
                }
                Some(_) => {
                    self.person.decides(key(answer, asked));
                    asked += 1;
                }
                None => return Err(self.person.screen()[before..].to_owned()),
            }
        }
    }

    fn step(&mut self, step: &Step) -> Seen {
        let (screen, asked) = match self.types(&step.line(), step.answer) {
            Ok(came) => came,
            Err(screen) if step.answer == Some(Answer::Abort) => {
                return at_terminal(Outcome::Stopped, &screen, 1);
            }
            Err(screen) => return Seen::closed(screen),
        };
        let code = match self.types("echo \"ended\"-with-$?", None) {
            Ok((screen, _)) => ended_with(&screen),
            Err(screen) => return Seen::closed(screen),
        };
        // A person who types is advised, or asked whether they meant it: that is the verdict.
        let asked = asked - screen.matches("\u{1b}[0m an agent would be refused this").count();
        let outcome = if screen.contains("an agent would") {
            Outcome::Refused
        } else if step.answer == Some(Answer::Abort) && screen.contains("Terminated") {
            // The command ends, and the shell stays.
            Outcome::Stopped
        } else {
            Outcome::Ended(code)
        };
        // Text that the person typed is on their own screen, and no part of a question.
        let said = screen.split_once('\n').map_or(screen.as_str(), |(_, said)| said);
        Seen { asked: questions(said, asked), ..at_terminal(outcome, &screen, asked) }
    }
}

fn ended_with(screen: &str) -> i32 {
    let code = screen.rsplit("ended-with-").next().unwrap_or_default();
    code.split(|c: char| !c.is_ascii_digit()).next().and_then(|code| code.parse().ok()).unwrap_or(-1)
}
