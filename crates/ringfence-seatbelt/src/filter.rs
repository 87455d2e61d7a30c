//! The small part of the profile language that we write: strings, filters and rules.

use std::path::Path;

use ringfence_model::PathPattern;

use crate::env::Case;
use crate::regex::{self, Refusal};

/// A condition on a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Filter {
    /// Exactly this path.
    Literal(String),
    /// This path and what is below it.
    Subpath(String),
    /// The resolved path matches.
    Regex(String),
}

impl Filter {
    pub(crate) fn render(&self) -> String {
        match self {
            Self::Literal(path) => format!("(literal {})", quote(path)),
            Self::Subpath(path) => format!("(subpath {})", quote(path)),
            Self::Regex(expression) => format!("(regex {})", quote(expression)),
        }
    }
}

/// A string of the language. Control characters never get here: [`check_text`] refuses them.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted.push('"');
    quoted
}

/// Refuses text that cannot be written into a profile without doubt.
pub(crate) fn check_text(text: &str) -> Result<(), Refusal> {
    if text.chars().any(char::is_control) {
        return Err("has a control character in it, which a profile cannot express safely");
    }
    Ok(())
}

/// A path as text, absolute and without `.`, `..` and doubled slashes. None when it is relative: such a
/// rule covers nothing.
pub(crate) fn path_text(path: &Path) -> Result<Option<&str>, Refusal> {
    let text = path.to_str().ok_or("is not UTF-8, as every path on macOS is")?;
    check_text(text)?;
    if !text.starts_with('/') {
        return Ok(None);
    }
    let normal = text == "/" || text[1..].split('/').all(|part| !matches!(part, "" | "." | ".."));
    if normal { Ok(Some(text)) } else { Err("is not a normal path: it has `//`, `.` or `..` in it") }
}

/// The components of a glob as text; empty for a plain path.
fn glob_components(pattern: &PathPattern) -> Result<Vec<&str>, Refusal> {
    let mut components = Vec::new();
    for bytes in pattern.glob_components() {
        let component = std::str::from_utf8(bytes).map_err(|_| "is not UTF-8, as every path on macOS is")?;
        check_text(component)?;
        if matches!(component, "." | "..") {
            return Err("is not a normal path: it has `.` or `..` in it");
        }
        components.push(component);
    }
    Ok(components)
}

/// The filters that together cover what the pattern covers; none when it covers nothing.
pub(crate) fn covering(pattern: &PathPattern, case: Case) -> Result<Vec<Filter>, Refusal> {
    if let Some(path) = pattern.as_literal() {
        let Some(text) = path_text(path)? else { return Ok(Vec::new()) };
        let mut filters = vec![Filter::Subpath(text.to_owned())];
        if case == Case::Fold && text.bytes().any(|b| b.is_ascii_alphabetic()) {
            filters.extend(at_and_below(&regex::from_literal(text, case)));
        }
        return Ok(filters);
    }
    let components = glob_components(pattern)?;
    Ok(at_and_below(&regex::from_components(&components, case)?).into())
}

/// Two expressions rather than one with a choice at its end: they hold for any byte below, newlines
/// included, in every engine.
fn at_and_below(body: &str) -> [Filter; 2] {
    [Filter::Regex(format!("^{body}$")), Filter::Regex(format!("^{body}/"))]
}

/// The directories above what the pattern covers whose renaming would take it out of the pattern's
/// reach. Directories that stand for `**` are not among them: the pattern still covers what they hold.
pub(crate) fn ancestors(pattern: &PathPattern, case: Case) -> Result<Vec<Filter>, Refusal> {
    let exactly = |body: &str| Filter::Regex(format!("^{body}$"));
    if let Some(path) = pattern.as_literal() {
        let Some(text) = path_text(path)? else { return Ok(Vec::new()) };
        let above = literal_ancestors(text).filter(|above| *above != "/");
        return Ok(above
            .map(|above| match case {
                Case::Exact => Filter::Literal(above.to_owned()),
                Case::Fold => exactly(&regex::from_literal(above, case)),
            })
            .collect());
    }
    let components = glob_components(pattern)?;
    let mut filters = Vec::new();
    for length in 1..components.len() {
        let prefix = &components[..length];
        if prefix.last() != Some(&"**") {
            filters.push(exactly(&regex::from_components(prefix, case)?));
        }
    }
    Ok(filters)
}

/// The proper ancestors of a plain path, the root among them.
pub(crate) fn literal_ancestors(path: &str) -> impl Iterator<Item = &str> {
    Path::new(path).ancestors().skip(1).filter_map(Path::to_str)
}

/// The longest plain path above everything that the pattern covers.
pub(crate) fn fixed_part(pattern: &PathPattern) -> Result<Option<String>, Refusal> {
    if let Some(path) = pattern.as_literal() {
        return Ok(path_text(path)?.map(str::to_owned));
    }
    let mut fixed = String::new();
    for component in glob_components(pattern)? {
        if component.contains(['*', '?', '[', '\\']) {
            break;
        }
        fixed.push('/');
        fixed.push_str(component);
    }
    Ok(Some(if fixed.is_empty() { "/".to_owned() } else { fixed }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(filters: Result<Vec<Filter>, Refusal>) -> Vec<String> {
        filters.unwrap().iter().map(Filter::render).collect()
    }

    #[test]
    fn quotes_and_backslashes_are_escaped() {
        assert_eq!(quote(r#"/a"b\c"#), r#""/a\"b\\c""#);
    }

    #[test]
    fn a_plain_path_is_a_subpath_and_a_glob_two_anchored_expressions() {
        assert_eq!(rendered(covering(&"/a b".into(), Case::Exact)), [r#"(subpath "/a b")"#]);
        assert_eq!(
            rendered(covering(&"/p/*.key".into(), Case::Exact)),
            [r#"(regex "^/p/[^/]*\\.key$")"#, r#"(regex "^/p/[^/]*\\.key/")"#]
        );
        assert_eq!(
            rendered(covering(&"/A".into(), Case::Fold)),
            [r#"(subpath "/A")"#, r#"(regex "^/[aA]$")"#, r#"(regex "^/[aA]/")"#]
        );
        assert_eq!(rendered(covering(&"/".into(), Case::Fold)), [r#"(subpath "/")"#]);
    }

    #[test]
    fn a_relative_rule_covers_nothing_and_an_odd_path_is_refused() {
        assert!(rendered(covering(&"$UNSET/x".into(), Case::Exact)).is_empty());
        for path in ["/a//b", "/a/../b", "/a/./b", "/a\nb", "/a\u{7f}", "/*/\n", "/*/.."] {
            assert!(covering(&path.into(), Case::Exact).is_err(), "{path:?}");
        }
    }

    #[test]
    fn ancestors_are_those_that_would_take_the_path_along() {
        assert_eq!(
            rendered(ancestors(&"/a/b/c".into(), Case::Exact)),
            [r#"(literal "/a/b")"#, r#"(literal "/a")"#]
        );
        assert_eq!(
            rendered(ancestors(&"**/.git/hooks".into(), Case::Exact)),
            [r#"(regex "^(/[^/]+)*/\\.git$")"#]
        );
        assert_eq!(
            rendered(ancestors(&"/a/*/**/x".into(), Case::Exact)),
            [r#"(regex "^/a$")"#, r#"(regex "^/a/[^/]+$")"#]
        );
    }

    #[test]
    fn the_fixed_part_ends_before_the_first_wildcard() {
        for (pattern, want) in [("/a/b", "/a/b"), ("/a/b*/c", "/a"), ("**/x", "/")] {
            assert_eq!(fixed_part(&pattern.into()).unwrap().as_deref(), Some(want));
        }
    }
}
