//! What the first bytes of a connection are. Pure.

/// What a program begins to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speech {
    /// Too little to tell.
    Unclear,
    Tls,
    Http1,
    /// HTTP/2 without TLS and without asking first.
    Http2,
    /// HTTP before it had versions, in which no host is named.
    Http0,
    /// Perhaps a request, with a first line longer than any.
    Endless,
    Other,
}

/// The longest line that may still become a request.
const LONGEST_LINE: usize = 64 * 1024;

/// The methods that are in use. Lines that begin with one of them are requests even when they name no version.
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"];

/// What the bytes so far are the beginning of.
#[must_use]
pub fn look(bytes: &[u8]) -> Speech {
    if bytes.first() == Some(&0x16) {
        return Speech::Tls;
    }
    // Servers skip empty lines before a request; so does this look.
    let start = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n' | b' ' | b'\t'));
    let Some(start) = start else {
        return unclear(bytes.len());
    };
    let rest = &bytes[start..];
    let (line, is_whole) = match rest.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&rest[..end], true),
        None => (rest, false),
    };
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let length = line.iter().position(|byte| !is_token(*byte)).unwrap_or(line.len());
    let (method, target) = line.split_at(length);
    if target.is_empty() {
        return if is_whole { Speech::Other } else { unclear(bytes.len()) };
    }
    if method.is_empty() || !matches!(target[0], b' ' | b'\t') {
        return Speech::Other;
    }
    let is_known = METHODS.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(method));
    if !is_known && target.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
        return Speech::Other;
    }
    if !is_whole {
        return unclear(bytes.len());
    }
    let target = target.trim_ascii();
    let version = target.rsplit(|byte| matches!(byte, b' ' | b'\t')).next().unwrap_or_default();
    match version.get(..5) {
        Some(name) if name.eq_ignore_ascii_case(b"HTTP/") => {
            if version[5..].starts_with(b"2") {
                Speech::Http2
            } else {
                Speech::Http1
            }
        }
        _ if is_known && (target.starts_with(b"/") || target.windows(3).any(|part| part == b"://")) => {
            Speech::Http0
        }
        _ => Speech::Other,
    }
}

/// Whether what is unclear so far may become a request with one of the usual methods, which comes in one piece or soon.
#[must_use]
pub fn is_like_request(bytes: &[u8]) -> bool {
    let rest = bytes.trim_ascii_start();
    let length = rest.iter().position(|byte| !is_token(*byte)).unwrap_or(rest.len());
    let method = &rest[..length];
    METHODS.iter().map(|known| known.as_bytes()).any(|known| {
        let known = if length == rest.len() { known.get(..length).unwrap_or_default() } else { known };
        known.eq_ignore_ascii_case(method)
    })
}

fn unclear(length: usize) -> Speech {
    if length < LONGEST_LINE { Speech::Unclear } else { Speech::Endless }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_spoken_is_seen() {
        use Speech::{Http0, Http1, Http2, Other, Tls, Unclear};
        for (text, want) in [
            ("", Unclear),
            ("\x16", Tls),
            ("\x16\x03\x01", Tls),
            ("G", Unclear),
            ("GET / HTT", Unclear),
            ("GET / HTTP/1.1\r\n", Http1),
            ("GET / HTTP/1.1\n", Http1),
            ("\r\n\r\nGET / HTTP/1.0\r\n", Http1),
            ("\r\n", Unclear),
            (" GET / HTTP/1.1\r\n", Http1),
            ("get / http/1.1\r\n", Http1),
            ("GET /a b HTTP/1.1\r\n", Http1),
            ("GET\t/ HTTP/1.1\r\n", Http1),
            ("GET /\0 HTTP/1.1\r\n", Http1),
            ("FOO x HTTP/9\r\n", Http1),
            ("CONNECT a.example:443 HTTP/1.1\r\n", Http1),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Http2),
            ("GET /\r\n", Http0),
            ("GET http://a.example/\r\n", Http0),
            ("get key\r\n", Other),
            ("EHLO a.example\r\n", Other),
            ("PING\r\n", Other),
            ("SSH-2.0-OpenSSH_9.9 Debian-1\r\n", Other),
            ("0032git-upload-pack /a\0host=b\0", Other),
            ("0032git-upload-pack", Unclear),
            ("*1\r\n$4\r\nPING\r\n", Other),
            ("AMQP\0\0\x09\x01", Other),
            ("\0\0\0\x08\x04\x02\x16\x2f", Other),
        ] {
            assert_eq!(look(text.as_bytes()), want, "{text:?}");
        }
        assert_eq!(look(&[b'A'; LONGEST_LINE]), Speech::Endless);
        assert_eq!(look(&[0x80, 0x2e, 1, 3, 1]), Other);
    }

    #[test]
    fn the_beginnings_of_usual_requests_are_known() {
        for text in ["", "\r\n", "G", "ge", "GET", "GET ", "GET /a b", "\r\nPOS", "options * HTT"] {
            assert!(is_like_request(text.as_bytes()), "{text:?}");
        }
        for text in ["hello", "GETT", "PING", "x", "hello world", "GE T", "EHLO a", "PROPFIND /"] {
            assert!(!is_like_request(text.as_bytes()), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn more_bytes_never_change_what_was_clear(bytes: Vec<u8>, cut in 0..200usize) {
            let seen = look(&bytes[..cut.min(bytes.len())]);
            if seen != Speech::Unclear {
                prop_assert_eq!(look(&bytes), seen);
            }
        }

        #[test]
        fn no_request_line_is_taken_for_something_else(
            before in "[\r\n \t]{0,4}", method in "[A-Z]{1,12}", target in "/[ -~]{0,40}", minor in 0..2u8,
        ) {
            let line = format!("{before}{method} {target} HTTP/1.{minor}\r\n");
            prop_assert_eq!(look(line.as_bytes()), Speech::Http1);
        }
    }
}
