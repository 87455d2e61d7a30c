//! `ringfence approve` and `ringfence deny`: answering the questions of agents that have nobody else to ask.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ringfence::ledger::now_ms;
use ringfence::local::prompt::{Pause, TerminalApprover};
use ringfence::model::{Error, ErrorKind, Result};
use ringfence::permission::{Answer, FileQuestions, Letter};

use crate::args::{Approve, Deny};
use crate::output::{self, Table, Tone};
use crate::places::Places;
use crate::report;

pub(crate) fn approve(args: &Approve) -> Result<ExitCode> {
    let file_questions = FileQuestions::new(&Places::find(None)?.ringfence_home);
    let letter = match (&args.id, file_questions.waiting()?) {
        (Some(part), _) => file_questions.find(part)?,
        // With one that waits there is nothing to choose.
        (None, mut letters) if letters.len() == 1 && TerminalApprover::available() && !args.list => {
            match letters.pop() {
                Some(letter) => letter,
                None => return list(&file_questions),
            }
        }
        (None, _) => return list(&file_questions),
    };
    if !TerminalApprover::available() {
        return Err(Error::new(ErrorKind::HumanRequired, "a question is answered at a terminal, by a key")
            .hint("run this in a terminal of your own"));
    }
    let pause = Pause::new().map_err(|errno| {
        Error::new(ErrorKind::Internal, "cannot prepare to ask").caused_by(std::io::Error::from(errno))
    })?;
    let left = Duration::from_millis(letter.expires_ms.saturating_sub(now_ms()));
    let terminal = TerminalApprover::new(Arc::new(pause), left);
    let decision = terminal.ask_about(&letter.permission.prompt(), &letter.permission.answers());
    file_questions.answer(&letter.permission.id, &Answer::new(decision))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn deny(args: &Deny) -> Result<ExitCode> {
    let file_questions = FileQuestions::new(&Places::find(None)?.ringfence_home);
    let letter = file_questions.find(&args.id)?;
    let answer = match &args.message {
        Some(message) => Answer::deny(message),
        None => Answer::deny("a person said no"),
    };
    file_questions.answer(&letter.permission.id, &answer)?;
    report::say(&format!("denied: {}", letter.permission.sentence()));
    Ok(ExitCode::SUCCESS)
}

fn list(file_questions: &FileQuestions) -> Result<ExitCode> {
    let letters: Vec<Letter> = file_questions.waiting()?;
    if letters.is_empty() {
        output::print("no request is pending\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    let ids: Vec<String> = letters.iter().map(|letter| letter.permission.id.clone()).collect();
    let mut table = Table::new(&["ID", "LEFT", "QUESTION"]).whole();
    for letter in letters {
        let left = letter.expires_ms.saturating_sub(now_ms()) / 1000;
        table.row([
            (Tone::Plain, short_id(&letter.permission.id, &ids)),
            (Tone::Plain, format!("{left} s")),
            (Tone::Plain, output::one_line(&letter.permission.sentence())),
        ]);
    }
    table.print()?;
    Ok(ExitCode::SUCCESS)
}

/// The end of an id, as short as tells it from the others: ids begin with the time, which they share.
fn short_id(id: &str, all: &[String]) -> String {
    const SHORTEST: usize = 6;
    let end = |length: usize| id.len().checked_sub(length).and_then(|at| id.get(at..));
    let tells = |part: &&str| all.iter().filter(|other| other.contains(part)).count() == 1;
    (SHORTEST..id.len()).filter_map(end).find(tells).unwrap_or(id).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_as_short_as_it_can_be() {
        let all =
            ["0199aaaa00112233".to_owned(), "0199aaaa99112233".to_owned(), "0199aaab44556677".to_owned()];
        assert_eq!(short_id(&all[2], &all), "556677");
        assert_eq!(short_id(&all[0], &all), "0112233");
    }
}
