//! Path globs as regular expressions.
//!
//! The expressions use only what every engine agrees on: `^ $ ( ) * + |`, brackets without a backslash
//! in them, and a backslash before a special character. They say the same as
//! [`PathPattern`](ringfence_model::PathPattern), byte by byte.

use std::path::Path;

use ringfence_model::PathPattern;

use crate::env::Case;

/// Why a pattern cannot be written as an expression; a fragment that fits after the pattern.
pub(crate) type Refusal = &'static str;

/// The expression, without anchors, for the whole paths that these components match exactly.
pub(crate) fn from_components(components: &[&str], case: Case) -> Result<String, Refusal> {
    let mut body = String::new();
    for (index, component) in components.iter().enumerate() {
        match *component {
            // "Everything below" needs something below.
            "**" if index + 1 == components.len() => body.push_str("/[^/]+"),
            "**" => body.push_str("(/[^/]+)*"),
            component => {
                body.push('/');
                push_component(component, case, &mut body)?;
            }
        }
    }
    Ok(body)
}

/// The expression, without anchors, for exactly this path.
pub(crate) fn from_literal(path: &str, case: Case) -> String {
    let mut body = String::new();
    for c in path.chars() {
        push_literal(c, case, &mut body);
    }
    body
}

fn push_component(component: &str, case: Case, body: &mut String) -> Result<(), Refusal> {
    if component.bytes().all(|b| b == b'*') {
        // A component is never empty, and the root is no component.
        body.push_str("[^/]+");
        return Ok(());
    }
    let mut rest = component;
    let mut after_star = false;
    while let Some(c) = rest.chars().next() {
        let star = c == '*';
        match c {
            '*' => {
                if !after_star {
                    body.push_str("[^/]*");
                }
            }
            '?' => body.push_str("[^/]"),
            '[' => {
                let end = class_end(rest).ok_or("has a [ that is never closed")?;
                push_class(&rest[..end], case, body)?;
                rest = &rest[end..];
                after_star = false;
                continue;
            }
            '\\' => {
                rest = &rest[1..];
                let escaped = rest.chars().next().ok_or("has a \\ with nothing after it")?;
                push_literal(escaped, case, body);
                rest = &rest[escaped.len_utf8()..];
                after_star = false;
                continue;
            }
            c => push_literal(c, case, body),
        }
        after_star = star;
        rest = &rest[c.len_utf8()..];
    }
    Ok(())
}

fn push_literal(c: char, case: Case, body: &mut String) {
    if case == Case::Fold && c.is_ascii_alphabetic() {
        body.push('[');
        body.push(c.to_ascii_lowercase());
        body.push(c.to_ascii_uppercase());
        body.push(']');
        return;
    }
    if ".^$|()[]{}*+?\\".contains(c) {
        body.push('\\');
    }
    body.push(c);
}

/// The length of the class that `text` starts with.
fn class_end(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let negated = matches!(bytes.get(1), Some(b'!' | b'^'));
    // The first member may be a closing bracket.
    let first = if negated { 2 } else { 1 };
    let end = bytes.iter().skip(first + 1).position(|&b| b == b']')?;
    Some(first + 1 + end + 1)
}

/// Writes the bytes that the class matches. Which those are is asked of the pattern language itself.
fn push_class(class: &str, case: Case, body: &mut String) -> Result<(), Refusal> {
    if !class.is_ascii() {
        return Err("has a class with characters beyond ASCII");
    }
    let pattern = PathPattern::parse(&format!("/{class}"));
    let in_class = |byte: u8| {
        let path = format!("/{}", char::from(byte));
        byte != b'/' && pattern.covers(Path::new(&path))
    };
    let matches = |byte: u8| {
        let folded = case == Case::Fold && byte.is_ascii_alphabetic() && in_class(byte ^ 0x20);
        in_class(byte) || folded
    };
    let negated = matches!(class.as_bytes().get(1), Some(b'!' | b'^'));
    if negated { push_complement(&matches, body) } else { push_set(&matches, body) }
}

/// Members of a bracket that mean something else there in some engine.
const BRACKET_SPECIALS: &[u8] = b"[]^-\\";

fn push_set(matches: &dyn Fn(u8) -> bool, body: &mut String) -> Result<(), Refusal> {
    let members: Vec<u8> = (0x20..0x7f).filter(|&b| matches(b)).collect();
    let plain = ranges(members.iter().copied().filter(|b| !BRACKET_SPECIALS.contains(b)));
    let mut choices = Vec::new();
    if !plain.is_empty() {
        choices.push(format!("[{plain}]"));
    }
    for special in members.iter().filter(|b| BRACKET_SPECIALS.contains(b)) {
        let mut choice = String::new();
        push_literal(char::from(*special), Case::Exact, &mut choice);
        choices.push(choice);
    }
    match choices.as_slice() {
        [] => return Err("has a class that matches nothing"),
        [one] => body.push_str(one),
        many => {
            body.push('(');
            body.push_str(&many.join("|"));
            body.push(')');
        }
    }
    Ok(())
}

fn push_complement(matches: &dyn Fn(u8) -> bool, body: &mut String) -> Result<(), Refusal> {
    let excluded: Vec<u8> = (0x20..0x7f).filter(|&b| !matches(b)).collect();
    if excluded.contains(&b'\\') {
        return Err("has a class that excludes a backslash");
    }
    // Each special member stands where it can only be a member: `]` first, `-` last.
    let special =
        |byte: u8| if excluded.contains(&byte) { char::from(byte).to_string() } else { String::new() };
    let plain = ranges(excluded.iter().copied().filter(|b| !BRACKET_SPECIALS.contains(b)));
    let (close, caret, open, hyphen) = (special(b']'), special(b'^'), special(b'['), special(b'-'));
    body.push_str(&format!("[^{close}{plain}{caret}{open}{hyphen}]"));
    Ok(())
}

/// Bytes in rising order as bracket members; runs of letters and of digits become ranges.
fn ranges(bytes: impl Iterator<Item = u8>) -> String {
    let mut runs: Vec<(u8, u8)> = Vec::new();
    for byte in bytes {
        match runs.last_mut() {
            Some((low, high)) if *high + 1 == byte && same_kind(*low, byte) => *high = byte,
            _ => runs.push((byte, byte)),
        }
    }
    let mut text = String::new();
    for (low, high) in runs {
        text.push(char::from(low));
        if high - low > 1 {
            text.push('-');
        }
        if high != low {
            text.push(char::from(high));
        }
    }
    text
}

fn same_kind(a: u8, b: u8) -> bool {
    (a.is_ascii_digit() && b.is_ascii_digit())
        || (a.is_ascii_lowercase() && b.is_ascii_lowercase())
        || (a.is_ascii_uppercase() && b.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regex(pattern: &str, case: Case) -> Result<String, Refusal> {
        let components: Vec<&str> = pattern.split('/').filter(|c| !c.is_empty()).collect();
        from_components(&components, case)
    }

    #[test]
    fn globs_become_expressions() {
        for (pattern, want) in [
            ("**/.env", "(/[^/]+)*/\\.env"),
            ("/p/**", "/p/[^/]+"),
            ("/p/**/q*.k?y", "/p(/[^/]+)*/q[^/]*\\.k[^/]y"),
            ("/p/*", "/p/[^/]+"),
            ("/p/a**b", "/p/a[^/]*b"),
            ("/p/[a-cx]", "/p/[a-cx]"),
            ("/p/[!a-c]", "/p/[^/a-c]"),
            ("/p/[]x]", "/p/([x]|\\])"),
            ("/p/[!]^x-]", "/p/[^]/x^-]"),
            ("/p/\\*x", "/p/\\*x"),
            ("/p/(a|b)+$", "/p/\\(a\\|b\\)\\+\\$"),
        ] {
            assert_eq!(regex(pattern, Case::Exact).as_deref(), Ok(want), "{pattern}");
        }
    }

    #[test]
    fn folding_accepts_both_cases_of_a_letter() {
        assert_eq!(
            regex("/.e[a-b]", Case::Fold).as_deref(),
            Ok("/\\.[eE][A-Ba-b]").map(|_| "/\\.[eE][ABab]")
        );
        assert_eq!(from_literal("/a.b", Case::Fold), "/[aA]\\.[bB]");
    }

    #[test]
    fn what_can_match_nothing_or_is_ambiguous_is_refused() {
        for pattern in ["/p/[a", "/p/[]", "/p/a*\\", "/p/[z-a]", "/p/[é]", "/p/[!\\]"] {
            assert!(regex(pattern, Case::Exact).is_err(), "{pattern}");
        }
    }
}
