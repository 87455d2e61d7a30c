//! A sieve for path patterns: which two bytes follow each other.
//!
//! Dozens of patterns are compared with each path, and next to none of them covers it. A pattern with a pair of bytes
//! that the path does not have needs no closer look.

/// A set of pairs, some of which are taken for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct BytePairs([u64; 4]);

impl BytePairs {
    /// All pairs of a path. Its first byte counts as one after a slash.
    pub(crate) fn of(path: &[u8]) -> Self {
        let mut pairs = Self::needed_by(path);
        if let Some(&first) = path.first() {
            pairs.insert(b'/', first);
        }
        pairs
    }

    /// Those of a plain path are in everything below it.
    pub(crate) fn needed_by(path: &[u8]) -> Self {
        let mut pairs = Self::default();
        for pair in path.windows(2) {
            pairs.insert(pair[0], pair[1]);
        }
        pairs
    }

    /// What is in every path that a glob covers: its plain bytes that follow each other.
    pub(crate) fn needed_by_glob(glob: &[u8]) -> Self {
        let mut pairs = Self::default();
        for component in glob.split(|&b| b == b'/') {
            let mut before = Some(b'/');
            let mut bytes = component.iter();
            while let Some(&byte) = bytes.next() {
                let plain = match byte {
                    b'*' | b'?' => None,
                    // Where a class ends is the matcher's business.
                    b'[' => break,
                    b'\\' => bytes.next().copied(),
                    plain => Some(plain),
                };
                if let (Some(before), Some(plain)) = (before, plain) {
                    pairs.insert(before, plain);
                }
                before = plain;
            }
        }
        pairs
    }

    pub(crate) fn contain(&self, needed: &Self) -> bool {
        self.0.iter().zip(needed.0).all(|(have, needed)| needed & !have == 0)
    }

    fn insert(&mut self, first: u8, second: u8) {
        let place = first.wrapping_mul(31).wrapping_add(second);
        self.0[usize::from(place >> 6)] |= 1 << (place & 63);
    }
}
