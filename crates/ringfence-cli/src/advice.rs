//! Advice of the gate on a command that a person types in `ringfence shell`. Most of it is only said: people may do in
//! their shell what they like, inside the fence. What the gate would refuse an agent is asked about first: `rm -rf ~` is
//! typed by accident, too.
//!
//! bash expands `PS0` when it has read a command and before it runs it. Ours tells ringfence the directory and the last
//! entry of the history, and stops the shell until ringfence lets it go on; it leaves `$?`, jobs, prompts and the history
//! alone. Where somebody sets another `PS0`, or a command is kept out of the history, there is no advice.

use std::os::fd::BorrowedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ringfence::config::GateMode;
use ringfence::gate::{Decision as Verdict, Gatekeeper, Language};
use ringfence::local::prompt::TerminalApprover;
use ringfence::local::terminal::HeldShell;
use ringfence::local::terminal_notices::{BEGIN_IN_PROMPT, END_IN_PROMPT};
use ringfence::model::{Decision, visible, visible_within};

use crate::report;

/// The variable that makes bash tell us.
pub(crate) const VARIABLE: &str = "PS0";

/// Between the directory and the command; a prompt string spells it `\037`.
const BETWEEN: char = '\u{1f}';

/// The shell's output waits for advice no longer than so many looks; later, it would stand in the middle of something
/// else. Looks and not one long wait: a machine that stands still meanwhile has used up one of them.
const LOOKS: usize = 10;
const LOOK: Duration = Duration::from_millis(100);

pub(crate) fn prompt_string() -> String {
    // `set -x` must not show our own commands.
    let entry = "$(HISTTIMEFORMAT= builtin history 1 2>/dev/null)";
    let notice = format!("builtin printf '{BEGIN_IN_PROMPT}%s\\037%s{END_IN_PROMPT}' \"$PWD\" \"{entry}\"");
    format!("$({{ set +x; }} 2>/dev/null; {notice} >/dev/tty && builtin kill -STOP 0)")
}

/// A typed line, and the directory it was typed in.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Typed {
    cwd: String,
    number: u64,
    command: String,
}

/// Judges on a thread of its own what the shell tells.
pub(crate) struct Adviser {
    inner: Mutex<Inner>,
    /// Asks about commands that an agent would be refused; without it they are only told.
    asks: Option<TerminalApprover>,
}

/// The gate's words about a command.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Advice {
    line: String,
    is_refusal: bool,
}

struct Inner {
    questions: Sender<Typed>,
    answers: Receiver<(Typed, Option<Advice>)>,
    last: Option<Typed>,
}

impl Adviser {
    /// None where nothing is judged.
    pub(crate) fn new(gatekeeper: &Gatekeeper, asks: Option<TerminalApprover>) -> Option<Self> {
        if gatekeeper.mode() == GateMode::Off {
            return None;
        }
        let keeper = gatekeeper.clone();
        let (questions, asked) = channel::<Typed>();
        let (answer, answers) = channel();
        std::thread::spawn(move || {
            for typed in asked {
                let said = advice(&keeper, &typed);
                if answer.send((typed, said)).is_err() {
                    return;
                }
            }
        });
        Some(Self { inner: Mutex::new(Inner { questions, answers, last: None }), asks })
    }

    /// Takes what came as an aside from the shell on this terminal, says what there is to say, and lets the shell go on.
    pub(crate) fn hear(&self, aside: &[u8], terminal: BorrowedFd<'_>) {
        let Some(typed) = typed(&String::from_utf8_lossy(aside)) else { return };
        let shell = HeldShell::wait_for(terminal);
        let Some(advice) = self.judged(&typed) else { return };
        match (&self.asks, shell) {
            (Some(asks), Some(shell)) if advice.is_refusal => {
                let lines = format!("`{}`\n{}", visible_within(&typed.command, 200), advice.line);
                let offered = [Decision::AllowOnce, Decision::Deny];
                if !asks.ask_about(&lines, &offered).allows() {
                    shell.interrupt();
                }
            }
            _ => report::say_on_raw_terminal(&format!("advice: {}", advice.line)),
        }
    }

    fn judged(&self, typed: &Typed) -> Option<Advice> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        // The same entry again: what was typed now is not in the history.
        let last = inner.last.as_ref();
        if last.is_some_and(|last| (last.number, &last.command) == (typed.number, &typed.command)) {
            return None;
        }
        inner.last = Some(typed.clone());
        inner.questions.send(typed.clone()).ok()?;
        for _ in 0..LOOKS {
            match inner.answers.recv_timeout(LOOK) {
                Ok((about, said)) if about == *typed => return said,
                // One that came too late for its own question.
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
        None
    }
}

/// `  12  git push --force`, as `history` writes it: `*` marks an entry that was changed.
fn typed(aside: &str) -> Option<Typed> {
    let (cwd, entry) = aside.split_once(BETWEEN)?;
    let entry = entry.trim_start();
    let digits = entry.len() - entry.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number = entry[..digits].parse().ok()?;
    let rest = entry[digits..].strip_prefix(['*', ' '])?;
    let command = rest.strip_prefix(' ').unwrap_or(rest).replace("\r\n", "\n");
    (!command.trim().is_empty()).then(|| Typed { cwd: cwd.to_owned(), number, command })
}

/// One line, when an agent that runs this would be refused, or would have to ask.
fn advice(keeper: &Gatekeeper, typed: &Typed) -> Option<Advice> {
    let cwd = Some(typed.cwd.as_str()).filter(|cwd| cwd.starts_with('/'));
    let verdict = keeper.judge(Language::Shell, &typed.command, cwd);
    let word = match verdict.decision {
        Verdict::Deny => "an agent would be refused this",
        Verdict::Ask if !keeper.is_left_to_the_fence(&verdict) => "an agent would have to ask first",
        Verdict::Ask | Verdict::Allow => return None,
    };
    // Lists of commands are for agents; a person is asked about what does harm.
    let is_refusal =
        verdict.findings.iter().any(|finding| finding.decision == Verdict::Deny && finding.check != "rules");
    let mut findings = verdict.findings.iter().filter(|finding| finding.decision != Verdict::Allow);
    let why = findings.next().map_or_else(String::new, |finding| {
        format!(": {} [{}/{}]", visible(&finding.message), finding.check, finding.rule)
    });
    let more = match findings.count() {
        0 => String::new(),
        more => format!(", and {more} more; `ringfence check` shows them"),
    };
    Some(Advice { line: format!("{word}{why}{more}"), is_refusal })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_the_history_are_read() {
        let read = |aside: &str| typed(aside).map(|typed| (typed.cwd, typed.number, typed.command));
        let want = |cwd: &str, number, command: &str| Some((cwd.to_owned(), number, command.to_owned()));
        assert_eq!(read("/a\u{1f}    1  ls -l"), want("/a", 1, "ls -l"));
        assert_eq!(read("/a\u{1f}  12* ls"), want("/a", 12, "ls"));
        assert_eq!(read("\u{1f} 1000  cat <<E\r\nx\r\nE"), want("", 1000, "cat <<E\nx\nE"));
        for nothing in ["", "ls", "/a\u{1f}", "/a\u{1f}ls", "/a\u{1f}  3", "/a\u{1f}  3   "] {
            assert_eq!(read(nothing), None, "{nothing:?}");
        }
    }
}
