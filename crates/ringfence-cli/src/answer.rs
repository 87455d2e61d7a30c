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
    let Some(part) = &args.id else { return list(&file_questions) };
    let letter = file_questions.find(part)?;
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
    let mut table = Table::new(&["ID", "LEFT", "QUESTION"]);
    for letter in letters {
        let left = letter.expires_ms.saturating_sub(now_ms()) / 1000;
        table.row([
            (Tone::Plain, letter.permission.id.clone()),
            (Tone::Plain, format!("{left} s")),
            (Tone::Plain, output::one_line(&letter.permission.sentence())),
        ]);
    }
    table.print()?;
    Ok(ExitCode::SUCCESS)
}
