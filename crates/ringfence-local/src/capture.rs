//! Output kept within a cap: the head and the tail stay, the middle is dropped and flagged.

use std::collections::VecDeque;

/// Collects one output stream.
#[derive(Debug)]
pub struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// Bytes of each half.
    half: usize,
    total: u64,
}

impl Capture {
    #[must_use]
    pub fn new(cap: Option<u64>) -> Self {
        let cap = cap.and_then(|cap| usize::try_from(cap).ok()).unwrap_or(usize::MAX);
        // An odd cap gives its last byte to the head.
        Self { head: Vec::new(), tail: VecDeque::new(), half: cap / 2, total: 0 }
    }

    pub fn push(&mut self, mut bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.half.saturating_sub(self.head.len());
        if room > 0 {
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.head.extend_from_slice(now);
            bytes = later;
        }
        if bytes.is_empty() {
            return;
        }
        if bytes.len() >= self.half {
            self.tail.clear();
            bytes = &bytes[bytes.len() - self.half..];
        }
        let excess = (self.tail.len() + bytes.len()).saturating_sub(self.half);
        self.tail.drain(..excess);
        self.tail.extend(bytes);
    }

    #[must_use]
    pub fn truncated(&self) -> bool {
        self.total > (self.head.len() + self.tail.len()) as u64
    }

    /// All bytes that came, where not all are kept.
    #[must_use]
    pub fn cut(&self) -> Option<u64> {
        self.truncated().then_some(self.total)
    }

    /// What is kept, with a note in the place of what is not.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        let dropped = self.total - (self.head.len() + self.tail.len()) as u64;
        let mut bytes = self.head;
        if dropped > 0 {
            bytes.extend_from_slice(format!("\n[ringfence: {dropped} bytes left out]\n").as_bytes());
        }
        bytes.extend(self.tail);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(cap: Option<u64>, chunks: &[&[u8]]) -> (Vec<u8>, bool) {
        let mut capture = Capture::new(cap);
        for chunk in chunks {
            capture.push(chunk);
        }
        let truncated = capture.truncated();
        (capture.finish(), truncated)
    }

    #[test]
    fn short_output_is_kept_whole() {
        assert_eq!(run(Some(10), &[b"hello"]), (b"hello".to_vec(), false));
        assert_eq!(run(Some(10), &[b"01234", b"56789"]), (b"0123456789".to_vec(), false));
        assert_eq!(run(None, &[b"x".as_slice(); 3]), (b"xxx".to_vec(), false));
    }

    #[test]
    fn long_output_keeps_head_and_tail() {
        let (bytes, truncated) = run(Some(4), &[b"ab", b"cdef", b"gh"]);
        assert!(truncated);
        assert_eq!(bytes, b"ab\n[ringfence: 4 bytes left out]\ngh");
        assert_eq!(run(Some(4), &[b"abcdefgh"]).0, bytes);
    }

    #[test]
    fn a_cap_of_nothing_keeps_nothing() {
        assert_eq!(run(Some(0), &[b"abc"]).0, b"\n[ringfence: 3 bytes left out]\n");
    }
}
