//! A secret on its way back, replaced wherever it stands, also across the borders of parts.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};
use hyper::body::{Body, Frame, Incoming, SizeHint};

use crate::inspect::Secret;

/// The part of a header after its scheme is a secret of its own from so many characters on.
const SHORTEST_PART: usize = 8;

/// What is looked for, and what is put in its place.
#[derive(Clone)]
pub(crate) struct Scrub {
    /// Each with what is put in its place. Longer ones first; none is empty.
    secrets: Vec<(Vec<u8>, Vec<u8>)>,
    /// Whether one begins with that byte.
    begins: [bool; 256],
}

impl Scrub {
    pub(crate) fn new(all: &[&Secret]) -> Self {
        let mut secrets: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for hidden in all.iter().flat_map(|secret| &secret.hidden) {
            let placeholder = hidden.placeholder.as_bytes();
            let spellings = spellings(&hidden.value).into_iter();
            secrets.extend(spellings.map(|spelling| (spelling, placeholder.to_vec())));
        }
        secrets.sort_by(|(one, _), (other, _)| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        secrets.dedup_by(|(one, _), (other, _)| one == other);
        let mut begins = [false; 256];
        for (secret, _) in &secrets {
            begins[usize::from(secret[0])] = true;
        }
        Self { secrets, begins }
    }

    /// Whether what is scrubbed is as long as before.
    pub(crate) fn keeps_lengths(&self) -> bool {
        self.secrets.iter().all(|(secret, placeholder)| secret.len() == placeholder.len())
    }

    pub(crate) fn headers(&self, headers: &mut HeaderMap) {
        // Names are in small letters here, whatever they were.
        let is_named = |name: &HeaderName| {
            self.secrets.iter().any(|(secret, _)| {
                name.as_str().as_bytes().windows(secret.len()).any(|part| part.eq_ignore_ascii_case(secret))
            })
        };
        let named: Vec<HeaderName> = headers.keys().filter(|name| is_named(name)).cloned().collect();
        for name in named {
            headers.remove(name);
        }
        for value in headers.values_mut() {
            let mut scrubbed = Vec::new();
            self.take(&mut value.as_bytes().to_vec(), &mut scrubbed, /* is_last */ true);
            if scrubbed != value.as_bytes() {
                *value = HeaderValue::from_bytes(&scrubbed)
                    .unwrap_or_else(|_| HeaderValue::from_static("removed-by-ringfence"));
            }
        }
    }

    /// Moves what is settled; what may be the beginning of a secret stays.
    fn take(&self, from: &mut Vec<u8>, to: &mut Vec<u8>, is_last: bool) {
        let mut at = 0;
        while at < from.len() {
            let rest = &from[at..];
            let may_come = |(secret, _): &(Vec<u8>, _)| secret.len() > rest.len() && secret.starts_with(rest);
            // Also when a shorter one is there already.
            if !is_last && self.secrets.iter().any(may_come) {
                break;
            }
            if let Some((secret, placeholder)) =
                self.secrets.iter().find(|(secret, _)| rest.starts_with(secret))
            {
                to.extend_from_slice(placeholder);
                at += secret.len();
                continue;
            }
            let next = self.next_start(&rest[1..]).map_or(rest.len(), |next| next + 1);
            to.extend_from_slice(&rest[..next]);
            at += next;
        }
        from.drain(..at);
    }

    /// Where a secret could begin.
    fn next_start(&self, bytes: &[u8]) -> Option<usize> {
        bytes.iter().position(|byte| self.begins[usize::from(*byte)])
    }
}

/// The whole value and its part after a scheme (`Bearer …`), as they stand in texts, in JSON and in addresses.
fn spellings(value: &str) -> Vec<Vec<u8>> {
    let part = value.split_once(' ').map(|(_, part)| part.trim()).filter(|part| part.len() >= SHORTEST_PART);
    let mut all = Vec::new();
    for secret in [Some(value), part].into_iter().flatten() {
        let in_json = secret.replace('\\', "\\\\").replace('"', "\\\"");
        all.push(in_json.replace('/', "\\/").into_bytes());
        all.push(in_json.into_bytes());
        all.push(in_a_url(secret, |byte| format!("%{byte:02X}")));
        all.push(in_a_url(secret, |byte| format!("%{byte:02x}")));
        all.push(secret.as_bytes().to_vec());
    }
    all.retain(|secret| !secret.is_empty());
    all
}

/// As browsers and libraries write it.
fn in_a_url(text: &str, escaped: fn(u8) -> String) -> Vec<u8> {
    text.bytes()
        .flat_map(|byte| {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                vec![byte]
            } else {
                escaped(byte).into_bytes()
            }
        })
        .collect()
}

/// A body without the secret.
pub(crate) struct Scrubbed {
    body: Incoming,
    scrub: Scrub,
    held: Vec<u8>,
    /// What comes after everything else.
    last: Option<Frame<Bytes>>,
    is_over: bool,
}

impl Scrubbed {
    pub(crate) fn new(body: Incoming, scrub: Scrub) -> Self {
        Self { body, scrub, held: Vec::new(), last: None, is_over: false }
    }
}

impl Body for Scrubbed {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = &mut *self;
        loop {
            if this.is_over {
                return Poll::Ready(this.last.take().map(Ok));
            }
            let mut settled = Vec::new();
            match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        this.held.extend_from_slice(&data);
                        this.scrub.take(&mut this.held, &mut settled, /* is_last */ false);
                    }
                    Err(mut frame) => {
                        if let Some(trailers) = frame.trailers_mut() {
                            this.scrub.headers(trailers);
                        }
                        this.last = Some(frame);
                        this.is_over = true;
                        this.scrub.take(&mut this.held, &mut settled, /* is_last */ true);
                    }
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    this.is_over = true;
                    this.scrub.take(&mut this.held, &mut settled, /* is_last */ true);
                }
            }
            if !settled.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(BytesMut::from(&settled[..]).freeze()))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_empty() && self.last.is_none() && (self.is_over || self.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        if self.scrub.keeps_lengths() && self.held.is_empty() {
            self.body.size_hint()
        } else {
            SizeHint::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::inspect::Hidden;

    use super::*;

    fn scrub(value: &str, placeholder: &str) -> Scrub {
        let credential = ringfence_model::Credential {
            header: "authorization".to_owned(),
            from: ringfence_model::CredentialSource::Variables("$X".to_owned()),
            variable: None,
        };
        let hidden = Hidden { value: value.to_owned(), placeholder: placeholder.to_owned() };
        Scrub::new(&[&Secret { credential, value: value.to_owned(), hidden: vec![hidden] }])
    }

    fn through(scrub: &Scrub, parts: &[&[u8]]) -> String {
        let (mut held, mut all) = (Vec::new(), Vec::new());
        for part in parts {
            held.extend_from_slice(part);
            scrub.take(&mut held, &mut all, /* is_last */ false);
        }
        scrub.take(&mut held, &mut all, /* is_last */ true);
        String::from_utf8(all).unwrap()
    }

    #[test]
    fn a_secret_is_replaced_in_each_spelling() {
        let scrub = scrub("Bearer s3cr/et\"key", "NO");
        for (text, want) in [
            ("a Bearer s3cr/et\"key b", "a NO b"),
            ("key=s3cr/et\"key", "key=NO"),
            ("{\"k\":\"s3cr\\/et\\\"key\"}", "{\"k\":\"NO\"}"),
            ("{\"k\":\"Bearer s3cr/et\\\"key\"}", "{\"k\":\"NO\"}"),
            ("?k=s3cr%2Fet%22key&x", "?k=NO&x"),
            ("?k=s3cr%2fet%22key&x", "?k=NO&x"),
            ("Bearer s3cr/et", "Bearer s3cr/et"),
            ("Bearer s3cr/etBearer s3cr/et\"key", "Bearer s3cr/etNO"),
        ] {
            assert_eq!(through(&scrub, &[text.as_bytes()]), want);
            let single: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
            assert_eq!(through(&scrub, &single), want);
        }
    }

    #[test]
    fn what_cannot_be_a_secret_is_not_held_back() {
        let scrub = scrub("s3cret", "NO");
        let (mut held, mut all) = (b"data: hello\n\n".to_vec(), Vec::new());
        scrub.take(&mut held, &mut all, /* is_last */ false);
        assert_eq!((held.len(), all.len()), (0, 13));
    }

    proptest! {
        #[test]
        fn however_it_is_cut_it_comes_out_the_same(text in "[ab]{0,40}", cuts in proptest::collection::vec(0..40usize, 0..6)) {
            let scrub = scrub("aabab", "-");
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut <= text.len()).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let parts: Vec<&[u8]> = cuts.windows(2).map(|cut| &text.as_bytes()[cut[0]..cut[1]]).collect();
            let want = text.replace("aabab", "-");
            prop_assert_eq!(through(&scrub, &parts), want);
        }
    }
}
