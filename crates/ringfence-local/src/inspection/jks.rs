//! Key stores of Java, in the older of its two forms: a list of certificates that are trusted.

use sha1::{Digest as _, Sha1};

const MAGIC: [u8; 4] = 0xfeed_feed_u32.to_be_bytes();
const VERSION: [u8; 4] = 2_u32.to_be_bytes();
const TRUSTED: [u8; 4] = 2_u32.to_be_bytes();
/// Magic, version, and how many entries there are.
const HEAD: usize = 12;
const DIGEST: usize = 20;
/// Everybody's: what it guards is public.
const PASSWORD: &str = "changeit";

/// The store with these certificates besides; none where it is not of this form.
pub(super) fn extended(store: &[u8], certificates: &[Vec<u8>]) -> Option<Vec<u8>> {
    let entries = store.len().checked_sub(DIGEST).filter(|end| *end >= HEAD)?;
    if !store.starts_with(&[MAGIC, VERSION].concat()) {
        return None;
    }
    let count = u32::from_be_bytes(store[8..HEAD].try_into().ok()?);
    written(count, &store[HEAD..entries], certificates)
}

/// A store of these certificates.
pub(super) fn of(certificates: &[Vec<u8>]) -> Option<Vec<u8>> {
    written(0, &[], certificates)
}

fn written(count: u32, entries: &[u8], certificates: &[Vec<u8>]) -> Option<Vec<u8>> {
    let all = count.checked_add(u32::try_from(certificates.len()).ok()?)?;
    let mut store = [&MAGIC[..], &VERSION, &all.to_be_bytes(), entries].concat();
    for (number, certificate) in certificates.iter().enumerate() {
        store.extend(TRUSTED);
        text(&mut store, &format!("ringfence-{number}"))?;
        // When it was put in.
        store.extend(0_u64.to_be_bytes());
        text(&mut store, "X.509")?;
        store.extend(u32::try_from(certificate.len()).ok()?.to_be_bytes());
        store.extend(certificate);
    }
    let mut digest = Sha1::new();
    digest.update(PASSWORD.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>());
    digest.update(b"Mighty Aphrodite");
    digest.update(&store);
    store.extend(digest.finalize());
    Some(store)
}

fn text(store: &mut Vec<u8>, text: &str) -> Option<()> {
    store.extend(u16::try_from(text.len()).ok()?.to_be_bytes());
    store.extend(text.bytes());
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_extended_as_if_it_had_been_written_at_once() {
        let one = of(&[b"one".to_vec()]).unwrap();
        let both = extended(&one, &[b"two".to_vec()]).unwrap();
        assert_eq!(both[8..12], [0, 0, 0, 2]);
        assert!(both.windows(3).any(|part| part == b"one") && both.windows(3).any(|part| part == b"two"));
        assert_eq!(extended(b"no store", &[]), None);
        assert_eq!(extended(&[0; 64], &[]), None);
    }
}
