//! Notices that a shell on a terminal gives to whoever copies its output, and to nobody else.
//!
//! A notice is a control sequence of its own (`ESC ] 7791 ; … BEL`), which is taken out of the output before the
//! person's terminal sees it. Anything inside can write one: whoever listens must believe nothing that it says.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// The beginning of a notice, as a prompt string of bash spells it.
pub const BEGIN_IN_PROMPT: &str = r"\e]7791;";
/// Its end, spelled the same way.
pub const END_IN_PROMPT: &str = r"\a";

const BEGIN: &[u8] = b"\x1b]7791;";
const END: u8 = 0x07;

/// More than this is no notice.
const LONGEST: usize = 128 * 1024;

/// A listener for notices, and for the terminal they came from.
#[derive(Clone, Copy)]
pub struct Listener<'a>(pub &'a (dyn Fn(&[u8], BorrowedFd<'_>) + Sync));

impl fmt::Debug for Listener<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listener").finish_non_exhaustive()
    }
}

/// Output on its way to the terminal.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// The bytes that may be a notice, once the rest of it is here.
    held: Vec<u8>,
}

impl Notices {
    /// Takes the next piece of output; shows what is for the person, and tells the rest.
    pub(crate) fn pass(&mut self, output: &[u8], mut show: impl FnMut(&[u8]), tell: impl Fn(&[u8])) {
        self.held.extend_from_slice(output);
        loop {
            let begin = self.held.windows(BEGIN.len()).position(|window| window == BEGIN);
            let ready = begin.unwrap_or_else(|| self.held.len() - unfinished(&self.held));
            show(&self.held[..ready]);
            self.held.drain(..ready);
            if begin.is_none() {
                return;
            }
            match self.held.iter().position(|byte| *byte == END) {
                Some(end) => {
                    tell(&self.held[BEGIN.len()..end]);
                    self.held.drain(..=end);
                }
                None if self.held.len() > LONGEST => {
                    show(&self.held);
                    self.held.clear();
                    return;
                }
                None => return,
            }
        }
    }

    /// How long what is held may be held.
    pub(crate) fn patience(&self) -> Option<Duration> {
        match self.held.len() {
            0 => None,
            // Perhaps the beginning of another sequence, for which the terminal waits.
            length if length < BEGIN.len() => Some(Duration::from_millis(50)),
            _ => Some(Duration::from_secs(2)),
        }
    }

    /// Nothing more came: then it is for the person.
    pub(crate) fn give_up(&mut self, mut show: impl FnMut(&[u8])) {
        show(&self.held);
        self.held.clear();
    }
}

/// How many bytes at the end may be the beginning of a notice.
fn unfinished(output: &[u8]) -> usize {
    (1..BEGIN.len()).rev().find(|length| output.ends_with(&BEGIN[..*length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn passed(pieces: &[&[u8]]) -> (String, Vec<String>, usize) {
        let (mut notices, shown, told) = (Notices::default(), RefCell::new(vec![]), RefCell::new(vec![]));
        for piece in pieces {
            notices.pass(
                piece,
                |bytes| shown.borrow_mut().extend_from_slice(bytes),
                |bytes| told.borrow_mut().push(String::from_utf8(bytes.to_vec()).unwrap()),
            );
        }
        (String::from_utf8(shown.into_inner()).unwrap(), told.into_inner(), notices.held.len())
    }

    #[test]
    fn notices_are_told_and_the_rest_is_shown() {
        let whole = b"a\x1b]7791;one\r\ntwo\x07b\x1b]7791;\x07c\x1b[32md\x1b]0;title\x07";
        let want =
            ("abc\x1b[32md\x1b]0;title\x07".to_owned(), vec!["one\r\ntwo".to_owned(), String::new()], 0);
        assert_eq!(passed(&[whole]), want);
        // However it is cut.
        let bytes: Vec<&[u8]> = whole.chunks(1).collect();
        assert_eq!(passed(&bytes), want);
        for at in 0..whole.len() {
            let (one, other) = whole.split_at(at);
            assert_eq!(passed(&[one, other]), want, "at {at}");
        }
    }

    #[test]
    fn what_does_not_end_is_shown_all_the_same() {
        assert_eq!(passed(&[b"x\x1b]77"]), ("x".to_owned(), vec![], 4));
        let mut notices = Notices::default();
        notices.pass(b"\x1b]7791;abc", |bytes| assert!(bytes.is_empty()), |_| panic!("nothing is told"));
        assert!(notices.patience().is_some());
        let mut shown = vec![];
        notices.give_up(|bytes| shown.extend_from_slice(bytes));
        assert_eq!((shown.as_slice(), notices.patience()), (&b"\x1b]7791;abc"[..], None));
        let endless = [BEGIN, &vec![b'x'; LONGEST + 1]].concat();
        let (shown, told, held) = passed(&[&endless]);
        assert_eq!((shown.len(), told.len(), held), (endless.len(), 0, 0));
    }
}
