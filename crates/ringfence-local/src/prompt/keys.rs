//! Which keys answer a question.

use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use ringfence_model::Decision;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::frame;
use crate::terminal::{RawTerminal, size};

/// Nobody has typed for so long: only then are the answers shown, and keys count.
const QUIET: Duration = Duration::from_millis(500);
/// A key that is followed by another one so soon is part of a word.
const ALONE: Duration = Duration::from_millis(250);

const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;
const ESCAPE: u8 = 0x1b;

/// Asks, and waits for a key that is one of the answers.
pub(super) fn converse(
    terminal: &OwnedFd,
    lines: &str,
    offered: &[Decision],
    deadline: Instant,
    typed_before: impl Fn(&[u8]),
) -> Result<Decision, Errno> {
    let raw = RawTerminal::new(terminal.as_fd())?;
    while let Some(keys) = read_keys(terminal, Duration::ZERO)?.filter(|keys| !keys.is_empty()) {
        typed_before(&keys);
    }
    let columns = usize::from(size(terminal.as_fd()).ws_col);
    say(terminal, &format!("{}{}", frame::FRESH, frame::question(lines, columns)))?;
    rustix::termios::tcdrain(terminal)?;
    let (decision, word) = answer(&Person { terminal, deadline }, offered)?;
    say(terminal, &frame::end(word))?;
    drop(raw);
    Ok(decision)
}

type Answered = (Decision, &'static str);

const NO_ANSWER: Answered = (Decision::Deny, "no answer: denied");
const ENDED: Answered = (Decision::Abort, "denied, and the command ends");

struct Person<'a> {
    terminal: &'a OwnedFd,
    deadline: Instant,
}

/// What a person did at the keyboard.
enum Pressed {
    /// One key, and nothing around it.
    Key(u8),
    /// Several: a word, a paste, or a key with a sequence of its own.
    Several,
    Nothing,
}

fn answer(person: &Person<'_>, offered: &[Decision]) -> Result<Answered, Errno> {
    let mut said = String::new();
    loop {
        if let Some(ended) = person.waits_until_quiet()? {
            return Ok(ended);
        }
        if !said.is_empty() {
            person.hears(&format!("{}\r\n", frame::line(&std::mem::take(&mut said))))?;
        }
        person.hears(&frame::line(&frame::answers(offered)))?;
        let wanted = match person.presses()? {
            Pressed::Nothing => return Ok(NO_ANSWER),
            Pressed::Several => None,
            Pressed::Key(key) => match key {
                b'o' | b'O' => Some((Decision::AllowOnce, "allowed once")),
                b's' | b'S' => Some((Decision::AllowSession, "allowed for this session")),
                b'a' | b'A' => Some((Decision::AllowPermanent, "allowed from now on")),
                b'v' | b'V' => Some((Decision::DenyPermanent, "denied, and never asked again")),
                b'd' | b'D' | b'n' | b'N' | ESCAPE => return Ok((Decision::Deny, "denied")),
                b'q' | b'Q' | CTRL_C | CTRL_D => return Ok(ENDED),
                other => {
                    said = format!("`{}` is no answer", char::from(other).escape_default());
                    None
                }
            },
        };
        match wanted.filter(|(decision, _)| offered.contains(decision)) {
            Some(lasting @ (Decision::AllowPermanent, _)) => {
                person.hears("\r\n")?;
                match person.confirms()? {
                    Some(true) => return Ok(lasting),
                    Some(false) => said = "not confirmed".to_owned(),
                    None => return Ok(NO_ANSWER),
                }
            }
            Some(answered) => return Ok(answered),
            None if said.is_empty() => said = "one key of these, please".to_owned(),
            None => {}
        }
        person.hears("\r\n")?;
    }
}

impl Person<'_> {
    fn hears(&self, text: &str) -> Result<(), Errno> {
        say(self.terminal, text)
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Waits until nobody types; keys that are pressed meanwhile were meant for something else. The answer, where there is
    /// one by then.
    fn waits_until_quiet(&self) -> Result<Option<Answered>, Errno> {
        loop {
            if self.left().is_zero() {
                return Ok(Some(NO_ANSWER));
            }
            match read_keys(self.terminal, QUIET)? {
                None => return Ok(None),
                Some(keys) if keys.is_empty() => return Ok(Some(NO_ANSWER)),
                // Whatever it was meant for: it ends.
                Some(keys) if keys.contains(&CTRL_C) => return Ok(Some(ENDED)),
                Some(_) => {}
            }
        }
    }

    fn presses(&self) -> Result<Pressed, Errno> {
        let Some(keys) = read_keys(self.terminal, self.left())? else { return Ok(Pressed::Nothing) };
        match keys.as_slice() {
            [] => Ok(Pressed::Nothing),
            keys if keys.contains(&CTRL_C) => Ok(Pressed::Key(CTRL_C)),
            [key] => match read_keys(self.terminal, ALONE)? {
                None => Ok(Pressed::Key(*key)),
                Some(_) => Ok(Pressed::Several),
            },
            _ => Ok(Pressed::Several),
        }
    }

    /// Asks for letters that are shown only now. None when nobody answers.
    fn confirms(&self) -> Result<Option<bool>, Errno> {
        let letters = random_letters()?;
        let text = String::from_utf8_lossy(&letters).into_owned();
        self.hears(&frame::line(&format!("always: type `{text}` to confirm, anything else to go back: ")))?;
        let mut typed = vec![];
        while typed.len() < letters.len() {
            match read_keys(self.terminal, self.left())? {
                None => return Ok(None),
                Some(keys) if keys.is_empty() => return Ok(None),
                Some(keys) => typed.extend(keys),
            }
            if !letters.starts_with(&typed) {
                return Ok(Some(false));
            }
        }
        Ok(Some(true))
    }
}

/// Without those that answer anything, and without vowels: no word has them in this order by accident.
fn random_letters() -> Result<[u8; 3], Errno> {
    const LETTERS: &[u8; 16] = b"bcfghjklmprtwxyz";
    let mut bytes = [0; 3];
    let source = rustix::fs::open(c"/dev/urandom", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    if rustix::io::retry_on_intr(|| rustix::io::read(&source, &mut bytes))? != bytes.len() {
        return Err(Errno::IO);
    }
    Ok(bytes.map(|byte| LETTERS[usize::from(byte % 16)]))
}

fn say(terminal: &OwnedFd, text: &str) -> Result<(), Errno> {
    let mut bytes = text.as_bytes();
    while !bytes.is_empty() {
        match rustix::io::write(terminal, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// The keys that came together within that time; none when there were none, nothing in it when the terminal is gone.
fn read_keys(terminal: &OwnedFd, within: Duration) -> Result<Option<Vec<u8>>, Errno> {
    let deadline = Instant::now() + within;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let wait = Timespec::try_from(left).map_err(|_| Errno::INVAL)?;
        let mut fds = [PollFd::new(terminal, PollFlags::IN)];
        match poll(&mut fds, Some(&wait)) {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno),
        }
        let mut keys = vec![0; 256];
        match rustix::io::read(terminal, &mut keys) {
            Ok(length) => {
                keys.truncate(length);
                return Ok(Some(keys));
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(errno) => return Err(errno),
        }
    }
}
