//! Questions about names, as they are asked of a server, and the answers (RFC 1035). Pure.

use std::net::Ipv4Addr;

/// A question about one name.
pub(super) struct Query<'a> {
    /// In letters that can be shown.
    pub(super) name: String,
    kind: u16,
    header: &'a [u8; HEADER],
    /// The question as it was asked.
    question: &'a [u8],
}

const HEADER: usize = 12;
/// Asks for an address of the older kind.
const ADDRESS: u16 = 1;

impl<'a> Query<'a> {
    pub(super) fn read(query: &'a [u8]) -> Option<Self> {
        let header = query.first_chunk::<HEADER>()?;
        let is_query = header[2] & 0x80 == 0;
        let questions = u16::from_be_bytes([header[4], header[5]]);
        if !is_query || questions != 1 {
            return None;
        }
        let mut at = HEADER;
        let mut name = String::new();
        loop {
            let length = usize::from(*query.get(at)?);
            at += 1;
            if length == 0 {
                break;
            }
            // Anything longer is a reference, which a question has no use for.
            let label = query.get(at..at + length).filter(|_| length < 64)?;
            if !name.is_empty() {
                name.push('.');
            }
            name.extend(label.iter().flat_map(|&byte| std::ascii::escape_default(byte)).map(char::from));
            at += length;
        }
        // Kind and class.
        let question = query.get(HEADER..at + 4)?;
        let kind = u16::from_be_bytes([query[at], query[at + 1]]);
        (!name.is_empty()).then_some(Self { name, kind, header, question })
    }

    /// There is no such name.
    pub(super) fn no_such_name(&self) -> Vec<u8> {
        self.answer(3, None)
    }

    /// The name has that address, and nothing else.
    pub(super) fn address(&self, address: Ipv4Addr) -> Vec<u8> {
        self.answer(0, (self.kind == ADDRESS).then_some(address))
    }

    fn answer(&self, code: u8, address: Option<Ipv4Addr>) -> Vec<u8> {
        let mut answer = Vec::with_capacity(HEADER + self.question.len() + 16);
        answer.extend(&self.header[..2]);
        // A response, with "recursion desired" as it was asked; recursion available.
        answer.extend([
            0x80 | self.header[2] & 0x79,
            0x80 | code,
            0,
            1,
            0,
            address.is_some().into(),
            0,
            0,
            0,
            0,
        ]);
        answer.extend(self.question);
        if let Some(address) = address {
            // The name of the question, an address of the internet, for a minute, four bytes.
            answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
            answer.extend(address.octets());
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(name: &[u8]) -> Vec<u8> {
        let mut query = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        query.extend(name);
        query.extend([0, 0, 1, 0, 1]);
        query
    }

    #[test]
    fn a_query_is_read_and_answered() {
        let asked = query(b"\x03www\x07example");
        let query = Query::read(&asked).unwrap();
        assert_eq!((&query.name[..], query.kind), ("www.example", ADDRESS));
        let answer = query.no_such_name();
        assert_eq!(answer[..4], [0xab, 0xcd, 0x81, 0x83]);
        assert_eq!(answer[4..12], [0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(answer[12..], asked[12..]);
        let answer = query.address(Ipv4Addr::new(198, 18, 0, 2));
        assert_eq!(answer[2..12], [0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
        assert_eq!(answer[answer.len() - 4..], [198, 18, 0, 2]);
    }

    #[test]
    fn a_name_has_no_address_of_another_kind() {
        let mut asked = query(b"\x03www\x07example");
        let kind = asked.len() - 3;
        asked[kind] = 28;
        let answer = Query::read(&asked).unwrap().address(Ipv4Addr::new(198, 18, 0, 2));
        assert_eq!(answer[2..12], [0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(answer.len(), asked.len());
    }

    #[test]
    fn nothing_that_is_no_query_is_answered() {
        let whole = query(b"\x03www\x07example");
        for length in 0..whole.len() {
            assert!(Query::read(&whole[..length]).is_none(), "{length}");
        }
        let mut response = whole.clone();
        response[2] |= 0x80;
        assert!(Query::read(&response).is_none());
        assert!(Query::read(&query(b"\xc0\x0c")).is_none());
        assert!(Query::read(&query(b"")).is_none());
    }

    #[test]
    fn a_name_is_shown_in_plain_letters() {
        assert_eq!(Query::read(&query(b"\x04a\x1b[b")).unwrap().name, "a\\x1b[b");
    }
}
