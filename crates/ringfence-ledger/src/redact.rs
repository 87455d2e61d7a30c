//! Keeping known secrets out of the ledger.
//!
//! Every text that is stored passes a [`Redact`] first, on the writer's thread. It works on exact values:
//! guessing what might be a secret is the business of whoever knows the configuration.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use ringfence_model::Violation;
use serde_json::Value;

/// What replaces a secret.
pub const MARK: &str = "<redacted>";

/// Removes what must not be remembered from a text.
pub trait Redact: Send + Sync {
    fn redact<'a>(&self, text: &'a str) -> Cow<'a, str>;
}

/// Removes nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nothing;

impl Redact for Nothing {
    fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        Cow::Borrowed(text)
    }
}

/// Removes the given values wherever they occur. Values shorter than four characters are ignored: they
/// would blacken ordinary text and say more about the secret than they hide.
#[derive(Clone, Default)]
pub struct Secrets {
    values: Vec<String>,
}

impl Secrets {
    pub const SHORTEST: usize = 4;

    #[must_use]
    pub fn new<S: Into<String>>(values: impl IntoIterator<Item = S>) -> Self {
        let values = values
            .into_iter()
            .map(Into::into)
            .filter(|value: &String| value.chars().count() >= Self::SHORTEST);
        Self { values: values.collect() }
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({} values)", self.values.len())
    }
}

impl Redact for Secrets {
    fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut hidden: Vec<(usize, usize)> = Vec::new();
        for value in &self.values {
            let mut from = 0;
            while let Some(at) = text.get(from..).and_then(|rest| rest.find(value.as_str())) {
                let start = from + at;
                hidden.push((start, start + value.len()));
                // Step by one character, so that a value overlapping itself is covered to its end.
                from = start + text[start..].chars().next().map_or(1, char::len_utf8);
            }
        }
        if hidden.is_empty() {
            return Cow::Borrowed(text);
        }
        hidden.sort_unstable();
        let mut clean = String::with_capacity(text.len());
        let mut done = 0;
        let mut spans = hidden.into_iter().peekable();
        while let Some((start, mut end)) = spans.next() {
            while let Some((_, next_end)) = spans.next_if(|(next_start, _)| *next_start <= end) {
                end = end.max(next_end);
            }
            clean.push_str(&text[done..start]);
            clean.push_str(MARK);
            done = end;
        }
        clean.push_str(&text[done..]);
        Cow::Owned(clean)
    }
}

pub(crate) fn text(redact: &dyn Redact, value: &mut String) {
    if let Cow::Owned(clean) = redact.redact(value) {
        *value = clean;
    }
}

pub(crate) fn optional(redact: &dyn Redact, value: &mut Option<String>) {
    if let Some(value) = value {
        text(redact, value);
    }
}

pub(crate) fn path(redact: &dyn Redact, path: &Path) -> String {
    redact.redact(&path.to_string_lossy()).into_owned()
}

pub(crate) fn violation(redact: &dyn Redact, violation: &mut Violation) {
    text(redact, &mut violation.resource);
    text(redact, &mut violation.message);
    optional(redact, &mut violation.program);
    for argument in &mut violation.argv {
        text(redact, argument);
    }
}

pub(crate) fn json(redact: &dyn Redact, value: &mut Value) {
    match value {
        Value::String(value) => text(redact, value),
        Value::Array(items) => items.iter_mut().for_each(|item| json(redact, item)),
        Value::Object(fields) => {
            let clean = std::mem::take(fields).into_iter().map(|(name, mut value)| {
                json(redact, &mut value);
                (redact.redact(&name).into_owned(), value)
            });
            *fields = clean.collect();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_replaced_wherever_they_are() {
        let secrets = Secrets::new(["hunter22", "s3cr", "abab"]);
        for (text, want) in [
            ("curl -H 'token: hunter22'", "curl -H 'token: <redacted>'"),
            ("hunter22hunter22", "<redacted>"),
            ("xs3cry", "x<redacted>y"),
            ("ababab!", "<redacted>!"),
            ("nothing here", "nothing here"),
        ] {
            assert_eq!(secrets.redact(text), want);
        }
    }

    #[test]
    fn short_values_are_left_alone() {
        assert_eq!(Secrets::new(["abc", ""]).redact("abc"), "abc");
    }

    #[test]
    fn names_and_values_of_json_are_cleaned() {
        let mut body = serde_json::json!({"a": ["topsecret", 1], "topsecret": {"b": "x topsecret"}});
        json(&Secrets::new(["topsecret"]), &mut body);
        assert_eq!(body.to_string(), r#"{"a":["<redacted>",1],"<redacted>":{"b":"x <redacted>"}}"#);
    }

    proptest! {
        #[test]
        fn no_secret_survives(parts in proptest::collection::vec("[ab é]{0,6}", 1..6), secret in "[abé]{4,6}") {
            let text = parts.join(&secret);
            let clean = Secrets::new([secret.clone()]).redact(&text).into_owned();
            prop_assert!(!clean.contains(&secret), "{clean}");
        }
    }
}
