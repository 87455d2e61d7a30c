//! What a rule of the table is made of.

use std::path::Path;

use serde_json::Value;

use super::super::support::Room;

/// What is asked of a door. Paths are the project's.
#[derive(Debug, Clone)]
pub(crate) enum Deed {
    /// A line for a shell.
    Command(&'static str),
    Read(&'static str),
    Write(&'static str),
    List(&'static str),
    /// Whatever the door does, in its plainest form.
    Anything,
}

/// What a person says, in the words of every door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Once,
    Session,
    Always,
    Deny,
    Abort,
}

impl Answer {
    /// At a terminal.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Once => "o",
            Self::Session => "s",
            Self::Always => "a",
            Self::Deny => "d",
            Self::Abort => "q",
        }
    }

    /// In a session, and in the ledger.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Once => "allow_once",
            Self::Session => "allow_session",
            Self::Always => "allow_permanent",
            Self::Deny => "deny",
            Self::Abort => "abort",
        }
    }
}

/// The one verdict that every door gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It ran, nothing was refused, and it ended with this.
    Ran(i32),
    /// The gate refused it: nothing ran.
    Refused,
    /// The fence refused what it wanted.
    Blocked,
    TimedOut,
    /// A person ended it.
    Stopped,
    /// It was refused by whoever enforces this key, or nothing starts with this key, and its name is said.
    HeldOrNamed(&'static str),
}

/// What a refusal or a question is about.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Thing {
    /// Below the project.
    Project(&'static str),
    Home(&'static str),
    /// The command itself, as it was given.
    Command,
    /// The tool that was called.
    Tool,
    /// Something else that has a name, such as a limit.
    Named(&'static str),
}

impl Thing {
    pub(crate) fn name(self, room: &Room, step: &Step, tool: &str) -> String {
        let show = |path: &Path| path.display().to_string();
        match self {
            Self::Project(path) => show(&room.project.join(path)),
            Self::Home(path) => show(&room.home.join(path)),
            Self::Command => step.line(),
            Self::Tool => tool.to_owned(),
            Self::Named(name) => name.to_owned(),
        }
    }
}

/// One thing that is asked, and what must come of it.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) deed: Deed,
    /// What the person says when asked; without one, or when nobody is there, it is refused.
    pub(crate) answer: Option<Answer>,
    /// How often the person is asked, where one is.
    pub(crate) asked: usize,
    pub(crate) verdict: Verdict,
    /// The refused resources, in order.
    pub(crate) refused: Vec<Thing>,
    /// What the question is about.
    pub(crate) about: Option<Thing>,
    /// In what comes out.
    pub(crate) shows: Option<&'static str>,
    /// What the ledger keeps of the gate's judgement.
    pub(crate) gate: Option<&'static str>,
}

impl Step {
    pub(crate) fn new(deed: Deed, verdict: Verdict) -> Self {
        Self { deed, answer: None, asked: 0, verdict, refused: vec![], about: None, shows: None, gate: None }
    }

    pub(crate) fn run(command: &'static str, verdict: Verdict) -> Self {
        Self::new(Deed::Command(command), verdict)
    }

    pub(crate) fn read(path: &'static str, verdict: Verdict) -> Self {
        Self::new(Deed::Read(path), verdict)
    }

    pub(crate) fn write(path: &'static str, verdict: Verdict) -> Self {
        Self::new(Deed::Write(path), verdict)
    }

    /// A person is asked about this once and says that.
    pub(crate) fn answered(mut self, about: Thing, answer: Answer) -> Self {
        (self.answer, self.asked, self.about) = (Some(answer), 1, Some(about));
        self
    }

    pub(crate) fn refusing(mut self, things: &[Thing]) -> Self {
        self.refused = things.to_vec();
        self
    }

    pub(crate) fn showing(mut self, text: &'static str) -> Self {
        self.shows = Some(text);
        self
    }

    pub(crate) fn judged(mut self, outcome: &'static str) -> Self {
        self.gate = Some(outcome);
        self
    }

    /// For doors that run commands. What is ended by a person does not come to its second half.
    pub(crate) fn line(&self) -> String {
        let line = match self.deed {
            Deed::Command(line) => line.to_owned(),
            Deed::Read(path) => format!("cat {path}"),
            Deed::Write(path) => format!("echo {CONTENT} > {path}"),
            Deed::List(path) => format!("ls {path}"),
            Deed::Anything => "echo here".to_owned(),
        };
        match (&self.deed, self.answer) {
            (Deed::Read(_), Some(Answer::Abort)) => format!("{line}; echo {WENT_ON}"),
            _ => line,
        }
    }
}

/// What is written.
pub(crate) const CONTENT: &str = "content-of-the-doors";

/// Printed by what a person did not end.
pub(crate) const WENT_ON: &str = "went-on";

/// What a door must have for a rule to be tried there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    /// Somebody who says yes.
    Person,
    /// The second step is of the same session as the first.
    Session,
    /// Tools with names, which a policy can be about.
    Tools,
}

/// A setting, and what follows from it whichever door is used.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    /// The keys of the configuration that it shows to act.
    pub(crate) keys: &'static [&'static str],
    /// The user's file, and the project's.
    pub(crate) user: Value,
    pub(crate) project: Value,
    pub(crate) files: &'static [(&'static str, &'static str)],
    /// Variables of whoever uses the door.
    pub(crate) env: &'static [(&'static str, &'static str)],
    /// The value of one of them, which is kept nowhere and shown to nobody.
    pub(crate) secret: Option<&'static str>,
    pub(crate) needs: Needs,
    pub(crate) steps: Vec<Step>,
    /// Doors (by the beginning of their names) that it does not apply to, with the reason.
    pub(crate) except: &'static [(&'static str, &'static str)],
    pub(crate) also: Also,
}

/// What else must be so in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Also {
    Nothing,
    /// The user's file names this path below `grants`.
    KeepsGrant(&'static str),
    /// The user's file has this entry in `safety.allowlist`.
    KeepsRule(&'static str),
    /// Neither is in it.
    KeepsNothing,
    /// The violations are added to standard error, with the refused path.
    Annotates(&'static str),
    /// The ledger and the result have so many violations, whatever was refused.
    Violations(usize),
    /// Output was left out, and that is said.
    Truncates,
    /// The ledger has a violation of the kind `resource_limit`.
    ReachesLimit,
}

impl Rule {
    pub(crate) fn new(name: &'static str, keys: &'static [&'static str], steps: Vec<Step>) -> Self {
        Self {
            name,
            keys,
            user: Value::Null,
            project: Value::Null,
            files: &[],
            env: &[],
            secret: None,
            needs: Needs::Nothing,
            steps,
            except: &[],
            also: Also::Nothing,
        }
    }

    pub(crate) fn user(self, user: Value) -> Self {
        Self { user, ..self }
    }

    pub(crate) fn project(self, project: Value) -> Self {
        Self { project, ..self }
    }

    pub(crate) fn files(self, files: &'static [(&'static str, &'static str)]) -> Self {
        Self { files, ..self }
    }

    pub(crate) fn env(self, env: &'static [(&'static str, &'static str)]) -> Self {
        Self { env, ..self }
    }

    pub(crate) fn needs(self, needs: Needs) -> Self {
        Self { needs, ..self }
    }

    pub(crate) fn except(self, except: &'static [(&'static str, &'static str)]) -> Self {
        Self { except, ..self }
    }

    pub(crate) fn also(self, also: Also) -> Self {
        Self { also, ..self }
    }

    /// A room in which it holds.
    pub(crate) fn room(&self) -> Room {
        let mut room = Room::new();
        for (path, content) in self.files {
            room.write(path, content);
        }
        if !self.user.is_null() {
            room.configure(&self.user.to_string());
        }
        if !self.project.is_null() {
            room.write(".ringfence/sandbox.json", &self.project.to_string());
        }
        room.env.extend(self.env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        room
    }
}
