//! Which requests to a host may be made, and with which credential. Pure.

use std::fmt;

use ringfence_model::HostRule;

/// A rule whose requests are looked at one by one, also inside of TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspected {
    /// The one that allows the host.
    pub rule: HostRule,
    pub inspect: Inspect,
}

/// What is allowed of a host. Lists that are empty allow all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inspect {
    pub methods: Vec<String>,
    pub paths: Vec<PathGlob>,
    /// Added to each request that is allowed, when it goes by TLS.
    pub credential: Option<Credential>,
}

/// A secret that a request carries and that the program never sees.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// The header it is sent in.
    pub header: String,
    /// The whole header, or what takes the placeholder's place in it.
    pub value: String,
    /// What the program has instead: replaced in the header on the way out, and put in the secret's place on the way
    /// in. One as long as the value leaves lengths as they are.
    pub placeholder: String,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("header", &self.header)
            .field("placeholder", &self.placeholder)
            .finish_non_exhaustive()
    }
}

/// A path with `*` for anything within a segment and `**` for anything at all: `/repos/*/issues`, `/v1/**`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathGlob(String);

impl PathGlob {
    /// None when it does not begin with `/`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        text.starts_with('/').then(|| Self(text.to_owned()))
    }

    fn covers(&self, path: &str) -> bool {
        covers(self.0.as_bytes(), path.as_bytes())
    }
}

/// By the furthest star that can still give way, one of each kind; so it takes no more than the product of lengths.
fn covers(glob: &[u8], path: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut narrow: Option<(usize, usize)> = None;
    let mut wide: Option<(usize, usize)> = None;
    loop {
        if glob[at..].starts_with(b"**") {
            at += 2;
            (wide, narrow) = (Some((at, from)), None);
        } else if glob[at..].starts_with(b"*") {
            at += 1;
            narrow = Some((at, from));
        } else if from < path.len() && glob.get(at) == Some(&path[from]) {
            at += 1;
            from += 1;
        } else if from == path.len() && at == glob.len() {
            return true;
        } else if let Some((after, start)) = narrow
            && path.get(start).is_some_and(|byte| *byte != b'/')
        {
            narrow = Some((after, start + 1));
            (at, from) = (after, start + 1);
        } else if let Some((after, start)) = wide
            && start < path.len()
        {
            (wide, narrow) = (Some((after, start + 1)), None);
            (at, from) = (after, start + 1);
        } else {
            return false;
        }
    }
}

impl Inspect {
    /// Whether a request with that method and that path, as it is written, is among those allowed.
    #[must_use]
    pub fn allows(&self, method: &str, path: &str) -> bool {
        let is_method = self.methods.is_empty() || self.methods.iter().any(|own| own == method);
        is_method
            && (self.paths.is_empty()
                || plain(path).is_some_and(|path| self.paths.iter().any(|glob| glob.covers(&path))))
    }
}

/// The path as every server reads it; none when servers could differ.
fn plain(path: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            decoded.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(after.get(..2)?).ok()?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let byte = u8::from_str_radix(digits, 16).ok()?;
        // One that would be another path when it is decoded once more, or never.
        if matches!(byte, b'/' | b'\\' | b'%' | b'?' | b'#' | b';') {
            return None;
        }
        decoded.push(byte);
        rest = &after[2..];
    }
    if decoded.iter().any(|byte| byte.is_ascii_control() || *byte == b'\\') || !decoded.starts_with(b"/") {
        return None;
    }
    let text = String::from_utf8(decoded).ok()?;
    let mut segments = text[1..].split('/').peekable();
    while let Some(segment) = segments.next() {
        let name = segment.split(';').next().unwrap_or_default();
        // Empty ones are left out by some; the last one is a slash at the end.
        if name == "." || name == ".." || (segment.is_empty() && segments.peek().is_some()) {
            return None;
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn inspect(methods: &[&str], paths: &[&str]) -> Inspect {
        Inspect {
            methods: methods.iter().map(|&method| method.to_owned()).collect(),
            paths: paths.iter().map(|path| PathGlob::parse(path).unwrap()).collect(),
            credential: None,
        }
    }

    #[test]
    fn globs_cover_what_they_say() {
        for (glob, path, want) in [
            ("/a", "/a", true),
            ("/a", "/a/", false),
            ("/a", "/ab", false),
            ("/a/*", "/a/b", true),
            ("/a/*", "/a/", true),
            ("/a/*", "/a/b/c", false),
            ("/a/*/c", "/a/b/c", true),
            ("/a/*/c", "/a/b/b/c", false),
            ("/a/**", "/a/b/c", true),
            ("/a/**", "/a", false),
            ("/**/c", "/a/b/c", true),
            ("/**/c/*.x", "/a/c/b/c/d.x", true),
            ("/**/c/*.x", "/a/c/b/c/d/e.x", false),
            ("/a*b*c", "/axxbyybzc", true),
            ("/**", "/", true),
            ("/a/%62", "/a/b", false),
            ("/a/b", "/a/%62", true),
            ("/a/b", "/a/b?", false),
        ] {
            assert_eq!(inspect(&[], &[glob]).allows("GET", path), want, "{path} by {glob}");
        }
    }

    #[test]
    fn paths_that_servers_read_differently_are_not_allowed() {
        for path in [
            "/a/../b",
            "/a/%2e%2e/b",
            "/a/.%2E/b",
            "/a/./b",
            "/a/..;x/b",
            "/a%2fb",
            "/a/..%2fb",
            "/a\\b",
            "/a%5cb",
            "/a//b",
            "/a%00",
            "/a%",
            "/a%2",
            "/a%zz",
            "/a%252e",
            "/%ff",
            "*",
            "",
            "/a%+1",
        ] {
            assert!(!inspect(&[], &["/**"]).allows("GET", path), "{path}");
        }
        for path in ["/", "/a/", "/a/b.c", "/a/..b", "/%20", "/a/...", "/ä"] {
            assert!(inspect(&[], &["/**"]).allows("GET", path), "{path}");
        }
    }

    #[test]
    fn methods_are_as_they_are_written() {
        let rule = inspect(&["GET", "HEAD"], &[]);
        assert!(rule.allows("GET", "/a/../b") && rule.allows("HEAD", "*"));
        assert!(!rule.allows("POST", "/") && !rule.allows("get", "/"));
    }

    #[test]
    fn a_credential_is_not_shown() {
        let credential =
            Credential { header: "x".to_owned(), value: "s3cret".to_owned(), placeholder: "p".to_owned() };
        assert!(!format!("{credential:?}").contains("s3cret"));
    }

    /// The same by trying everything.
    fn slowly(glob: &[u8], path: &[u8]) -> bool {
        match glob {
            [] => path.is_empty(),
            [b'*', b'*', rest @ ..] => (0..=path.len()).any(|at| slowly(rest, &path[at..])),
            [b'*', rest @ ..] => {
                let most = path.iter().position(|byte| *byte == b'/').unwrap_or(path.len());
                (0..=most).any(|at| slowly(rest, &path[at..]))
            }
            [first, rest @ ..] => path.first() == Some(first) && slowly(rest, &path[1..]),
        }
    }

    proptest! {
        #[test]
        fn globs_are_matched_as_by_trying_everything(glob in "/[ab/*]{0,9}", path in "/[ab/]{0,10}") {
            prop_assert_eq!(
                covers(glob.as_bytes(), path.as_bytes()),
                slowly(glob.as_bytes(), path.as_bytes()),
                "{} {}", glob, path
            );
        }
    }
}
