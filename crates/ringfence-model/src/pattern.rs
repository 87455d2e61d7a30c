//! The patterns that path rules are written in, and their one matcher.
//!
//! A pattern names a path *and everything below it*. `*` and `?` stay inside one component, `**` spans
//! any number of them, `[a-z]` and `[!a-z]` are classes, `\` takes the next character literally. A
//! pattern starting with `**/` holds at every depth. The matcher works on bytes, allocates nothing and
//! takes time proportional to pattern × path, because the supervisor asks it on every mediated call.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::byte_pairs::BytePairs;

/// One path pattern; see the module's documentation for its language.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PathPattern {
    /// Glob text, or the plain path when `glob` is false. Never ends in `/` (except the root itself).
    text: PathBuf,
    glob: bool,
    /// In every path that it covers.
    pairs: BytePairs,
}

impl PathPattern {
    fn new(text: Vec<u8>, glob: bool) -> Self {
        let pairs = if glob { BytePairs::needed_by_glob(&text) } else { BytePairs::needed_by(&text) };
        Self { text: PathBuf::from(OsString::from_vec(text)), glob, pairs }
    }

    /// Reads pattern syntax.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self::parse_bytes(text.as_bytes())
    }

    /// Reads pattern syntax that need not be UTF-8, as paths need not.
    #[must_use]
    pub fn parse_bytes(text: &[u8]) -> Self {
        let trimmed = trim_trailing_slashes(text);
        if has_unescaped_meta(trimmed) {
            Self::new(trimmed.to_vec(), true)
        } else {
            Self::new(unescape(trimmed).into_owned(), false)
        }
    }

    /// Exactly this path and what is below it, whatever characters it has.
    #[must_use]
    pub fn literal(path: &Path) -> Self {
        Self::new(trim_trailing_slashes(path.as_os_str().as_bytes()).to_vec(), false)
    }

    #[must_use]
    pub fn is_glob(&self) -> bool {
        self.glob
    }

    /// The plain path, when the pattern is one.
    #[must_use]
    pub fn as_literal(&self) -> Option<&Path> {
        (!self.glob).then_some(self.text.as_path())
    }

    /// The components of a glob, as raw pattern bytes; `**` stands alone. Empty for a plain path.
    pub fn glob_components(&self) -> impl Iterator<Item = &[u8]> {
        let text: &[u8] = if self.glob { self.text.as_os_str().as_bytes() } else { b"" };
        text.split(|&b| b == b'/').filter(|c| !c.is_empty())
    }

    /// Whether the pattern covers `path` (absolute, without `.`/`..`): it matches the path itself or
    /// one of its ancestors.
    #[must_use]
    pub fn covers(&self, path: &Path) -> bool {
        self.covers_bytes(path.as_os_str().as_bytes())
    }

    /// As [`covers`](Self::covers), for a path that many patterns are compared with, and its pairs.
    #[must_use]
    pub(crate) fn covers_with(&self, path: &Path, pairs: &BytePairs) -> bool {
        pairs.contain(&self.pairs) && self.covers(path)
    }

    #[must_use]
    pub fn covers_bytes(&self, path: &[u8]) -> bool {
        let pattern = self.text.as_os_str().as_bytes();
        if self.glob { glob_covers(pattern, path) } else { literal_covers(pattern, path) }
    }

    /// Whether the pattern matches exactly this path, not merely an ancestor of it.
    #[must_use]
    pub fn matches_exactly(&self, path: &Path) -> bool {
        self.covers(path) && path.parent().is_none_or(|parent| !self.covers(parent))
    }

    /// What it covers below the directory `from`, in patterns for a place where that directory is called `to`. None at all when it
    /// covers nothing there.
    #[must_use]
    pub fn moved(&self, from: &Path, to: &Path) -> Vec<Self> {
        if let Some(path) = self.as_literal() {
            return match (path.strip_prefix(from), from.starts_with(path)) {
                (_, true) => vec![Self::literal(to)],
                (Ok(below), false) => vec![Self::literal(&to.join(below))],
                (Err(_), false) => vec![],
            };
        }
        let pattern: Vec<&[u8]> = self.glob_components().collect();
        // How many components of the pattern may be behind us after each component of the directory.
        let mut behind = BTreeSet::from([0]);
        for name in components(from.as_os_str().as_bytes()) {
            let mut next = BTreeSet::new();
            for at in with_skipped(&pattern, behind) {
                match pattern.get(at) {
                    None => return vec![Self::literal(to)],
                    // At the end it is everything below what came before it.
                    Some(&b"**") => drop(next.insert(if at + 1 == pattern.len() { at + 1 } else { at })),
                    Some(part) if component_matches(part, name) => drop(next.insert(at + 1)),
                    Some(_) => {}
                }
            }
            behind = next;
        }
        if behind.contains(&pattern.len()) {
            return vec![Self::literal(to)];
        }
        let to = Self::literal(to).to_syntax().into_owned();
        let rest = |at: usize| {
            let mut text = to.trim_end_matches('/').as_bytes().to_vec();
            for part in &pattern[at..] {
                text.push(b'/');
                text.extend_from_slice(part);
            }
            Self::parse_bytes(&text)
        };
        behind.into_iter().map(rest).collect()
    }

    /// Whether a pattern for one name at every depth would cover the path if case did not matter, as it does not to some
    /// tools and file systems.
    #[must_use]
    pub fn covers_in_other_case(&self, path: &Path) -> bool {
        let path = path.as_os_str().as_bytes();
        if !path.iter().any(u8::is_ascii_uppercase) || self.names_after_depth() != Some(1) {
            return false;
        }
        let mut names = components(path);
        let mut parts = self.glob_components();
        let is_below =
            parts.by_ref().take_while(|part| *part != b"**").all(|part| names.next() == Some(part));
        parts.next().is_some_and(|wanted| is_below && names.any(|name| name.eq_ignore_ascii_case(wanted)))
    }

    /// How many names follow `**`, which stands for any directory; none where nothing does.
    #[must_use]
    pub fn names_after_depth(&self) -> Option<usize> {
        let parts: Vec<&[u8]> = self.glob_components().collect();
        let depth = parts.iter().rposition(|part| *part == b"**")?;
        Some(parts.len() - depth - 1)
    }

    /// How specific the pattern is: the number of components that are not `**`. More beats fewer
    /// between two rules of one kind; a plain path beats a glob of the same depth.
    #[must_use]
    pub fn specificity(&self) -> (usize, bool) {
        let bytes = self.text.as_os_str().as_bytes();
        let depth = components(bytes).filter(|c| *c != b"**").count();
        (depth, !self.glob)
    }

    /// The text in pattern syntax; parsing it gives this pattern again.
    #[must_use]
    pub fn to_syntax(&self) -> Cow<'_, str> {
        let text = self.text.to_string_lossy();
        if self.glob || !text.contains(['*', '?', '[', '\\']) {
            return text;
        }
        let mut escaped = String::with_capacity(text.len() + 4);
        for c in text.chars() {
            if matches!(c, '*' | '?' | '[' | '\\') {
                escaped.push('\\');
            }
            escaped.push(c);
        }
        Cow::Owned(escaped)
    }
}

impl From<&str> for PathPattern {
    fn from(text: &str) -> Self {
        Self::parse(text)
    }
}

impl From<String> for PathPattern {
    fn from(text: String) -> Self {
        Self::parse(&text)
    }
}

impl From<PathBuf> for PathPattern {
    fn from(path: PathBuf) -> Self {
        Self::literal(&path)
    }
}

impl From<&Path> for PathPattern {
    fn from(path: &Path) -> Self {
        Self::literal(path)
    }
}

impl std::fmt::Display for PathPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.to_syntax())
    }
}

impl Serialize for PathPattern {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_syntax())
    }
}

impl<'de> Deserialize<'de> for PathPattern {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::parse(&String::deserialize(deserializer)?))
    }
}

impl JsonSchema for PathPattern {
    fn schema_name() -> Cow<'static, str> {
        "PathPattern".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "A path and everything below it; *, ?, [..] within a component, ** across components"
        })
    }
}

/// With those that a `**` for no component at all leads to.
fn with_skipped(pattern: &[&[u8]], mut behind: BTreeSet<usize>) -> BTreeSet<usize> {
    let last = pattern.len().saturating_sub(1);
    for (at, part) in pattern[..last].iter().enumerate() {
        if *part == b"**" && behind.contains(&at) {
            behind.insert(at + 1);
        }
    }
    behind
}

fn trim_trailing_slashes(mut text: &[u8]) -> &[u8] {
    while text.len() > 1 && text.ends_with(b"/") {
        text = &text[..text.len() - 1];
    }
    text
}

fn has_unescaped_meta(text: &[u8]) -> bool {
    let mut bytes = text.iter();
    while let Some(&b) = bytes.next() {
        match b {
            b'\\' => {
                bytes.next();
            }
            b'*' | b'?' | b'[' => return true,
            _ => {}
        }
    }
    false
}

fn unescape(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'\\') {
        return Cow::Borrowed(text);
    }
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(&b) = bytes.next() {
        if b == b'\\' {
            plain.extend(bytes.next());
        } else {
            plain.push(b);
        }
    }
    Cow::Owned(plain)
}

fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    path.split(|&b| b == b'/').filter(|c| !c.is_empty())
}

fn literal_covers(prefix: &[u8], path: &[u8]) -> bool {
    if prefix == b"/" {
        return path.first() == Some(&b'/');
    }
    path.starts_with(prefix) && matches!(path.get(prefix.len()), None | Some(b'/'))
}

/// Matches components from the left; reaching the end of the pattern is a match, because a pattern
/// covers what is below it. On a mismatch the last `**` swallows one component more.
fn glob_covers(pattern: &[u8], path: &[u8]) -> bool {
    let mut pat = components(pattern);
    let mut rest = components(path);
    let mut retry = None;
    loop {
        match pat.next() {
            None => return true,
            Some(b"**") => {
                retry = Some((pat.clone(), rest.clone()));
                // A trailing `**` means "everything below", which needs at least one component.
                if pat.clone().next().is_none() {
                    return rest.next().is_some();
                }
            }
            Some(p) => {
                let matched = match rest.next() {
                    Some(c) => component_matches(p, c),
                    None => return false,
                };
                if !matched {
                    let Some((retry_pat, mut retry_rest)) = retry.take() else { return false };
                    if retry_rest.next().is_none() {
                        return false;
                    }
                    pat = retry_pat.clone();
                    rest = retry_rest.clone();
                    retry = Some((retry_pat, retry_rest));
                }
            }
        }
    }
}

/// Wildcards within one component, with backtracking to the last `*` only.
fn component_matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        let step = match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, t));
                p += 1;
                continue;
            }
            Some(b'?') => Some(p + 1),
            Some(b'[') => class_end(pattern, p).filter(|_| class_matches(pattern, p, text[t])),
            Some(b'\\') => (pattern.get(p + 1) == Some(&text[t])).then_some(p + 2),
            Some(&b) => (b == text[t]).then_some(p + 1),
            None => None,
        };
        match (step, star) {
            (Some(next), _) => {
                p = next;
                t += 1;
            }
            (None, Some((after_star, from))) => {
                p = after_star;
                t = from + 1;
                star = Some((after_star, t));
            }
            (None, None) => return false,
        }
    }
    pattern[p..].iter().all(|&b| b == b'*')
}

/// Index after the closing bracket of the class that opens at `open`.
fn class_end(pattern: &[u8], open: usize) -> Option<usize> {
    let mut i = open + 1;
    if matches!(pattern.get(i), Some(b'!' | b'^')) {
        i += 1;
    }
    // A bracket right after the opening is a member, not the end.
    i += 1;
    while let Some(&b) = pattern.get(i) {
        if b == b']' {
            return Some(i + 1);
        }
        i += 1;
    }
    None
}

fn class_matches(pattern: &[u8], open: usize, byte: u8) -> bool {
    let Some(end) = class_end(pattern, open) else { return false };
    let mut members = &pattern[open + 1..end - 1];
    let negated = matches!(members.first(), Some(b'!' | b'^'));
    if negated {
        members = &members[1..];
    }
    let mut found = false;
    while let Some((&low, tail)) = members.split_first() {
        if let [b'-', high, after @ ..] = tail {
            found |= (low..=*high).contains(&byte);
            members = after;
        } else {
            found |= low == byte;
            members = tail;
        }
    }
    found != negated
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_moved_pattern_covers_the_same_below_the_new_name() {
        const NAMES: [&str; 4] = ["a", "b", "ab", ".env"];
        const PARTS: [&str; 8] = ["a", "b", "*", "a*", "**", ".env", "?", "[ab]"];
        let path = |of: &[&str]| of.iter().fold(PathBuf::from("/"), |path, name| path.join(name));
        let names = || proptest::collection::vec(proptest::sample::select(&NAMES[..]), 0..4);
        let parts = proptest::collection::vec(proptest::sample::select(&PARTS[..]), 1..5);
        let to = Path::new("/w*rk/s[pace");
        proptest!(ProptestConfig::with_cases(4000), |(parts in parts, from in names(), below in names())| {
            let pattern = PathPattern::parse(&format!("/{}", parts.join("/")));
            let from = path(&from);
            let moved = pattern.moved(&from, to);
            let (there, here) = below.iter().fold((from.clone(), to.to_owned()), |(there, here), name| {
                (there.join(name), here.join(name))
            });
            let covered = moved.iter().any(|moved| moved.covers(&here));
            prop_assert_eq!(covered, pattern.covers(&there), "{} {} {:?}", pattern, there.display(), moved);
        });
    }

    fn covers(pattern: &str, path: &str) -> bool {
        PathPattern::parse(pattern).covers(Path::new(path))
    }

    #[test]
    fn a_plain_path_covers_itself_and_what_is_below() {
        for (pattern, path, want) in [
            ("/home/u/.ssh", "/home/u/.ssh", true),
            ("/home/u/.ssh/", "/home/u/.ssh/id_rsa", true),
            ("/home/u/.ssh", "/home/u/.sshd", false),
            ("/home/u/.ssh", "/home/u", false),
            ("/", "/anything", true),
            ("/a\\[b", "/a[b/c", true),
        ] {
            assert_eq!(covers(pattern, path), want, "{pattern} on {path}");
        }
    }

    #[test]
    fn globs_stay_within_components_and_end_at_them() {
        for (pattern, path, want) in [
            ("**/.env", "/p/.env", true),
            ("**/.env", "/p/a/b/.env", true),
            ("**/.env", "/.env", true),
            ("**/.env", "/p/.environment", false),
            ("**/.env", "/p/my.env", false),
            ("**/.env", "/p/.env/inside", true),
            ("**/.git/hooks", "/p/sub/.git/hooks/pre-commit", true),
            ("**/.git/hooks", "/p/.git/x/hooks", false),
            ("**/a/**/b", "/x/a/b", true),
            ("**/a/**/b", "/x/a/y/a/z/b/c", true),
            ("/p/*.key", "/p/server.key", true),
            ("/p/*.key", "/p/sub/server.key", false),
            ("/p/**", "/p/x", true),
            ("/p/**", "/p", false),
            ("/p/?x", "/p/ax", true),
            ("/p/[a-c]x", "/p/bx", true),
            ("/p/[!a-c]x", "/p/bx", false),
            ("/p/[]]x", "/p/]x", true),
            ("/p/a*b*c", "/p/aXbYbZc", true),
            ("/p/\\*", "/p/*", true),
            ("/p/\\**", "/p/*z", true),
            ("/p/\\**", "/p/zz", false),
        ] {
            assert_eq!(covers(pattern, path), want, "{pattern} on {path}");
        }
    }

    #[test]
    fn exact_match_is_the_top_of_what_is_covered() {
        let pattern = PathPattern::parse("**/.git/hooks");
        assert!(pattern.matches_exactly(Path::new("/p/.git/hooks")));
        assert!(!pattern.matches_exactly(Path::new("/p/.git/hooks/x")));
    }

    proptest! {
        #[test]
        fn no_pair_is_missed_in_what_is_covered(
            pattern in "(/?(\\*\\*|[a-b*?\\[\\]!\\\\-]{1,3})){1,4}/?",
            path in "(/[a-b\\\\*\\[\\]-]{1,3}){1,4}",
        ) {
            let (pattern, path) = (PathPattern::parse(&pattern), Path::new(&path));
            let pairs = BytePairs::of(path.as_os_str().as_bytes());
            prop_assert_eq!(pattern.covers_with(path, &pairs), pattern.covers(path));
        }

        #[test]
        fn a_literal_survives_its_own_syntax(path in "/[a-z\\[\\]*?\\\\/ ]{0,20}") {
            let literal = PathPattern::literal(Path::new(&path));
            prop_assert_eq!(PathPattern::parse(&literal.to_syntax()), literal);
        }

        #[test]
        fn what_is_covered_is_covered_below_too(pattern in "/?[a-c*?/\\[\\]]{0,12}", path in "(/[a-c]{1,2}){1,4}") {
            let pattern = PathPattern::parse(&pattern);
            if pattern.covers(Path::new(&path)) {
                let below = format!("{path}/below");
                prop_assert!(pattern.covers(Path::new(&below)));
            }
        }
    }
}
