//! Questions that wait in a directory until somebody at a terminal answers them.
//!
//! For programs that talk to an agent and to nobody else. The directory is ringfence's own, which every fence hides
//! from what runs inside.

use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use ringfence_ledger::now_ms;
use ringfence_model::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::answer::Answer;
use super::request::Permission;

/// The directory in which questions and answers lie.
#[derive(Debug, Clone)]
pub struct FileQuestions(PathBuf);

/// A question that waits.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Letter {
    /// The question.
    pub permission: Permission,
    /// Nobody waits for the answer any more after this moment.
    pub expires_ms: u64,
}

impl FileQuestions {
    /// In ringfence's own directory.
    #[must_use]
    pub fn new(ringfence_home: &Path) -> Self {
        Self(ringfence_home.join("questions"))
    }

    /// Puts a question there.
    pub fn post(&self, permission: &Permission) -> Result<()> {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0);
        made.map_err(|error| self.failed("make", error))?;
        self.check_owner()?;
        let expires_ms = now_ms().saturating_add(permission.timeout_ms);
        let letter = Letter { permission: permission.clone(), expires_ms };
        self.put(&permission.id, "question", &serde_json::to_vec(&letter).map_err(unreadable)?)
    }

    /// The questions that wait, oldest first. Those that nobody waits for any more are removed.
    pub fn waiting(&self) -> Result<Vec<Letter>> {
        let entries = match std::fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(vec![]),
            Err(error) => return Err(self.failed("read", error)),
        };
        self.check_owner()?;
        let mut letters = vec![];
        for path in entries.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
            if path.extension().is_none_or(|ending| ending != "question") {
                continue;
            }
            // One that vanishes meanwhile was answered, or taken back.
            let Ok(text) = std::fs::read(&path) else { continue };
            match serde_json::from_slice::<Letter>(&text) {
                Ok(letter) if letter.expires_ms > now_ms() => letters.push(letter),
                Ok(letter) => self.remove(&letter.permission.id),
                Err(_) => {}
            }
        }
        letters.sort_by(|a, b| a.permission.id.cmp(&b.permission.id));
        Ok(letters)
    }

    /// The one question whose id contains this.
    pub fn find(&self, part: &str) -> Result<Letter> {
        let mut found: Vec<Letter> =
            self.waiting()?.into_iter().filter(|letter| letter.permission.id.contains(part)).collect();
        match (found.pop(), found.is_empty()) {
            (Some(letter), true) if !part.is_empty() => Ok(letter),
            (None, _) => Err(Error::new(ErrorKind::NotFound, format!("no question `{part}` waits")).hint(
                "it was answered, or nobody waits for it any more; `ringfence approve` lists those that wait",
            )),
            _ => Err(Error::new(ErrorKind::Validation, format!("several questions contain `{part}`"))
                .hint("say more of the id")),
        }
    }

    /// Answers a question.
    pub fn answer(&self, id: &str, answer: &Answer) -> Result<()> {
        self.put(id, "answer", &serde_json::to_vec(answer).map_err(unreadable)?)
    }

    /// The answer to a question, if there is one. An unreadable answer is a refusal.
    #[must_use]
    pub fn answered(&self, id: &str) -> Option<Answer> {
        self.check_owner().ok()?;
        let text = std::fs::read(self.path(id, "answer")).ok()?;
        let answer = serde_json::from_slice(&text);
        Some(answer.unwrap_or_else(|_| Answer::deny("the answer cannot be read")))
    }

    /// Nobody waits for this any more.
    pub fn remove(&self, id: &str) {
        for ending in ["question", "answer"] {
            let _ = std::fs::remove_file(self.path(id, ending));
        }
    }

    fn path(&self, id: &str, ending: &str) -> PathBuf {
        // Ids are ours, but an answer's comes from a command line.
        let id: String = id.chars().filter(char::is_ascii_alphanumeric).collect();
        self.0.join(format!("{id}.{ending}"))
    }

    /// Whole or not at all.
    fn put(&self, id: &str, ending: &str, bytes: &[u8]) -> Result<()> {
        let (draft, path) = (self.path(id, &format!("{ending}-draft")), self.path(id, ending));
        let write = || -> std::io::Result<()> {
            let mut options = std::fs::OpenOptions::new();
            let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
            file.write_all(bytes)?;
            std::fs::rename(&draft, &path)
        };
        write().map_err(|error| self.failed("write to", error))
    }

    /// Nobody else can put an answer there.
    fn check_owner(&self) -> Result<()> {
        let about = std::fs::symlink_metadata(&self.0).map_err(|error| self.failed("look at", error))?;
        let ours = about.is_dir() && about.uid() == rustix::process::geteuid().as_raw();
        if ours && about.mode() & 0o022 == 0 {
            return Ok(());
        }
        let message = format!("others can write to {}: no answer there counts", self.0.display());
        Err(Error::new(ErrorKind::Permission, message).hint("make it yours: chmod 700, or remove it"))
    }

    fn failed(&self, what: &str, error: std::io::Error) -> Error {
        Error::new(ErrorKind::Internal, format!("cannot {what} {}", self.0.display())).caused_by(error)
    }
}

fn unreadable(error: serde_json::Error) -> Error {
    Error::new(ErrorKind::Internal, "cannot write a question down").caused_by(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_ledger::Nothing;
    use ringfence_model::Decision;
    use std::os::unix::fs::PermissionsExt as _;

    fn question() -> Permission {
        Permission::tool("bash", "why", &serde_json::json!({}), &Nothing)
    }

    #[test]
    fn an_answer_finds_its_question() {
        let home = tempfile::tempdir().unwrap();
        let box_ = FileQuestions::new(home.path());
        assert!(box_.waiting().unwrap().is_empty());
        let (first, second) = (question(), question());
        box_.post(&first).unwrap();
        box_.post(&second).unwrap();
        assert_eq!(box_.waiting().unwrap().len(), 2);
        assert_eq!(box_.find(&first.id[4..]).unwrap().permission.id, first.id);
        assert_eq!(box_.find("").unwrap_err().kind, ErrorKind::Validation);
        assert_eq!(box_.find("none").unwrap_err().kind, ErrorKind::NotFound);
        assert_eq!(box_.answered(&first.id), None);
        box_.answer(&first.id, &Answer::new(Decision::AllowOnce)).unwrap();
        assert_eq!(box_.answered(&first.id), Some(Answer::new(Decision::AllowOnce)));
        assert_eq!(box_.answered(&second.id), None);
        std::fs::write(box_.path(&second.id, "answer"), "yes").unwrap();
        assert_eq!(box_.answered(&second.id).unwrap().decision, Decision::Deny);
        box_.remove(&first.id);
        assert_eq!(box_.answered(&first.id), None);
    }

    #[test]
    fn what_nobody_waits_for_is_gone() {
        let home = tempfile::tempdir().unwrap();
        let box_ = FileQuestions::new(home.path());
        let late = Permission { timeout_ms: 0, ..question() };
        box_.post(&late).unwrap();
        assert!(box_.waiting().unwrap().is_empty());
        assert_eq!(std::fs::read_dir(&box_.0).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_not_believed() {
        let home = tempfile::tempdir().unwrap();
        let box_ = FileQuestions::new(home.path());
        let asked = question();
        box_.post(&asked).unwrap();
        box_.answer(&asked.id, &Answer::new(Decision::AllowOnce)).unwrap();
        std::fs::set_permissions(&box_.0, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(box_.answered(&asked.id), None);
        assert_eq!(box_.post(&asked).unwrap_err().kind, ErrorKind::Permission);
    }
}
