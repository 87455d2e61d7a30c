//! How a refusal is worded, and where refusals and notes are gathered.

use ringfence_model::{Error, ErrorKind, Result};

use super::spec::{Note, NoteKind};

/// One thing that is wrong with the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Below `docker`, such as `binds`.
    pub key: String,
    /// As it was written.
    pub value: String,
    /// Which rule it breaks.
    pub rule: String,
    /// What to do.
    pub remedy: String,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Values may hold anything; a line of the error must stay one line.
        write!(f, "docker.{} {:?}: {}", self.key, self.value, self.rule)
    }
}

/// What the checks found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Findings {
    pub refusals: Vec<Refusal>,
    pub notes: Vec<Note>,
}

impl Findings {
    pub fn refuse(&mut self, key: &str, value: &str, rule: impl Into<String>, remedy: impl Into<String>) {
        self.refusals.push(Refusal {
            key: key.to_owned(),
            value: value.to_owned(),
            rule: rule.into(),
            remedy: remedy.into(),
        });
    }

    pub fn warn(&mut self, key: &str, text: impl Into<String>) {
        self.note(NoteKind::Warning, key, text.into());
    }

    /// A `dangerously…` key let something through.
    pub fn break_glass(&mut self, key: &str, text: impl Into<String>) {
        self.note(NoteKind::BreakGlass, key, text.into());
    }

    fn note(&mut self, kind: NoteKind, key: &str, text: String) {
        self.notes.push(Note { kind, key: format!("docker.{key}"), text });
    }

    /// The notes when nothing was refused; otherwise one error that names everything.
    pub fn settle(self) -> Result<Vec<Note>> {
        let message = match self.refusals.as_slice() {
            [] => return Ok(self.notes),
            [only] => only.to_string(),
            several => {
                let lines: Vec<String> = several.iter().map(|refusal| format!("\n  {refusal}")).collect();
                format!("{} settings of the container are refused:{}", several.len(), lines.concat())
            }
        };
        let error = Error::new(ErrorKind::InvalidConfig, message);
        Err(self.refusals.into_iter().fold(error, |error, refusal| {
            let hint = format!("docker.{}: {}", refusal.key, refusal.remedy);
            if error.hints.contains(&hint) { error } else { error.hint(hint) }
        }))
    }
}
