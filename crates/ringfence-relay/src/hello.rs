//! The name that a TLS client asks for, from its first message. Pure.
//!
//! Stricter than servers are, so that no server reads another name: one name at most, nothing left over, no extension
//! twice. The message may be cut into records anywhere.

use std::collections::HashSet;
use std::fmt;

/// The longest message that is read; a usual one has half a kilobyte, with post-quantum keys two.
pub const LONGEST: usize = 64 * 1024;

/// What a ClientHello says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hello {
    /// The outer one, when there is another within that is encrypted.
    pub name: Option<String>,
    /// What the client offers to speak inside (ALPN).
    pub protocols: Vec<Vec<u8>>,
}

/// Why it is none, as the end of a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAHello(&'static str);

impl fmt::Display for NotAHello {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for NotAHello {}

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const PROTOCOLS: u16 = 16;

/// None while there is more to come.
pub fn read(bytes: &[u8]) -> Result<Option<Hello>, NotAHello> {
    let Some(message) = message_in(bytes)? else { return Ok(None) };
    parse(&message).map(Some)
}

/// The first message, put together from as many records as it takes.
fn message_in(bytes: &[u8]) -> Result<Option<Vec<u8>>, NotAHello> {
    let mut message = Vec::new();
    let mut rest = bytes;
    loop {
        if let Some(&kind) = message.first()
            && kind != CLIENT_HELLO
        {
            return Err(NotAHello("its first message is no ClientHello"));
        }
        if let [_, high, middle, low, ..] = message[..] {
            let length = 4 + u32::from_be_bytes([0, high, middle, low]) as usize;
            if length > LONGEST {
                return Err(NotAHello("its ClientHello is too long"));
            }
            if message.len() > length {
                return Err(NotAHello("something follows its ClientHello"));
            }
            if message.len() == length {
                message.drain(..4);
                return Ok(Some(message));
            }
        }
        match *rest {
            [] if bytes.len() >= LONGEST => return Err(NotAHello("its ClientHello is too long")),
            [kind, ..] if kind != HANDSHAKE => return Err(NotAHello("its first record is no handshake")),
            [_, version, ..] if version != 3 => return Err(NotAHello("its version is unknown")),
            [_, _, _, high, low, ..] => {
                let length = usize::from(u16::from_be_bytes([high, low]));
                if length == 0 || length > 16 * 1024 {
                    return Err(NotAHello("a record has a length that none has"));
                }
                let body = &rest[5..];
                message.extend_from_slice(&body[..length.min(body.len())]);
                if body.len() < length {
                    // What is there is looked at, so that rubbish is seen at once.
                    return rubbish_in(&message, bytes.len());
                }
                rest = &body[length..];
            }
            _ => return Ok(None),
        }
    }
}

fn rubbish_in(message: &[u8], read: usize) -> Result<Option<Vec<u8>>, NotAHello> {
    if message.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
        return Err(NotAHello("its first message is no ClientHello"));
    }
    if let [_, high, ..] = message
        && *high != 0
    {
        return Err(NotAHello("its ClientHello is too long"));
    }
    if read >= LONGEST { Err(NotAHello("its ClientHello is too long")) } else { Ok(None) }
}

fn parse(message: &[u8]) -> Result<Hello, NotAHello> {
    let mut hello = Hello::default();
    let mut fields = Fields(message);
    fields.take(2 + 32)?;
    let session = fields.within_u8()?;
    if session.0.len() > 32 {
        return Err(NotAHello("its session is too long"));
    }
    fields.within_u16()?;
    fields.within_u8()?;
    if fields.0.is_empty() {
        return Ok(hello);
    }
    let mut extensions = fields.within_u16()?;
    fields.ended()?;
    let mut seen = HashSet::new();
    while !extensions.0.is_empty() {
        let kind = extensions.u16()?;
        let body = extensions.within_u16()?;
        if !seen.insert(kind) {
            return Err(NotAHello("it has an extension twice"));
        }
        match kind {
            SERVER_NAME => hello.name = Some(name_in(body)?),
            PROTOCOLS => hello.protocols = protocols_in(body)?,
            _ => {}
        }
    }
    Ok(hello)
}

fn name_in(mut body: Fields<'_>) -> Result<String, NotAHello> {
    let mut names = body.within_u16()?;
    body.ended()?;
    if names.take(1)? != [0] {
        return Err(NotAHello("its name is of an unknown kind"));
    }
    let name = names.within_u16()?.0;
    names.ended()?;
    match std::str::from_utf8(name) {
        Ok(name) if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Ok(name.to_owned())
        }
        _ => Err(NotAHello("its name is no name")),
    }
}

fn protocols_in(mut body: Fields<'_>) -> Result<Vec<Vec<u8>>, NotAHello> {
    let mut list = body.within_u16()?;
    body.ended()?;
    let mut protocols = Vec::new();
    while !list.0.is_empty() {
        protocols.push(list.within_u8()?.0.to_vec());
    }
    Ok(protocols)
}

/// What is left to read.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], NotAHello> {
        let (taken, rest) =
            self.0.split_at_checked(count).ok_or(NotAHello("its ClientHello is shorter than it says"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn u16(&mut self) -> Result<u16, NotAHello> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn within_u8(&mut self) -> Result<Self, NotAHello> {
        let length = self.take(1)?[0];
        self.take(length.into()).map(Self)
    }

    fn within_u16(&mut self) -> Result<Self, NotAHello> {
        let length = self.u16()?;
        self.take(length.into()).map(Self)
    }

    fn ended(&self) -> Result<(), NotAHello> {
        if self.0.is_empty() { Ok(()) } else { Err(NotAHello("something is left over in its ClientHello")) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use rustls::pki_types::ServerName;

    use super::*;

    /// What a real client sends first.
    fn real(name: &str) -> Vec<u8> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        bytes
    }

    /// The same message in records of that size.
    fn cut(bytes: &[u8], size: usize) -> Vec<u8> {
        bytes[5..]
            .chunks(size)
            .flat_map(|part| {
                let length = u16::try_from(part.len()).unwrap().to_be_bytes();
                [&[22, 3, 1], &length[..], part].concat()
            })
            .collect()
    }

    /// With these extensions and nothing else.
    fn made(extensions: &[(u16, &[u8])]) -> Vec<u8> {
        let mut list = Vec::new();
        for (kind, body) in extensions {
            list.extend(kind.to_be_bytes());
            list.extend(u16::try_from(body.len()).unwrap().to_be_bytes());
            list.extend(*body);
        }
        let mut message = vec![3, 3];
        message.extend([7; 32]);
        message.extend([0, 0, 2, 0x13, 1, 1, 0]);
        message.extend(u16::try_from(list.len()).unwrap().to_be_bytes());
        message.extend(list);
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        let whole = [&[1], &length[1..], &message[..]].concat();
        let length = u16::try_from(whole.len()).unwrap().to_be_bytes();
        [&[22, 3, 1], &length[..], &whole].concat()
    }

    const NAME: (u16, &[u8]) = (0, b"\0\x0c\0\0\x09a.example");

    #[test]
    fn the_name_of_a_real_client_is_read_however_it_is_cut() {
        let bytes = real("a.example");
        for bytes in [bytes.clone(), cut(&bytes, 1), cut(&bytes, 7), cut(&bytes, 100)] {
            let hello = read(&bytes).unwrap().unwrap();
            assert_eq!(hello.name.as_deref(), Some("a.example"));
            assert_eq!(hello.protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
            for end in 0..bytes.len() {
                assert_eq!(read(&bytes[..end]), Ok(None), "{end}");
            }
        }
        assert_eq!(read(&real("192.0.2.1")).unwrap().unwrap().name, None);
    }

    #[test]
    fn unknown_extensions_are_no_trouble() {
        let grease = (0x0a0a, &[][..]);
        let encrypted = (0xfe0d, &b"\0\0\x01\0\x01whatever"[..]);
        let hello = read(&made(&[grease, encrypted, NAME, (0x1a1a, &[0])])).unwrap().unwrap();
        assert_eq!(hello.name.as_deref(), Some("a.example"));
        assert_eq!(read(&made(&[grease])).unwrap().unwrap().name, None);
    }

    #[test]
    fn what_two_readers_could_read_differently_is_none() {
        let two: (u16, &[u8]) = (0, b"\0\x18\0\0\x09a.example\0\0\x09b.example");
        let other: (u16, &[u8]) = (0, b"\0\x0c\x01\0\x09a.example");
        let with_nul: (u16, &[u8]) = (0, b"\0\x0c\0\0\x09a.exam\0le");
        let more: (u16, &[u8]) = (0, b"\0\x0c\0\0\x09a.examplexx");
        let none: (u16, &[u8]) = (0, b"\0\0");
        let empty: (u16, &[u8]) = (0, b"\0\x03\0\0\0");
        for extensions in [&[NAME, NAME][..], &[two], &[other], &[with_nul], &[more], &[none], &[empty]] {
            assert!(read(&made(extensions)).is_err(), "{extensions:?}");
        }
        let mut followed = made(&[NAME]);
        followed[4] += 1;
        followed.push(0);
        assert!(read(&followed).is_err());
    }

    #[test]
    fn rubbish_is_seen() {
        assert!(read(&[22; LONGEST]).is_err());
        assert!(read(&[&[22, 3, 1, 64, 0][..], &[1; LONGEST]].concat()).is_err());
        assert!(read(&[22, 3, 1, 0, 0]).is_err());
        assert!(read(&[22, 3, 1, 0, 4, 2, 0, 0, 0]).is_err());
        assert!(read(b"\x16\x03\x01\x00\x04\x01\xff\xff\xff").is_err());
        assert!(read(&[22, 2, 0]).is_err());
    }

    proptest! {
        #[test]
        fn anything_at_all_is_read_without_a_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..600),
        ) {
            let _ = read(&bytes);
            let _ = read(&[&[22, 3, 1, 1, 0][..], &bytes].concat());
            let _ = parse(&bytes);
        }

        #[test]
        fn one_byte_changed_in_a_real_one_is_read_without_a_panic(at in 0..5000usize, to: u8) {
            let mut bytes = made(&[(0x0a0a, &[]), NAME, (16, b"\0\x03\x02h2")]);
            let length = bytes.len();
            bytes[at % length] = to;
            let _ = read(&bytes);
        }

        #[test]
        fn what_was_clear_stays_so(bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in 0..300usize) {
            let bytes = [&[22, 3, 1, 0, 40, 1, 0, 0][..], &bytes].concat();
            let first = read(&bytes[..cut.min(bytes.len())]);
            if first != Ok(None) {
                prop_assert_eq!(read(&bytes), first);
            }
        }
    }
}
