//! Finds the end of a command's output.
//!
//! Output and status travel on different connections, so what was said first may arrive last. The shell writes a number behind each
//! command's output that nobody could know; where that is found, the output is complete. It says nothing about how the command ended.

/// One stream of one command.
#[derive(Debug)]
pub(super) struct Sieve {
    mark: Vec<u8>,
    /// Also ends it: the mark of the shell's own end.
    last: Vec<u8>,
    held: Vec<u8>,
    ended: bool,
}

/// What a piece comes to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sifted {
    /// The command's.
    pub(super) own: Vec<u8>,
    /// What others wrote after its end.
    pub(super) late: Vec<u8>,
}

impl Sieve {
    pub(super) fn new(mark: &str, last: &str) -> Self {
        Self { mark: mark.into(), last: last.into(), held: vec![], ended: false }
    }

    pub(super) fn ended(&self) -> bool {
        self.ended
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> Sifted {
        if self.ended {
            return Sifted { own: vec![], late: bytes.to_vec() };
        }
        self.held.extend_from_slice(bytes);
        for mark in [&self.mark, &self.last] {
            if let Some(at) = find(&self.held, mark) {
                self.ended = true;
                let late = self.held.split_off(at + mark.len());
                self.held.truncate(at);
                return Sifted { own: std::mem::take(&mut self.held), late };
            }
        }
        // What may be the beginning of a mark waits for the rest.
        let keep = begun(&self.held, &self.mark).max(begun(&self.held, &self.last));
        let rest = self.held.split_off(self.held.len() - keep);
        Sifted { own: std::mem::replace(&mut self.held, rest), late: vec![] }
    }

    /// What was held back, when nothing more comes.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        self.ended = true;
        std::mem::take(&mut self.held)
    }
}

fn find(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    let (first, rest) = mark.split_first()?;
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|byte| byte == first) {
        let at = from + at;
        if bytes[at + 1..].starts_with(rest) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

/// How many of the last bytes begin the mark.
fn begun(bytes: &[u8], mark: &[u8]) -> usize {
    (1..mark.len().min(bytes.len() + 1)).rev().find(|&length| bytes.ends_with(&mark[..length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_end_is_found_and_what_comes_later_is_not_the_commands() {
        let mut sieve = Sieve::new("MARK", "LAST");
        assert_eq!(sieve.push(b"a MA"), Sifted { own: b"a ".to_vec(), late: vec![] });
        assert_eq!(sieve.push(b"RX MAR"), Sifted { own: b"MARX ".to_vec(), late: vec![] });
        assert_eq!(sieve.push(b"Kb"), Sifted { own: vec![], late: b"b".to_vec() });
        assert!(sieve.ended());
        assert_eq!(sieve.push(b"c").late, b"c");
        let mut sieve = Sieve::new("MARK", "LAST");
        assert_eq!(sieve.push(b"xLAST").own, b"x");
        let mut sieve = Sieve::new("MARK", "LAST");
        assert_eq!(sieve.push(b"LAS").own, b"");
        assert_eq!(sieve.finish(), b"LAS");
    }

    proptest! {
        #[test]
        fn cuts_do_not_matter(text in "[MARKab]{0,30}", tail in "[MARKab]{0,8}", cuts in proptest::collection::vec(1usize..6, 0..30)) {
            let all = format!("{text}MARK{tail}");
            let end = all.find("MARK").unwrap();
            let mut sieve = Sieve::new("MARK", "no such thing");
            let (mut own, mut late) = (Vec::new(), Vec::new());
            let mut rest = all.as_bytes();
            let mut cuts = cuts.into_iter().cycle();
            while !rest.is_empty() {
                let (now, later) = rest.split_at(cuts.next().unwrap_or(3).min(rest.len()));
                let sifted = sieve.push(now);
                own.extend(sifted.own);
                late.extend(sifted.late);
                rest = later;
            }
            prop_assert_eq!(own, &all.as_bytes()[..end]);
            prop_assert_eq!(late, &all.as_bytes()[end + 4..]);
        }
    }
}
