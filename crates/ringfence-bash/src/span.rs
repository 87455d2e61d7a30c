//! Byte positions, and how they survive a text that is rewritten before it is parsed.

/// A half-open range of bytes in the text given to [`parse`](crate::parse).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// Makes a span; the caller keeps `start <= end`.
    pub fn new(start: u32, end: u32) -> Self {
        Span { start, end }
    }

    /// Tells whether `other` lies wholly inside this span.
    pub fn contains(self, other: Span) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// Returns the text of this span, if it lies within `source`.
    pub fn text(self, source: &str) -> Option<&str> {
        source.get(self.start as usize..self.end as usize)
    }

    /// Returns the smallest span that covers both.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// A text made from the source by dropping bytes, with the way back.
///
/// Backquotes lose one level of backslashes and `<<-` loses tabs before bash
/// parses what is inside. We parse the same rewritten text, but people must see
/// positions in what they wrote, so each byte remembers where it came from.
#[derive(Debug, Default)]
pub(crate) struct Derived {
    pub(crate) text: Vec<u8>,
    /// Source position of each byte, then one entry for the end.
    pub(crate) map: Vec<u32>,
}

impl Derived {
    /// Adds a byte that stands at `from` in the source.
    pub(crate) fn push(&mut self, byte: u8, from: u32) {
        self.text.push(byte);
        self.map.push(from);
    }

    /// Ends the text; `from` is the source position just after it.
    pub(crate) fn close(&mut self, from: u32) {
        self.map.push(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_contain_and_join() {
        let (a, b) = (Span::new(1, 4), Span::new(2, 4));
        assert!(a.contains(b) && !b.contains(a));
        assert_eq!(b.to(Span::new(0, 3)), Span::new(0, 4));
        assert_eq!(a.text("01234"), Some("123"));
        assert_eq!(Span::new(3, 9).text("01234"), None);
    }
}
