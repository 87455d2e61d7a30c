//! Advice of the gate on a command that a person types in `ringfence shell`. It is only said, never asked: people
//! may do in their shell what they like, inside the fence.
//!
//! bash expands `PS0` when it has read a command and before it runs it. Ours is an aside for ringfence with the
//! directory and the last entry of the history; it leaves `$?`, jobs, prompts and the history alone. Where somebody sets
//! another `PS0`, or a command is kept out of the history, there is no advice.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ringfence::config::GateMode;
use ringfence::gate::{Decision, Gatekeeper, Language};
use ringfence::local::terminal_notices::{BEGIN_IN_PROMPT, END_IN_PROMPT};
use ringfence::model::visible;

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
    // `set -x` must not show our own command.
    let entry = "$({ set +x; } 2>/dev/null; HISTTIMEFORMAT= history 1 2>/dev/null)";
    format!("{BEGIN_IN_PROMPT}$PWD\\037{entry}{END_IN_PROMPT}")
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
}

struct Inner {
    questions: Sender<Typed>,
    answers: Receiver<(Typed, Option<String>)>,
    last: Option<Typed>,
}

impl Adviser {
    /// None where nothing is judged.
    pub(crate) fn new(gatekeeper: &Gatekeeper) -> Option<Self> {
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
        Some(Self { inner: Mutex::new(Inner { questions, answers, last: None }) })
    }

    /// Takes what came as an aside, and says what there is to say.
    pub(crate) fn hear(&self, aside: &[u8]) {
        let Some(typed) = typed(&String::from_utf8_lossy(aside)) else { return };
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        // The same entry again: what was typed now is not in the history.
        if inner
            .last
            .as_ref()
            .is_some_and(|last| (last.number, &last.command) == (typed.number, &typed.command))
        {
            return;
        }
        inner.last = Some(typed.clone());
        if inner.questions.send(typed.clone()).is_err() {
            return;
        }
        for _ in 0..LOOKS {
            match inner.answers.recv_timeout(LOOK) {
                Ok((about, said)) if about == typed => {
                    said.iter().for_each(|line| report::say_on_raw_terminal(line));
                    return;
                }
                // One that came too late for its own question.
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
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
fn advice(keeper: &Gatekeeper, typed: &Typed) -> Option<String> {
    let cwd = Some(typed.cwd.as_str()).filter(|cwd| cwd.starts_with('/'));
    let verdict = keeper.judge(Language::Shell, &typed.command, cwd);
    let word = match verdict.decision {
        Decision::Deny => "an agent would be refused this",
        Decision::Ask if !keeper.is_left_to_the_fence(&verdict) => "an agent would have to ask first",
        Decision::Ask | Decision::Allow => return None,
    };
    let mut findings = verdict.findings.iter().filter(|finding| finding.decision != Decision::Allow);
    let why = findings.next().map_or_else(String::new, |finding| {
        format!(": {} [{}/{}]", visible(&finding.message), finding.check, finding.rule)
    });
    let more = match findings.count() {
        0 => String::new(),
        more => format!(", and {more} more; `ringfence check` shows them"),
    };
    Some(format!("advice: {word}{why}{more}"))
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
