//! Which requests to a host may be made, and with which credential. Pure.

use std::fmt;

use ringfence_model::{Credential, Host, HostRule, NetworkPolicy};

/// The value of a rule's credential, which whoever runs the relay has fetched.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    /// Whose value it is, as the rule says it.
    pub credential: Credential,
    /// The whole header.
    pub value: String,
    /// What of it is secret.
    pub hidden: Vec<Hidden>,
}

/// Something secret, and what the program has instead.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden {
    pub value: String,
    /// Replaced in the header on the way out, and put in the secret's place on the way in. One as long as the value
    /// leaves lengths as they are.
    pub placeholder: String,
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hidden").field("placeholder", &self.placeholder).finish_non_exhaustive()
    }
}

impl Secret {
    /// The header's value for a request that has this one already: with the secrets in their placeholders' places, or
    /// the whole.
    pub(crate) fn in_place_of(&self, own: Option<&str>) -> String {
        let own = own.filter(|own| self.hidden.iter().any(|hidden| own.contains(&hidden.placeholder)));
        own.map_or_else(
            || self.value.clone(),
            |own| {
                let put_in = |text: String, hidden: &Hidden| text.replace(&hidden.placeholder, &hidden.value);
                self.hidden.iter().fold(own.to_owned(), put_in)
            },
        )
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret")
            .field("credential", &self.credential)
            .field("hidden", &self.hidden)
            .finish_non_exhaustive()
    }
}

/// A rule's requests, with everything at hand. Lists that are empty allow all.
#[derive(Debug, Clone)]
pub(crate) struct Allowed {
    pub(crate) rule: HostRule,
    methods: Vec<String>,
    paths: Vec<PathGlob>,
    /// Added to each request that is allowed, when it goes by TLS.
    pub(crate) secret: Option<Secret>,
}

/// The rules of a policy that are inspected.
#[derive(Debug)]
pub(crate) struct Inspected(Vec<(HostRule, Result<Allowed, String>)>);

impl Inspected {
    pub(crate) fn of(policy: &NetworkPolicy, secrets: &[Secret]) -> Self {
        let rules = policy.allowed_hosts.iter().filter(|rule| rule.inspect.is_some());
        Self(rules.map(|rule| (rule.clone(), Allowed::by(rule, secrets))).collect())
    }

    /// What is allowed of a host that is inspected: by any rule that is about it, also when a wider one that is not
    /// inspected allows it too. None when it is not; an error when a rule cannot be kept to.
    pub(crate) fn for_host(&self, host: &Host, port: u16) -> Result<Option<Vec<Allowed>>, String> {
        let rules = self.0.iter().filter(|(rule, _)| rule.covers(host, port));
        let all = rules.map(|(_, allowed)| allowed.clone()).collect::<Result<Vec<_>, String>>()?;
        Ok((!all.is_empty()).then_some(all))
    }
}

/// A path with `*` for anything within a segment and `**` for anything at all: `/repos/*/issues`, `/v1/**`.
#[derive(Debug, Clone)]
struct PathGlob(String);

impl PathGlob {
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

impl Allowed {
    fn by(rule: &HostRule, secrets: &[Secret]) -> Result<Self, String> {
        let inspect = rule.inspect.clone().unwrap_or_default();
        let secret = match &inspect.credential {
            None => None,
            Some(credential) => {
                let found = secrets.iter().find(|secret| secret.credential == *credential);
                Some(found.ok_or_else(|| format!("the credential of `{rule}` is not there"))?.clone())
            }
        };
        let paths = inspect.paths.iter().map(|path| PathGlob(path.clone())).collect();
        Ok(Self { rule: rule.clone(), methods: inspect.methods, paths, secret })
    }

    /// Whether a request with that method and that path, as it is written, is among those allowed.
    pub(crate) fn allows(&self, method: &str, path: &str) -> bool {
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

    use ringfence_model::{RuleLayer, RuleSource};

    use super::*;

    fn inspect(methods: &[&str], paths: &[&str]) -> Allowed {
        Allowed {
            rule: HostRule::parse("a.example", RuleSource::layer(RuleLayer::User)).unwrap(),
            methods: methods.iter().map(|&method| method.to_owned()).collect(),
            paths: paths.iter().map(|&path| PathGlob(path.to_owned())).collect(),
            secret: None,
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
    fn a_secret_is_not_shown_and_one_that_is_missing_is_missed() {
        let credential = Credential {
            header: "x".to_owned(),
            from: ringfence_model::CredentialSource::Variables("$X".to_owned()),
            variable: None,
        };
        let secret = Secret {
            credential: credential.clone(),
            value: "s3cret".to_owned(),
            hidden: vec![Hidden { value: "s3cret".to_owned(), placeholder: "p".to_owned() }],
        };
        assert!(!format!("{secret:?}").contains("s3cret"));
        let source = RuleSource::layer(RuleLayer::User);
        let mut rule = HostRule::parse("a.example", source).unwrap();
        rule.inspect = ringfence_model::Inspect::checked(vec![], vec![], Some(credential)).unwrap();
        let policy = NetworkPolicy { allowed_hosts: vec![rule], ..NetworkPolicy::default() };
        let (own, other) = (Host::parse("a.example").unwrap(), Host::parse("b.example").unwrap());
        assert!(Inspected::of(&policy, &[secret]).for_host(&own, 443).unwrap().is_some());
        let without = Inspected::of(&policy, &[]);
        assert!(without.for_host(&own, 443).unwrap_err().contains("`a.example` is not there"));
        assert!(without.for_host(&other, 443).unwrap().is_none());
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
