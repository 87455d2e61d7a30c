//! What the ledger and the user's file keep, read as a person would, and where that is not enough, as it lies there.

use ringfence::ledger::Ledger;
use serde_json::Value;

use super::super::support::Room;

pub(crate) struct Remembered {
    /// Oldest first.
    pub(crate) executions: Vec<Value>,
    pub(crate) violations: Vec<Value>,
    /// Answer and resource.
    pub(crate) decisions: Vec<(String, String)>,
    pub(crate) events: Vec<String>,
    /// Every byte of the ledger's files, before and after somebody looked.
    bytes: Vec<u8>,
    /// The user's configuration.
    pub(crate) file: String,
}

impl Remembered {
    pub(crate) fn of(room: &Room) -> Self {
        let mut bytes = lying_there(room);
        let list = |command: &str| {
            let mut list = room.run(&[command, "--json"]).json().as_array().unwrap().clone();
            list.reverse();
            list
        };
        let (executions, violations) = (list("log"), list("violations"));
        bytes.extend(lying_there(room));
        let (mut decisions, mut events) = (vec![], vec![]);
        if let Ok(ledger) = Ledger::open_read_only(&room.ringfence_home.join("ledger.db")) {
            for decided in ledger.decisions(None, None).unwrap().into_iter().rev() {
                let word = serde_json::to_value(decided.decision).unwrap();
                decisions.push((word.as_str().unwrap_or_default().to_owned(), decided.resource));
            }
            events = ledger.events(None, None).unwrap().into_iter().rev().map(|event| event.kind).collect();
        }
        let file = std::fs::read_to_string(room.ringfence_home.join("sandbox.json")).unwrap_or_default();
        Self { executions, violations, decisions, events, bytes, file }
    }

    pub(crate) fn refused(&self) -> Vec<String> {
        let resource = |row: &Value| row["violation"]["resource"].as_str().unwrap_or_default().to_owned();
        self.violations.iter().map(resource).collect()
    }

    /// Violations that name no execution which is there.
    pub(crate) fn without_execution(&self) -> usize {
        let known = |id: &Value| self.executions.iter().any(|row| row["id"] == *id);
        self.violations.iter().filter(|row| !known(&row["executionId"])).count()
    }

    pub(crate) fn kinds(&self) -> Vec<&str> {
        self.violations.iter().filter_map(|row| row["violation"]["kind"].as_str()).collect()
    }

    pub(crate) fn has_byte_for_byte(&self, text: &str) -> bool {
        self.bytes.windows(text.len()).any(|window| window == text.as_bytes())
    }
}

fn lying_there(room: &Room) -> Vec<u8> {
    let mut bytes = vec![];
    for entry in std::fs::read_dir(&room.ringfence_home).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with("ledger") {
            bytes.extend(std::fs::read(entry.path()).unwrap_or_default());
        }
    }
    bytes
}
